// Package audit logs requests and decisions as lines of JSON: the caller, the request, and the decision. The log
// has no payloads and no secrets, and never holds up a caller.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Entry is a request and its decision.
type Entry struct {
	At time.Time `json:"at"` // zero: the time of Note
	// What is the request: submit, cancel, cancel tasks, explain, events, read file, trace, watch, connect, drain,
	// configuration, or a request to the admin port.
	What     string `json:"what"`
	Who      string `json:"who,omitempty"`    // by certificate or token, as client/acme
	Token    string `json:"token,omitempty"`  // names the token: the first digits of its hash
	Name     string `json:"name,omitempty"`   // given by the caller
	From     string `json:"from,omitempty"`   // address of the caller
	Tenant   string `json:"tenant,omitempty"` // of the job
	Job      string `json:"job,omitempty"`
	File     string `json:"file,omitempty"`  // its sha256
	Count    int    `json:"count,omitempty"` // requests of strangers from this source since the last entry; 0: one
	Decision string `json:"decision"`        // done or refused
	Why      string `json:"why,omitempty"`   // reason of a refusal
}

// Log is a file of entries. A nil Log ignores entries.
type Log struct {
	file    *os.File
	dropped *metrics.Counter
	entries chan Entry
	done    chan struct{}
	mu      sync.RWMutex // held for writing during Close
	closed  bool

	strangers refusals
	seen      onceSet
}

const (
	maxWaiting = 4096 // entries that may wait; further entries are dropped
	// If maxStrange entries wait, a stranger's entry is dropped. The rest of the queue is for known callers.
	maxStrange = maxWaiting / 2
	maxText    = 300         // bytes of a text chosen by the caller
	tellEvery  = time.Second // between entries about the strangers of a source
	maxSources = 1024        // sources that are counted one by one
	maxSeen    = 4096        // keys that NoteOnce remembers at least
)

// Open appends to a file, and creates it for its owner alone. dropped counts the dropped entries.
func Open(name string, dropped *metrics.Counter) (*Log, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{file: f, dropped: dropped, entries: make(chan Entry, maxWaiting), done: make(chan struct{}),
		strangers: refusals{due: make(chan struct{}, 1), bySource: map[string]*refusal{}}}
	go l.writeEntries()
	return l, nil
}

// Note writes down an entry, soon. err is the reason of a refusal, or nil.
func (l *Log) Note(e Entry, err error) {
	if l != nil {
		l.queueEntry(completeEntry(e, err), maxWaiting)
	}
}

// NoteOnce is Note for the first time of an entry. Further entries with the same request, caller, job and file are
// ignored.
func (l *Log) NoteOnce(e Entry) {
	if l != nil && l.seen.addKey(onceKey{e.What, e.Who, e.Token, e.Job, e.File}) {
		l.Note(e, nil)
	}
}

// NoteStranger notes the refusal of a caller without a secret, token or certificate. After an entry, further refusals
// of the same source are counted, and an entry each second tells the count.
func (l *Log) NoteStranger(e Entry, err error) {
	if l == nil {
		return
	}
	if e = completeEntry(e, err); l.strangers.isFirst(e) {
		l.queueEntry(e, maxStrange)
	}
}

// completeEntry sets the time and the decision, and clips texts.
func completeEntry(e Entry, err error) Entry {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.Decision = "done"
	if err != nil {
		e.Decision, e.Why = "refused", err.Error()
	}
	for _, text := range []*string{&e.What, &e.Who, &e.Name, &e.Tenant, &e.Job, &e.File, &e.Why} {
		if len(*text) > maxText {
			*text = (*text)[:maxText]
		}
	}
	return e
}

// queueEntry has e written, unless most entries wait already.
func (l *Log) queueEntry(e Entry, most int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	if len(l.entries) < most {
		select {
		case l.entries <- e:
			return
		default:
		}
	}
	l.dropped.Inc()
}

// writeEntries writes entries until the log is closed.
func (l *Log) writeEntries() {
	defer close(l.done)
	out := &lineWriter{to: l.file}
	w := bufio.NewWriterSize(out, 64<<10)
	unflushed := 0
	for open := true; open; {
		var batch []Entry
		select {
		case e, ok := <-l.entries:
			if open = ok; ok {
				batch = append(batch, e)
			} else {
				batch = l.strangers.takeEntries(time.Now().Add(tellEvery)) // all: the log ends
			}
		case <-l.strangers.due:
			batch = l.strangers.takeEntries(time.Now())
		}
		for _, e := range batch {
			// A failed encoder writes no more, so each entry gets a new encoder. Flush returns the errors of w.
			_ = json.NewEncoder(w).Encode(e)
		}
		if unflushed += len(batch); len(l.entries) > 0 {
			continue
		}
		if w.Flush() != nil {
			l.dropped.Add(unflushed)
			w.Reset(out)
		}
		unflushed = 0
	}
	l.strangers.stopTimer()
}

// lineWriter writes lines. If a write fails in the middle of a line, for instance because the disk is full, the next
// write begins a new line.
type lineWriter struct {
	to      io.Writer
	midLine bool // the last written byte ends no line
	failed  bool // the last write failed
}

func (w *lineWriter) Write(b []byte) (n int, err error) {
	if w.failed && w.midLine {
		if _, err := w.to.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
	}
	n, err = w.to.Write(b)
	if w.failed = err != nil; n > 0 {
		w.midLine = b[n-1] != '\n'
	}
	return n, err
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
