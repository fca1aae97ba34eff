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

// Summary is the first line of a recording.
type Summary struct {
	Format   int           `json:"format"` // RecordingFormat
	Frontend string        `json:"frontend"`
	Version  string        `json:"version"`
	At       time.Time     `json:"at"`
	Broken   string        `json:"broken"` // the objective
	Observed time.Duration `json:"observed_ns"`
	// The worker whose tasks took most time beyond the usual. Empty: no task did.
	Slowest string `json:"slowest,omitempty"`
	Phase   string `json:"phase,omitempty"` // the phase with most of that time
}

// Recording holds the events around the moment when an objective was broken. A file holds two lines of JSON,
// gzipped: the Summary, and the whole Recording.
type Recording struct {
	Summary
	Lost     int              `json:"lost"` // attempts forgotten before they could be recorded
	Suspects []Suspect        `json:"suspects"`
	Workers  []RecordedWorker `json:"workers"`
	Names    []string         `json:"names"`    // of workers; attempts refer to them
	Attempts []byte           `json:"attempts"` // packed as in Trace
	Windows  []RecordedWindow `json:"windows"`  // counts of jobs and tasks, second by second
	GC       []Pause          `json:"gc"`
	// CPU profile in pprof's format, of a second after the moment. Empty: there is none.
	Profile []byte `json:"profile"`
}

// RecordingFormat is raised when an older release cannot read new recordings.
const RecordingFormat = 1

// RecordedWorker is a frontend's view of a worker.
type RecordedWorker struct {
	Name      string        `json:"name"`
	Address   string        `json:"address"`
	State     string        `json:"state"`
	Problem   string        `json:"problem,omitempty"`
	Queued    int           `json:"queued"`
	Running   int           `json:"running"`
	RoundTrip time.Duration `json:"round_trip_ns"`
	Silence   time.Duration `json:"silence_ns"`
	Wait      time.Duration `json:"wait_ns"` // expected for a task of an eighth of the worker; negative: not known
}

// RecordedWindow holds the counts of a second.
type RecordedWindow struct {
	At time.Time `json:"at"`
	Tally
}

// Pause is a pause for garbage collection.
type Pause struct {
	End  time.Time     `json:"end"`
	Took time.Duration `json:"took_ns"`
}

// Write writes the recording, gzipped.
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

// maxRecordingBytes bounds a recording's size without gzip.
const maxRecordingBytes = 1 << 30

// ReadSummary reads only the summary of a recording.
func ReadSummary(from io.Reader) (s Summary, err error) {
	_, err = decodeSummary(from, &s)
	return s, err
}

func decodeSummary(from io.Reader, s *Summary) (*json.Decoder, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("the file is no recording: %w", err)
	}
	lines := json.NewDecoder(io.LimitReader(z, maxRecordingBytes))
	if err := lines.Decode(s); err != nil {
		return nil, fmt.Errorf("the file is no recording: %w", err)
	}
	if s.Format != RecordingFormat {
		return nil, errors.New("the recording has another format: open the file with the release that wrote the file")
	}
	return lines, nil
}

// ReadRecording reads a recording.
func ReadRecording(from io.Reader) (*Recording, error) {
	var r Recording
	lines, err := decodeSummary(from, &r.Summary)
	if err != nil {
		return nil, err
	}
	if err := lines.Decode(&r); err != nil {
		return nil, fmt.Errorf("the file is no recording: %w", err)
	}
	return &r, nil
}

// Suspect is a worker, and the times of its tasks.
type Suspect struct {
	RecordedWorker
	Tasks  int                   `json:"tasks"`
	Median time.Duration         `json:"median_ns"` // from the first request for places until the outcome came
	Worst  time.Duration         `json:"worst_ns"`
	Excess time.Duration         `json:"excess_ns"` // sum over tasks of the time beyond twice the median of all tasks
	Phases [Phases]time.Duration `json:"phases_ns"` // of the tasks with such time, together
}

// SetAttempts packs attempts into r, and finds the worker to blame. names maps numbers of workers to names. r.Workers
// must be set before.
func (r *Recording) SetAttempts(attempts []Attempt, names map[uint32]string) {
	t := NewTrace(attempts, nil, names)
	r.Names, r.Attempts = t.Workers, t.packed
	r.Suspects = findSuspects(r.Workers, attempts, names)
	if len(r.Suspects) > 0 && r.Suspects[0].Excess > 0 {
		first := &r.Suspects[0]
		worst := Link
		for m := Link; m <= Delivery; m++ { // not Sampling, which ends before the worker is asked
			if first.Phases[m] > first.Phases[worst] {
				worst = m
			}
		}
		r.Slowest, r.Phase = first.Name, worst.String()
	}
}

// findSuspects lists the workers with tasks, the largest Excess first.
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
	slices.SortStableFunc(list,
		func(a, b Suspect) int { return cmp.Or(cmp.Compare(b.Excess, a.Excess), cmp.Compare(a.Name, b.Name)) })
	return list
}
