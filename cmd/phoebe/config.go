package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/phoebe-sched/phoebe/probe/shallow"
)

// BeforeResolve adds the settings of --config to the parser. Flags on the command line and environment variables go
// before settings.
func (c *cli) BeforeResolve(ctx *kong.Context) error {
	if node := ctx.Selected(); node != nil && node.Target.Type() == reflect.TypeFor[validateCmd]() {
		return nil // config validate reads files of other commands itself
	}
	var name string
	for _, f := range ctx.Model.Flags {
		if f.Name == "config" {
			name, _ = ctx.FlagValue(f).(string)
		}
	}
	if name == "" {
		return nil
	}
	settings, err := readConfig(name, ctx)
	c.file = settingsFile{name, settings}
	var wrong *flaw
	if err != nil && (c.countsSetting == nil || !errors.As(err, &wrong)) {
		return err
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if s, ok := settings[flag.Name]; ok && setVariable(flag) == "" &&
			(c.countsSetting == nil || c.countsSetting(flag.Name)) {
			return s.text, nil
		}
		return nil, nil
	}))
	return nil
}

// setting is an entry of a configuration file, with its value as on the command line.
type setting struct {
	text string
	line int
}

// flaw is an error at a line of a configuration file. err also says what to write instead.
type flaw struct {
	file string
	line int
	err  error
}

func (f *flaw) Error() string { return fmt.Sprintf("%s:%d: %v", f.file, f.line, f.err) }

// readConfig reads settings for the parsed command. It returns the valid settings, and an error that joins the
// flaws of all invalid settings.
func readConfig(name string, command *kong.Context) (map[string]setting, error) {
	text, err := readBounded(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	wrong := func(line int, format string, args ...any) error {
		return &flaw{name, line, fmt.Errorf(format, args...)}
	}
	const want = "want one mapping of flag names to values, such as slots: 4"
	file, err := shallow.Parse(text)
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		return nil, wrong(syntax.GetToken().Position.Line, "%s: %s", syntax.GetMessage(), want)
	}
	if err != nil {
		return nil, wrong(1, "%w: %s", err, want)
	}
	settings := map[string]setting{}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return settings, nil
	}
	if len(file.Docs) > 1 {
		return nil, wrong(file.Docs[1].Start.Position.Line, "a second document: %s", want)
	}
	top, ok := file.Docs[0].Body.(ast.MapNode)
	if !ok {
		return nil, wrong(file.Docs[0].Body.GetToken().Position.Line, want)
	}
	flags := command.Flags()
	var errs []error
	for entries := top.MapRange(); entries.Next(); {
		node := entries.Key()
		key, line := node.GetToken().Value, node.GetToken().Position.Line
		at := slices.IndexFunc(flags, func(f *kong.Flag) bool {
			return f.Name == key && key != "config" &&
				key != "help"
		})
		if at < 0 {
			errs = append(errs, wrong(line, "unknown setting %q: %s", key, suggestSetting(key, command)))
			continue
		}
		v, err := flagText(entries.Value())
		if err == nil {
			err = checkValue(flags[at], v)
		}
		if err != nil {
			errs = append(errs, wrong(line, "setting %q: %w", key, err))
			continue
		}
		settings[key] = setting{v, line}
	}
	return settings, errors.Join(errs...)
}

// suggestSetting returns a remedy for key, a setting that the command does not have.
func suggestSetting(key string, command *kong.Context) string {
	var owners []string
	for _, other := range command.Model.Children {
		if !other.Hidden && slices.ContainsFunc(other.Flags, func(f *kong.Flag) bool { return f.Name == key }) {
			owners = append(owners, "phoebe "+other.Name)
		}
	}
	if owners != nil {
		return "the setting is for " + strings.Join(owners, ", ")
	}
	nearest := nearestFlag(key, command.Flags())
	if 2*editDistance(key, nearest) > len(key) {
		return "this command has no similar flag"
	}
	return fmt.Sprintf("this command's nearest flag is %q", nearest)
}

// checkValue returns an error if text is no value of the flag. The error says which values are.
func checkValue(flag *kong.Flag, text string) error {
	was := flag.Set
	defer func() { flag.Set = was }()
	target := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text}), target); err != nil {
		return fmt.Errorf("%q: want %s", text, valueFormat(flag))
	}
	if flag.Enum != "" && !slices.Contains(flag.EnumSlice(), text) {
		return fmt.Errorf("%q: want one of %s", text, strings.Join(flag.EnumSlice(), ", "))
	}
	return nil
}

// valueFormat says how to write a value of the flag.
func valueFormat(flag *kong.Flag) string {
	typ := flag.Target.Type()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == reflect.TypeFor[time.Duration]():
		return "a time with its unit, such as 500ms, 3s or 1m30s"
	case typ == sizeType:
		return "a number of bytes, such as 65536, 64KiB, 16MiB or 2GiB"
	case typ == reflect.TypeFor[jsonFile]():
		return "the name of a file, or - for standard output"
	case typ == reflect.TypeFor[weights]():
		return "tenants and their shares, such as {web: 3, batch: 1}"
	}
	switch typ.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number, such as 2 or 1.5"
	case reflect.Uint64:
		return "a whole number that is not negative"
	}
	return "a whole number"
}

// flagText returns a YAML value as on the command line: lists with commas, mappings with semicolons.
func flagText(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		parts := make([]string, len(n.Values))
		for i, v := range n.Values {
			text, err := settingText(v)
			if err != nil {
				return "", err
			}
			parts[i] = strings.ReplaceAll(text, ",", `\,`)
		}
		return strings.Join(parts, ","), nil
	case ast.MapNode:
		var parts []string
		for entries := n.MapRange(); entries.Next(); {
			v, err := settingText(entries.Value())
			if err != nil {
				return "", err
			}
			parts = append(parts, entries.Key().GetToken().Value+"="+v)
		}
		return strings.Join(parts, ";"), nil
	}
	return settingText(n)
}

// settingText returns a YAML scalar as text. It refuses null and nested values.
func settingText(n ast.Node) (string, error) {
	_, ok := n.(ast.ScalarNode)
	if _, null := n.(*ast.NullNode); !ok || null {
		return "", errors.New("want a text, a number, true or false, or a list")
	}
	return scalarText(n), nil
}

// scalarText returns the text of a YAML scalar as written, without quotes: 007 and 1.10 keep their zeros.
func scalarText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.BoolNode:
		return n.GetToken().Value
	case *ast.TagNode:
		return scalarText(n.Value)
	case ast.ScalarNode:
		return fmt.Sprint(n.GetValue())
	}
	return ""
}

// nearestFlag returns the name of the flag most similar to key.
func nearestFlag(key string, flags []*kong.Flag) string {
	return slices.MinFunc(flags,
		func(a, b *kong.Flag) int { return cmp.Compare(editDistance(key, a.Name), editDistance(key, b.Name)) }).Name
}

// editDistance counts the characters to change, add or remove to turn a into b.
func editDistance(a, b string) int {
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
