package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/histogram"
	"github.com/phoebe-sched/phoebe/probe/whole"
)

// SLO is an objective: of a policy's jobs that end within Window, the given Share has a response of at most Most.
type SLO struct {
	Policy string // "": all policies
	Share  float64
	Most   time.Duration
	Window time.Duration
}

// ParseSLO reads an objective such as policy=phoebe,p99=50ms,window=10s.
func ParseSLO(text string) (o SLO, err error) {
	o.Window = 10 * time.Second
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		share, isShare := strings.CutPrefix(name, "p")
		switch {
		case name == "policy":
			_, err = frontend.ParsePolicy(value)
			o.Policy = value
		case name == "window":
			o.Window, err = time.ParseDuration(value)
		case isShare:
			if o.Share, err = strconv.ParseFloat("0."+strings.Replace(share, ".", "", 1), 64); err == nil {
				o.Most, err = time.ParseDuration(value)
			}
		default:
			err = fmt.Errorf("%q is unknown", name)
		}
		if err != nil {
			return SLO{}, fmt.Errorf("objective %q: %w: write policy=phoebe,p99=50ms,window=10s", text, err)
		}
	}
	if !(o.Share > 0 && o.Share < 1) || o.Most <= 0 || o.Window < time.Second || o.Window > time.Minute {
		return SLO{}, fmt.Errorf(
			"objective %q: want a percentile from p1 to p999 with a time above 0, and a window from 1s to 1m: write "+
				"policy=phoebe,p99=50ms,window=10s", text)
	}
	return o, nil
}

// String returns the text that ParseSLO reads.
func (o SLO) String() string {
	text := "p" + strings.TrimPrefix(strconv.FormatFloat(o.Share, 'f', -1, 64), "0.") + "=" + o.Most.String() +
		",window=" + o.Window.String()
	if o.Policy != "" {
		text = "policy=" + o.Policy + "," + text
	}
	return text
}

// Bounds of the recordings in a folder: number and bytes.
const (
	maxRecordings     = 10
	maxRecordingBytes = 256 << 20
)

// recordedAround is the recorded time before and after the moment.
const recordedAround = 5 * time.Second

// flightRecorder watches objectives, and records what happened around the moment when an objective is broken. A
// flightRecorder belongs to the goroutine of checkObjectives.
type flightRecorder struct {
	attemptMarks []attemptMark // of the last seconds
	quietUntil   time.Time
}

// attemptMark is the number of attempts remembered until a moment.
type attemptMark struct {
	at time.Time
	n  uint64
}

// checkObjectives looks, once a second, whether an objective is broken. If so, it starts a recording.
func (s *Server) checkObjectives(f *flightRecorder, now time.Time) {
	if s.cfg.RecordDir == "" {
		return
	}
	s.mu.Lock()
	n := s.recorder.attempts.Count()
	s.mu.Unlock()
	f.attemptMarks = append(f.attemptMarks[max(len(f.attemptMarks)-int(recordedAround/time.Second), 0):],
		attemptMark{now, n})
	if now.Before(f.quietUntil) {
		return
	}
	for _, o := range s.cfg.SLOs {
		if observed := s.observedResponse(o, now); observed > o.Most {
			f.quietUntil = now.Add(o.Window + 2*recordedAround) // until the recording and its window are over
			from := f.attemptMarks[0].n
			s.log.Warn("an objective is broken: recording what happens", "objective", o.String(), "observed_ms",
				observed.Milliseconds())
			s.goroutines.Go(func() { s.recordFlight(o, observed, now, from) })
			return
		}
	}
}

// observedResponse returns the response at the objective's share, over its window.
func (s *Server) observedResponse(o SLO, now time.Time) time.Duration {
	r := &s.recorder
	r.mu.Lock()
	windows := r.history.Windows(time.Second, now.Add(-o.Window))
	r.mu.Unlock()
	var sum histogram.Histogram
	for i := range windows {
		for k := range windows[i].Series {
			if p := &windows[i].Series[k]; o.Policy == "" || p.Policy == o.Policy {
				p.Add(rec.Response, &sum)
			}
		}
	}
	return sum.Quantile(o.Share)
}

// recordFlight waits until the time after the moment is over, too, and writes the recording to a file.
func (s *Server) recordFlight(o SLO, observed time.Duration, at time.Time, from uint64) {
	x := &rec.Recording{
		Summary: rec.Summary{Format: rec.RecordingFormat, Frontend: s.cfg.Name, Version: s.cfg.Version, At: at,
			Broken: o.String(), Observed: observed}}
	x.Workers = s.describeWorkers()
	end := time.NewTimer(recordedAround)
	defer end.Stop()
	x.Profile = s.cpuProfile()
	select {
	case <-end.C:
	case <-s.ctx.Done(): // an incomplete recording is better than none
	}
	attempts, lost := s.copyAttempts(from)
	x.Lost = lost
	x.SetAttempts(attempts, s.namesOf(attempts))
	s.recorder.mu.Lock()
	windows := s.recorder.history.Windows(time.Second, at.Add(-recordedAround))
	s.recorder.mu.Unlock()
	for _, w := range windows {
		x.Windows = append(x.Windows, rec.RecordedWindow{At: w.At, Tally: w.Tally})
	}
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	for i, end := range gc.PauseEnd {
		if end.After(at.Add(-recordedAround)) {
			x.GC = append(x.GC, rec.Pause{End: end, Took: gc.Pause[i]})
		}
	}
	name, removed, err := writeRecording(s.cfg.RecordDir, x)
	counts := &s.recorder.recordings
	counts.lost.Add(int64(lost))
	counts.removed.Add(int64(removed))
	if name != "" {
		counts.written.Add(1)
	} else {
		counts.failed.Add(1)
	}
	if err != nil {
		s.log.Error("the recording of a broken objective cannot be written", "err", err)
		return
	}
	s.log.Warn("a broken objective is recorded: open the file with phoebe record open", "file", name)
}

