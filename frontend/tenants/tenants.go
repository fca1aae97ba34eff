// Package tenants says what each tenant may have: a file with an entry for each tenant path, and what follows of it. It does
// no I/O.
//
// A tenant is a path such as ads/etl. Its tokens are its weight among those that share a path with it up to the last
// part, in every worker's fair order: ads/etl has its part of what ads has, and ads of what there is.
package tenants

import (
	"cmp"

	"github.com/phoebe-sched/phoebe/probe"
)

// Default is the path of the entry for tenants, and parts of paths, that have none of their own.
const Default = "*"

// Entry is what is said of one path, and holds for all paths below it together.
type Entry struct {
	Path   string
	Tokens int // its weight among its siblings, 1 or more
	Queue  int // tasks without an outcome that a frontend takes of it; 0: no limit of its own
}

// File is a revision of what is said of tenants. It is never changed. The zero File, like none at all, says nothing: all
// tenants weigh the same.
type File struct {
	Revision uint64 // the newest one holds; 0: there is no file
	Text     []byte // as it was read

	entries map[string]*Entry
}

// New is a file of these entries. One without tokens has as many as the default.
func New(revision uint64, text []byte, entries []Entry) *File {
	f := &File{Revision: revision, Text: text, entries: make(map[string]*Entry, len(entries))}
	tokens := unknown.Tokens
	for _, e := range entries {
		if e.Path == Default && e.Tokens > 0 {
			tokens = e.Tokens
		}
	}
	for _, e := range entries {
		e.Tokens = cmp.Or(e.Tokens, tokens)
		f.entries[e.Path] = &e
	}
	return f
}

var unknown = Entry{Path: Default, Tokens: 1}

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
	return &unknown
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
