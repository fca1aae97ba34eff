// Command phoebe runs frontends and workers, hands them jobs and measures them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/bench/sim"
	"github.com/phoebe-sched/phoebe/frontend"
)

// Exit codes. Those of `phoebe run` say how the job went.
const (
	exitOK          = 0
	exitFailed      = 1 // some task failed, or the command itself
	exitUsage       = 2 // wrong flags, configuration or job
	exitUnavailable = 3 // refused, overloaded or unreachable
	exitCancelled   = 4 // the job was cancelled, or its deadline passed
	exitInterrupted = 128 + int(syscall.SIGINT)
)

const about = `phoebe places tasks that run for milliseconds, or for minutes, on a fleet of workers, without a central scheduler.

Every flag can also come from the environment, under the name that its help shows in parentheses, or from
the YAML file that --config names, with the flags' names as keys. A flag goes before the environment, the
environment before the file.

  phoebe dev                                                  a whole cluster in this process
  phoebe run --function sleep --payload 10ms --tasks 100      a job on it
  phoebe status                                               what its frontends believe of it
  phoebe explain JOB                                          where its tasks went, and why
  phoebe ui                                                   all of it in a browser, over time

Exit codes: 0 all went well, 1 a task failed or the command did, 2 wrong usage or an invalid job, 3 refused,
overloaded or unreachable, 4 cancelled or past the deadline, 130 interrupted (143 by SIGTERM).`

type cli struct {
	only func(setting string) bool // which settings of the file count, flawed as others may be; nil: all, and none may be

	Config    string      `placeholder:"FILE" help:"YAML file with settings: flag names and their values. Default: none."`
	LogFormat logFormat   `default:"text" enum:"text,json" help:"Format of the log on stderr: ${enum}. Default ${default}."`
	Show      showVersion `name:"version" help:"Show the version of this program."`
	LogLevel  logLevel    `default:"warn" enum:"debug,info,warn,error" help:"Least level that is logged: ${enum}. Default ${default}."`

	Dev        devCmd        `cmd:"" help:"Run a whole cluster in this process."`
	Frontend   frontendCmd   `cmd:"" help:"Run a frontend, which takes jobs and places their tasks on workers."`
	Worker     workerCmd     `cmd:"" help:"Run a worker, which runs tasks for frontends."`
	Run        runCmd        `cmd:"" help:"Run a job and print its outcomes."`
	Status     statusCmd     `cmd:"" help:"Show frontends, their workers, queues and links."`
	UI         uiCmd         `cmd:"" name:"ui" help:"Serve the web page of a cluster."`
	Doctor     doctorCmd     `cmd:"" help:"Look for what is wrong with a fleet, and say what to do."`
	Ready      readyCmd      `cmd:"" help:"Tell whether a frontend or a worker is ready, by its admin port."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel a job."`
	Explain    explainCmd    `cmd:"" help:"Tell where a job's tasks were placed, and why."`
	Jobs       jobsCmd       `cmd:"" help:"List the jobs of all frontends, and what they were slow for."`
	Tenants    tenantsCmd    `cmd:"" help:"Show what each tenant has, wants and may have."`
	Trace      traceCmd      `cmd:"" help:"Tell what the tasks of a job have been through."`
	Record     recordCmd     `cmd:"" help:"Look at what frontends have recorded as an objective was broken."`
	Top        topCmd        `cmd:"" help:"Watch the fleet in a terminal."`
	Bench      benchCmd      `cmd:"" help:"Measure latency under load, or the cost of jobs that do nothing."`
	Floor      floorCmd      `cmd:"" hidden:"" help:"Serve a part of the floor of bench noop --processes."`
	Sim        simCmd        `cmd:"" help:"Simulate clusters of thousands of workers, or their faults."`
	TLS        tlsCmd        `cmd:"" name:"tls" help:"Make certificates for a rehearsal."`
	Token      tokenCmd      `cmd:"" help:"Make a token for the clients of a tenant, and print its hash."`
	Settings   configCmd     `cmd:"" name:"config" help:"Check a configuration file."`
	Version    versionCmd    `cmd:"" help:"Show the version of this program."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Man        manCmd        `cmd:"" hidden:"" help:"Write the manual pages of all commands."`
}

// exitError is an error with the code that the process exits with. A nil err has been reported already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage is an error about what the caller asked for.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

func main() {
	collectLess()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// exited unwinds the stack when kong, having printed its help, wants to exit.
type exited int

// run is the process but for os.Exit.
func run(args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case exited:
			code = int(v)
		default:
			panic(v)
		}
	}()
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
			fmt.Fprintf(stderr, "See phoebe %s --help.\n", p.Context.Selected().Path())
		} else {
			fmt.Fprintln(stderr, "See phoebe --help.")
		}
		return exitUsage
	}
	if err := checkEnvironment(parser.Model.Node, command.Selected(), os.Environ()); err != nil {
		fmt.Fprintf(stderr, "phoebe: %v\n", err)
		return exitUsage
	}
	log := newLogger(c.LogFormat, c.LogLevel, stderr)
	ctx, stop := interruptible()
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(&streams{out: stdout, err: stderr}, log, parser.Model)
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case !errors.As(err, &exit):
		exit = &exitError{exitFailed, err}
	}
	if exit.err != nil {
		fmt.Fprintf(stderr, "phoebe: %v\n", err)
	}
	return exit.code
}

func newParser(c *cli, stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("phoebe"),
		kong.Description(about),
		kong.PostBuild(nameVariables),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, NoAppDescFormat: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "load", Title: "Flags of bench load:"}, {Key: "job", Title: "Flags for the job:"}}),
		kong.Vars{"policy": frontend.Policies[0].Name, "policies": strings.Join(policyNames(), ", "), "simPolicies": strings.Join(sim.PolicyNames(), ", ")},
		kong.TypeMapper(sizeType, sizeMapper{}),
	)
}

func policyNames() []string {
	names := make([]string, len(frontend.Policies))
	for i, p := range frontend.Policies {
		names[i] = p.Name
	}
	return names
}

// streams are where a command prints.
type streams struct{ out, err io.Writer }

// interruptible is a context that ends with the first SIGINT or SIGTERM. The second one ends the process.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
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

// interruption is the exit of a command whose context a signal has ended; nil if none has.
func interruption(ctx context.Context) *exitError {
	var by *interrupted
	if !errors.As(context.Cause(ctx), &by) {
		return nil
	}
	code := exitInterrupted
	if s, ok := by.signal.(syscall.Signal); ok {
		code = 128 + int(s)
	}
	return &exitError{code, by}
}