// cpuProfile profiles the CPU for a second. It returns nothing if another profile is under way.
func (s *Server) cpuProfile() []byte {
	var b bytes.Buffer
	if pprof.StartCPUProfile(&b) != nil {
		return nil
	}
	second := time.NewTimer(time.Second)
	defer second.Stop()
	select {
	case <-second.C:
	case <-s.ctx.Done():
	}
	pprof.StopCPUProfile()
	return b.Bytes()
}

// namesOf returns the names of the workers of attempts, by number.
func (s *Server) namesOf(attempts []rec.Attempt) map[uint32]string {
	names := map[uint32]string{}
	for i := range attempts {
		names[attempts[i].Worker] = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for number := range names {
		if name, known := s.recorder.workerNames.Name(number); known {
			names[number] = name
		} else {
			delete(names, number)
		}
	}
	return names
}

// describeWorkers returns the frontend's view of all workers.
func (s *Server) describeWorkers() (list []rec.RecordedWorker) {
	s.lookAtWorkers(s.allLinks(), func(l *link, st *frontend.WorkerStatus) {
		up, problem, heard, rtt := l.linkStatus()
		w := rec.RecordedWorker{Address: l.addr, Name: l.addr, State: workerState(up, st), Problem: problem,
			RoundTrip: rtt, Silence: heard, Wait: -1}
		if st != nil {
			w.Name, w.Queued, w.Running = st.Welcome.Worker, int(st.Load.Queued), int(st.Load.Running)
			if m := st.View.Matrix; m != nil && m.Cells[figureStep][figureStep] != probe.NeverFits {
				w.Wait = m.Cells[figureStep][figureStep].Duration()
			}
		}
		list = append(list, w)
	})
	return list
}

// copyAttempts copies the attempts after number from. lost counts attempts that are forgotten already.
func (s *Server) copyAttempts(from uint64) (list []rec.Attempt, lost int) {
	part := make([]rec.Attempt, attemptsPerLock)
	for {
		s.mu.Lock()
		n, skipped := s.recorder.attempts.Copy(part, from)
		s.mu.Unlock()
		list = append(list, part[:n]...)
		from, lost = from+uint64(skipped+n), lost+skipped
		if n < len(part) {
			return list, lost
		}
	}
}

// writeRecording writes a recording into a folder, and then trims the folder. An empty name says that no file was
// written. A name with an error says that the folder could not be trimmed.
func writeRecording(dir string, x *rec.Recording) (name string, removed int, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", 0, err
	}
	if err := removeUnfinished(dir); err != nil { // first: such files may fill the disk
		return "", 0, err
	}
	safe := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' {
			return r
		}
		return '_'
	}, x.Frontend)
	name = filepath.Join(dir,
		"recording-"+x.At.UTC().Format("20060102T150405.000")+"-"+safe[:min(len(safe), 64)]+".json.gz")
	if err := whole.Write(name, 0o600, x.Write); err != nil {
		return "", 0, err
	}
	removed, err = trimRecordings(dir)
	return name, removed, err
}

// abandonedAfter is the time after which a file is removed whose content is incomplete. Such a file stays if the
// frontend dies.
const abandonedAfter = 10 * time.Minute

// removeUnfinished removes the unfinished recordings of dead frontends.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && whole.IsUnfinished(e.Name()) &&
			time.Since(info.ModTime()) > abandonedAfter {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

// trimRecordings removes the oldest recordings beyond the bounds from a folder, and returns their number.
func trimRecordings(dir string) (removed int, err error) {
	files, err := recordingFiles(dir)
	if err != nil {
		return 0, err
	}
	bytes := int64(0)
	for i := len(files) - 1; i >= 0; i-- {
		info, err := os.Stat(files[i])
		if err != nil {
			continue // a peer removes recordings from the folder, too
		}
		if bytes += info.Size(); len(files)-i > maxRecordings || bytes > maxRecordingBytes {
			if err := os.Remove(files[i]); err == nil {
				removed++
			} else if !errors.Is(err, fs.ErrNotExist) { // otherwise a peer was faster
				return removed, err
			}
		}
	}
	return removed, nil
}

// recordingFiles lists the recordings of a folder in the order of their times.
func recordingFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // not filepath.Glob: the folder's name may have characters of patterns
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "recording-") && strings.HasSuffix(e.Name(), ".json.gz") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}
