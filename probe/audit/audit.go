// Package audit logs requests and decisions as lines of JSON: the caller, the request, and the decision. The log
// has no payloads and no secrets, and never holds up a caller.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Entry is a request and its decision.
type Entry struct {
	At time.Time `json:"at"` // zero: the time of Note
	// What is the request: submit, cancel, cancel tasks, explain, events, trace, watch, connect, drain,
	// configuration, or a request to the admin port.
	What     string `json:"what"`
	Who      string `json:"who,omitempty"`    // by certificate or token, as client/acme
	Token    string `json:"token,omitempty"`  // names the token: the first digits of its hash
	Name     string `json:"name,omitempty"`   // given by the caller
	From     string `json:"from,omitempty"`   // address of the caller
	Tenant   string `json:"tenant,omitempty"` // of the job
	Job      string `json:"job,omitempty"`
	Decision string `json:"decision"`      // done or refused
	Why      string `json:"why,omitempty"` // reason of a refusal
}

// Log is a file of entries. A nil Log ignores entries.
type Log struct {
	file    *os.File
	dropped *metrics.Counter
	entries chan Entry
	done    chan struct{}
	mu      sync.RWMutex // held for writing during Close
	closed  bool
}

const (
	maxWaiting = 4096 // entries that may wait; further entries are dropped
	maxText    = 300  // bytes of a text chosen by the caller
)

// Open appends to a file, and creates it for its owner alone. dropped counts the dropped entries.
func Open(name string, dropped *metrics.Counter) (*Log, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{file: f, dropped: dropped, entries: make(chan Entry, maxWaiting), done: make(chan struct{})}
	go l.writeEntries()
	return l, nil
}

// Note writes down an entry, soon. err is the reason of a refusal, or nil.
func (l *Log) Note(e Entry, err error) {
	if l == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.Decision = "done"
	if err != nil {
		e.Decision, e.Why = "refused", err.Error()
	}
	for _, text := range []*string{&e.What, &e.Who, &e.Name, &e.Tenant, &e.Job, &e.Why} {
		if len(*text) > maxText {
			*text = (*text)[:maxText]
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	select {
	case l.entries <- e:
	default:
		l.dropped.Inc()
	}
}

// writeEntries writes entries until the log is closed.
func (l *Log) writeEntries() {
	defer close(l.done)
	w := bufio.NewWriterSize(l.file, 64<<10)
	unflushed := 0
	for e := range l.entries {
		// An encoder that has failed would write no more, so each entry gets a new encoder. Flush returns the
		// errors of w.
		_ = json.NewEncoder(w).Encode(e)
		if unflushed++; len(l.entries) > 0 {
			continue
		}
		if w.Flush() != nil {
			l.dropped.Add(unflushed)
			w.Reset(l.file)
		}
		unflushed = 0
	}
}

// Close returns after all entries are written.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	close(l.entries)
	l.mu.Unlock()
	<-l.done
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}
