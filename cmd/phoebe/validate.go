package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

type configCmd struct {
	Validate validateCmd `cmd:"" help:"Say all that is wrong in a file for --config, or what it sets."`
}

type validateCmd struct {
	File    string   `arg:"" help:"A file for --config."`
	Command []string `arg:"" optional:"" passthrough:"" help:"The command that will read it, with its flags, such as: worker --slots 4. Default: the one of frontend, worker and dev that knows most of its settings."`
}

// Help says what is printed.
func (validateCmd) Help() string {
	return `Each error is printed with its line, and with what to write instead. If there is none, each setting of the command is
printed with its value and where that comes from: a flag, the environment, the file or the default. Nothing is started.

Exit codes: 0 the command would start with the file, 2 it would not.`
}

// checked is a command whose flags can be wrong together, though each of them makes sense.
type checked interface{ check() error }

func (c *frontendCmd) check() error {
	_, err := c.config()
	return errors.Join(err, c.sound(), c.checkFiles())
}

func (c *workerCmd) check() error {
	_, err := c.config()
	return errors.Join(err, c.sound(), c.checkFiles())
}

// Run checks the file.
func (v *validateCmd) Run(out *streams) error {
	if len(v.Command) == 0 {
		v.Command = []string{v.reader()}
	}
	command := v.trace(v.Command)
	if command.Error != nil {
		return usage(command.Error)
	}
	settings, err := readConfig(v.File, command)
	if err != nil && !errors.As(err, new(*flaw)) {
		return usage(err)
	}
	wrong := leaves(err)
	for _, problem := range v.problems(func(string) bool { return true }) {
		if at := v.blame(problem, settings); at != nil {
			wrong = append(wrong, at)
		} else if err == nil { // what is missing may be what is flawed
			wrong = append(wrong, &flaw{v.File, 1, errors.New(problem)})
		}
	}
	if len(wrong) == 0 {
		return v.print(out.out, settings)
	}
	slices.SortStableFunc(wrong, func(a, b error) int { return cmp.Compare(a.(*flaw).line, b.(*flaw).line) })
	fmt.Fprintln(out.err, errors.Join(wrong...)) // each line begins with its place, as editors want it
	return &exitError{code: exitUsage}
}

// trace finds out which command is meant, and which flags it is given.
func (v *validateCmd) trace(command []string) *kong.Context {
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		panic(err) // the grammar is wrong
	}
	ctx, _ := kong.Trace(parser, command) // the error is in ctx
	return ctx
}

// reader is the command that is told the least nonsense by the file.
func (v *validateCmd) reader() string {
	return slices.MinFunc([]string{"frontend", "worker", "dev"}, func(a, b string) int {
		_, ofA := readConfig(v.File, v.trace([]string{a}))
		_, ofB := readConfig(v.File, v.trace([]string{b}))
		return cmp.Compare(len(leaves(ofA)), len(leaves(ofB)))
	})
}

// parse parses the command as it would be with these settings of the file.
func (v *validateCmd) parse(only func(setting string) bool) (*kong.Context, error) {
	parser, err := newParser(&cli{only: only}, io.Discard, io.Discard)
	if err != nil {
		panic(err) // the grammar is wrong
	}
	return parser.Parse(append([]string{"--config", v.File}, v.Command...))
}

// problems are what keeps the command from starting with these settings of the file.
func (v *validateCmd) problems(only func(setting string) bool) (texts []string) {
	command, err := v.parse(only)
	if err == nil {
		if c, ok := command.Selected().Target.Addr().Interface().(checked); ok {
			err = c.check()
		}
	}
	for _, leaf := range leaves(err) {
		texts = append(texts, leaf.Error())
	}
	return texts
}

// blame finds the setting without which there is no such problem, and the fewest others; nil if there is none.
func (v *validateCmd) blame(problem string, settings map[string]setting) (at error) {
	fewest := math.MaxInt
	for _, name := range slices.SortedFunc(maps.Keys(settings), func(a, b string) int { return cmp.Compare(settings[a].line, settings[b].line) }) {
		left := v.problems(func(other string) bool { return other != name })
		if !slices.Contains(left, problem) && len(left) < fewest {
			fewest, at = len(left), &flaw{v.File, settings[name].line, fmt.Errorf("setting %q: %s", name, problem)}
		}
	}
	return at
}

// leaves are the errors that err joins, without what was said around them.
func leaves(err error) []error {
	for at := err; at != nil; at = errors.Unwrap(at) {
		if joined, ok := at.(interface{ Unwrap() []error }); ok {
			var all []error
			for _, e := range joined.Unwrap() {
				all = append(all, leaves(e)...)
			}
			return all
		}
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// print prints what the command would run with.
func (v *validateCmd) print(w io.Writer, settings map[string]setting) error {
	command, err := v.parse(nil)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, p := range command.Path {
		if p.Flag != nil && !p.Resolved {
			given[p.Flag.Name] = true
		}
	}
	fmt.Fprintf(w, "%s would run with:\n\n", command.Selected().FullPath())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SETTING\tVALUE\tFROM")
	_, flags := words(command.Selected())
	for _, f := range flags {
		if f.Name == "help" || f.Name == "version" || f.Name == "config" {
			continue
		}
		from := "default"
		if s, ok := settings[f.Name]; ok {
			from = fmt.Sprintf("%s:%d", v.File, s.line)
		}
		for _, name := range f.Envs {
			if inEnvironment(f) {
				from = "$" + name
			}
		}
		if given[f.Name] {
			from = "--" + f.Name
		}
		value := valueText(f.Target)
		if f.Target.IsZero() && !f.HasDefault {
			value = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Name, value, from)
	}
	return t.Flush()
}

// valueText is a value as it may be written in a file.
func valueText(v reflect.Value) string {
	v = reflect.Indirect(v)
	if !v.IsValid() {
		return ""
	}
	var text string
	switch is := v.Interface().(type) {
	case []string:
		text = strings.Join(is, ",")
	case weights:
		for _, tenant := range slices.Sorted(maps.Keys(is)) {
			text += fmt.Sprintf(";%s=%v", tenant, is[tenant])
		}
		text = strings.TrimPrefix(text, ";")
	case size:
		text = is.text()
	default:
		text = fmt.Sprint(is)
	}
	return text
}
