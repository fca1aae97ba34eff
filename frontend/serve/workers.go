package serve

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe/names"
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

// filePoll is the period between looks at a File.
const filePoll = time.Second

// Watch implements Workers.
func (f File) Watch(ctx context.Context, set func([]string)) error {
	addrs, err := readAddrs(f.Name)
	if err != nil {
		return err
	}
	set(addrs)
	go func() {
		tick := time.NewTicker(filePoll)
		defer tick.Stop()
		var failed string
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			next, err := readAddrs(f.Name)
			switch {
			case err != nil:
				if err.Error() != failed && f.Warn != nil {
					f.Warn(err)
				}
				failed = err.Error()
			case !slices.Equal(next, addrs):
				addrs, failed = next, ""
				set(addrs)
			}
		}
	}()
	return nil
}

// readAddrs reads a list of workers, sorted and without duplicates.
func readAddrs(name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("list of workers: %w", err)
	}
	defer file.Close()
	var addrs []string
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := checkAddr(line); err != nil {
			return nil, fmt.Errorf("list of workers %s, line %d: %w", name, n, err)
		}
		addrs = append(addrs, line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list of workers %s: %w", name, err)
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
