// Package audit writes down who has asked for what, and what became of it, as lines of JSON. It knows no payloads and no
// secrets, and never holds up who tells it something.
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

// Entry is what somebody asked for.
type Entry struct {
	At       time.Time `json:"at"`               // now, if it is zero
	What     string    `json:"what"`             // submit, cancel, cancel tasks, explain, events, trace, watch, connect, drain, configuration, or a request to the admin port
	Who      string    `json:"who,omitempty"`    // by certificate or token, as client/acme
	Token    string    `json:"token,omitempty"`  // by which it is known: the first digits of its hash
	Name     string    `json:"name,omitempty"`   // that the caller gave itself
	From     string    `json:"from,omitempty"`   // address
	Tenant   string    `json:"tenant,omitempty"` // of the job
	Job      string    `json:"job,omitempty"`
	Decision string    `json:"decision"`      // done or refused
	Why      string    `json:"why,omitempty"` // it was refused
}

// Log is a file of entries. A nil one takes none.
type Log struct {
	file    *os.File
	dropped *metrics.Counter
	entries chan Entry
	done    chan struct{}
	mu      sync.RWMutex // held for writing while it is closed
	closed  bool
}

const (
	maxWaiting = 4096 // entries that may wait; one over that is dropped
	maxText    = 300  // bytes of a text that others have chosen
)

// Open appends to a file, which is made for its owner alone. What is dropped is counted.
func Open(name string, dropped *metrics.Counter) (*Log, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{file: f, dropped: dropped, entries: make(chan Entry, maxWaiting), done: make(chan struct{})}
	go l.writeEntries()
	return l, nil
}

// Note writes down an entry, soon. err is why it was refused, or nil.
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

// writeEntries ends when the log is closed.
func (l *Log) writeEntries() {
	defer close(l.done)
	w := bufio.NewWriterSize(l.file, 64<<10)
	unflushed := 0
	for e := range l.entries {
		_ = json.NewEncoder(w).Encode(e) // into w, whose error Flush returns; an encoder that has failed would write no more
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

// Close returns when all is written.
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
