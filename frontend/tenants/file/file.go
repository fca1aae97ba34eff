// Package file parses tenants files, and reports all errors at once.
package file

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/shallow"
)

const (
	// MaxText bounds a file, in bytes, because frontends exchange whole files (view.MaxTerms).
	MaxText = 512 << 10
	// maxAmount bounds all numbers of an entry.
	maxAmount = 1_000_000_000
	maxPath   = 256 // bytes
)

// Example is a file in one line.
const Example = `{revision: 1, tenants: {web: {tokens: 30, max: 60, queue: 1000}, "*": {tokens: 1}}}`

const wantExample = "want a revision and tenants, such as " + Example

// Flaw is an error at a line of a file, with a remedy.
type Flaw struct {
	File string
	Line int
	Err  error
}

func (f *Flaw) Error() string { return fmt.Sprintf("%s:%d: %v", f.File, f.Line, f.Err) }
func (f *Flaw) Unwrap() error { return f.Err }

// entryKeys are the keys of an entry, with the function to read each value.
var entryKeys = map[string]func(*tenants.Entry, ast.Node) error{
	"tokens": func(e *tenants.Entry, n ast.Node) error { return readAmount(&e.Tokens, n) },
	"max":    func(e *tenants.Entry, n ast.Node) error { return readAmount(&e.Max, n) },
	"queue":  func(e *tenants.Entry, n ast.Node) error { return readAmount(&e.Queue, n) },
	"rate":   func(e *tenants.Entry, n ast.Node) error { return readAmount(&e.Rate, n) },

	"priority": func(e *tenants.Entry, n ast.Node) error { return readPriority(&e.Priority, n) },

	"functions": func(e *tenants.Entry,
		n ast.Node) error {
		return readList(n, wantFunctions, addName(&e.Functions))
	},
	"token-hashes": func(e *tenants.Entry, n ast.Node) error { return readList(n, wantHashes, addHash(&e.Hashes)) },
	"certificates": func(e *tenants.Entry, n ast.Node) error {
		return readList(n, wantCertificates, addCertificate(&e.Certificates))
	},
}

const (
	wantFunctions    = "want the names of functions, such as [echo, resize]"
	wantHashes       = "want the hashes that phoebe token prints, of 64 hexadecimal digits: never a token itself"
	wantCertificates = "want the names of clients in certificates, such as [client/web]"
)

// readList reads a non-empty list, and passes each text to add. The function add returns false for an invalid text.
func readList(n ast.Node, want string, add func(text string) bool) error {
	all, ok := n.(*ast.SequenceNode)
	if !ok || len(all.Values) == 0 {
		return errors.New(want)
	}
	for _, v := range all.Values {
		if _, ok := v.(ast.ScalarNode); !ok || !add(v.GetToken().Value) {
			return errors.New(want) // without the text, because the text may be a token
		}
	}
	return nil
}

// addName returns a function that appends a text to a list. Empty texts are invalid.
func addName(to *[]string) func(string) bool {
	return func(text string) bool {
		*to = append(*to, text)
		return text != ""
	}
}

// addHash returns a function that parses a hash in hexadecimal digits, and appends it to a list.
func addHash(to *[]tenants.Hash) func(string) bool {
	return func(text string) bool {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != len(tenants.Hash{}) {
			return false
		}
		*to = append(*to, tenants.Hash(b))
		return true
	}
}

// addCertificate returns a function that appends the NAME of client/NAME to a list.
func addCertificate(to *[]string) func(string) bool {
	return func(text string) bool {
		name, ok := strings.CutPrefix(text, "client/")
		*to = append(*to, name)
		return ok && name != ""
	}
}

// readAmount reads a whole number from 1 to maxAmount.
func readAmount(to *int, n ast.Node) error {
	v, err := strconv.Atoi(n.GetToken().Value)
	if _, whole := n.(*ast.IntegerNode); !whole || err != nil || v < 1 || v > maxAmount {
		return fmt.Errorf("%q: want a whole number from 1 to %d", n.String(), maxAmount)
	}
	*to = v
	return nil
}

// readPriority reads a whole number from 0 to the highest priority of a job.
func readPriority(to **int32, n ast.Node) error {
	v, err := strconv.ParseInt(n.GetToken().Value, 10, 32)
	if _, whole := n.(*ast.IntegerNode); !whole || err != nil || v < 0 {
		return fmt.Errorf("%q: want the highest priority of the tenant's jobs, a whole number from 0 to %d", n.String(),
			math.MaxInt32)
	}
	*to = new(int32(v))
	return nil
}

// Parse parses a file. name is for messages. The error joins all Flaws, in the order of their lines.
func Parse(name string, text []byte) (*tenants.File, error) {
	p := parsing{name: name, text: text, owners: map[string]string{}}
	p.readText()
	if len(p.flaws) == 0 {
		return tenants.New(p.revision, text, p.entries), nil
	}
	slices.SortStableFunc(p.flaws, func(a, b *Flaw) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(p.flaws))
	for i, flaw := range p.flaws {
		errs[i] = flaw
	}
	return nil, errors.Join(errs...)
}

// parsing is a parse under way: the entries and flaws so far.
type parsing struct {
	name     string
	text     []byte
	revision uint64
	entries  []tenants.Entry
	owners   map[string]string // tenant of each token and certificate, by its description in flaws
	flaws    []*Flaw
}

func (p *parsing) addFlaw(line int, format string, args ...any) {
	p.flaws = append(p.flaws, &Flaw{p.name, line, fmt.Errorf(format, args...)})
}

