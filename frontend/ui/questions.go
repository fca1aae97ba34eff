package ui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// lengths are the lengths of the windows at frontends.
var lengths = [...]time.Duration{time.Second, 10 * time.Second, 5 * time.Minute}

const (
	maxSlowest   = 64              // slowest jobs in an answer
	repeatedTime = 4 * time.Second // time of windows repeated in each frame, because the last were incomplete
	answerFresh  = time.Second     // how long an answer is repeated to all viewers
)

// watchCache is the latest answer about windows of a length, for all viewers.
type watchCache struct {
	mu   sync.Mutex
	at   time.Time
	text json.RawMessage
}

// answerWatch answers with all windows of a length.
func (p *Page) answerWatch(ctx context.Context, r *http.Request) (any, error) {
	seconds, err := parseNumber(r, "window", maxSeconds)
	i := slices.Index(lengths[:], time.Duration(seconds)*time.Second)
	if err != nil || i < 0 {
		return nil, badRequest{fmt.Errorf("window=%q: want 1, 10 or 300 seconds", r.FormValue("window"))}
	}
	w := &p.watchCaches[i]
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.at) < answerFresh {
		return w.text, nil
	}
	watched, err := p.fleet.Watch(ctx, lengths[i], time.Time{}, maxSlowest)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(watchJSON(watched))
	if err == nil {
		w.at, w.text = time.Now(), text
	}
	return w.text, err
}

// seriesJSON is an admin.Series with packed histograms.
type seriesJSON struct {
	Path, Policy, Tenant string
	Histograms           []byte
}

// functionJSON is an admin.FunctionSeries with packed histograms.
type functionJSON struct {
	Function   string
	Histograms []byte
}

type windowJSON struct {
	admin.Window
	Series    []seriesJSON
	Functions []functionJSON
}

type frontendJSON struct {
	admin.FrontendReport
	RoundTrips []byte // packed
}

type watchedJSON struct {
	Windows   []windowJSON
	Slowest   []client.JobSummary
	Frontends []frontendJSON
	LeftOut   int
}

func watchJSON(w *admin.Watched) watchedJSON {
	to := watchedJSON{Windows: make([]windowJSON, len(w.Windows)), Slowest: w.Slowest,
		Frontends: frontendsJSON(w.Frontends), LeftOut: w.OmittedWindows}
	for i := range w.Windows {
		from := &w.Windows[i]
		list := make([]seriesJSON, len(from.Series))
		for k := range from.Series {
			s := &from.Series[k]
			list[k] = seriesJSON{s.Path, s.Policy, s.Tenant, s.Packed()}
		}
		functions := make([]functionJSON, len(from.Functions))
		for k := range from.Functions {
			functions[k] = functionJSON{from.Functions[k].Function, from.Functions[k].Packed()}
		}
		to.Windows[i] = windowJSON{*from, list, functions}
	}
	return to
}

func frontendsJSON(list []admin.FrontendReport) []frontendJSON {
	to := make([]frontendJSON, len(list))
	for i := range list {
		to[i] = frontendJSON{list[i], list[i].RoundTrips.Append(nil)}
	}
	return to
}

// fleetJSON holds all workers in the view of a frontend: two bytes for each worker, in the order of the list.
type fleetJSON struct {
	List     string // number of the list: changes when the names do
	Frontend string
	Levels   []byte
	// A bit for each worker, lowest bits first: the worker's wait is too old for frontends to trust.
	Stale []byte
}

// frameJSON is the frame that is sent each second.
type frameJSON struct {
	At    time.Time
	Watch *watchedJSON `json:",omitempty"`
	Fleet *fleetJSON   `json:",omitempty"`
	Error string       `json:",omitempty"`
}

