// Package tenants says what each tenant may have: a file with an entry for each tenant path, and what follows of it. It does
// no I/O.
//
// A tenant is a path such as ads/etl. Its tokens are its weight among those that share a path with it up to the last
// part, in every worker's fair order: ads/etl has its part of what ads has, and ads of what there is. The tokens of a
// path of one part are also slots: what it uses up to that is regular. Shares hands them out to frontends, and so it does
// with the slots that a path uses at most.
package tenants

import (
	"cmp"
	"slices"
	"strings"

	"github.com/phoebe-sched/phoebe/probe"
)

// Default is the path of the entry for tenants, and parts of paths, that have none of their own.
const Default = "*"

// Entry is what is said of one path, and holds for all paths below it together.
type Entry struct {
	Path   string
	Tokens int // its weight among its siblings, 1 or more
	Max    int // slots that it uses at most, over all frontends; 0: no limit of its own
	Queue  int // tasks without an outcome that a frontend takes of it; 0: no limit of its own
	Rate   int // jobs that a frontend takes of it in a second; 0: no limit of its own

	Functions    []string // that its tasks may run; nil: all
	Hashes       []Hash   // of the tokens by which its clients are known
	Certificates []string // of its clients: NAME of client/NAME
}

// Hash is a token's SHA-256: the token itself is nowhere but with its owner.
type Hash [32]byte

// File is a revision of what is said of tenants. It is never changed. The zero File, like none at all, says nothing: all
// tenants weigh the same.
type File struct {
	Revision uint64 // the newest one holds; 0: there is no file
	Text     []byte // as it was read

	entries map[string]*Entry
	hashes  map[Hash]string   // whose tokens they are of
	certs   map[string]string // whose certificates they are
}

// New is a file of these entries. One without tokens has as many as the default. No two entries have a hash or a certificate in
// common.
func New(revision uint64, text []byte, entries []Entry) *File {
	f := &File{Revision: revision, Text: text, entries: make(map[string]*Entry, len(entries)), hashes: map[Hash]string{}, certs: map[string]string{}}
	tokens := defaultEntry.Tokens
	for _, e := range entries {
		if e.Path == Default && e.Tokens > 0 {
			tokens = e.Tokens
		}
	}
	for _, e := range entries {
		e.Tokens = cmp.Or(e.Tokens, tokens)
		f.entries[e.Path] = &e
		for _, h := range e.Hashes {
			f.hashes[h] = e.Path
		}
		for _, name := range e.Certificates {
			f.certs[name] = e.Path
		}
	}
	return f
}

// TakesTokens tells whether any tenant's clients are known by tokens.
func (f *File) TakesTokens() bool { return f != nil && len(f.hashes) > 0 }

// OfToken is the tenant whose clients have a token of this hash.
func (f *File) OfToken(h Hash) (tenant string, known bool) {
	if f != nil {
		tenant, known = f.hashes[h]
	}
	return tenant, known
}

// OfCertificate is the tenant of a client by its certificate: the one that the certificate names, if nothing else is said of it.
func (f *File) OfCertificate(name string) string {
	if f != nil {
		if tenant, listed := f.certs[name]; listed {
			return tenant
		}
	}
	return name
}

// Covers tells whether who acts for a tenant acts for another one, too: for those below it.
func Covers(tenant, other string) bool {
	rest, below := strings.CutPrefix(other, tenant)
	return below && (rest == "" || tenant != "" && rest[0] == '/')
}

// MayRun tells whether a tenant's tasks may run a function, by its own entry and those above it. If not, it names the entry.
func (f *File) MayRun(tenant, function string) (denier string, may bool) {
	for path := range probe.TenantPaths(tenant) {
		if e := f.Entry(path); e.Functions != nil && !slices.Contains(e.Functions, function) {
			return e.Path, false
		}
	}
	return "", true
}

var defaultEntry = Entry{Path: Default, Tokens: 1}

// Entry is what holds for a path: its own entry, or the default.
func (f *File) Entry(path string) *Entry {
	if f != nil {
		if e := f.entries[path]; e != nil {
			return e
		}
		if e := f.entries[Default]; e != nil {
			return e
		}
	}
	return &defaultEntry
}

// Weights are the tokens of a tenant's parts, the topmost first; nil if there is no file.
func (f *File) Weights(tenant string) []uint32 {
	if f == nil || f.Revision == 0 {
		return nil
	}
	var ws []uint32
	for path := range probe.TenantPaths(tenant) {
		ws = append(ws, uint32(f.Entry(path).Tokens))
	}
	return ws
}
