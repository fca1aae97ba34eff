package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/tenants/file"
	"github.com/phoebe-sched/phoebe/probe/gossip/view"
)

// terms is what this frontend knows of the file that says what tenants may have. Of the revisions that it has read, or has
// from other frontends, the newest holds.
type terms struct {
	server *Server
	name   string // of the file; "": it reads none

	now     atomic.Pointer[tenants.File] // that holds; nil: there is none
	mu      sync.Mutex                   // taken before the server's
	holds   *tenants.File                // nil: there is none
	trouble string                       // why the file as it is now does not hold, or ""
	foreign string                       // why the latest one of another frontend does not, or ""
}

// termsSettle is how long a file is left alone after a change: whoever writes it may not be done.
const termsSettle = 20 * time.Millisecond

// start reads the file, and again when it changes, until the server stops.
func (t *terms) start() error {
	if t.name == "" {
		return nil
	}
	if t.read(); t.trouble != "" {
		return errors.New(t.trouble)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", t.name, err)
	}
	// The folder: editors, and who mounts a new version, put another file in place of the one that there was.
	if err := watcher.Add(filepath.Dir(t.name)); err != nil {
		watcher.Close()
		return fmt.Errorf("watch %s: %w", t.name, err)
	}
	t.server.running.Go(func() {
		defer watcher.Close()
		settled := time.NewTimer(0) // it may have changed before it was watched
		waits := true
		changed := func() { // not put off by what goes on in that folder
			if !waits {
				waits = true
				settled.Reset(termsSettle)
			}
		}
		for {
			select {
			case <-t.server.ctx.Done():
				return
			case _, ok := <-watcher.Events:
				if !ok {
					return
				}
				changed()
			case err := <-watcher.Errors: // some events may be lost
				t.server.log.Warn("watching the tenants file", "file", t.name, "err", err)
				changed()
			case <-settled.C:
				waits = false
				t.read()
			}
		}
	})
	return nil
}

// read takes the file as it is now, if it may hold.
func (t *terms) read() {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.trouble
	t.trouble = ""
	text, err := os.ReadFile(t.name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: write it, with revision: 1 and tenants", err)
		}
		t.trouble = fmt.Sprintf("tenants file: %v", err)
	} else if f, err := file.Parse(t.name, text); err != nil {
		t.trouble = fmt.Sprintf("tenants file: %v", err)
	} else if err := t.server.cfg.CheckTenants(f); err != nil {
		t.trouble = fmt.Sprintf("tenants file: %s: %v", t.name, err)
	} else {
		t.take(f)
	}
	if t.trouble != "" && t.trouble != was {
		t.server.log.Warn("the tenants file does not hold", "file", t.name, "holds", t.revision(), "err", t.trouble)
	}
}

// take lets a file that was read hold, unless an earlier one does.
func (t *terms) take(f *tenants.File) {
	switch {
	case t.holds == nil || f.Revision > t.holds.Revision:
		t.hold(f)
	case bytes.Equal(f.Text, t.holds.Text):
	case f.Revision < t.holds.Revision:
		t.trouble = fmt.Sprintf("tenants file: %s has revision %d, and %d holds: give it a higher one", t.name, f.Revision, t.holds.Revision)
	default:
		t.trouble = fmt.Sprintf("tenants file: %s has changed, and the revision is still %d: give it a higher one", t.name, f.Revision)
	}
}

// hold has the core go by f.
func (t *terms) hold(f *tenants.File) {
	t.holds = f
	t.now.Store(f)
	t.server.log.Info("what tenants may have", "revision", f.Revision)
	t.server.mu.Lock()
	t.server.stepLocked(frontend.Terms{File: f})
	t.server.unlock()
	t.spread()
}

// spread has the other frontends go by what holds, too.
func (t *terms) spread() {
	if t.server.fleet == nil {
		return
	}
	t.server.mu.Lock()
	node := t.server.fleet.node
	t.server.mu.Unlock()
	if node != nil { // else it is told when it starts
		node.SetTerms(view.Terms{Revision: t.holds.Revision, Text: t.holds.Text})
	}
}

// tell spreads what holds so far, if anything does.
func (t *terms) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds != nil {
		t.spread()
	}
}

// hear takes what another frontend has, which is later than what this one had: of two of one revision, all take the same.
func (t *terms) hear(h view.Terms) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds != nil && (h.Revision < t.holds.Revision || bytes.Equal(h.Text, t.holds.Text)) {
		return // it is this one's own
	}
	f, err := file.Parse("from another frontend", h.Text)
	if err == nil {
		err = t.server.cfg.CheckTenants(f)
	}
	if err != nil { // it may be of a later release
		t.foreign = fmt.Sprintf("tenants file: %v", err)
		t.server.log.Warn("the tenants file of another frontend does not hold", "holds", t.revision(), "err", t.foreign)
		return
	}
	t.foreign = ""
	t.hold(f)
}

func (t *terms) revision() uint64 {
	if t.holds == nil {
		return 0
	}
	return t.holds.Revision
}

// warning says why the file does not hold, and what holds instead, or "".
func (t *terms) warning() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	trouble := cmp.Or(t.trouble, t.foreign)
	if trouble == "" {
		return ""
	}
	return fmt.Sprintf("%s; revision %d holds on", trouble, t.revision())
}
