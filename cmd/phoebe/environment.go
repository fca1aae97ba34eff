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

// envPrefix begins the name of each variable that is ours.
const envPrefix = "PHOEBE_"

// nameVariables gives each flag without one a variable, which no other command's flag has: PHOEBE_WORKER_LISTEN is
// that of phoebe worker --listen. What all commands share has no command in its name.
func nameVariables(k *kong.Kong) error {
	var walk func(n *kong.Node, prefix string)
	walk = func(n *kong.Node, prefix string) {
		for _, f := range n.Flags {
			if len(f.Envs) == 0 && f.Name != "help" && f.Name != "version" {
				f.Envs = []string{prefix + upper(f.Name)}
				f.Tag.Envs = f.Envs
			}
		}
		for _, c := range n.Children {
			walk(c, prefix+upper(c.Name)+"_")
		}
	}
	walk(k.Model.Node, envPrefix)
	return nil
}

func upper(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }

// foreign are variables that begin as ours do, and are set by others: those of the files of a task, and those by which
// Kubernetes and Docker tell of a service that is called phoebe or phoebe-something.
var foreign = regexp.MustCompile(`^PHOEBE_(FILE_[0-9]+|([A-Z0-9_]+_)?SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|([A-Z0-9_]+_)?PORT_[0-9]+_(TCP|UDP)(_(ADDR|PORT|PROTO))?)$`)

// checkEnvironment refuses variables that are meant for phoebe and mean nothing to it.
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
	// What is written, and meant by it. Of what is equally near, a flag of this command is meant, with the command's name
	// left out or not.
	type meant struct{ as, name string }
	var names []meant
	for at := command; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			for _, name := range f.Envs {
				names = append(names, meant{name, name}, meant{envPrefix + upper(f.Name), name})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		names = append(names, meant{name, name})
	}
	var errs []error
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		service := strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
		if !strings.HasPrefix(name, envPrefix) || known[name] || foreign.MatchString(name) || service {
			continue
		}
		nearest := slices.MinFunc(names, func(a, b meant) int { return cmp.Compare(distance(name, a.as), distance(name, b.as)) })
		errs = append(errs, fmt.Errorf("unknown environment variable %s: the nearest is %s", name, nearest.name))
	}
	return errors.Join(errs...)
}