// composeFrame makes a frame. Only one goroutine at a time calls it.
func (p *Page) composeFrame(ctx context.Context) []byte {
	f := frameJSON{At: time.Now()}
	if err := p.fillFrame(ctx, &f); err != nil {
		f.Error = err.Error()
	}
	text, err := json.Marshal(&f)
	if err != nil { // the clock of a frontend is past the year 9999
		text, _ = json.Marshal(&frameJSON{At: f.At, Error: err.Error()})
	}
	return text
}

// fillFrame fills a frame with the latest windows and levels.
func (p *Page) fillFrame(ctx context.Context, f *frameJSON) error {
	watched, err := p.fleet.Watch(ctx, lengths[0], f.At.Add(p.clockAhead-repeatedTime), 0)
	if err != nil {
		return err
	}
	if len(watched.Frontends) > 0 && watched.Frontends[0].Clock.Unix() > 0 {
		p.clockAhead = time.Until(watched.Frontends[0].Clock)
	}
	w := watchJSON(watched)
	for i := range w.Windows {
		w.Windows[i].foldSeries(maxSeriesBytes / len(w.Windows))
		w.Windows[i].foldFunctions(maxFunctionsBytes / len(w.Windows))
	}
	f.Watch = &w
	frontend := pickShownFrontend(watched.Frontends)
	figures, err := p.fleet.Figures(ctx, frontend, p.knownList)
	if err != nil {
		return err
	}
	p.knownList = figures.List
	f.Fleet = &fleetJSON{strconv.FormatInt(figures.List, 10), frontend, packLevels(figures.Workers),
		packStale(figures.Workers)}
	return nil
}

// maxSeriesBytes bounds the series of a frame, about, and maxFunctionsBytes the functions.
const (
	maxSeriesBytes    = 36 << 10
	maxFunctionsBytes = 12 << 10
)

// otherSeries is the name of series that are summed up.
const otherSeries = "other"

// foldSeries sums up the last series of a window, so that all series take about most bytes. The page asks for all
// series later.
func (w *windowJSON) foldSeries(most int) {
	size := 0
	for i := range w.Series {
		s := &w.Series[i]
		if size += len(s.Path) + len(s.Policy) + len(s.Tenant) + len(s.Histograms); size <= most {
			continue
		}
		rest := make([][]byte, 0, len(w.Series)-i)
		for _, s := range w.Series[i:] {
			rest = append(rest, s.Histograms)
		}
		*s = seriesJSON{otherSeries, otherSeries, otherSeries, sumPacked(rest)}
		w.Series = w.Series[:i+1]
		return
	}
}

// foldFunctions sums up the last functions of a window, as foldSeries does with series.
func (w *windowJSON) foldFunctions(most int) {
	size := 0
	for i := range w.Functions {
		f := &w.Functions[i]
		if size += len(f.Function) + len(f.Histograms); size <= most {
			continue
		}
		rest := make([][]byte, 0, len(w.Functions)-i)
		for _, f := range w.Functions[i:] {
			rest = append(rest, f.Histograms)
		}
		*f = functionJSON{otherSeries, sumPacked(rest)}
		w.Functions = w.Functions[:i+1]
		return
	}
}

// sumPacked sums up packed histograms.
func sumPacked(list [][]byte) (packed []byte) {
	var sum admin.Histograms
	for _, b := range list {
		for m := range sum {
			b, _ = sum[m].MergeFrom(b) // checked on arrival
		}
	}
	for m := range sum {
		packed = sum[m].Append(packed)
	}
	return packed
}

// pickShownFrontend picks the frontend whose view of the fleet is shown: of the frontends that answer, the first by
// name.
func pickShownFrontend(frontends []admin.FrontendReport) string {
	name := ""
	for _, f := range frontends {
		if f.Err == "" && (name == "" || f.Name < name) {
			name = f.Name
		}
	}
	return name
}

// unknownLevel is the level of an unknown value, and of the CPU use of a worker that is not up.
const unknownLevel = 15

