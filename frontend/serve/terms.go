package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/tenants/file"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/poll"
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
	foreign        uint64                       // the revision of that file
}

// start reads the file, and again whenever it changes, until the server stops.
func (t *terms) start() error {
	if t.name == "" {
		return nil
	}
	file := poll.File{Name: t.name}
	if t.readFile(&file); t.problem != "" {
		return errors.New(t.problem)
	}
	t.server.goroutines.Go(func() {
		poll.Changes(t.server.ctx, func(error) {}, func() (bool, error) { t.readFile(&file); return false, nil })
	})
	return nil
}

// readFile reads the file. If the file has changed, a valid new revision is put in force.
func (t *terms) readFile(from *poll.File) {
	text, changed, err := from.Read()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && !changed {
		return
	}
	oldProblem := t.problem
	t.problem = ""
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
	case rows.IsOutOfReach(f.Revision, t.currentRevision()):
		t.problem = fmt.Sprintf("tenants file: %s has revision %d, and %d is in force: give it at most %d, so that later "+
			"files can have a higher one", t.name, f.Revision, t.currentRevision(), t.currentRevision()+rows.MaxRevisionStep)
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
	if f.Revision >= t.foreign {
		t.foreignProblem = ""
	}
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
		t.foreignProblem = ""
		return // the terms are the frontend's own
	}
	f, err := file.Parse("from another frontend", h.Text)
	if err == nil {
		err = t.server.cfg.CheckTenants(f)
	}
	if err != nil { // the file may be of a later release
		t.foreignProblem, t.foreign = fmt.Sprintf("tenants file: %v", err), h.Revision
		t.server.log.Warn("the tenants file of another frontend is not in force", "holds", t.currentRevision(), "err",
			t.foreignProblem)
		return
	}
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
