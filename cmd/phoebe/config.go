package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// BeforeResolve has the flags that are set neither on the command line nor in the environment come from the
// file that --config names.
func (c *cli) BeforeResolve(ctx *kong.Context) error {
	var name string
	for _, f := range ctx.Model.Flags {
		if f.Name == "config" {
			name, _ = ctx.FlagValue(f).(string)
		}
	}
	if name == "" {
		return nil
	}
	values, err := readConfig(name, ctx.Flags())
	if err != nil {
		return err
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, env := range flag.Envs {
			if _, set := os.LookupEnv(env); set {
				return nil, nil
			}
		}
		if v, ok := values[flag.Name]; ok {
			return v, nil
		}
		return nil, nil
	}))
	return nil
}

// readConfig reads settings for flags, as they would be written on the command line.
func readConfig(name string, flags []*kong.Flag) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, true))
	}
	values := map[string]string{}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return values, nil
	}
	at := func(n ast.Node, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %w", name, n.GetToken().Position.Line, fmt.Errorf(format, args...))
	}
	top, ok := file.Docs[0].Body.(ast.MapNode)
	if !ok || len(file.Docs) > 1 {
		return nil, fmt.Errorf("%s: want one mapping of flag names to values, such as slots: 4", name)
	}
	var errs []error
	for entries := top.MapRange(); entries.Next(); {
		node := entries.Key()
		key := node.GetToken().Value
		if !slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == key && key != "config" && key != "help" }) {
			errs = append(errs, at(node, "unknown setting %q: this command's nearest flag is %q", key, nearest(key, flags)))
			continue
		}
		v, err := flagText(entries.Value())
		if err != nil {
			errs = append(errs, at(node, "setting %q: %w", key, err))
			continue
		}
		values[key] = v
	}
	return values, errors.Join(errs...)
}

// flagText is a YAML value as it would be written on the command line: lists with commas, mappings with
// semicolons.
func flagText(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		parts := make([]string, len(n.Values))
		for i, v := range n.Values {
			text, err := scalarText(v)
			if err != nil {
				return "", err
			}
			parts[i] = strings.ReplaceAll(text, ",", `\,`)
		}
		return strings.Join(parts, ","), nil
	case ast.MapNode:
		var parts []string
		for entries := n.MapRange(); entries.Next(); {
			v, err := scalarText(entries.Value())
			if err != nil {
				return "", err
			}
			parts = append(parts, entries.Key().GetToken().Value+"="+v)
		}
		return strings.Join(parts, ";"), nil
	}
	return scalarText(n)
}

func scalarText(n ast.Node) (string, error) {
	s, ok := n.(ast.ScalarNode)
	if _, null := n.(*ast.NullNode); !ok || null {
		return "", errors.New("want a text, a number, true or false, or a list of these")
	}
	return fmt.Sprint(s.GetValue()), nil
}

// nearest is the name of the flag that key was probably meant to be.
func nearest(key string, flags []*kong.Flag) string {
	return slices.MinFunc(flags, func(a, b *kong.Flag) int { return cmp.Compare(distance(key, a.Name), distance(key, b.Name)) }).Name
}

// distance is how many characters must be changed, added or removed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
