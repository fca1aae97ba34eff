package serve

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/phoebe-sched/phoebe/probe/names"
	"github.com/phoebe-sched/phoebe/probe/poll"
)

// Workers is a source of workers' addresses for a frontend.
type Workers interface {
	// Watch calls set with the workers' addresses: first before Watch returns, then whenever the addresses change,
	// until ctx ends. Calls of set do not overlap.
	Watch(ctx context.Context, set func(addrs []string)) error
}

// Static is a fixed list of addresses, host:port.
type Static []string

// Watch implements Workers.
func (s Static) Watch(_ context.Context, set func([]string)) error {
	for _, addr := range s {
		if err := checkAddr(addr); err != nil {
			return err
		}
	}
	set(sortedUnique(s))
	return nil
}

// Names are addresses, or names that stand for several addresses and are looked up again and again: dns:host:port,
// srv:_phoebe._tcp.name.
type Names struct {
	Addrs []string
	Warn  func(error) // gets the errors of look-ups; the workers of such a name stay
}

// Watch implements Workers.
func (n Names) Watch(ctx context.Context, set func([]string)) error {
	for _, addr := range n.Addrs {
		if err := names.Check(addr); err != nil {
			return fmt.Errorf("worker address %w", err)
		}
	}
	names.Watcher{Addrs: n.Addrs, Warn: n.Warn}.Watch(ctx, set)
	return nil
}

// File is the name of a file with one address in each line; # starts a comment. The file is read again when it
// changes. If a version cannot be read, the last good version stays in force and Warn gets the error.
type File struct {
	Name string
	Warn func(error)
}

// Union joins the workers of all its elements.
type Union []Workers

// Watch implements Workers.
func (u Union) Watch(ctx context.Context, set func([]string)) error {
	var mu sync.Mutex
	parts := make([][]string, len(u))
	complete := false // each element has called set
	for i, w := range u {
		err := w.Watch(ctx, func(addrs []string) {
			mu.Lock()
			defer mu.Unlock()
			parts[i] = addrs
			if complete {
				set(sortedUnique(slices.Concat(parts...)))
			}
		})
		if err != nil {
			return err
		}
	}
	mu.Lock()
	defer mu.Unlock()
	complete = true
	set(sortedUnique(slices.Concat(parts...)))
	return nil
}

// Watch implements Workers.
func (f File) Watch(ctx context.Context, set func([]string)) error {
	file := &poll.File{Name: f.Name}
	addrs, err := readAddrs(file)
	if err != nil {
		return err
	}
	set(addrs)
	report := func(err error) {
		if err != nil && f.Warn != nil {
			f.Warn(err)
		}
	}
	go poll.Changes(ctx, report, func() (changed bool, err error) {
		next, err := readAddrs(file)
		if err == nil && !slices.Equal(next, addrs) {
			addrs = next
			set(addrs)
		}
		return false, err
	})
	return nil
}

// workerList is the latest list of workers, with the workers that the list leaves out and that stay.
type workerList struct {
	mu     sync.Mutex // taken before the server's
	listed []string
	kept   []string
}

// takeList sets the workers. If a list names no live worker, the live workers before stay until it does: the file may
// have been emptied by mistake, or the DNS may be wrong, and all tasks would be lost.
func (s *Server) takeList(addrs []string) {
	s.workerList.mu.Lock()
	defer s.workerList.mu.Unlock()
	s.retakeList(addrs)
}

// recheckList takes the latest list again, if workers have stayed beyond the list.
func (s *Server) recheckList() {
	s.workerList.mu.Lock()
	defer s.workerList.mu.Unlock()
	if len(s.workerList.kept) > 0 {
		s.retakeList(s.workerList.listed)
	}
}

func (s *Server) retakeList(addrs []string) {
	l := &s.workerList
	before := len(l.kept)
	l.listed, l.kept = addrs, nil
	isLive := func(l *link) bool { return l != nil && l.isUpOrRecent(s.cfg.Lease) }
	s.mu.Lock()
	if !slices.ContainsFunc(addrs, func(addr string) bool { return isLive(s.byAddr[addr]) }) {
		for _, link := range s.links {
			if isLive(link) {
				l.kept = append(l.kept, link.addr)
			}
		}
	}
	s.mu.Unlock()
	if before == 0 && len(l.kept) > 0 {
		s.log.Warn("the list of workers names no live worker: the live workers before stay", "listed", len(addrs),
			"stay", len(l.kept))
	}
	s.setWorkers(sortedUnique(slices.Concat(addrs, l.kept)))
}

// whyWorkersKept says that workers stay although the list leaves them out, and how to take them off, or "".
func (l *workerList) whyWorkersKept() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		return ""
	}
	return fmt.Sprintf("the list of workers names no live worker, so the %d workers that it leaves out stay: mend the "+
		"list, or drain these workers", len(l.kept))
}

// readAddrs reads a list of workers, sorted and without duplicates.
func readAddrs(file *poll.File) ([]string, error) {
	text, _, err := file.Read()
	if err != nil {
		return nil, fmt.Errorf("list of workers: %w", err)
	}
	var addrs []string
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ := strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := checkAddr(line); err != nil {
			return nil, fmt.Errorf("list of workers %s, line %d: %w", file.Name, n, err)
		}
		addrs = append(addrs, line)
	}
	return sortedUnique(addrs), nil
}

func checkAddr(addr string) error {
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return fmt.Errorf("worker address %q: want host:port, such as 10.0.0.7:7420", addr)
	}
	return nil
}

func sortedUnique(addrs []string) []string {
	addrs = slices.Sorted(slices.Values(addrs))
	return slices.Compact(addrs)
}
