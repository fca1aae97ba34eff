package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// settingsFile is the file of --config. Without --config, the settings are nil.
type settingsFile struct {
	name     string
	settings map[string]setting
}

// settingSource says where the value of a flag of the command comes from: "--slots", "$PHOEBE_WORKER_SLOTS",
// "worker.yaml:3" or "default".
func settingSource(command *kong.Context, flag *kong.Flag, file settingsFile) string {
	if isOnLine(command, flag.Name) {
		return "--" + flag.Name
	}
	if name := setVariable(flag); name != "" {
		return "$" + name
	}
	if s, ok := file.settings[flag.Name]; ok {
		return fmt.Sprintf("%s:%d", file.name, s.line)
	}
	return "default"
}

// isOnLine reports whether the command line gives the flag. A variable or a file may give the flag otherwise.
func isOnLine(command *kong.Context, flag string) bool {
	return slices.ContainsFunc(command.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == flag && !p.Resolved
	})
}

// setVariable returns the name of the flag's variable that the environment sets, or "".
func setVariable(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	return ""
}

// flagNames match the names of flags in an error.
var flagNames = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

// printSources prints a line for each flag that err names: the variable or file that gives the flag's value. There is
// no line for a value on the command line, for a default, and for a source that err names.
func (c *cli) printSources(w io.Writer, command *kong.Context, err error) {
	var named []string
	for _, match := range flagNames.FindAllStringSubmatch(err.Error(), -1) {
		named = append(named, match[1])
	}
	for _, flag := range command.Flags() {
		source := settingSource(command, flag, c.file)
		isPlain := source == "default" || strings.HasPrefix(source, "--")
		if slices.Contains(named, flag.Name) && !isPlain &&
			!strings.Contains(err.Error(), strings.TrimPrefix(source, "$")) {
			fmt.Fprintf(w, "--%s comes from %s.\n", flag.Name, source)
		}
	}
}

// warnOfOverrides prints a line for each setting of the file that the environment overrides with another value.
func (c *cli) warnOfOverrides(w io.Writer, command *kong.Context) {
	for _, flag := range command.Flags() {
		source := settingSource(command, flag, c.file)
		s, inFile := c.file.settings[flag.Name]
		if name, isVariable := strings.CutPrefix(source, "$"); inFile && isVariable && os.Getenv(name) != s.text {
			fmt.Fprintf(w, "phoebe: warning: %s overrides the setting %q at %s:%d.\n", source, flag.Name, c.file.name,
				s.line)
		}
	}
}
