// Package tenants holds the limits and weights of tenants, from a file with an entry for each tenant path. It also
// computes the quotas of frontends. The package does no I/O.
//
// A tenant is a path, for instance ads/etl. The tokens of a path are the path's weight among its siblings (the
// paths with the same parent), in every worker's fair order. So ads/etl has a part of ads, and ads has a part of
// the whole. The tokens of a path with a single part are also slots: usage up to the tokens is regular. [Quotas]
// divides these slots among frontends, and likewise the slots of a path's maximum. Apollo, too, has regular tasks
// covered by tokens, and opportunistic tasks beyond (section 3.5).
package tenants

import (
	"cmp"
	"slices"

	"github.com/phoebe-sched/phoebe/probe"
)

// Default is the path of the default entry: for tenants, and parts of paths, without an entry.
const Default = "*"

// Entry is the entry of a path, valid for all paths below together.
type Entry struct {
	Path   string
	Tokens int // weight of the path among its siblings, 1 or more
	Max    int // most slots in use, over all frontends; 0: unlimited by this entry
	Queue  int // unfinished tasks a frontend accepts; 0: unlimited by this entry
	Rate   int // jobs a frontend accepts per second; 0: unlimited by this entry

	Priority *int32 // highest priority of a job; nil: unlimited by this entry

	Functions    []string // functions the tenant's tasks may run; nil: all
	Hashes       []Hash   // hashes of the clients' tokens
	Certificates []string // names of the clients' certificates: NAME of client/NAME
}

// Hash is a token's SHA-256: only the token's owner has the token itself.
type Hash [32]byte

// File is a revision of the tenants file. A File never changes. With a zero or nil File all tenants weigh the same.
type File struct {
	Revision uint64 // the highest revision holds; 0: no file
	Text     []byte // the file's text

	entries map[string]*Entry
	hashes  map[Hash]string   // tenant of each token
	certs   map[string]string // tenant of each certificate
}

// New returns a file with these entries. An entry without tokens gets the tokens of the default entry. No two
// entries may have a hash or a certificate in common.
func New(revision uint64, text []byte, entries []Entry) *File {
	f := &File{Revision: revision, Text: text, entries: make(map[string]*Entry, len(entries)),
		hashes: map[Hash]string{}, certs: map[string]string{}}
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

// TakesTokens reports whether any tenant's clients are known by tokens.
func (f *File) TakesTokens() bool { return f != nil && len(f.hashes) > 0 }

// OfToken returns the tenant of the clients with this token hash.
func (f *File) OfToken(h Hash) (tenant string, known bool) {
	if f != nil {
		tenant, known = f.hashes[h]
	}
	return tenant, known
}

// OfCertificate returns the tenant of a client's certificate: the tenant listed for the certificate, or else the
// tenant named by the certificate.
func (f *File) OfCertificate(name string) string {
	if f != nil {
		if tenant, listed := f.certs[name]; listed {
			return tenant
		}
	}
	return name
}

// MayRun reports whether a tenant's tasks may run a function, by the tenant's entry and all entries above. If not,
// denier is the path of the denying entry.
func (f *File) MayRun(tenant, function string) (denier string, may bool) {
	for path := range probe.TenantPaths(tenant) {
		if e := f.Entry(path); e.Functions != nil && !slices.Contains(e.Functions, function) {
			return e.Path, false
		}
	}
	return "", true
}

// MayPrioritize reports whether the tenant's entry and all entries above allow a job of this priority. If not, denier
// is the entry that forbids the priority.
func (f *File) MayPrioritize(tenant string, priority int32) (denier *Entry, may bool) {
	for path := range probe.TenantPaths(tenant) {
		if e := f.Entry(path); e.Priority != nil && priority > *e.Priority {
			return e, false
		}
	}
	return nil, true
}

var defaultEntry = Entry{Path: Default, Tokens: 1}

// Entry returns the entry for a path, or the default entry.
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

// Weights returns the tokens of a tenant's parts, topmost first; nil if there is no file.
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
