package serve

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudwego/kitex/client/callopt"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// maxWindowsBytes bounds the windows in an answer to Watch. The oldest windows are left out.
const maxWindowsBytes = 4 << 20

// maxSlowest bounds the slowest jobs in an answer.
const maxSlowest = 64

// Watch implements the API.
func (h *handler) Watch(ctx context.Context, req *v1.WatchRequest) (*v1.WatchResponse, error) {
	if tenant, isBound := h.boundTenant(ctx, req.Caller); isBound {
		refused := newRefused(v1.RefusedReason_FORBIDDEN,
			"only operators may watch all tenants: you are known as a client of %q", tenant)
		h.auditCall(ctx, req.Caller, "watch", "", "", refused)
		return nil, refused
	}
	end, err := h.beginLook()
	if err != nil {
		return nil, err
	}
	defer end()
	answers := askAllPeers(ctx, h, req.Caller,
		func(ctx context.Context, p *peer, within callopt.Option) (*v1.WatchResponse, error) {
			return p.client.Watch(ctx,
				&v1.WatchRequest{Caller: p.newCaller(ctx), WindowUs: req.WindowUs, SinceUs: req.SinceUs, Top: req.Top},
				within)
		})
	res := h.watchHere(req)
	windows := [][]*v1.Window{res.Windows}
	for _, a := range answers {
		res.Frontends = append(res.Frontends, a.peerReport((*v1.WatchResponse).GetFrontends))
		if a.res != nil {
			windows = append(windows, a.res.Windows)
			res.Slowest = append(res.Slowest, a.res.Slowest...)
			res.LeftOut = max(res.LeftOut, a.res.LeftOut)
		}
	}
	if len(windows) > 1 {
		res.Windows = mergeWindows(windows)
		slices.SortFunc(res.Slowest, compareResponses)
		res.Slowest = res.Slowest[:min(len(res.Slowest), maxTop(req.Top))]
	}
	size, first := 0, len(res.Windows)
	for first > 0 {
		if size += res.Windows[first-1].BLength(); size > maxWindowsBytes {
			break
		}
		first--
	}
	res.Windows = res.Windows[first:]
	res.LeftOut += int32(first)
	return res, nil
}

// watchHere answers from the frontend's own records.
func (h *handler) watchHere(req *v1.WatchRequest) *v1.WatchResponse {
	res := &v1.WatchResponse{Windows: []*v1.Window{}, Frontends: []*v1.Told{h.describeSelf()}}
	since := time.Time{}
	if req.SinceUs > 0 {
		since = time.UnixMicro(req.SinceUs)
	}
	h.collectJobs()
	r := &h.recorder
	r.mu.Lock()
	windows := r.history.Windows(fromMicros(req.WindowUs), since)
	r.mu.Unlock()
	for i := range windows {
		res.Windows = append(res.Windows, windowToAPI(&windows[i], 1))
	}
	if len(windows) == 0 {
		return res
	}
	if req.Top > 0 {
		var slowest []listing
		for _, k := range r.listKept() {
			if !k.Came.Before(windows[0].At) {
				slowest = append(slowest, listing{h.keptSummary(&k), k.ID, k})
			}
		}
		slices.SortFunc(slowest, func(a, b listing) int { return compareResponses(a.JobSummary, b.JobSummary) })
		res.Slowest = h.noteListed(slowest[:min(len(slowest), maxTop(req.Top))], time.Now())
	}
	return res
}

// maxTop bounds the number of slowest jobs that a caller asks for.
func maxTop(top int32) int { return int(min(max(top, 0), maxSlowest)) }

// compareResponses orders jobs by response, slowest first.
func compareResponses(a, b *v1.JobSummary) int {
	return cmp.Or(cmp.Compare(b.ResponseUs, a.ResponseUs), cmp.Compare(a.Job, b.Job))
}

// windowToAPI makes a window of the API. frontends is the number of frontends that the window counts.
func windowToAPI(w *rec.Window, frontends int32) *v1.Window {
	out := &v1.Window{
		AtUs: w.At.UnixMicro(), LengthUs: w.Length.Microseconds(), Accepted: int64(w.Accepted), Tasks: int64(w.Tasks),
		Failed:     int64(w.Failed),
		QueueAgeUs: w.Age.Microseconds(), TasksPending: int32(w.Pending), TasksRunning: int32(w.Running),
		Frontends: frontends,
		Series:    make([]*v1.Series, len(w.Series)), Refusals: []*v1.Refusals{},
	}
	for i := range w.Series {
		p := &w.Series[i]
		out.Series[i] = &v1.Series{Path: p.Path, Policy: p.Policy, Tenant: p.Tenant, Histograms: p.Data}
	}
	for i := range w.Functions {
		name, _ := w.Functions[i].Function()
		out.Functions = append(out.Functions, &v1.FunctionSeries{FunctionName: name, Histograms: w.Functions[i].Data})
	}
	if u := w.Uses.Means(); u.Samples > 0 {
		out.Capacity, out.TenantSlots, out.FunctionSlots = &u.Capacity, usesToAPI(u.Tenants), usesToAPI(u.Functions)
	}
	for reason, n := range w.Refused {
		if n > 0 {
			out.Refusals = append(out.Refusals, &v1.Refusals{Reason: v1.RefusedReason(reason), Times: int64(n)})
		}
	}
	return out
}

