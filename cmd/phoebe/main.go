// Command phoebe runs frontends, workers and jobs, and measures clusters.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/bench/sim"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

// Exit codes. For `phoebe run` they say how the job went.
const (
	exitOK          = 0
	exitFailed      = 1 // a task failed, or the command itself
	exitUsage       = 2 // wrong flags, configuration or job
	exitUnavailable = 3 // refused, overloaded or unreachable
	exitCancelled   = 4 // the job was cancelled, or its deadline passed
	exitInterrupted = 128 + int(syscall.SIGINT)
)

const about = `phoebe places tasks of milliseconds or minutes on a fleet of workers, without a central scheduler.

A flag may also be set by the environment variable in parentheses behind its help, or in the YAML file of --config,
with the flag's name as the key. The command line goes before the environment, and the environment before the file.

  phoebe dev                                                  run a whole cluster in this process
  phoebe run --function sleep --payload 10ms --tasks 100      run a job on the cluster
  phoebe status                                               show frontends and workers
  phoebe explain JOB                                          show where the job's tasks went, and why
  phoebe ui                                                   show the cluster in a browser, over time

Exit codes: 0 success, 1 a task or the command failed, 2 wrong usage or an invalid job, 3 refused,
overloaded or unreachable, 4 cancelled or past the deadline, 130 interrupted (143 by SIGTERM, 129 by SIGHUP).`

