package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

type configCmd struct {
	Validate validateCmd `cmd:"" help:"Print all errors in a file for --config, or the settings that result."`
}

type validateCmd struct {
	File    string   `arg:"" help:"A file for --config."`
	Command []string `arg:"" optional:"" passthrough:"" help:"Command for the file, with flags, such as: worker --slots 4. Default: frontend, worker or dev, whichever knows most of the settings and finds the fewest errors."`
}

// Help returns the text below the usage line.
func (validateCmd) Help() string {
	return `Prints each error with its line, and with what to write instead. Without errors, prints
each setting of the command with its value, and the source of the value: a flag, the environment,
the file or the default. Nothing is started.

Exit codes: 0 the command would start with the file, 2 it would not.`
}

// flagChecker is a command with a check of all flags together: flags may be valid alone, and wrong together.
type flagChecker interface{ checkFlags() error }

// checkFlags implements flagChecker.
func (c *frontendCmd) checkFlags() error {
	_, err := c.serverConfig()
	return errors.Join(err, c.checkKeys(), c.checkFiles())
}

// checkFlags implements flagChecker.
func (c *workerCmd) checkFlags() error {
	_, err := c.serverConfig()
	return errors.Join(err, c.checkKeys(), c.checkFiles())
}

// Run checks the file.
func (v *validateCmd) Run(out *streams) error {
	if len(v.Command) == 0 {
		v.Command = []string{v.guessCommand()}
	}
	command := v.traceCommand(v.Command)
	if command.Error != nil {
		return usageError(command.Error)
	}
	settings, err := readConfig(v.File, command)
	if err != nil && !errors.As(err, new(*flaw)) {
		return usageError(err)
	}
	wrong := errorLeaves(err)
	for _, problem := range v.findProblems(func(string) bool { return true }) {
		if at := v.blameSetting(problem, settings); at != nil {
			wrong = append(wrong, at)
		} else if err == nil { // after a flawed setting, a missing setting may be the flawed one
			wrong = append(wrong, &flaw{v.File, 1, errors.New(problem)})
		}
	}
	if len(wrong) == 0 {
		return v.printSettings(out, settings)
	}
	slices.SortStableFunc(wrong, func(a, b error) int { return cmp.Compare(a.(*flaw).line, b.(*flaw).line) })
	fmt.Fprintln(out.err, errors.Join(wrong...)) // each line begins with file and line, as editors expect
	return &exitError{code: exitUsage}
}

// traceCommand finds the command and its flags. It does not apply the settings.
func (v *validateCmd) traceCommand(command []string) *kong.Context {
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		panic(err) // the grammar is wrong
	}
	ctx, _ := kong.Trace(parser, command) // the error is in ctx
	return ctx
}

// guessCommand returns the one of frontend, worker and dev with the fewest flaws in the file. Of equals, the command
// with the fewest problems at its start is the best guess.
func (v *validateCmd) guessCommand() string {
	count := func(name string) (flaws, problems int) {
		as := validateCmd{File: v.File, Command: []string{name}}
		_, err := readConfig(v.File, v.traceCommand(as.Command))
		return len(errorLeaves(err)), len(as.findProblems(func(string) bool { return true }))
	}
	return slices.MinFunc([]string{"frontend", "worker", "dev"}, func(a, b string) int {
		flawsA, problemsA := count(a)
		flawsB, problemsB := count(b)
		return cmp.Or(cmp.Compare(flawsA, flawsB), cmp.Compare(problemsA, problemsB))
	})
}

// parseWith parses the command as if the file had only the settings that only selects. Nil: all settings.
func (v *validateCmd) parseWith(only func(setting string) bool) (*kong.Context, error) {
	parser, err := newParser(&cli{countsSetting: only}, io.Discard, io.Discard)
	if err != nil {
		panic(err) // the grammar is wrong
	}
	return parser.Parse(append([]string{"--config", v.File}, v.Command...))
}

// findProblems returns the texts of all errors that keep the command from starting. Settings of the file count if
// only selects them.
func (v *validateCmd) findProblems(only func(setting string) bool) (texts []string) {
	command, err := v.parseWith(only)
	if err == nil {
		if c, ok := command.Selected().Target.Addr().Interface().(flagChecker); ok {
			err = c.checkFlags()
		}
	}
	for _, leaf := range errorLeaves(err) {
		texts = append(texts, leaf.Error())
	}
	return texts
}

// blameSetting returns a flaw at the setting that causes the problem. Without the setting, the problem goes, and
// the fewest other problems are left. Nil: no single setting causes the problem.
func (v *validateCmd) blameSetting(problem string, settings map[string]setting) (at error) {
	fewest := math.MaxInt
	for _, name := range slices.SortedFunc(maps.Keys(settings),
		func(a, b string) int { return cmp.Compare(settings[a].line, settings[b].line) }) {
		remaining := v.findProblems(func(other string) bool { return other != name })
		if !slices.Contains(remaining, problem) && len(remaining) < fewest {
			fewest, at = len(remaining), &flaw{v.File, settings[name].line, fmt.Errorf("setting %q: %s", name, problem)}
		}
	}
	return at
}

// errorLeaves returns the joined errors in err, without the text wrapped around.
func errorLeaves(err error) []error {
	for at := err; at != nil; at = errors.Unwrap(at) {
		if joined, ok := at.(interface{ Unwrap() []error }); ok {
			var all []error
			for _, e := range joined.Unwrap() {
				all = append(all, errorLeaves(e)...)
			}
			return all
		}
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// printSettings prints the value of each setting, and where the value comes from. On stderr it warns of secrets that
// everybody on the machine can read.
func (v *validateCmd) printSettings(out *streams, settings map[string]setting) error {
	command, err := v.parseWith(nil)
	if err != nil {
		return err
	}
	w := out.out
	fmt.Fprintf(w, "%s would run with:\n\n", command.Selected().FullPath())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SETTING\tVALUE\tFROM")
	_, flags := listVisible(command.Selected())
	for _, f := range flags {
		if f.Name == "help" || f.Name == "version" || f.Name == "config" {
			continue
		}
		from := settingSource(command, f, settingsFile{v.File, settings})
		if strings.HasSuffix(f.Name, "secret-file") || strings.HasSuffix(f.Name, "token-file") {
			warnIfExposed(out.err, f, from)
		}
		value := valueText(f.Target)
		if f.Target.IsZero() && !f.HasDefault {
			value = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Name, value, from)
	}
	return t.Flush()
}

// warnIfExposed warns if everybody can read a file with a secret, such as that of --secret-file.
func warnIfExposed(w io.Writer, flag *kong.Flag, from string) {
	name := flag.Target.String()
	if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o004 != 0 {
		fmt.Fprintf(w, "%s: warning: --%s: everybody on this machine can read %s: run chmod o= %s\n",
			from, flag.Name, name, name)
	}
}

// valueText returns a value as written in a file.
func valueText(v reflect.Value) string {
	v = reflect.Indirect(v)
	if !v.IsValid() {
		return ""
	}
	var text string
	switch value := v.Interface().(type) {
	case []string:
		text = strings.Join(value, ",")
	case weights:
		for _, tenant := range slices.Sorted(maps.Keys(value)) {
			text += fmt.Sprintf(";%s=%v", tenant, value[tenant])
		}
		text = strings.TrimPrefix(text, ";")
	case size:
		text = value.inLargestUnit()
	default:
		text = fmt.Sprint(value)
	}
	return text
}
