package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/probe/whole"
)

// jsonFile is the value of --json: a file's name, or "-" for stdout. Empty: the command writes no JSON.
type jsonFile string

// stdoutName means stdout where a file is named.
const stdoutName = "-"

// jsonFileHelp ends the help of --json.
const jsonFileHelp = "- is standard output, in place of the text; so is --json without a value. Default: none."

// Decode implements kong.MapperValue. The flag needs no value: --json had none in earlier versions. Decode refuses the
// values that the flag had in the environment and in files then.
func (f *jsonFile) Decode(ctx *kong.DecodeContext) error {
	*f = stdoutName
	if ctx.Scan.Peek().IsValue() {
		*f = jsonFile(ctx.Scan.Pop().String())
	}
	switch strings.ToLower(string(*f)) {
	case "true", "1", "yes", "false", "0", "no":
		return fmt.Errorf("%q: want a file: write %s for standard output", string(*f), stdoutName)
	}
	return nil
}

// jsonHint says that --json took an argument that the command lacks, or is "". In earlier versions the flag took none.
func jsonHint(command *kong.Context) string {
	isArgument := func(v *kong.Positional) bool { return v.Required && !v.Set }
	for _, p := range command.Path {
		if p.Flag == nil || p.Flag.Name != "json" || !slices.ContainsFunc(command.Selected().Positional, isArgument) {
			continue
		}
		if name := command.FlagValue(p.Flag); name != jsonFile(stdoutName) {
			return fmt.Sprintf("--json took %q as its file: write --json - for standard output.\n", name)
		}
	}
	return ""
}

// report is a file named by a flag, and a function to write the content.
type report[T any] struct {
	flag, name string
	encode     func(io.Writer, T) error
}

// jsonReport is the file of --json.
func jsonReport[T any](name jsonFile, encode func(io.Writer, T) error) report[T] {
	return report[T]{"json", string(name), encode}
}

// createReports returns a function to write the files of the flags, and a writer for the command's text. It first
// checks that the files can be written, because their content may take minutes. A file gets its name only when its
// content is complete. If a flag names stdout, the text goes nowhere.
func createReports[T any](stdout io.Writer, reports ...report[T]) (write func(T) error, text io.Writer, err error) {
	text = stdout
	each := func(do func(report[T]) error) error {
		var errs []error
		for _, r := range reports {
			if r.name == "" {
				continue
			}
			if err := do(r); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", r.flag, err))
			}
		}
		return errors.Join(errs...)
	}
	for i, r := range reports {
		for _, other := range reports[:i] {
			if r.name != "" && filepath.Clean(r.name) == filepath.Clean(other.name) && r.name != os.DevNull {
				return nil, nil, usageError(fmt.Errorf("--%s and --%s both name %s: name two files", other.flag, r.flag,
					r.name))
			}
		}
		if r.name == stdoutName {
			text = io.Discard
		}
	}
	if err := each(func(r report[T]) error { return checkReport(r.name) }); err != nil {
		return nil, nil, usageError(err)
	}
	return func(content T) error {
		return each(func(r report[T]) error {
			return writeReport(stdout, r.name, func(w io.Writer) error { return r.encode(w, content) })
		})
	}, text, nil
}

// checkReport returns why a file cannot be written, and what to do. Nil: the file can be written, is stdout, or has
// no name because there is no report.
func checkReport(name string) error {
	if name == "" || name == stdoutName {
		return nil
	}
	if err := whole.Check(name); err != nil {
		return fmt.Errorf("%w: name a file in a folder that exists and where you may write", err)
	}
	return nil
}

// writeReport writes a file, or to stdout.
func writeReport(stdout io.Writer, name string, content func(io.Writer) error) error {
	if name == stdoutName {
		return content(stdout)
	}
	return whole.Write(name, 0o666, content)
}

// writeDocument writes a value as indented JSON.
func writeDocument[T any](w io.Writer, v T) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeLines writes each value as a line of JSON.
func writeLines[T any](w io.Writer, values []T) error {
	e := json.NewEncoder(w)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