// cli holds the flags of all commands, and the commands. Its tags are the grammar of the command line.
type cli struct {
	// countsSetting selects settings of the file; errors of the file are then ignored. Nil: all settings count, and
	// an error stops the command.
	countsSetting func(setting string) bool

	file settingsFile

	Config    string      `placeholder:"FILE" help:"YAML file with settings: flag names and values. Default: none."`
	LogFormat logFormat   `default:"text" enum:"text,json" help:"Format of the log on stderr: ${enum}. Default ${default}."`
	Show      showVersion `name:"version" help:"Show the version of this program."`
	LogLevel  logLevel    `default:"warn" enum:"debug,info,warn,error" help:"Lowest level to log: ${enum}. Default ${default}."`

	Dev        devCmd        `cmd:"" help:"Run a whole cluster in this process."`
	Frontend   frontendCmd   `cmd:"" help:"Run a frontend, which takes jobs and places tasks on workers."`
	Worker     workerCmd     `cmd:"" help:"Run a worker, which runs tasks for frontends."`
	Run        runCmd        `cmd:"" help:"Run a job and print its outcomes."`
	Status     statusCmd     `cmd:"" help:"Show frontends, their workers, queues and links."`
	UI         uiCmd         `cmd:"" name:"ui" help:"Serve the web page of a cluster."`
	Doctor     doctorCmd     `cmd:"" help:"Find problems of a fleet, and say what to do."`
	Ready      readyCmd      `cmd:"" help:"Ask frontends, or an admin port, whether the process is ready."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel a job."`
	Drain      drainCmd      `cmd:"" help:"Have a worker end its tasks and exit."`
	Explain    explainCmd    `cmd:"" help:"Show where a job's tasks were placed, and why."`
	Jobs       jobsCmd       `cmd:"" help:"List the jobs of all frontends, and where their time went."`
	Tenants    tenantsCmd    `cmd:"" help:"Show what each tenant has, wants and may have."`
	Trace      traceCmd      `cmd:"" help:"Show how the tasks of a job went, phase by phase."`
	Record     recordCmd     `cmd:"" help:"Show recordings that frontends made when an objective was broken."`
	Top        topCmd        `cmd:"" help:"Watch the fleet in a terminal."`
	Bench      benchCmd      `cmd:"" help:"Measure latency under load, or the cost of jobs without work."`
	Floor      floorCmd      `cmd:"" hidden:"" help:"Serve a part of the lower bound for bench noop --processes."`
	Sim        simCmd        `cmd:"" help:"Simulate clusters of thousands of workers, or faults."`
	TLS        tlsCmd        `cmd:"" name:"tls" help:"Make certificates for a rehearsal."`
	Token      tokenCmd      `cmd:"" help:"Make a token for a tenant's clients, and print its hash."`
	Settings   configCmd     `cmd:"" name:"config" help:"Check a configuration file."`
	Version    versionCmd    `cmd:"" help:"Show the version of this program."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Man        manCmd        `cmd:"" hidden:"" help:"Write the manual pages of all commands."`
}

// exitError is an error with the exit code of the process. If err is nil, the command has printed the error
// already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError gives err the exit code for wrong usage. It returns nil if err is nil.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

func main() {
	collectLess()
	os.Exit(runCommand(os.Args[1:], os.Stdout, os.Stderr))
}

// exited is a panic that unwinds the stack, because kong wants to exit after its help.
type exited int

// runCommand runs the command line args and returns the exit code. Only os.Exit is left to main.
func runCommand(args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case exited:
			code = int(v)
		default:
			panic(v)
		}
	}()
	rawErr := stderr
	stderr = safeWriter{stderr}
	var c cli
	parser, err := newParser(&c, stdout, stderr)
	if err != nil {
		panic(err) // the grammar above is wrong
	}
	if len(args) == 0 {
		args = []string{"help"}
	}
	if args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "phoebe: %v\n", err)
		var p *kong.ParseError
		if errors.As(err, &p) && p.Context != nil && p.Context.Selected() != nil {
			c.printSources(stderr, p.Context, err)
			fmt.Fprint(stderr, jsonHint(p.Context))
			fmt.Fprintf(stderr, "See phoebe %s --help.\n", p.Context.Selected().Path())
		} else {
			fmt.Fprintln(stderr, "See phoebe --help.")
		}
		return exitUsage
	}
	err = errors.Join(checkEnvironment(parser.Model.Node, command.Selected(), os.Environ()), checkText(command.Flags()))
	if err != nil {
		fmt.Fprintf(stderr, "phoebe: %v\n", err)
		c.printSources(stderr, command, err)
		return exitUsage
	}
	log := newLogger(c.LogFormat, c.LogLevel, stderr)
	ctx, stop := contextUntilSignal()
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	c.warnOfOverrides(stderr, command)
	err = command.Run(&streams{safeWriter{stdout}, stderr, stdout, rawErr}, log, parser.Model)
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case !errors.As(err, &exit):
		exit = &exitError{exitFailed, err}
	}
	if exit.err != nil {
		fmt.Fprintf(stderr, "phoebe: %v\n", err)
		c.printSources(stderr, command, err)
		var refused *client.RefusedError
		var late *client.LateRefusalError
		if exit.code == exitUnavailable && !errors.As(err, &refused) && !errors.As(err, &late) &&
			hasFlag(command.Selected(), "connect") && c.Ready.Admin == "" {
			fmt.Fprintln(stderr, cmp.Or(tlsHint(command.Selected()),
				"Does a frontend run there? Name frontends with --connect, or start a cluster with phoebe dev."))
		}
	}
	return exit.code
}

// hasFlag says whether a command has a flag of this name.
func hasFlag(command *kong.Node, name string) bool {
	return slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == name })
}

// newParser makes the parser of the command line, which parses into c.
func newParser(c *cli, stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("phoebe"),
		kong.Description(about),
		kong.PostBuild(nameVariables),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, NoAppDescFormat: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "load", Title: "Flags of bench load:"},
			{Key: "job", Title: "Flags for the job:"}}),
		kong.Vars{"policy": frontend.Policies[0].Name, "policies": strings.Join(policyNames(), ", "),
			"jsonFile": jsonFileHelp, "simPolicies": strings.Join(sim.PolicyNames(), ", ")},
		kong.TypeMapper(sizeType, sizeMapper{}),
		kong.KindMapper(reflect.String, kong.MapperFunc(decodeText)),
	)
}

// decodeText sets a flag or an argument to the given bytes. By itself, kong replaces bytes that are not UTF-8.
func decodeText(ctx *kong.DecodeContext, target reflect.Value) error {
	given, err := ctx.Scan.PopValue("string")
	if err == nil {
		target.SetString(given.String())
	}
	return err
}

// checkText reports flags whose values are not UTF-8. Payloads and names of files may have any bytes.
func checkText(flags []*kong.Flag) error {
	var errs []error
	for _, f := range flags {
		var texts []string
		switch value := f.Target.Interface().(type) {
		case string:
			texts = []string{value}
		case []string:
			texts = value
		}
		for _, text := range texts { // in lists, kong puts U+FFFD in place of the bytes
			isText := utf8.ValidString(text) && !(f.IsSlice() && strings.ContainsRune(text, utf8.RuneError))
			if !isText && f.Name != "payload" && f.PlaceHolder != "FILE" && f.PlaceHolder != "DIR" {
				errs = append(errs, fmt.Errorf("--%s is %q, which is not UTF-8: write the value in UTF-8", f.Name, text))
			}
		}
	}
	return errors.Join(errs...)
}

// policyNames returns the names of the frontend's policies.
func policyNames() []string {
	names := make([]string, len(frontend.Policies))
	for i, p := range frontend.Policies {
		names[i] = p.Name
	}
	return names
}

// streams are stdout and stderr of a command. The raw streams are for programs that command the terminal.
type streams struct{ out, err, rawOut, rawErr io.Writer }

// contextUntilSignal returns a context that ends with the first SIGINT, SIGTERM or SIGHUP, and a function to release
// the context. The second signal ends the process. A process started with SIGHUP ignored, as by nohup, goes on ignoring
// SIGHUP.
func contextUntilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				if n > 0 {
					os.Exit(128 + int(s.(syscall.Signal)))
				}
				cancel(&interrupted{s})
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal os.Signal }

func (i *interrupted) Error() string { return "interrupted: " + i.signal.String() }

// interruptionExit returns the exit of a command whose context was ended by a signal, or nil without a signal.
func interruptionExit(ctx context.Context) *exitError {
	var cause *interrupted
	if !errors.As(context.Cause(ctx), &cause) {
		return nil
	}
	code := exitInterrupted
	if s, ok := cause.signal.(syscall.Signal); ok {
		code = 128 + int(s)
	}
	return &exitError{code, cause}
}