// packLevels packs four levels from 0 to 14 for each worker into 2 bytes: expected wait, used share of CPU, round
// trip, silence. The page knows the same steps.
func packLevels(workers []admin.Figure) []byte {
	b := make([]byte, 0, 2*len(workers))
	for i := range workers {
		w := &workers[i]
		busy := byte((int(w.CPU)*14 + 127) / 255)
		if w.State != stateUp {
			busy = unknownLevel
		}
		b = append(b, levelOf(w.Wait, waitFrom, waitStep)<<4|busy,
			levelOf(w.RoundTrip, tripFrom, levelStep)<<4|levelOf(w.Silence, silenceFrom, levelStep))
	}
	return b
}

// waitTrustedFor is the age up to which frontends trust a wait.
const waitTrustedFor = 2 * time.Second

func packStale(workers []admin.Figure) []byte {
	b := make([]byte, (len(workers)+7)/8)
	for i := range workers {
		if admin.FigureValue(workers[i].WaitAge) > float64(waitTrustedFor.Microseconds()) {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// A level is a step of a figure's logarithm (see admin.FigureValue). Level 1 begins at 128 us of wait, 16 us of a
// round trip and 8 ms of silence. Each level begins at 2 times the level before; of a wait, at 2.8 times.
const (
	stateUp                         = 1 // admin.Figure.State of a worker that is up
	waitFrom, tripFrom, silenceFrom = 56, 32, 104
	waitStep, levelStep             = 12, 8
)

func levelOf(logarithm uint8, from, step int) byte {
	switch n := int(logarithm); {
	case n == 255:
		return unknownLevel
	case n < from:
		return 0
	default:
		return byte(min(1+(n-from)/step, unknownLevel-1))
	}
}

// namesJSON holds the workers behind the levels of a frame.
type namesJSON struct {
	List      string
	Names     []string
	Addresses []string
	Racks     []string
	Hosts     []string
	Levels    []byte
}

// answerFleet answers with the names and addresses of all workers, in the view of the frames' frontend.
func (p *Page) answerFleet(ctx context.Context, r *http.Request) (any, error) {
	f, err := p.fleet.Figures(ctx, r.FormValue("frontend"), 0)
	if err != nil {
		return nil, err
	}
	return namesJSON{strconv.FormatInt(f.List, 10), f.Names, f.Addresses, f.Racks, f.Hosts, packLevels(f.Workers)}, nil
}

// historyJSON holds what a frontend remembers of the workers.
type historyJSON struct {
	At        []int64  // of the samples, oldest first, in milliseconds by the clock of frames
	Addresses []string // of the rows; empty: with very many workers the rows are percents of them
	Levels    []byte   // for each sample, levels as in a frame, a row after the other
	Gone      []admin.GoneWorker
}

// answerHistory answers with the samples of all workers, in the view of the frames' frontend.
func (p *Page) answerHistory(ctx context.Context, r *http.Request) (any, error) {
	h, err := p.fleet.FleetHistory(ctx, r.FormValue("frontend"))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	to := historyJSON{At: make([]int64, len(h.At)), Addresses: h.Addresses, Gone: h.Gone}
	column := make([]admin.Figure, len(h.Samples))
	for i, at := range h.At {
		to.At[i] = now.Add(-h.Clock.Sub(at)).UnixMilli()
		for k := range column {
			column[k] = h.Samples[k][i]
		}
		to.Levels = append(to.Levels, packLevels(column)...)
	}
	return to, nil
}

// perPage is the number of workers or jobs on a page.
const perPage = 200

// answerWorkers answers with a page of workers.
func (p *Page) answerWorkers(ctx context.Context, r *http.Request) (any, error) {
	return p.fleet.ClusterPage(ctx,
		admin.ClusterQuery{Frontend: r.FormValue("frontend"), After: r.FormValue("after"), Max: perPage})
}

// seenJSON is a worker in the view of a frontend.
type seenJSON struct {
	Frontend string
	Worker   *admin.Worker `json:",omitempty"` // absent: unknown to the frontend
	Error    string        `json:",omitempty"`
}

// maxAsked bounds the frontends asked about a worker.
const maxAsked = 32

// answerWorker answers with each frontend's view of a worker.
func (p *Page) answerWorker(ctx context.Context, r *http.Request) (any, error) {
	watched, err := p.fleet.Watch(ctx, lengths[0], time.Now().Add(-repeatedTime), 0)
	if err != nil {
		return nil, err
	}
	name := r.FormValue("name") // here, because a request is no object for several goroutines
	list := make([]seenJSON, min(len(watched.Frontends), maxAsked))
	var wg sync.WaitGroup
	for i := range list {
		f := &watched.Frontends[i]
		list[i] = seenJSON{Frontend: f.Name, Error: f.Err}
		if f.Err != "" {
			continue
		}
		wg.Go(func() {
			c, err := p.fleet.ClusterPage(ctx, admin.ClusterQuery{Frontend: f.Name, Worker: name})
			switch {
			case err != nil:
				list[i].Error = err.Error()
			case len(c.Workers) > 0:
				list[i].Worker = &c.Workers[0]
			}
		})
	}
	wg.Wait()
	slices.SortFunc(list, func(a, b seenJSON) int { return cmp.Compare(a.Frontend, b.Frontend) })
	return list, nil
}

// pageJSON is an admin.JobPage.
type pageJSON struct {
	Jobs      []client.JobSummary
	Next      string
	Frontends []frontendJSON
}

// answerJobs answers with a page of jobs.
func (p *Page) answerJobs(ctx context.Context, r *http.Request) (any, error) {
	f := admin.JobFilter{
		Policy: r.FormValue("policy"), Failed: r.FormValue("failed") != "", Running: r.FormValue("running") != "",
		ID: r.FormValue("id"), Frontend: r.FormValue("frontend"),
	}
	if r.Form.Has("tenant") {
		tenant := r.FormValue("tenant")
		f.Tenant = &tenant
	}
	for _, x := range []struct {
		name string
		set  func(ms int64)
	}{
		{"slower", func(ms int64) { f.SlowerThan = time.Duration(ms) * time.Millisecond }},
		{"from", func(ms int64) { f.From = time.UnixMilli(ms) }},
		{"until", func(ms int64) { f.Until = time.UnixMilli(ms) }},
	} {
		n, err := parseNumber(r, x.name, maxMillis)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			x.set(n)
		}
	}
	page, err := p.fleet.Jobs(ctx, f, r.FormValue("cursor"), perPage)
	if err != nil {
		return nil, err
	}
	return pageJSON{page.Jobs, page.Next, frontendsJSON(page.Frontends)}, nil
}

// traceJSON is an admin.Trace, with the fields in listColumns for each task.
type traceJSON struct {
	Job       client.JobSummary
	Stages    []client.Stage
	Frontend  string
	Total     int
	Next      int // position to go on with; 0: there are no more tasks
	Workers   []string
	Words     []string // for path, binding and outcome
	Columns   []string
	Tasks     []json.RawMessage // for each column, the values of all tasks
	Earlier   []earlierJSON     `json:",omitempty"`
	UnderWay  []underWayJSON    `json:",omitempty"` // of a running job; only the first page has them
	Frontends []frontendJSON
}

// underWayJSON is an attempt that has not ended. Moments are in microseconds since the job's arrival.
type underWayJSON struct {
	Task, Stage, Tries   int
	Worker, Bound, State string
	Sent, Started        int64
	Sampled, CPU         int64 `json:",omitempty"` // of a process: run time at the sample, and CPU time
	MemoryMiB            int   `json:",omitempty"`
}

// earlierJSON is an attempt that did not give its task an outcome. Moments are in microseconds since the job's
// arrival.
type earlierJSON struct {
	At                   int   // position of the task in Tasks
	Worker               int64 // position in Workers
	Bound, End           string
	Sent, Started, Ended int64
}

// maxTasks bounds the tasks in an answer.
const maxTasks = 20_000

// answerTrace answers with tasks of a job.
func (p *Page) answerTrace(ctx context.Context, r *http.Request) (any, error) {
	from, err := parseNumber(r, "from", math.MaxInt32)
	if err != nil {
		return nil, err
	}
	t, err := p.fleet.Trace(ctx, r.FormValue("job"), int(from), maxTasks)
	if err != nil {
		return nil, err
	}
	to := traceJSON{Job: t.Job, Stages: t.Stages, Frontend: t.Frontend, Total: t.Total, Next: t.Next(),
		Frontends: frontendsJSON(t.Frontends)}
	workers, words := textNumbers{}, textNumbers{}
	for _, c := range listColumns(&workers, &words) {
		list := []byte{'['}
		for i := range t.Tasks {
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendInt(list, c.value(&t.Tasks[i]), 10)
		}
		to.Columns, to.Tasks = append(to.Columns, c.name), append(to.Tasks, append(list, ']'))
	}
	for i := range t.Tasks {
		for _, e := range t.Tasks[i].Earlier {
			to.Earlier = append(to.Earlier, earlierJSON{
				i, workers.numberOf(e.Worker), e.Binding, e.End, e.Sent.Microseconds(), e.Started.Microseconds(),
				e.Ended.Microseconds(),
			})
		}
	}
	for _, a := range t.UnderWay {
		to.UnderWay = append(to.UnderWay, underWayJSON{
			a.Task, a.Stage, a.Tries, a.Worker, a.Binding, a.State, a.Sent.Microseconds(), a.Started.Microseconds(),
			a.SampledAt.Microseconds(), a.CPU.Microseconds(), a.MemoryMiB,
		})
	}
	to.Workers, to.Words = workers.list, words.list
	return to, nil
}

// textNumbers numbers texts from 0 on.
type textNumbers struct {
	list   []string
	byText map[string]int64
}

// numberOf returns the number of a text.
func (n *textNumbers) numberOf(text string) int64 {
	i, known := n.byText[text]
	if !known {
		if n.byText == nil {
			n.byText = map[string]int64{}
		}
		i = int64(len(n.list))
		n.list, n.byText[text] = append(n.list, text), i
	}
	return i
}

// column is a field of all tasks.
type column struct {
	name  string
	value func(*client.TaskTrace) int64
}

// listColumns returns the fields that the page knows. Durations are in microseconds.
func listColumns(workers, words *textNumbers) []column {
	d := func(name string, value func(*client.TaskTrace) time.Duration) column {
		return column{name, func(t *client.TaskTrace) int64 { return value(t).Microseconds() }}
	}
	list := []column{
		{"task", func(t *client.TaskTrace) int64 { return int64(t.Task) }},
		{"stage", func(t *client.TaskTrace) int64 { return int64(t.Stage) }},
		{"worker", func(t *client.TaskTrace) int64 { return workers.numberOf(t.Worker) }},
		{"tries", func(t *client.TaskTrace) int64 { return int64(t.Tries) }},
		{"path", func(t *client.TaskTrace) int64 { return words.numberOf(t.Path) }},
		{"bound", func(t *client.TaskTrace) int64 { return words.numberOf(t.Binding) }},
		{"outcome", func(t *client.TaskTrace) int64 { return words.numberOf(t.Outcome) }},
		d("released", func(t *client.TaskTrace) time.Duration { return t.Released }),
		d("again", func(t *client.TaskTrace) time.Duration { return t.Again }),
		d("held", func(t *client.TaskTrace) time.Duration { return t.Held }),
		{"known", func(t *client.TaskTrace) int64 {
			if t.Known {
				return 1
			}
			return 0
		}},
		d("fetched", func(t *client.TaskTrace) time.Duration { return t.Fetched }),
		d("expected", func(t *client.TaskTrace) time.Duration { return t.Expected }),
		d("promised", func(t *client.TaskTrace) time.Duration { return t.ExpectedWait }),
		d("waited", func(t *client.TaskTrace) time.Duration { return t.Waited }),
		d("ownTenant", func(t *client.TaskTrace) time.Duration { return t.Waits.OwnTenant }),
		d("otherTenants", func(t *client.TaskTrace) time.Duration { return t.Waits.OtherTenants }),
		d("longTasks", func(t *client.TaskTrace) time.Duration { return t.Waits.LongTasks }),
		d("closedShare", func(t *client.TaskTrace) time.Duration { return t.Waits.ClosedShare }),
		d("idleSlot", func(t *client.TaskTrace) time.Duration { return t.Waits.IdleSlot }),
	}
	for m := client.MeasureSampling; m <= client.MeasureDelivery; m++ {
		list = append(list, d(m.String(), func(t *client.TaskTrace) time.Duration { return t.Ends[m] }))
	}
	return list
}

// answerExplain answers with the decisions on a task.
func (p *Page) answerExplain(ctx context.Context, r *http.Request) (any, error) {
	task, err := parseNumber(r, "task", math.MaxInt32)
	if err != nil {
		return nil, err
	}
	return p.fleet.Explain(ctx, jobHandle(r), int(task))
}

// recordedJSON lists the recordings of all frontends.
type recordedJSON struct {
	Recordings []admin.Recording
	Frontends  []frontendJSON
}

// answerRecordings answers with the list of recordings.
func (p *Page) answerRecordings(ctx context.Context, _ *http.Request) (any, error) {
	list, frontends, err := p.fleet.Recordings(ctx)
	if err != nil {
		return nil, err
	}
	return recordedJSON{list, frontendsJSON(frontends)}, nil
}

// recordingTimeout bounds the time to fetch a recording.
const recordingTimeout = time.Minute

// serveRecording answers with the file of a recording. The page unpacks the file, like a file saved by a viewer.
func (p *Page) serveRecording(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), recordingTimeout)
	defer cancel()
	var file bytes.Buffer // so that an error is reported before the first byte; it takes some MB
	if err := p.askInTurn(ctx,
		func() error {
			return p.fleet.Recording(ctx, r.PathValue("frontend"), r.PathValue("name"),
				&file)
		}); err != nil {
		sendError(w, statusOf(err), err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Disposition", "attachment") // under the name in the address
	sendBody(w, r, "application/gzip", file.Bytes(), nil)
}

// cancelJob cancels a job.
func (p *Page) cancelJob(ctx context.Context, r *http.Request) (any, error) {
	n, err := p.fleet.Cancel(ctx, jobHandle(r), "cancelled on the web page")
	return map[string]int{"Cancelled": n}, err
}

// drainWorker has a worker leave at once.
func (p *Page) drainWorker(ctx context.Context, r *http.Request) (any, error) {
	return struct{}{}, p.fleet.Drain(ctx, r.FormValue("worker"))
}

// announceMaintenance has a worker announce an absence. for=0 withdraws the announcement.
func (p *Page) announceMaintenance(ctx context.Context, r *http.Request) (any, error) {
	in, err := parseNumber(r, "in", maxSeconds)
	if err != nil {
		return nil, err
	}
	lasts, err := parseNumber(r, "for", maxSeconds)
	if err != nil {
		return nil, err
	}
	return struct{}{}, p.fleet.Maintenance(ctx, r.FormValue("worker"), time.Duration(in)*time.Second,
		time.Duration(lasts)*time.Second)
}

func jobHandle(r *http.Request) client.Handle {
	return client.Handle{Job: r.FormValue("job"), Owner: r.FormValue("owner")}
}

// Bounds of times in parameters. Frontends refuse much less.
const (
	maxSeconds = 1 << 31
	maxMillis  = int64(math.MaxInt64 / time.Millisecond)
)

// parseNumber returns a parameter that is a whole number from 0 to most, or 0 if it is not given.
func parseNumber(r *http.Request, name string, most int64) (int64, error) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, badRequest{fmt.Errorf("%s=%q: want a whole number from 0 to %d", name, text, most)}
	}
	return n, nil
}
