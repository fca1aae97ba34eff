// Package file reads what is said of tenants, and says all that is wrong with it.
package file

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
)

const (
	// MaxText is how long a file may be: frontends send it to each other whole (view.MaxTerms).
	MaxText = 512 << 10
	// maxAmount bounds all numbers of an entry.
	maxAmount = 1_000_000_000
	maxPath   = 256 // bytes
)

// Example is a file, in one line.
const Example = `{revision: 1, tenants: {web: {tokens: 3, queue: 1000}, "*": {tokens: 1}}}`

const example = "want a revision and tenants, such as " + Example

// Flaw is what is wrong at a line of a file, and what to write instead.
type Flaw struct {
	File string
	Line int
	Err  error
}

func (f *Flaw) Error() string { return fmt.Sprintf("%s:%d: %v", f.File, f.Line, f.Err) }
func (f *Flaw) Unwrap() error { return f.Err }

// keys are what may be said of a tenant.
var keys = map[string]func(*tenants.Entry, ast.Node) error{
	"tokens": func(e *tenants.Entry, n ast.Node) error { return amount(&e.Tokens, n) },
	"queue":  func(e *tenants.Entry, n ast.Node) error { return amount(&e.Queue, n) },
}

func amount(to *int, n ast.Node) error {
	v, err := strconv.Atoi(n.GetToken().Value)
	if _, whole := n.(*ast.IntegerNode); !whole || err != nil || v < 1 || v > maxAmount {
		return fmt.Errorf("%q: want a whole number from 1 to %d", n.String(), maxAmount)
	}
	*to = v
	return nil
}

// Parse reads a file. The error joins all Flaws, in the order of their lines.
func Parse(name string, text []byte) (*tenants.File, error) {
	p := parsing{name: name, text: text}
	p.read()
	if len(p.flaws) == 0 {
		return tenants.New(p.revision, text, p.all), nil
	}
	slices.SortStableFunc(p.flaws, func(a, b *Flaw) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(p.flaws))
	for i, flaw := range p.flaws {
		errs[i] = flaw
	}
	return nil, errors.Join(errs...)
}

type parsing struct {
	name     string
	text     []byte
	revision uint64
	all      []tenants.Entry
	flaws    []*Flaw
}

func (p *parsing) wrong(line int, format string, args ...any) {
	p.flaws = append(p.flaws, &Flaw{p.name, line, fmt.Errorf(format, args...)})
}

func line(n ast.Node) int { return n.GetToken().Position.Line }

func (p *parsing) read() {
	if len(p.text) > MaxText {
		p.wrong(1, "the file has %d bytes: at most %d are allowed, as frontends send it to each other", len(p.text), MaxText)
		return
	}
	doc, err := parser.ParseBytes(p.text, 0)
	var syntax yaml.Error
	switch {
	case errors.As(err, &syntax):
		p.wrong(syntax.GetToken().Position.Line, "%s: %s", syntax.GetMessage(), example)
		return
	case err != nil:
		p.wrong(1, "%w: %s", err, example)
		return
	case len(doc.Docs) == 0 || doc.Docs[0].Body == nil:
		p.wrong(1, "the file is empty: %s", example)
		return
	case len(doc.Docs) > 1:
		p.wrong(doc.Docs[1].Start.Position.Line, "a second document: %s", example)
		return
	}
	body := doc.Docs[0].Body
	if !p.plain(body) {
		return
	}
	if _, ok := body.(ast.MapNode); !ok {
		p.wrong(line(body), "%s", example)
		return
	}
	revision := false
	for key, v := range entries(body) {
		switch key.GetToken().Value {
		case "revision":
			n, err := strconv.ParseUint(v.GetToken().Value, 10, 63)
			if err != nil || n == 0 {
				p.wrong(line(v), "revision %q: want a whole number from 1 on, higher with each change: the highest holds", v.String())
			}
			p.revision, revision = n, true
		case "tenants":
			p.tenants(v)
		default:
			p.wrong(line(key), "unknown key %q: %s", key.GetToken().Value, example)
		}
	}
	if !revision {
		p.wrong(1, "the revision is missing: write revision: 1, and a higher one with each change")
	}
}

// plain refuses anchors and aliases, also as an alias may stand in what it stands for, without an end.
func (p *parsing) plain(body ast.Node) bool {
	before := len(p.flaws)
	ast.Walk(visit(func(n ast.Node) {
		switch n.(type) {
		case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
			p.wrong(line(n), "anchors, aliases and << are not read here, as they may go round in circles: write the values out")
		}
	}), body)
	return len(p.flaws) == before
}

type visit func(ast.Node)

func (v visit) Visit(n ast.Node) ast.Visitor { v(n); return v }

// entries yields what a mapping says.
func entries(n ast.Node) iter.Seq2[ast.Node, ast.Node] {
	return func(yield func(key, value ast.Node) bool) {
		for i := n.(ast.MapNode).MapRange(); i.Next() && yield(i.Key(), i.Value()); {
		}
	}
}

func (p *parsing) tenants(n ast.Node) {
	const want = `want paths with what they may have, such as {web: {tokens: 3}, ads/etl: {tokens: 1}, "*": {tokens: 1}}`
	if _, ok := n.(ast.MapNode); !ok {
		p.wrong(line(n), "tenants: %s", want)
		return
	}
	for key, v := range entries(n) {
		path := key.GetToken().Value
		if err := checkPath(path); err != nil {
			p.wrong(line(key), "tenant %q: %w", path, err)
			continue
		}
		e := tenants.Entry{Path: path}
		if _, ok := v.(ast.MapNode); !ok {
			p.wrong(line(key), "tenant %q: want what it may have, such as {tokens: 3, queue: 1000}", path)
			continue
		}
		for what, v := range entries(v) {
			name := what.GetToken().Value
			if read := keys[name]; read == nil {
				p.wrong(line(what), "tenant %q: unknown key %q: it is one of %q", path, name, slices.Sorted(maps.Keys(keys)))
			} else if err := read(&e, v); err != nil {
				p.wrong(line(v), "tenant %q: %s %w", path, name, err)
			}
		}
		p.all = append(p.all, e)
	}
}

func checkPath(path string) error {
	parts := strings.Split(path, "/")
	switch {
	case path == tenants.Default:
		return nil
	case len(path) > maxPath:
		return fmt.Errorf("the path has %d bytes: at most %d are allowed", len(path), maxPath)
	case len(parts) > probe.MaxParts:
		return fmt.Errorf("the path has %d parts: at most %d are allowed", len(parts), probe.MaxParts)
	case slices.Contains(parts, ""):
		return errors.New("a part of the path is empty: write parts with one / between them, such as ads/etl")
	case slices.Contains(parts, tenants.Default):
		return errors.New(`"*" stands for all tenants without an entry, by itself only: name the parts of the path`)
	}
	return nil
}
