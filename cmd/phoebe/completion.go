package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says how to load the script.
func (completionCmd) Help() string {
	return `For this session:
  bash: source <(phoebe completion bash)
  zsh:  source <(phoebe completion zsh)
  fish: phoebe completion fish | source`
}

// Run prints the script.
func (c *completionCmd) Run(out *streams, model *kong.Application) error {
	var b strings.Builder
	if c.Shell == "fish" {
		fishCompletion(&b, model.Node, "")
	} else {
		bashCompletion(&b, model.Node, c.Shell)
	}
	_, err := io.WriteString(out.out, b.String())
	return err
}

// listVisible returns the subcommands of n, and the flags of n and of all commands above. Hidden commands and flags
// are left out.
func listVisible(n *kong.Node) (commands []*kong.Node, flags []*kong.Flag) {
	for at := n; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			if !f.Hidden {
				flags = append(flags, f)
			}
		}
	}
	for _, c := range n.Children {
		if !c.Hidden {
			commands = append(commands, c)
		}
	}
	return commands, flags
}

// bashCompletion writes the script for bash. The script also serves zsh, through zsh's emulation of bash's
// completion.
func bashCompletion(b *strings.Builder, root *kong.Node, shell string) {
	if shell == "zsh" {
		b.WriteString("autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n")
	}
	b.WriteString(`_phoebe() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" at="" i w
  for ((i = 1; i < COMP_CWORD; i++)); do
    w="${COMP_WORDS[i]}"
    case "$at/$w" in
`)
	enums := map[string]string{}
	var paths, choices strings.Builder
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		commands, flags := listVisible(n)
		var all []string
		for _, c := range commands {
			all = append(all, c.Name)
			fmt.Fprintf(&paths, "      %q) at=%q ;;\n", path+"/"+c.Name, path+"/"+c.Name)
		}
		for _, p := range n.Positional {
			all = append(all, p.EnumSlice()...)
		}
		for _, f := range flags {
			all = append(all, "--"+f.Name)
			if f.Tag.Negatable != "" {
				all = append(all, "--no-"+f.Name)
			}
			if f.Enum != "" {
				enums[f.Name] = strings.Join(f.EnumSlice(), " ")
			}
		}
		fmt.Fprintf(&choices, "    %q) w=%q ;;\n", path, strings.Join(all, " "))
		for _, c := range commands {
			walk(c, path+"/"+c.Name)
		}
	}
	walk(root, "")
	b.WriteString(paths.String())
	b.WriteString("    esac\n  done\n  case \"$at\" in\n")
	b.WriteString(choices.String())
	b.WriteString("  esac\n  case \"$prev\" in\n")
	for _, name := range sortedKeys(enums) {
		fmt.Fprintf(b, "    --%s) w=%q ;;\n", name, enums[name])
	}
	b.WriteString(`  esac
  COMPREPLY=($(compgen -W "$w" -- "$cur"))
}
complete -o default -F _phoebe phoebe
`)
}

// fishCompletion writes the script for fish, for the command n and its subcommands. path is the name of n, or empty
// at the root.
func fishCompletion(b *strings.Builder, n *kong.Node, path string) {
	commands, _ := listVisible(n)
	condition := "__fish_use_subcommand"
	if path != "" {
		condition = "__fish_seen_subcommand_from " + path
	}
	for _, c := range commands {
		fmt.Fprintf(b, "complete -c phoebe -f -n %q -a %s -d %s\n", condition, c.Name, fishQuote(c.Help))
	}
	for _, p := range n.Positional {
		if values := p.EnumSlice(); len(values) > 0 {
			fmt.Fprintf(b, "complete -c phoebe -f -n %q -a %q\n", condition, strings.Join(values, " "))
		}
	}
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		where := ""
		if path != "" {
			where = fmt.Sprintf(" -n %q", condition)
		}
		takes := " -r"
		if f.Enum != "" {
			takes = fmt.Sprintf(" -x -a %q", strings.Join(f.EnumSlice(), " "))
		} else if f.IsBool() {
			takes = ""
		}
		fmt.Fprintf(b, "complete -c phoebe%s -l %s%s -d %s\n", where, f.Name, takes, fishQuote(f.Help))
		if f.Tag.Negatable != "" {
			fmt.Fprintf(b, "complete -c phoebe%s -l no-%s -d %s\n", where, f.Name, fishQuote("Not: "+f.Help))
		}
	}
	for _, c := range commands {
		fishCompletion(b, c, c.Name)
	}
}

// fishQuote quotes s for fish.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
