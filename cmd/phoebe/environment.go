package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// envPrefix begins the names of phoebe's environment variables.
const envPrefix = "PHOEBE_"

// nameVariables gives each flag an environment variable, unless the flag's tag names one. The name contains the
// command, so no two commands share a variable: PHOEBE_WORKER_LISTEN is for phoebe worker --listen. Flags of all
// commands have no command in the name.
func nameVariables(k *kong.Kong) error {
	var walk func(n *kong.Node, prefix string)
	walk = func(n *kong.Node, prefix string) {
		for _, f := range n.Flags {
			if len(f.Envs) == 0 && f.Name != "help" && f.Name != "version" {
				f.Envs = []string{prefix + variablePart(f.Name)}
				f.Tag.Envs = f.Envs
			}
		}
		for _, c := range n.Children {
			walk(c, prefix+variablePart(c.Name)+"_")
		}
	}
	walk(k.Model.Node, envPrefix)
	return nil
}

// variablePart turns the name of a command or flag into a part of a variable's name.
func variablePart(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }

// foreignVariables match variables of other programs that begin with phoebe's prefix. The worker sets PHOEBE_FILE_N
// for a task's files. Kubernetes and Docker set variables for a service called phoebe or phoebe-something.
var foreignVariables = regexp.MustCompile(
	`^PHOEBE_(FILE_[0-9]+|([A-Z0-9_]+_)?SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|([A-Z0-9_]+_)?PORT_[0-9]+_(TCP|UDP)(_(ADDR|PORT|PROTO))?)$`)

// checkEnvironment reports variables with phoebe's prefix that no flag has, with the nearest known name.
func checkEnvironment(root, command *kong.Node, environ []string) error {
	known := map[string]bool{secretVariable: true}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			for _, name := range f.Envs {
				known[name] = true
			}
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(root)
	// A candidate is a spelling that a user may have meant, and the right name. If two are equally near, a flag of
	// this command goes first, with or without the command's name.
	type candidate struct{ as, name string }
	var names []candidate
	for at := command; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			for _, name := range f.Envs {
				names = append(names, candidate{name, name}, candidate{envPrefix + variablePart(f.Name), name})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		names = append(names, candidate{name, name})
	}
	var errs []error
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		service := strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
		if !strings.HasPrefix(name, envPrefix) || known[name] || foreignVariables.MatchString(name) || service {
			continue
		}
		nearest := slices.MinFunc(names,
			func(a, b candidate) int { return cmp.Compare(editDistance(name, a.as), editDistance(name, b.as)) })
		errs = append(errs, fmt.Errorf("unknown environment variable %s: the nearest is %s", name, nearest.name))
	}
	return errors.Join(errs...)
}
