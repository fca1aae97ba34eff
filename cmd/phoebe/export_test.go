package main

import (
	"io"

	"github.com/alecthomas/kong"
)

// RunCommand runs a command line in this process.
var RunCommand = runCommand

// CommandsWithFlag returns the commands that have a flag of this name, such as "phoebe sim run".
func CommandsWithFlag(name string) (commands []string) {
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		panic(err) // the grammar is wrong
	}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		if hasFlag(n, name) {
			commands = append(commands, n.FullPath())
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(parser.Model.Node)
	return commands
}
