package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(out *streams) error {
	_, err := fmt.Fprintf(out.out, "phoebe %s\n", versionText())
	return err
}

// versionText returns the version that the go command has put into the program: module version, commit and Go
// version.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12 && !strings.Contains(v, s.Value[:12]):
			v += " " + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true" && !strings.Contains(v, "dirty"):
			v += " modified"
		}
	}
	return v + " " + info.GoVersion
}

// showVersion is a flag that does the same as the command version.
type showVersion bool

// BeforeReset implements kong's hook. The hook runs before other flags are checked.
func (showVersion) BeforeReset(app *kong.Kong) error {
	_ = versionCmd{}.Run(&streams{out: app.Stdout})
	app.Exit(exitOK)
	return nil
}