func usesToAPI(list []rec.SlotUse) []*v1.SlotUse {
	to := make([]*v1.SlotUse, len(list))
	for i, u := range list {
		to[i] = &v1.SlotUse{Name: u.Name, Slots: u.Slots}
	}
	return to
}

func usesFromAPI(list []*v1.SlotUse) []rec.SlotUse {
	to := make([]rec.SlotUse, len(list))
	for i, u := range list {
		to[i] = rec.SlotUse{Name: u.Name, Slots: u.Slots}
	}
	return to
}

// windowFromAPI makes a window from a peer's.
func windowFromAPI(w *v1.Window) rec.Window {
	in := rec.Window{
		At: time.UnixMicro(w.AtUs), Length: fromMicros(w.LengthUs), Series: make([]rec.Packed, len(w.Series)),
		Tally: rec.Tally{
			Accepted: uint64(w.Accepted), Tasks: uint64(w.Tasks), Failed: uint64(w.Failed),
			Age:     fromMicros(w.QueueAgeUs),
			Pending: int(w.TasksPending), Running: int(w.TasksRunning),
		},
	}
	for i, s := range w.Series {
		in.Series[i] = rec.Packed{Key: rec.Key{Path: s.Path, Policy: s.Policy, Tenant: s.Tenant}, Data: s.Histograms}
	}
	if w.IsSetCapacity() {
		in.Uses = rec.NewUses(*w.Capacity, usesFromAPI(w.TenantSlots), usesFromAPI(w.FunctionSlots))
	}
	for _, f := range w.Functions {
		in.Functions = append(in.Functions, rec.Packed{Key: rec.FunctionKey(f.FunctionName), Data: f.Histograms})
	}
	for _, r := range w.Refusals {
		if r.Reason >= 0 && int(r.Reason) < len(in.Refused) {
			in.Refused[r.Reason] += uint64(r.Times)
		}
	}
	return in
}

// mergeWindows merges the windows of several frontends into one list.
func mergeWindows(lists [][]*v1.Window) []*v1.Window {
	byStart := map[int64][]*v1.Window{} // by start
	for _, list := range lists {
		for _, w := range list {
			// all frontends were asked for the same length
			if same := byStart[w.AtUs]; len(same) == 0 || same[0].LengthUs == w.LengthUs {
				byStart[w.AtUs] = append(same, w)
			}
		}
	}
	var all []*v1.Window
	for _, at := range slices.Sorted(maps.Keys(byStart)) {
		if len(byStart[at]) == 1 {
			all = append(all, byStart[at][0])
			continue
		}
		parts := make([]rec.Window, len(byStart[at]))
		pending, running := int32(0), int32(0)
		for i, w := range byStart[at] {
			parts[i] = windowFromAPI(w)
			pending, running = pending+w.TasksPending, running+w.TasksRunning
		}
		sum, _ := rec.Merge(parts) // unreadable series are missing, as if the peer had not answered
		w := windowToAPI(&sum, int32(len(parts)))
		w.TasksPending, w.TasksRunning = pending, running // sums, because the frontends have them at the same time
		all = append(all, w)
	}
	return all
}

// beginLook takes a slot for a call that looks at records, until end, or refuses the call.
func (h *handler) beginLook() (end func(), err error) {
	select {
	case h.recorder.lookSlots <- struct{}{}:
		return func() { <-h.recorder.lookSlots }, nil
	default:
		h.metrics.looksRefused.Inc()
		return nil, &v1.Refused{Reason: v1.RefusedReason_OVERLOADED,
			Message:      "too many calls look at the recorder at the same time: try again",
			RetryAfterUs: time.Second.Microseconds()}
	}
}

