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

	current        atomic.Pointer[tenants.File] // that holds; nil: there is none
	mu             sync.Mutex                   // taken before the server's
	inForce        *tenants.File                // nil: there is none
	problem        string                       // why the file as it is now does not hold, or ""
	foreignProblem string                       // why the latest one of another frontend does not, or ""
}

// termsSettle is how long a file is left alone after a change: whoever writes it may not be done.
const termsSettle = 20 * time.Millisecond

// start reads the file, and again when it changes, until the server stops.
func (t *terms) start() error {
	if t.name == "" {
		return nil
	}
	if t.readFile(); t.problem != "" {
		return errors.New(t.problem)
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
	t.server.goroutines.Go(func() {
		defer watcher.Close()
		settled := time.NewTimer(0) // it may have changed before it was watched
		pending := true
		changed := func() { // not put off by what goes on in that folder
			if !pending {
				pending = true
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
				pending = false
				t.readFile()
			}
		}
	})
	return nil
}

// readFile takes the file as it is now, if it may hold.
func (t *terms) readFile() {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldProblem := t.problem
	t.problem = ""
	text, err := os.ReadFile(t.name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: write it, with revision: 1 and tenants", err)
		}
		t.problem = fmt.Sprintf("tenants file: %v", err)
	} else if f, err := file.Parse(t.name, text); err != nil {
		t.problem = fmt.Sprintf("tenants file: %v", err)
	} else if err := t.server.cfg.CheckTenants(f); err != nil {
		t.problem = fmt.Sprintf("tenants file: %s: %v", t.name, err)
	} else {
		t.takeFile(f)
	}
	if t.problem != "" && t.problem != oldProblem {
		t.server.log.Warn("the tenants file does not hold", "file", t.name, "holds", t.currentRevision(), "err", t.problem)
	}
}

// takeFile lets a file that was read hold, unless an earlier one does.
func (t *terms) takeFile(f *tenants.File) {
	switch {
	case t.inForce == nil || f.Revision > t.inForce.Revision:
		t.putInForce(f)
	case bytes.Equal(f.Text, t.inForce.Text):
	case f.Revision < t.inForce.Revision:
		t.problem = fmt.Sprintf("tenants file: %s has revision %d, and %d holds: give it a higher one", t.name, f.Revision, t.inForce.Revision)
	default:
		t.problem = fmt.Sprintf("tenants file: %s has changed, and the revision is still %d: give it a higher one", t.name, f.Revision)
	}
}

// putInForce has the core go by f.
func (t *terms) putInForce(f *tenants.File) {
	t.inForce = f
	t.current.Store(f)
	t.server.log.Info("what tenants may have", "revision", f.Revision)
	t.server.mu.Lock()
	t.server.stepLocked(frontend.Terms{File: f})
	t.server.unlockAndFlush()
	t.tellOthers()
}

// tellOthers has the other frontends go by what holds, too.
func (t *terms) tellOthers() {
	if t.server.fleet == nil {
		return
	}
	t.server.mu.Lock()
	node := t.server.fleet.node
	t.server.mu.Unlock()
	if node != nil { // else it is told when it starts
		node.SetTerms(view.Terms{Revision: t.inForce.Revision, Text: t.inForce.Text})
	}
}

// tellOthersCurrent spreads what holds so far, if anything does.
func (t *terms) tellOthersCurrent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inForce != nil {
		t.tellOthers()
	}
}

// hearTerms takes what another frontend has, which is later than what this one had: of two of one revision, all take the same.
func (t *terms) hearTerms(h view.Terms) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inForce != nil && (h.Revision < t.inForce.Revision || bytes.Equal(h.Text, t.inForce.Text)) {
		return // it is this one's own
	}
	f, err := file.Parse("from another frontend", h.Text)
	if err == nil {
		err = t.server.cfg.CheckTenants(f)
	}
	if err != nil { // it may be of a later release
		t.foreignProblem = fmt.Sprintf("tenants file: %v", err)
		t.server.log.Warn("the tenants file of another frontend does not hold", "holds", t.currentRevision(), "err", t.foreignProblem)
		return
	}
	t.foreignProblem = ""
	t.putInForce(f)
}

func (t *terms) currentRevision() uint64 {
	if t.inForce == nil {
		return 0
	}
	return t.inForce.Revision
}

// whyFileRejected says why the file does not hold, and what holds instead, or "".
func (t *terms) whyFileRejected() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	problem := cmp.Or(t.problem, t.foreignProblem)
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("%s; revision %d holds on", problem, t.currentRevision())
}
