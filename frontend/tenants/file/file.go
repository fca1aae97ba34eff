// Package file reads what is said of tenants, and says all that is wrong with it.
package file

import (
	"cmp"
	"encoding/hex"
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
const Example = `{revision: 1, tenants: {web: {tokens: 30, max: 60, queue: 1000}, "*": {tokens: 1}}}`

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
	"max":    func(e *tenants.Entry, n ast.Node) error { return amount(&e.Max, n) },
	"queue":  func(e *tenants.Entry, n ast.Node) error { return amount(&e.Queue, n) },
	"rate":   func(e *tenants.Entry, n ast.Node) error { return amount(&e.Rate, n) },

	"functions":    func(e *tenants.Entry, n ast.Node) error { return list(n, wantFunctions, name(&e.Functions)) },
	"token-hashes": func(e *tenants.Entry, n ast.Node) error { return list(n, wantHashes, hash(&e.Hashes)) },
	"certificates": func(e *tenants.Entry, n ast.Node) error {
		return list(n, wantCertificates, certificate(&e.Certificates))
	},
}

const (
	wantFunctions    = "want the names of functions, such as [echo, resize]"
	wantHashes       = "want the hashes that phoebe token prints, of 64 hexadecimal digits: never a token itself"
	wantCertificates = "want the names of clients in certificates, such as [client/web]"
)

// list reads texts, one or more.
func list(n ast.Node, want string, add func(text string) bool) error {
	all, ok := n.(*ast.SequenceNode)
	if !ok || len(all.Values) == 0 {
		return errors.New(want)
	}
	for _, v := range all.Values {
		if _, ok := v.(ast.ScalarNode); !ok || !add(v.GetToken().Value) {
			return errors.New(want) // without the text, which may be a token
		}
	}
	return nil
}

func name(to *[]string) func(string) bool {
	return func(text string) bool {
		*to = append(*to, text)
		return text != ""
	}
}

func hash(to *[]tenants.Hash) func(string) bool {
	return func(text string) bool {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != len(tenants.Hash{}) {
			return false
		}
		*to = append(*to, tenants.Hash(b))
		return true
	}
}

func certificate(to *[]string) func(string) bool {
	return func(text string) bool {
		name, ok := strings.CutPrefix(text, "client/")
		*to = append(*to, name)
		return ok && name != ""
	}
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
	p := parsing{name: name, text: text, owners: map[string]string{}}
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
	owners   map[string]string // of tokens and certificates, by what they are called in a flaw
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
			p.wrong(line(key), "tenant %q: want what it may have, such as {tokens: 30, max: 60, queue: 1000}", path)
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
		if path == tenants.Default && len(e.Hashes)+len(e.Certificates) > 0 {
			p.wrong(line(key), `tenant "*": nobody is known as a tenant without an entry: give the token-hashes and certificates to one by its path`)
		}
		for _, h := range e.Hashes {
			p.owns(key, path, "the token of "+hex.EncodeToString(h[:]))
		}
		for _, name := range e.Certificates {
			p.owns(key, path, "the certificate client/"+name)
		}
		p.all = append(p.all, e)
	}
}

// owns notes whose a token or a certificate is.
func (p *parsing) owns(key ast.Node, path, what string) {
	if other, taken := p.owners[what]; taken {
		p.wrong(line(key), "tenant %q: %s is that of %q, too: give each tenant its own", path, what, other)
	}
	p.owners[what] = path
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