// describeSelf returns the frontend's report about itself.
func (h *handler) describeSelf() *v1.Told {
	now := time.Now()
	h.mu.Lock()
	pending, running := h.core.Pending()
	t := &v1.Told{
		Name: h.cfg.Name, Address: h.cfg.Advertise, Version: h.cfg.Version,
		UptimeUs: now.Sub(h.startedAt).Microseconds(), Draining: h.draining,
		Jobs: int32(h.core.Jobs()), TasksPending: int32(pending), TasksRunning: int32(running),
		ClockUs: now.UnixMicro(), SilenceUs: -1,
	}
	waits, runs, trips := h.core.Waits, h.core.Runs, h.recorder.roundTrips
	h.mu.Unlock()
	t.RoundTrips = trips.Append(nil)
	t.Estimates = []*v1.Estimates{accuracyToAPI("wait", &waits), accuracyToAPI("run", &runs)}
	t.Workers = int32(h.countWorkersUp())
	t.Warning = h.Warning()
	if h.fleet != nil {
		health := h.fleet.node.Health()
		t.CutOff, t.SilenceUs = health.CutOff, health.Silence.Microseconds()
	}
	h.recorder.mu.Lock()
	defer h.recorder.mu.Unlock()
	t.LostMeasurements, t.KeptJobs = int64(h.recorder.history.Lost()), int32(h.recorder.keptJobs.Len())
	t.LostJobs = int64(h.recorder.keptJobs.Lost())
	return t
}

// accuracyToAPI makes the counts of estimates for a quantity: "wait" or "run".
func accuracyToAPI(quantity string, a *estimate.Accuracy) *v1.Estimates {
	return &v1.Estimates{Of: quantity, Seen: int64(a.Seen), Good: int64(a.Good), Over: int64(a.TooHigh),
		ErrorUs: int64(min(a.Error*1e6, math.MaxInt64/2))}
}

// countWorkersUp counts the workers with a link.
func (s *Server) countWorkersUp() (n int) {
	for from, more := 0, true; more; from += workersPerLook {
		s.mu.Lock()
		to := min(from+workersPerLook, len(s.links))
		for _, l := range s.links[min(from, to):to] {
			if l != nil {
				if state, _, _ := s.core.Load(l.key); state == "up" {
					n++
				}
			}
		}
		more = to < len(s.links)
		s.mu.Unlock()
	}
	return n
}

// peerAnswer is a peer's answer, or the reason why there is none. If the peer does not know the job of the call, all
// fields but peer are empty.
type peerAnswer[R any] struct {
	peer    *peer
	res     *R
	refused *v1.Refused // the answer is a refusal, and err is its text
	err     string
}

// askTimeout bounds the time of peers to report records.
var askTimeout = time.Second

// maxError bounds the error text of a peer, in bytes.
const maxError = 300

// askAllPeers asks all peers at once. If a peer forwarded the call, no peer is asked. Peers that gossip has lost
// are not asked, and get an error.
func askAllPeers[R any](ctx context.Context, h *handler, caller *v1.Caller,
	call func(context.Context, *peer, callopt.Option) (*R, error)) []peerAnswer[R] {
	if isForwarded(caller) {
		return nil
	}
	var answers []peerAnswer[R]
	for p, why := range h.peers.listGone(time.Now()) {
		answers = append(answers, peerAnswer[R]{peer: p, err: why})
	}
	asked := h.peers.listPresent()
	replies := make([]peerAnswer[R], len(asked))
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, p := range asked {
		wg.Go(func() {
			a := &replies[i]
			a.peer = p
			res, err := callPeer(ctx, p, askTimeout, call)
			if err == nil {
				a.res = res
				return
			}
			if errors.As(err, &a.refused) && a.refused.Reason == v1.RefusedReason_UNKNOWN_JOB {
				a.refused = nil // "unknown" is an answer
			} else {
				a.err = errorText(err)
			}
		})
	}
	wg.Wait()
	answers = append(answers, replies...)
	slices.SortFunc(answers, func(a, b peerAnswer[R]) int { return cmp.Compare(a.peer.addr, b.peer.addr) })
	return answers
}

// errorText returns the useful part of a peer's error.
func errorText(err error) string {
	var refused *v1.Refused
	if errors.As(err, &refused) {
		err = errors.New(refused.Message)
	}
	text := err.Error()
	if len(text) > maxError {
		text = text[:maxError]
	}
	return strings.ToValidUTF8(text, "")
}

// peerReport returns the peer's report about itself from its answer, or a report with the error.
func (a *peerAnswer[R]) peerReport(reports func(*R) []*v1.Told) *v1.Told {
	if a.res != nil {
		if list := reports(a.res); len(list) > 0 {
			name := list[0].Name
			a.peer.name.Store(&name)
			return list[0]
		}
		a.err = "the answer lacks the frontend's name"
	}
	return &v1.Told{Name: a.peer.displayName(), Address: a.peer.addr, Error: a.err, SilenceUs: -1}
}

// displayName returns the peer's name for itself, or its address if the name is not known.
func (p *peer) displayName() string {
	if name := p.name.Load(); name != nil {
		return *name
	}
	return p.addr
}
