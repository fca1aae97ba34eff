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
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
)

// terms holds the tenants file: the rights and shares of tenants. Revisions come from the file or from peers. The
// newest revision is in force.
type terms struct {
	server *Server
	name   string // of the file; "": no file is read

	current        atomic.Pointer[tenants.File] // the revision in force, for readers without mu; nil: none
	mu             sync.Mutex                   // taken before the server's
	inForce        *tenants.File                // the same, under mu; nil: none
	problem        string                       // why the present file is not in force, or ""
	foreignProblem string                       // why the latest file of a peer is not in force, or ""
}

// termsSettle is the pause between a change of the file and reading the file. Until then the writer may not have
// finished.
const termsSettle = 20 * time.Millisecond

// start reads the file, and again whenever it changes, until the server stops.
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
	// Watch the folder. Editors, and tools that mount a new version, put another file in place of the old file.
	if err := watcher.Add(filepath.Dir(t.name)); err != nil {
		watcher.Close()
		return fmt.Errorf("watch %s: %w", t.name, err)
	}
	t.server.goroutines.Go(func() {
		defer watcher.Close()
		settled := time.NewTimer(0) // the file may have changed before it was watched
		pending := true
		changed := func() { // further changes in the folder do not delay a read
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

// readFile reads the file, and puts a valid new revision in force.
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
		t.server.log.Warn("the tenants file is not in force", "file", t.name, "holds", t.currentRevision(), "err",
			t.problem)
	}
}

// takeFile puts a file in force, if its revision is later than the revision in force.
func (t *terms) takeFile(f *tenants.File) {
	switch {
	case t.inForce == nil || f.Revision > t.inForce.Revision:
		t.putInForce(f)
	case bytes.Equal(f.Text, t.inForce.Text):
	case f.Revision < t.inForce.Revision:
		t.problem = fmt.Sprintf("tenants file: %s has revision %d, and %d is in force: give it a higher one", t.name,
			f.Revision, t.inForce.Revision)
	default:
		t.problem = fmt.Sprintf("tenants file: %s has changed, and the revision is still %d: give it a higher one",
			t.name, f.Revision)
	}
}

// putInForce puts f in force at this frontend, and tells the peers.
func (t *terms) putInForce(f *tenants.File) {
	t.inForce = f
	t.current.Store(f)
	t.server.log.Info("a tenants file is in force", "revision", f.Revision)
	t.server.mu.Lock()
	t.server.stepLocked(frontend.Terms{File: f})
	t.server.unlockAndFlush()
	t.tellOthers()
}

// tellOthers tells the peers the revision in force.
func (t *terms) tellOthers() {
	if t.server.fleet == nil {
		return
	}
	t.server.mu.Lock()
	node := t.server.fleet.node
	t.server.mu.Unlock()
	if node != nil { // otherwise tellOthersAtStart tells the node
		node.SetTerms(rows.Terms{Revision: t.inForce.Revision, Text: t.inForce.Text})
	}
}

// tellOthersAtStart tells the peers the revision in force, if there is any, once gossip has started.
func (t *terms) tellOthersAtStart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inForce != nil {
		t.tellOthers()
	}
}

// hearTerms takes a peer's revision. Gossip delivers the terms that win. Among files of the same revision, all
// frontends pick the same file.
func (t *terms) hearTerms(h rows.Terms) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inForce != nil && (h.Revision < t.inForce.Revision || bytes.Equal(h.Text, t.inForce.Text)) {
		return // the terms are the frontend's own
	}
	f, err := file.Parse("from another frontend", h.Text)
	if err == nil {
		err = t.server.cfg.CheckTenants(f)
	}
	if err != nil { // the file may be of a later release
		t.foreignProblem = fmt.Sprintf("tenants file: %v", err)
		t.server.log.Warn("the tenants file of another frontend is not in force", "holds", t.currentRevision(), "err",
			t.foreignProblem)
		return
	}
	t.foreignProblem = ""
	t.putInForce(f)
}

// currentRevision returns the revision in force, or 0 if there is none. mu is held.
func (t *terms) currentRevision() uint64 {
	if t.inForce == nil {
		return 0
	}
	return t.inForce.Revision
}

// whyFileRejected says why the latest file is not in force, and which revision is, or "".
func (t *terms) whyFileRejected() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	problem := cmp.Or(t.problem, t.foreignProblem)
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("%s; revision %d stays in force", problem, t.currentRevision())
}