func lineOf(n ast.Node) int { return n.GetToken().Position.Line }

// readText parses the whole text.
func (p *parsing) readText() {
	if len(p.text) > MaxText {
		p.addFlaw(1, "the file has %d bytes: at most %d are allowed, as frontends send it to each other", len(p.text),
			MaxText)
		return
	}
	doc, err := shallow.Parse(p.text)
	var syntax yaml.Error
	switch {
	case errors.As(err, &syntax):
		p.addFlaw(syntax.GetToken().Position.Line, "%s: %s", syntax.GetMessage(), wantExample)
		return
	case err != nil:
		p.addFlaw(1, "%w: %s", err, wantExample)
		return
	case len(doc.Docs) == 0 || doc.Docs[0].Body == nil:
		p.addFlaw(1, "the file is empty: %s", wantExample)
		return
	case len(doc.Docs) > 1:
		p.addFlaw(doc.Docs[1].Start.Position.Line, "a second document: %s", wantExample)
		return
	}
	body := doc.Docs[0].Body
	if !p.refuseAliases(body) {
		return
	}
	if _, ok := body.(ast.MapNode); !ok {
		p.addFlaw(lineOf(body), "%s", wantExample)
		return
	}
	revision := false
	for key, v := range eachEntry(body) {
		switch key.GetToken().Value {
		case "revision":
			n, err := strconv.ParseUint(v.GetToken().Value, 10, 64)
			if err != nil || n == 0 || n > rows.MaxRevision {
				p.addFlaw(lineOf(v),
					"revision %q: want a whole number from 1 to %d, higher with each change: the highest holds",
					v.String(), uint64(rows.MaxRevision))
			}
			p.revision, revision = n, true
		case "tenants":
			p.readTenants(v)
		default:
			p.addFlaw(lineOf(key), "unknown key %q: %s", key.GetToken().Value, wantExample)
		}
	}
	if !revision {
		p.addFlaw(1, "the revision is missing: write revision: 1, and a higher number with each change")
	}
}

// refuseAliases refuses anchors and aliases: an alias inside its own anchor would expand without end.
func (p *parsing) refuseAliases(body ast.Node) bool {
	before := len(p.flaws)
	ast.Walk(visitFunc(func(n ast.Node) {
		switch n.(type) {
		case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
			p.addFlaw(lineOf(n),
				"anchors, aliases and << are not read here, as they may go round in circles: write the values out")
		}
	}), body)
	return len(p.flaws) == before
}

type visitFunc func(ast.Node)

func (v visitFunc) Visit(n ast.Node) ast.Visitor { v(n); return v }

// eachEntry yields the keys and values of a mapping.
func eachEntry(n ast.Node) iter.Seq2[ast.Node, ast.Node] {
	return func(yield func(key, value ast.Node) bool) {
		for i := n.(ast.MapNode).MapRange(); i.Next() && yield(i.Key(), i.Value()); {
		}
	}
}

// readTenants parses the entries below the key tenants.
func (p *parsing) readTenants(n ast.Node) {
	const want = `want paths with their entries, such as {web: {tokens: 3}, ads/etl: {tokens: 1}, "*": {tokens: 1}}`
	if _, ok := n.(ast.MapNode); !ok {
		p.addFlaw(lineOf(n), "tenants: %s", want)
		return
	}
	for key, v := range eachEntry(n) {
		path := key.GetToken().Value
		if err := checkPath(path); err != nil {
			p.addFlaw(lineOf(key), "tenant %q: %w", path, err)
			continue
		}
		e := tenants.Entry{Path: path}
		if _, ok := v.(ast.MapNode); !ok {
			p.addFlaw(lineOf(key), "tenant %q: want an entry, such as {tokens: 30, max: 60, queue: 1000}", path)
			continue
		}
		for keyNode, v := range eachEntry(v) {
			name := keyNode.GetToken().Value
			if read := entryKeys[name]; read == nil {
				p.addFlaw(lineOf(keyNode), "tenant %q: unknown key %q: it is one of %q", path, name,
					slices.Sorted(maps.Keys(entryKeys)))
			} else if err := read(&e, v); err != nil {
				p.addFlaw(lineOf(v), "tenant %q: %s %w", path, name, err)
			}
		}
		if path == tenants.Default && len(e.Hashes)+len(e.Certificates) > 0 {
			p.addFlaw(lineOf(key),
				`tenant "*" stands for other tenants and has no clients: move hashes and certificates to a path`)
		}
		for _, h := range e.Hashes {
			p.noteOwner(key, path, "the token of "+hex.EncodeToString(h[:]))
		}
		for _, name := range e.Certificates {
			p.noteOwner(key, path, "the certificate client/"+name)
		}
		p.entries = append(p.entries, e)
	}
}

// noteOwner notes the tenant of a token or a certificate. A second owner is a flaw.
func (p *parsing) noteOwner(key ast.Node, path, credential string) {
	if other, taken := p.owners[credential]; taken {
		p.addFlaw(lineOf(key), "tenant %q: %s belongs to %q, too: give each tenant its own", path, credential, other)
	}
	p.owners[credential] = path
}

// checkPath returns an error for an invalid tenant path.
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
		return errors.New("a part of the path is empty: write parts with a / between, such as ads/etl")
	case strings.Contains(path, "+"):
		return errors.New("a + joins the roles of a certificate, and may not stand in a path: choose another name")
	case slices.Contains(parts, tenants.Default):
		return errors.New(`"*" stands for all tenants without an entry, by itself only: name the parts of the path`)
	}
	return nil
}
