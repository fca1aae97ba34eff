package record

import (
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Recording is what happened around a moment at which an objective was broken. It is kept as JSON, gzipped.
type Recording struct {
	Format   int              `json:"format"` // RecordingFormat
	Frontend string           `json:"frontend"`
	Version  string           `json:"version"`
	At       time.Time        `json:"at"`
	Broken   string           `json:"broken"` // the objective
	Observed time.Duration    `json:"observed_ns"`
	Lost     int              `json:"lost"` // attempts that were forgotten before they could be recorded
	Workers  []RecordedWorker `json:"workers"`
	Names    []string         `json:"names"`    // of workers, to which attempts refer
	Attempts []byte           `json:"attempts"` // as Trace has them
	Windows  []RecordedWindow `json:"windows"`  // each second, with how many jobs and tasks
	GC       []Pause          `json:"gc"`
	Profile  []byte           `json:"profile"` // of the CPU, as pprof has it, for a second after the moment; empty: there is none
}

// RecordingFormat goes up when an older release cannot read what is recorded.
const RecordingFormat = 1

// RecordedWorker is what a frontend believed of a worker.
type RecordedWorker struct {
	Name      string        `json:"name"`
	Address   string        `json:"address"`
	State     string        `json:"state"`
	Problem   string        `json:"problem,omitempty"`
	Queued    int           `json:"queued"`
	Running   int           `json:"running"`
	RoundTrip time.Duration `json:"round_trip_ns"`
	Silence   time.Duration `json:"silence_ns"`
	Wait      time.Duration `json:"wait_ns"` // expected of a task of an eighth of it; negative: not known
}

// RecordedWindow is a second.
type RecordedWindow struct {
	At time.Time `json:"at"`
	Tally
}

// Pause is one of the garbage collection's.
type Pause struct {
	End  time.Time     `json:"end"`
	Took time.Duration `json:"took_ns"`
}

// Write writes it.
func (r *Recording) Write(w io.Writer) error {
	z := gzip.NewWriter(w)
	if err := json.NewEncoder(z).Encode(r); err != nil {
		return err
	}
	return z.Close()
}

// maxRecording bounds what a recording takes once it is not gzipped any more.
const maxRecording = 1 << 30

// ReadRecording reads one.
func ReadRecording(from io.Reader) (*Recording, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("it is no recording: %w", err)
	}
	var r Recording
	if err := json.NewDecoder(io.LimitReader(z, maxRecording)).Decode(&r); err != nil {
		return nil, fmt.Errorf("it is no recording: %w", err)
	}
	if r.Format != RecordingFormat {
		return nil, errors.New("it is of another release")
	}
	return &r, nil
}

// Keep packs attempts, whose workers have these names.
func (r *Recording) Keep(attempts []Attempt, names map[uint32]string) {
	t := NewTrace(attempts, names)
	r.Names, r.Attempts = t.Workers, t.data
}

// unpackAttempts reads what NewTrace has packed, as far as Suspects needs it: Worker is a position in the names.
func unpackAttempts(b []byte) (list []Attempt, ok bool) {
	for len(b) > 0 {
		var x [attemptFields]uint64
		for i := range x {
			n, size := binary.Uvarint(b)
			if size <= 0 {
				return nil, false
			}
			x[i], b = n, b[size:]
		}
		a := Attempt{Task: probe.TaskIndex(x[0]), Worker: uint32(x[2] - 1)} // of none it is a position that does not exist
		if x[9] == 1 {
			for i := range a.Ends {
				a.Ends[i] = time.Duration(x[10+i] & math.MaxInt64)
			}
		}
		list = append(list, a)
	}
	return list, true
}

// Suspect is a worker, and what its tasks have taken.
type Suspect struct {
	RecordedWorker
	Tasks         int
	Median, Worst time.Duration // from when places were asked for until the outcome was there
	Excess        time.Duration // by how much its tasks took more than twice the median of all, together
}

// Suspects are the workers, the one whose tasks took most beyond what is usual first.
func (r *Recording) Suspects() ([]Suspect, error) {
	attempts, ok := unpackAttempts(r.Attempts)
	if !ok {
		return nil, errors.New("its attempts cannot be read")
	}
	took := map[string][]time.Duration{}
	var all []time.Duration
	for i := range attempts {
		if a := &attempts[i]; a.Ends[Run] > 0 && int(a.Worker) < len(r.Names) {
			d := max(a.Ends[Delivery]-a.Ends[Sampling], 0)
			took[r.Names[a.Worker]] = append(took[r.Names[a.Worker]], d)
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	slices.Sort(all)
	usual := 2 * all[len(all)/2]
	var list []Suspect
	for _, w := range r.Workers {
		s := Suspect{RecordedWorker: w, Tasks: len(took[w.Name])}
		if s.Tasks == 0 {
			continue
		}
		slices.Sort(took[w.Name])
		s.Median, s.Worst = took[w.Name][s.Tasks/2], took[w.Name][s.Tasks-1]
		for _, d := range took[w.Name] {
			s.Excess += max(d-usual, 0)
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b Suspect) int { return cmp.Or(cmp.Compare(b.Excess, a.Excess), cmp.Compare(a.Name, b.Name)) })
	return list, nil
}
