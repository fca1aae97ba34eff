package record

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Summary is what a recording is about.
type Summary struct {
	Format   int           `json:"format"` // RecordingFormat
	Frontend string        `json:"frontend"`
	Version  string        `json:"version"`
	At       time.Time     `json:"at"`
	Broken   string        `json:"broken"` // the objective
	Observed time.Duration `json:"observed_ns"`
	Slowest  string        `json:"slowest,omitempty"` // the worker whose tasks took most beyond what is usual; empty: none did
	Phase    string        `json:"phase,omitempty"`   // of its tasks, in which they spent that
}

// Recording is what happened around a moment at which an objective was broken. It is kept as two lines of JSON, gzipped: the summary,
// and all of it.
type Recording struct {
	Summary
	Lost     int              `json:"lost"` // attempts that were forgotten before they could be recorded
	Suspects []Suspect        `json:"suspects"`
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
	to := json.NewEncoder(z)
	if err := to.Encode(&r.Summary); err != nil {
		return err
	}
	if err := to.Encode(r); err != nil {
		return err
	}
	return z.Close()
}

// maxRecordingBytes bounds what a recording takes once it is not gzipped any more.
const maxRecordingBytes = 1 << 30

// ReadSummary reads no more of a recording than what it is about.
func ReadSummary(from io.Reader) (s Summary, err error) {
	_, err = decodeSummary(from, &s)
	return s, err
}

func decodeSummary(from io.Reader, s *Summary) (*json.Decoder, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("it is no recording: %w", err)
	}
	lines := json.NewDecoder(io.LimitReader(z, maxRecordingBytes))
	if err := lines.Decode(s); err != nil {
		return nil, fmt.Errorf("it is no recording: %w", err)
	}
	if s.Format != RecordingFormat {
		return nil, errors.New("it is of another release")
	}
	return lines, nil
}

// ReadRecording reads one.
func ReadRecording(from io.Reader) (*Recording, error) {
	var r Recording
	lines, err := decodeSummary(from, &r.Summary)
	if err != nil {
		return nil, err
	}
	if err := lines.Decode(&r); err != nil {
		return nil, fmt.Errorf("it is no recording: %w", err)
	}
	return &r, nil
}

// Suspect is a worker, and what its tasks have taken.
type Suspect struct {
	RecordedWorker
	Tasks  int                   `json:"tasks"`
	Median time.Duration         `json:"median_ns"` // from when places were asked for until the outcome was there
	Worst  time.Duration         `json:"worst_ns"`
	Excess time.Duration         `json:"excess_ns"` // by how much its tasks took more than twice the median of all, together
	Phases [Phases]time.Duration `json:"phases_ns"` // of the tasks that did, together
}

// Keep packs attempts, whose workers have these names, and finds who is to be blamed. Workers must be there.
func (r *Recording) Keep(attempts []Attempt, names map[uint32]string) {
	t := NewTrace(attempts, nil, names)
	r.Names, r.Attempts = t.Workers, t.packed
	r.Suspects = findSuspects(r.Workers, attempts, names)
	if len(r.Suspects) > 0 && r.Suspects[0].Excess > 0 {
		first := &r.Suspects[0]
		worst := Link
		for m := Link; m <= Delivery; m++ {
			if first.Phases[m] > first.Phases[worst] {
				worst = m
			}
		}
		r.Slowest, r.Phase = first.Name, worst.String()
	}
}

// findSuspects are the workers, the one whose tasks took most beyond what is usual first.
func findSuspects(workers []RecordedWorker, attempts []Attempt, names map[uint32]string) []Suspect {
	type attempt struct {
		*Attempt
		took time.Duration
	}
	byWorker := map[string][]attempt{}
	var all []time.Duration
	for i := range attempts {
		a := &attempts[i]
		name, known := names[a.Worker]
		if !known || a.Ends[Run] == 0 {
			continue
		}
		d := max(a.Ends[Delivery]-a.Ends[Sampling], 0)
		byWorker[name] = append(byWorker[name], attempt{a, d})
		all = append(all, d)
	}
	list := []Suspect{}
	if len(all) == 0 {
		return list
	}
	slices.Sort(all)
	usualMost := 2 * all[len(all)/2]
	for _, w := range workers {
		mine := byWorker[w.Name]
		if len(mine) == 0 {
			continue
		}
		slices.SortFunc(mine, func(a, b attempt) int { return cmp.Compare(a.took, b.took) })
		s := Suspect{RecordedWorker: w, Tasks: len(mine), Median: mine[len(mine)/2].took, Worst: mine[len(mine)-1].took}
		for _, a := range mine {
			if a.took <= usualMost {
				continue
			}
			s.Excess += a.took - usualMost
			for m, d := range a.Phases() {
				s.Phases[m] += d
			}
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b Suspect) int { return cmp.Or(cmp.Compare(b.Excess, a.Excess), cmp.Compare(a.Name, b.Name)) })
	return list
}
