package worker

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
)

func TestMain(m *testing.M) {
	// By default a history has 30 steps, hardly enough for a link to fall silent. Flags on the command line win.
	for name, value := range map[string]string{"rapid.steps": "300", "rapid.checks": "500"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// maxDelay is the longest time that a message of a random history is under way. As probe.Sync demands, a Sync
// names only places and attempts at least as old.
const maxDelay = 500 * time.Millisecond

// TestHistories runs random histories of frontends, links and an executor against a core. The links lose, repeat
// and reorder messages. A rude frontend keeps no rule. After each step the core's state must be consistent. Each
// action must agree with the messages and actions before. At the end no place, attempt or room may be left over.
func TestHistories(t *testing.T) {
	seen := map[string]int{}
	// Some kinds are rare, and a round may miss a kind. Further rounds make up for the miss.
	for round := 0; round < 4 && !t.Failed() && len(missingKinds(seen)) > 0; round++ {
		rapid.Check(t, func(t *rapid.T) { runHistory(t, seen) })
	}
	if t.Failed() {
		return
	}
	for _, kind := range missingKinds(seen) {
		t.Errorf("%s never came up", kind)
	}
	t.Log(seen)
}

// missingKinds returns the events, messages and cases of historyKinds that no history has had.
func missingKinds(seen map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(historyKinds), func(kind string) bool { return seen[kind] > 0 })
}

// historyKinds are the events, messages and cases that random histories must have.
var historyKinds = []string{
	"LinkUp", "LinkDown", "Arrived", "Sent", "Exited", "Fetched", "Leave", "Wake",
	"Reserve", "Bind", "Decline", "Enqueue", "Cancel", "Kill", "Claim", "Ack", "Sync", "Ping", "Probe", "Hello",
	"Load", "Restamp",
	"Start", "Stop", "Drop", "Fetch", "Release",
	"sent Queued", "sent Started", "sent Ready", "sent Finished", "sent Refused", "sent Evicted", "sent Gone",
	"sent Load", "sent Drain", "sent Pong", "sent Claimed",
	"queue_full", "leaving", "too_big", "no_function", "expired", "unknown", "oversized", "moved", "late",
	"needs_files", "no_input",
	"fetch released", "fetched too late", "matrix", "backfilled", "early", "kept", "bundled", "rode",
	"orphaned", "claimed", "claimed too late", "guarded attempts claimed", "abandoned", "forgotten", "spare",
	"preempted",
	"told to an older frontend", "grew regular", "held", "full",
	"answer awaited for longer",
}

// runHistory runs a random history, and counts what the history has in seen.
func runHistory(t *rapid.T, seen map[string]int) {
	w := newWorld(t, seen)
	actions := []struct {
		name   string
		weight int
		do     func()
	}{
		{"reserve", 3, w.reserve}, {"enqueue", 2, w.enqueue}, {"answer", 8, w.answer}, {"cancel", 1, w.cancel},
		{"kill", 1, w.kill}, {"restamp", 1, w.restamp}, {"claim", 1, w.claim}, {"ack", 1, w.ack},
		{"sync", 1, w.sync}, {"rude", 2, w.sendRude},
		{"chat", 1, w.chat}, {"deliver", 20, w.deliver}, {"repeat", 1, w.repeat}, {"lose", 1, w.lose},
		{"hear", 14, w.hear}, {"sent", 8, w.reportSent}, {"arrived", 1, w.reportArrived},
		{"break", 1, w.breakLink}, {"connect", 1, w.connect},
		{"exit", 3, w.exit},
		{"fetched", 2, w.answerFetch},
		{"pass", 4, w.pass}, {"ahead", 4, w.passToWake}, {"long", 1, w.passLong}, {"leave", 1, w.leave},
	}
	var names []string
	do := map[string]func(){}
	for _, a := range actions {
		do[a.name] = a.do
		names = append(names, slices.Repeat([]string{a.name}, a.weight)...)
	}
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if err := w.core.Check(); err != nil {
				t.Fatal(err)
			}
		},
		"step": func(t *rapid.T) {
			w.t = t
			do[pick(w, "do", names...)]()
		},
	})
	w.t = t
	if rapid.Bool().Draw(t, "polite end") {
		w.answerAll()
	} else {
		w.cutAll()
	}
}

// world is everything that a core sees, and the core's messages so far.
type world struct {
	t    *rapid.T
	seen map[string]int
	core *Core
	now  time.Time

	fronts []*front
	wires  []*wire // links that are up at the worker
	nextID LinkID
	jobs   []probe.JobID

	free         room
	runs         map[probe.AttemptID]*run
	files        map[probe.AttemptID]bool // requested and not released: whether the files are there
	endings      map[probe.AttemptID]Exited
	deadPlaces   map[placeKey]probe.Reason    // places reported gone by the core
	asked        map[turnKey]bool             // turns announced by the core
	neverStart   map[probe.AttemptID]string   // attempts that must not start, and why
	started      map[probe.AttemptID]bool     // of frontends that keep the rules
	long         map[probe.AttemptID]bool     // long tasks
	rideAttempts map[placeKey]probe.AttemptID // tasks that came with their place
	owners       map[probe.AttemptID]LinkID   // as the core said

	claims   map[jobKey]jobClaim // last answered claims
	claiming *probe.Claim        // the Claim under way, or nil
	adopts   bool                // a Claim is under way, or a Sync, which repairs a lost Claim
	// startsLate is set while a task may start whatever waits: its turn began before, or the results come after.
	startsLate bool
	launched   map[probe.AttemptID]jobStay
	reserved   map[placeKey]jobStay
}

// jobStay is what a frontend says of a job with an attempt or a place.
type jobStay struct {
	generation probe.Generation
	tenant     string
	guarded    bool
}

// mayTake reports whether m may take an attempt or a place of the job.
func (s jobStay) mayTake(m *probe.Claim) bool {
	return m.HasTenant && m.Tenant == s.tenant || !m.HasTenant && !s.guarded
}

type jobClaim struct {
	frontend   probe.FrontendID
	generation probe.Generation
	at         time.Time
}

type placeKey struct {
	link LinkID
	res  probe.ResID
}

type turnKey struct {
	placeKey
	turn probe.Turn
}

// run is an attempt in the executor.
type run struct {
	id      probe.AttemptID
	needs   room
	stopped bool

	preempted bool
}

// front is a frontend. The rude frontend sends senseless messages (sendRude).
type front struct {
	id      probe.FrontendID
	rude    bool
	wire    *wire // nil: not connected
	nextRes probe.ResID
	nextSeq uint64

	places map[probe.ResID]bool // places that the frontend counts as live
	turns  []probe.Ready        // to be answered
	awaits map[probe.AttemptID]sent
	toAck  []probe.AttemptID
	lost   []probe.AttemptID // sent on links that broke

	generations map[probe.JobID]probe.Generation
}

// sent is the place and the time of a sent attempt.
type sent struct {
	res  probe.ResID
	turn probe.Turn
	at   time.Time
}

// wire is a connection, with the messages under way.
type wire struct {
	id       LinkID
	front    *front
	toWorker []flight
	toFront  []flight

	unsent  int   // bytes of results that the worker sent, and that have not left
	reports []int // of them, those that leave with each message with Report
}

type flight struct {
	msg      probe.Msg
	deadline time.Time // latest arrival, unless lost
}

func newWorld(t *rapid.T, seen map[string]int) *world {
	cfg := Config{
		Capacity:   size(rapid.IntRange(1, 4).Draw(t, "slots")),
		Functions:  []string{"f"},
		Order:      Order(rapid.IntRange(0, 3).Draw(t, "order")),
		Weights:    map[string]float64{"t": 2},
		MaxPayload: 100,
		MaxQueue:   rapid.SampledFrom([]int{20, 3}).Draw(t, "queue"),
		MaxUnsent:  rapid.SampledFrom([]int{0, 0, 2000, 6000}).Draw(t, "unsent"),
		ShortShare: rapid.SampledFrom([]float64{-1, 0.3}).Draw(t, "share"),

		PreemptAfter: time.Millisecond,
	}
	w := &world{
		t: t, seen: seen, core: New(cfg), now: time.Unix(1_000_000, 0), free: room{cfg.Capacity, cfg.Capacity},
		files: map[probe.AttemptID]bool{}, long: map[probe.AttemptID]bool{},
		runs: map[probe.AttemptID]*run{}, endings: map[probe.AttemptID]Exited{},
		deadPlaces: map[placeKey]probe.Reason{},
		asked:      map[turnKey]bool{}, neverStart: map[probe.AttemptID]string{}, started: map[probe.AttemptID]bool{},
		rideAttempts: map[placeKey]probe.AttemptID{}, owners: map[probe.AttemptID]LinkID{},
		claims: map[jobKey]jobClaim{}, launched: map[probe.AttemptID]jobStay{},
		reserved: map[placeKey]jobStay{},
		jobs:     []probe.JobID{job("x"), job("y"), job("z")},
	}
	for i := range 3 {
		w.fronts = append(w.fronts,
			&front{id: probe.FrontendID(i + 1), rude: i == 2, nextRes: 1, nextSeq: 1,
				generations: map[probe.JobID]probe.Generation{}})
		w.connectFront(w.fronts[i])
	}
	return w
}

// draw returns a number below n. All numbers are equally likely, while rapid.IntRange prefers small numbers.
func (w *world) draw(label string, n int) int { return n * coins.Draw(w.t, label) >> coinFlips }

func pick[T any](w *world, label string, list ...T) T { return list[w.draw(label, len(list))] }

const coinFlips = 10

var coins = rapid.Custom(func(t *rapid.T) int {
	x := 0
	for range coinFlips {
		x <<= 1
		if rapid.Bool().Draw(t, "") {
			x |= 1
		}
	}
	return x
})

func (w *world) step(ev Event) {
	switch ev := ev.(type) {
	case Received:
		w.seen[typeName(ev.Msg)]++
	default:
		w.seen[typeName(ev)]++
	}
	for _, a := range w.core.Step(w.now, ev, nil) {
		w.checkAction(a)
	}
}

func typeName(x any) string {
	s := fmt.Sprintf("%T", x)
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return s[i+1:]
		}
	}
	return s
}

func (w *world) isRude(id probe.AttemptID) bool { return id.Frontend == 3 }

// checkAction checks an action, and carries it out.
func (w *world) checkAction(a Action) {
	switch a := a.(type) {
	case *Start:
		w.seen["Start"]++
		id := a.Launch.Attempt
		n := roomFor(a.Demand, w.long[id])
		if w.free = w.free.sub(n); !(room{}).fitsIn(w.free) {
			w.t.Fatalf("start of %s: there is no room", id)
		}
		if arrived, asked := w.files[id]; len(a.Launch.Files) > 0 && !arrived || len(a.Launch.Files) == 0 && asked &&
			!w.isRude(id) {
			w.t.Fatalf("start of %s with %d files: they were asked for: %t, are there: %t", id, len(a.Launch.Files),
				asked, arrived)
		}
		if w.runs[id] != nil {
			w.t.Fatalf("start of %s: it runs", id)
		}
		if !w.isRude(id) && w.started[id] {
			w.t.Fatalf("start of %s: for the second time", id)
		}
		if why := w.neverStart[id]; why != "" && !w.isRude(id) {
			w.t.Fatalf("start of %s: it was %s", id, why)
		}
		stay, known := w.launched[id]
		for _, key := range []jobKey{{job: a.Job, tenant: stay.tenant}, {job: a.Job, anyTenant: true}} {
			last, claimed := w.claims[key]
			if g := stay.generation; known && claimed && w.now.Sub(last.at) < rememberFor &&
				!(key.anyTenant && stay.guarded) &&
				(g < last.generation || g == last.generation && last.frontend != id.Frontend) {
				w.t.Fatalf("start of %s, %+v: its job was claimed since: %+v", id, stay, last)
			}
		}
		if a.Launch.Function != "f" || len(a.Launch.Payload) > 100 {
			w.t.Fatalf("start of %s: it cannot run", id)
		}
		if l := w.core.attempts[id].owner; l != nil && l.isFull && !w.startsLate {
			w.t.Fatalf("start of %s: %d bytes of results wait for its frontend", id, l.total())
		}
		w.started[id] = true
		delete(w.owners, id)
		w.runs[id] = &run{id: id, needs: n}
	case Stop:
		w.seen["Stop"]++
		if r := w.runs[a.Attempt]; r == nil || r.stopped {
			w.t.Fatalf("stop of %s: it does not run, or was stopped", a.Attempt)
		}
		w.runs[a.Attempt].stopped = true
		if stopped := w.core.attempts[a.Attempt]; !stopped.unwanted {
			if stopped.class != probe.Spare {
				w.t.Fatalf("stop of %s, which is %v", a.Attempt, stopped.class)
			}
			w.runs[a.Attempt].preempted = true
		}
	case Drop:
		w.seen["Drop"]++
		w.cut(w.wire(a.Link))
	case Fetch:
		w.seen["Fetch"]++
		if _, asked := w.files[a.Attempt]; asked || len(a.Files) == 0 {
			w.t.Fatalf("fetch of %d files for %s, which were asked for: %t", len(a.Files), a.Attempt, asked)
		}
		w.files[a.Attempt] = false
	case Release:
		w.seen["Release"]++
		arrived, asked := w.files[a.Attempt]
		if !asked || w.runs[a.Attempt] != nil && !w.isRude(a.Attempt) {
			w.t.Fatalf("release of files of %s, which were not asked for, or it runs", a.Attempt)
		}
		if !arrived {
			w.seen["fetch released"]++
		}
		delete(w.files, a.Attempt)
	case *Send:
		w.seen["sent "+typeName(a.Msg)]++
		l := w.wire(a.Link)
		if l == nil {
			w.t.Fatalf("%T sent to link %d, which is down", a.Msg, a.Link)
			return
		}
		if p, ok := a.Msg.(probe.Pong); ok && p.Load.Matrix != nil {
			w.seen["matrix"]++
			w.checkMatrix(p.Load.Matrix)
		}
		w.checkMsg(l, a.Msg)
		m := a.Msg
		if f, ok := m.(*probe.Finished); ok { // the core takes the message back
			kept := *f
			m = &kept
		}
		l.toFront = append(l.toFront, flight{m, w.now.Add(maxDelay)})
		w.noteSent(l, a)
	default:
		w.t.Fatalf("unknown action %T", a)
	}
}

// checkMsg compares a message of the core with earlier messages.
func (w *world) checkMsg(l *wire, msg probe.Msg) {
	bury := func(first probe.ResID, count uint32, reason probe.Reason) {
		for i := range count {
			w.deadPlaces[placeKey{l.id, first + probe.ResID(i)}] = reason
		}
	}
	switch m := msg.(type) {
	case probe.Ready:
		key := turnKey{placeKey{l.id, m.Res}, m.Turn}
		if reason := w.deadPlaces[key.placeKey]; reason != 0 && !l.front.rude {
			w.t.Fatalf("ready for place %d, which is gone: %v", m.Res, reason)
		}
		if w.asked[key] {
			w.t.Fatalf("ready for place %d in its turn %d, again", m.Res, m.Turn)
		}
		if m.Waited < 0 || m.Early < 0 {
			w.t.Fatalf("negative times in %+v", m)
		}
		w.asked[key] = true
		if m.Early > 0 {
			w.seen["early"]++
		}
	case probe.Refused:
		w.seen[m.Reason.String()]++
		bury(m.First, m.Count, m.Reason)
		if m.Reason != probe.Unknown && m.Reason != probe.Moved {
			w.neverStart[m.Attempt] = "refused"
		}
	case probe.Evicted:
		bury(m.First, m.Count, m.Reason)
	case probe.Gone:
		for _, r := range m.Places {
			bury(r.First, r.Count, probe.Unknown)
		}
		for _, id := range m.Attempts {
			if w.runs[id] != nil {
				w.t.Fatalf("attempt %s is gone, but runs", id)
			}
			if id.Frontend == l.front.id {
				w.neverStart[id] = "gone"
			}
		}
	case probe.Started:
		if held := w.isHeld(m.Attempt); held && w.adopts {
			w.seen["claimed while held"]++
		} else if w.runs[m.Attempt] == nil {
			w.t.Fatalf("attempt %s was started, but does not run", m.Attempt)
		}
		w.checkTaken(l, m.Attempt)
		if m.Ran < 0 || m.Ran > time.Hour {
			w.t.Fatalf("impossible times in %+v", m)
		}
		w.owners[m.Attempt] = l.id
	case *probe.Finished:
		end, ok := w.endings[m.Attempt]
		if end.Status == probe.Preempted && l.front.id == oldFrontend {
			w.seen["told to an older frontend"]++
			end.Status = probe.Killed
		}
		if !ok || end.Status != m.Status || string(end.Result) != string(m.Result) || end.Error != m.Error {
			w.t.Fatalf("finished %+v, but it ended %+v", m, end)
		}
		if min(m.Waited, m.Held, m.Launch, m.Run, m.Kept) < 0 {
			w.t.Fatalf("negative times in %+v", m)
		}
		if x := m.Waits; min(x.Own, x.Others, x.Long, x.Closed, x.Idle) < 0 ||
			x.Own+x.Others+x.Long+x.Closed+x.Idle != m.Waited {
			w.t.Fatalf("the wait is not split: %+v", m)
		}
		if m.Usage.CPU != end.CPU || m.Usage.Memory != end.Memory {
			w.t.Fatalf("finished %+v, but it used %+v", m, end)
		}
		if m.Status == probe.NoInput {
			w.seen["no_input"]++
		}
		w.checkTaken(l, m.Attempt)
		w.owners[m.Attempt] = l.id
	case probe.Claimed:
		if m.Moved {
			w.seen["claimed too late"]++
			break
		}
		w.claims[keyOf(w.claiming)] = jobClaim{l.front.id, w.claiming.Generation, w.now}
		if m.Knows < 0 || m.Knows > w.now.Sub(time.Unix(1_000_000, 0)) {
			w.t.Fatalf("impossible times in %+v", m)
		}
	}
}

// noteSent counts the bytes of a result until the result leaves. Beyond the window no further result is sent.
func (w *world) noteSent(l *wire, s *Send) {
	if m, ok := s.Msg.(*probe.Finished); ok {
		size := w.core.attempts[m.Attempt].retainedSize()
		if len(l.reports) > 0 && l.unsent+size > w.core.window() {
			w.t.Fatalf("%d bytes of results have not left link %d, and %d more are sent", l.unsent, l.id, size)
		}
		l.unsent += size
	}
	if s.Report {
		sum := 0
		for _, n := range l.reports {
			sum += n
		}
		l.reports = append(l.reports, l.unsent-sum)
	}
}

// reportArrived reports bytes of any messages on a link: too few to extend a turn, or enough.
func (w *world) reportArrived() {
	if len(w.wires) > 0 {
		l := w.wires[w.draw("link", len(w.wires))]
		w.step(Arrived{Link: l.id, Bytes: 1 + minAnswerRate*w.draw("bytes", 2)})
	}
}

// reportSent reports that messages of a link have left.
func (w *world) reportSent() {
	var ls []*wire
	for _, l := range w.wires {
		if len(l.reports) > 0 {
			ls = append(ls, l)
		}
	}
	if len(ls) > 0 {
		w.reportSentOf(ls[w.draw("link", len(ls))])
	}
}

func (w *world) reportSentOf(l *wire) {
	l.unsent -= l.reports[0]
	l.reports = l.reports[1:]
	w.step(Sent{Link: l.id})
}

// isHeld reports whether an attempt has ended, and the core holds the result back.
func (w *world) isHeld(id probe.AttemptID) bool {
	a := w.core.attempts[id]
	if a == nil || !a.isHeldBack {
		return false
	}
	w.seen["held"]++
	if a.owner.isFull {
		w.seen["full"]++
	}
	return true
}

// checkTaken checks that a Claim on l that has just taken an attempt from another link may do so.
func (w *world) checkTaken(l *wire, id probe.AttemptID) {
	stay, known := w.launched[id]
	if owner, owned := w.owners[id]; w.claiming == nil || !known || !owned || owner == l.id {
		return
	}
	if !stay.mayTake(w.claiming) {
		w.t.Fatalf("%+v took attempt %s, %+v", *w.claiming, id, stay)
	}
	if stay.guarded {
		w.seen["guarded attempts claimed"]++
	}
}

// checkMatrix compares a matrix with the state of the worker.
func (w *world) checkMatrix(m *probe.WaitMatrix) {
	if m.Capacity != w.core.cfg.Capacity {
		w.t.Fatalf("a matrix for %v", m.Capacity)
	}
	if wait := m.Wait(w.core.alwaysOpen); wait == probe.NeverFits {
		w.t.Fatalf("all that is open to long tasks never has room: %v", m.Cells)
	}
	// If no task runs and no place waits or asks, a new task does not wait.
	if c := w.core; len(c.runs)+c.asked.Len()+c.queue.len()+c.staged.Len() == 0 && m.Wait(c.alwaysOpen) != 0 {
		w.t.Fatalf("an idle worker has waits: %v", m.Cells)
	}
}

func (w *world) wire(id LinkID) *wire {
	for _, l := range w.wires {
		if l.id == id {
			return l
		}
	}
	return nil
}

// cut ends a connection and loses its messages under way.
func (w *world) cut(l *wire) {
	w.wires = slices.DeleteFunc(w.wires, func(o *wire) bool { return o == l })
	for id, link := range w.owners {
		if link == l.id {
			delete(w.owners, id)
		}
	}
	for _, f := range w.fronts {
		if f.wire != l {
			continue
		}
		f.wire = nil
		for _, id := range slices.SortedFunc(maps.Keys(f.awaits), compareAttempts) {
			f.lost = append(f.lost, id)
			if !w.started[id] {
				w.neverStart[id] = "lost with its connection"
			}
		}
	}
}

func compareAttempts(a, b probe.AttemptID) int {
	return cmp.Or(cmp.Compare(a.Frontend, b.Frontend), cmp.Compare(a.Seq, b.Seq))
}

// oldFrontend knows no classes, and must not hear of any.
const oldFrontend = 2

// connectFront makes a connection for f, which gives up its old connection.
func (w *world) connectFront(f *front) {
	w.nextID++
	l := &wire{id: w.nextID, front: f}
	w.wires = append(w.wires, l)
	features := probe.Classes
	if f.id == oldFrontend {
		features = 0
	}
	w.step(LinkUp{Link: l.id, Frontend: f.id, Features: features})
	f.wire, f.places, f.turns, f.toAck, f.awaits = l, map[probe.ResID]bool{}, nil, nil, map[probe.AttemptID]sent{}
}

// pickFront returns a connected frontend that keeps the rules, or nil.
func (w *world) pickFront() *front {
	var fs []*front
	for _, f := range w.fronts {
		if f.wire != nil && !f.rude {
			fs = append(fs, f)
		}
	}
	if len(fs) == 0 {
		return nil
	}
	return fs[w.draw("frontend", len(fs))]
}

func (w *world) send(f *front, msg probe.Msg) {
	f.wire.toWorker = append(f.wire.toWorker, flight{msg, w.now.Add(maxDelay)})
}

func (w *world) launch(f *front, at sent) probe.Launch {
	m := probe.Launch{
		Attempt: probe.AttemptID{Frontend: f.id, Seq: f.nextSeq}, Function: "f", Payload: []byte("p"),
		Estimate: time.Duration(pick(w, "estimate", 0, 1, 5, 500)) * time.Millisecond,
	}
	switch w.draw("flaw", 30) {
	case 27:
		m.Files = someFiles // only Enqueue may bring files
	case 28:
		m.Function = "g"
	case 29:
		m.Payload = make([]byte, 101)
	}
	f.nextSeq++
	at.at = w.now
	f.awaits[m.Attempt] = at
	return m
}

func (w *world) demand() probe.Demand {
	return size(pick(w, "size", 1, 1, 1, 1, 1, 1, 2, 2, 3, 5))
}

func (w *world) reserve() {
	f := w.pickFront()
	if f == nil {
		return
	}
	m := probe.Reserve{
		First: f.nextRes, Count: uint32(1 + w.draw("count", 4)), Job: w.jobs[w.draw("job", 3)],
		Tenant: pick(w, "tenant", "t", "u", "u/v"), Priority: int32(w.draw("priority", 3)),
		Demand: w.demand(), Estimate: time.Duration(w.draw("estimate", 10)) * time.Millisecond,
		Early: w.draw("early", 4) > 0, Bundle: uint32(w.draw("bundle", 3)),
	}
	m.Generation, m.Standing, m.Guarded = f.generations[m.Job], w.standing(), w.draw("guarded", 2) == 0
	for i := range w.draw("rides", int(m.Count)+1) {
		at := m.First + probe.ResID(i)
		m.Launches = append(m.Launches, w.launch(f, sent{res: at}))
		w.rideAttempts[placeKey{f.wire.id, at}] = m.Launches[i].Attempt
		w.launched[m.Launches[i].Attempt] = jobStay{m.Generation, m.Tenant, m.Guarded}
	}
	for i := range m.Count {
		f.places[m.First+probe.ResID(i)] = true
		w.reserved[placeKey{f.wire.id, m.First + probe.ResID(i)}] = jobStay{m.Generation, m.Tenant, m.Guarded}
	}
	f.nextRes += probe.ResID(m.Count)
	w.send(f, m)
}

func (w *world) enqueue() {
	f := w.pickFront()
	if f == nil {
		return
	}
	m := probe.Enqueue{Res: f.nextRes, Job: w.jobs[w.draw("job", 3)], Tenant: "t", Demand: w.demand()}
	m.Launch = w.launch(f, sent{res: m.Res})
	m.Generation, m.Standing, m.Guarded = f.generations[m.Job], w.standing(), w.draw("guarded", 2) == 0
	w.launched[m.Launch.Attempt] = jobStay{m.Generation, m.Tenant, m.Guarded}
	m.Long, m.Matrix = w.draw("long", 2) > 0, w.draw("matrix", 4) == 0
	w.long[m.Launch.Attempt] = m.Long
	if w.draw("files", 3) == 0 {
		m.Launch.Files = someFiles
	}
	w.rideAttempts[placeKey{f.wire.id, m.Res}] = m.Launch.Attempt
	f.places[m.Res] = true
	f.nextRes++
	w.send(f, m)
}

// standing returns a regular standing half of the time.
func (w *world) standing() (s probe.Standing) {
	if s.Class = probe.Class(max(w.draw("class", 5)-2, 0)); s.Class != probe.Regular {
		s.Left = time.Duration(w.draw("left", 3)) * time.Second
		s.Due = time.Duration(pick(w, "due", 0, 0, 20, 2_000)) * time.Millisecond
	}
	return s
}

func (w *world) restamp() {
	if f := w.pickFront(); f != nil && len(f.places) > 0 {
		ids := slices.Sorted(maps.Keys(f.places))
		w.send(f, probe.Restamp{Res: ids[w.draw("place", len(ids))], Standing: w.standing()})
	}
}

func (w *world) answer() {
	f := w.pickFront()
	if f == nil || len(f.turns) == 0 {
		return
	}
	i := w.draw("turn", len(f.turns))
	m := f.turns[i]
	f.turns = slices.Delete(f.turns, i, i+1)
	switch w.draw("answer", 4) {
	case 3:
		delete(f.places, m.Res)
		w.send(f, probe.Decline{Res: m.Res, Turn: m.Turn})
	default:
		at := sent{res: m.Res, turn: m.Turn}
		b := probe.Bind{Res: m.Res, Turn: m.Turn, Keep: w.draw("keep", 3) == 0, Launch: w.launch(f, at)}
		for range max(0, w.draw("bundle", 5)-2) {
			w.seen["bundled"]++
			b.Bundle = append(b.Bundle, w.launch(f, at))
		}
		for _, m := range append([]probe.Launch{b.Launch}, b.Bundle...) {
			w.launched[m.Attempt] = w.reserved[placeKey{f.wire.id, b.Res}]
		}
		if b.Keep {
			w.seen["kept"]++
		} else {
			delete(f.places, m.Res)
		}
		w.send(f, b)
	}
}

func (w *world) cancel() {
	f := w.pickFront()
	if f == nil || f.nextRes == 1 {
		return
	}
	first := probe.ResID(1 + w.draw("first", int(f.nextRes)-1))
	count := uint32(1 + w.draw("count", min(3, int(f.nextRes-first))))
	for i := range count {
		delete(f.places, first+probe.ResID(i))
	}
	w.send(f, probe.Cancel{First: first, Count: count, Answer: w.draw("answer", 2) == 0})
}

func (w *world) kill() {
	f := w.pickFront()
	if f == nil || len(f.awaits) == 0 {
		return
	}
	ids := slices.SortedFunc(maps.Keys(f.awaits), compareAttempts)
	id := ids[w.draw("attempt", len(ids))]
	at := f.awaits[id]
	delete(f.awaits, id)
	w.send(f, probe.Kill{Attempt: id, Res: at.res, Turn: at.turn})
}

// claim claims an attempt that was lost with a connection, or a job.
func (w *world) claim() {
	f := w.pickFront()
	if f == nil {
		return
	}
	var ids []probe.AttemptID
	for _, o := range w.fronts {
		ids = append(ids, o.lost...)
	}
	if i := w.draw("claim", len(ids)+2); i < len(ids) {
		f.awaits[ids[i]] = sent{at: w.now}
		w.send(f, w.claimFor(probe.Claim{Attempt: ids[i]}))
		return
	}
	if o := w.fronts[w.draw("from", 3)]; len(o.awaits) > 0 && w.draw("steal", 2) == 0 {
		ids = slices.SortedFunc(maps.Keys(o.awaits), compareAttempts)
		id := ids[w.draw("attempt", len(ids))]
		w.send(f, w.claimFor(probe.Claim{Attempt: id}))
		return
	}
	m := probe.Claim{Job: w.jobs[w.draw("job", 3)]}
	if w.draw("generation", 3) > 0 { // the client has come to the frontend again, or for the first time
		for _, o := range w.fronts {
			f.generations[m.Job] = max(f.generations[m.Job], o.generations[m.Job])
		}
		f.generations[m.Job]++
	}
	m.Generation = f.generations[m.Job]
	w.send(f, w.claimFor(m))
}

// claimFor adds a tenant to m, or none, as an older frontend.
func (w *world) claimFor(m probe.Claim) probe.Claim {
	if m.HasTenant = w.draw("older", 4) > 0; m.HasTenant {
		m.Tenant = pick(w, "tenant", "t", "u", "u/v")
	}
	return m
}

func (w *world) ack() {
	f := w.pickFront()
	if f == nil || len(f.toAck) == 0 {
		return
	}
	w.send(f, probe.Ack{Attempts: f.toAck})
	f.toAck = nil
}

func (w *world) sync() {
	f := w.pickFront()
	if f == nil {
		return
	}
	m := probe.Sync{Next: f.nextRes}
	for _, id := range slices.Sorted(maps.Keys(f.places)) {
		m.Live = append(m.Live, probe.Range{First: id, Count: 1})
	}
	for _, id := range slices.SortedFunc(maps.Keys(f.awaits), compareAttempts) {
		if w.now.Sub(f.awaits[id].at) > maxDelay {
			m.Attempts = append(m.Attempts, id)
		}
	}
	w.send(f, m)
}

// chat sends a message without effect.
func (w *world) chat() {
	f := w.pickFront()
	if f == nil {
		return
	}
	w.send(f, pick[probe.Msg](w, "chat", probe.Ping{Seq: 1, Matrix: true}, probe.Probe{Seq: 2}, probe.Hello{},
		probe.Load{}))
}

// sendRude sends a senseless message from the rude frontend.
func (w *world) sendRude() {
	f := w.fronts[2]
	if f.wire == nil {
		return
	}
	res, turn := probe.ResID(w.draw("res", 12)), probe.Turn(w.draw("turn", 3))
	count := uint32(w.draw("count", 5))
	attempt := probe.AttemptID{Frontend: probe.FrontendID(1 + w.draw("of", 3)), Seq: uint64(w.draw("seq", 12))}
	own := probe.Launch{Attempt: probe.AttemptID{Frontend: f.id, Seq: attempt.Seq}, Function: "f",
		Estimate: time.Duration(count) * time.Millisecond}
	j := w.jobs[w.draw("job", 3)]
	w.long[own.Attempt] = false
	if w.draw("files", 3) == 0 {
		own.Files = someFiles
	}
	demand := w.demand()
	demand.CPU -= probe.Millicores(10 * w.draw("odd", 100))
	w.send(f, pick[probe.Msg](w, "message",
		probe.Reserve{First: res, Count: count, Job: j, Demand: demand, Early: true, Bundle: count,
			Launches: slices.Repeat([]probe.Launch{own}, int(turn))},
		probe.Bind{Res: res, Turn: turn, Launch: own},
		probe.Bind{Res: res, Turn: turn, Keep: true, Launch: own,
			Bundle: slices.Repeat([]probe.Launch{own}, int(count))},
		probe.Decline{Res: res, Turn: turn},
		probe.Enqueue{Res: res, Job: j, Demand: demand, Launch: own, Standing: w.standing()},
		probe.Restamp{Res: res, Standing: w.standing()},
		probe.Cancel{First: res, Count: count, Answer: turn == 1},
		probe.Kill{Attempt: attempt, Res: res, Turn: turn},
		w.claimFor(probe.Claim{Attempt: attempt}),
		w.claimFor(probe.Claim{Job: j, Generation: probe.Generation(turn)}),
		probe.Ack{Attempts: []probe.AttemptID{attempt, attempt}},
		probe.Sync{Next: res, Live: []probe.Range{{First: res, Count: count}, {First: 1, Count: count}},
			Attempts: []probe.AttemptID{attempt, attempt}},
	))
}

// pickFlight picks any message under way, and so reorders messages. The result is nil if there is none.
func (w *world) pickFlight(dir func(*wire) *[]flight) (*wire, int) {
	var ls []*wire
	for _, l := range w.wires {
		if len(*dir(l)) > 0 {
			ls = append(ls, l)
		}
	}
	if len(ls) == 0 {
		return nil, 0
	}
	l := ls[w.draw("link", len(ls))]
	return l, w.draw("message", len(*dir(l)))
}

func toWorker(l *wire) *[]flight { return &l.toWorker }
func toFront(l *wire) *[]flight  { return &l.toFront }

func (w *world) deliver() {
	if l, i := w.pickFlight(toWorker); l != nil {
		w.deliverAt(l, i)
	}
}

func (w *world) deliverAt(l *wire, i int) {
	msg := l.toWorker[i].msg
	l.toWorker = slices.Delete(l.toWorker, i, i+1)
	w.receive(l, msg)
}

func (w *world) repeat() {
	if l, i := w.pickFlight(toWorker); l != nil {
		w.receive(l, l.toWorker[i].msg)
	}
}

// receive brings a message to the core, and notes attempts that may not start from now on.
func (w *world) receive(l *wire, msg probe.Msg) {
	switch m := msg.(type) {
	case probe.Claim:
		w.claiming, w.adopts = &m, true
	case probe.Sync:
		w.adopts = true
	}
	_, w.startsLate = msg.(probe.Bind)
	w.step(Received{Link: l.id, Msg: msg})
	w.claiming, w.adopts, w.startsLate = nil, false, false
	if l.front.rude {
		return
	}
	switch m := msg.(type) {
	case probe.Cancel:
		for i := range m.Count {
			id, ok := w.rideAttempts[placeKey{l.id, m.First + probe.ResID(i)}]
			// If the task is staged, its place is gone.
			if ok && !w.started[id] && w.core.attempts[id] == nil {
				w.neverStart[id] = "cancelled"
			}
		}
	case probe.Kill:
		if !w.started[m.Attempt] {
			w.neverStart[m.Attempt] = "killed"
		}
		if r := w.runs[m.Attempt]; r != nil && w.owners[m.Attempt] == l.id && !r.stopped {
			w.t.Fatalf("attempt %s was killed, but runs", m.Attempt)
		}
	case probe.Reserve:
		for _, launch := range m.Launches {
			w.noteOwner(l, launch.Attempt)
		}
	case probe.Bind:
		w.noteOwner(l, m.Launch.Attempt)
		for _, launch := range m.Bundle {
			w.noteOwner(l, launch.Attempt)
		}
	case probe.Ack:
		for _, id := range m.Attempts {
			if a := w.core.attempts[id]; a != nil && a.state == ended && a.owner != nil && a.owner.id == l.id {
				w.t.Fatalf("attempt %s was acknowledged, and is kept", id)
			}
		}
	}
}

// noteOwner notes that a running attempt was launched on l, unless it has another owner since.
func (w *world) noteOwner(l *wire, id probe.AttemptID) {
	if w.runs[id] == nil {
		return
	}
	if a := w.core.attempts[id]; a != nil && a.owner != nil && a.owner.id == l.id {
		w.owners[id] = l.id
	}
}

func (w *world) lose() {
	if l, i := w.pickFlight(toWorker); l != nil {
		l.toWorker = slices.Delete(l.toWorker, i, i+1)
	}
}

func (w *world) hear() {
	l, i := w.pickFlight(toFront)
	if l == nil {
		return
	}
	msg := l.toFront[i].msg
	if w.draw("repeat", 10) < 9 {
		l.toFront = slices.Delete(l.toFront, i, i+1)
	}
	w.hearMsg(l.front, msg)
}

// hearMsg is a frontend's reaction to a message. The reaction may be simple, because only the core is under test.
func (w *world) hearMsg(f *front, msg probe.Msg) {
	drop := func(first probe.ResID, count uint32) {
		for i := range count {
			res := first + probe.ResID(i)
			delete(f.places, res)
			f.turns = slices.DeleteFunc(f.turns, func(r probe.Ready) bool { return r.Res == res })
		}
	}
	forget := func(first probe.ResID, count uint32) {
		for id, at := range f.awaits {
			if ride, ok := w.rideAttempts[placeKey{f.wire.id, at.res}]; ok && ride == id && at.res >= first &&
				at.res < first+probe.ResID(count) {
				delete(f.awaits, id)
			}
		}
	}
	switch m := msg.(type) {
	case probe.Ready:
		if !slices.ContainsFunc(f.turns, func(r probe.Ready) bool { return r.Res == m.Res && r.Turn == m.Turn }) {
			f.turns = append(f.turns, m)
		}
	case probe.Queued:
		forget(m.First, m.Count)
	case probe.Refused:
		drop(m.First, m.Count)
		forget(m.First, m.Count)
		delete(f.awaits, m.Attempt)
	case probe.Evicted:
		drop(m.First, m.Count)
	case probe.Gone:
		for _, r := range m.Places {
			drop(r.First, r.Count)
		}
		for _, id := range m.Attempts {
			delete(f.awaits, id)
		}
	case probe.Started:
		f.awaits[m.Attempt] = sent{at: w.now}
	case *probe.Finished:
		delete(f.awaits, m.Attempt)
		f.toAck = append(f.toAck, m.Attempt)
	}
}

func (w *world) breakLink() {
	if len(w.wires) == 0 {
		return
	}
	l := w.wires[w.draw("link", len(w.wires))]
	w.step(LinkDown{Link: l.id})
	w.cut(l)
}

// connect makes a new connection for a frontend. At the worker an old connection may still be up.
func (w *world) connect() {
	f := w.fronts[w.draw("frontend", len(w.fronts))]
	if f.wire == nil || w.draw("again", 5) == 4 {
		w.connectFront(f)
	}
}

func (w *world) exit() {
	ids := slices.SortedFunc(maps.Keys(w.runs), compareAttempts)
	if len(ids) > 0 {
		id, status := ids[w.draw("run", len(ids))], probe.Status(1+w.draw("status", 6))
		if w.runs[id].preempted && w.draw("obeys", 4) > 0 {
			status = probe.Killed
		}
		w.exitOne(id, status)
	}
}

// result returns a result that names its attempt. Half of the results are large.
func (w *world) result(id probe.AttemptID) []byte {
	return append([]byte(id.String()), make([]byte, 1500*w.draw("large", 2))...)
}

func (w *world) exitOne(id probe.AttemptID, status probe.Status) {
	r := w.runs[id]
	delete(w.runs, id)
	w.free = w.free.add(r.needs)
	ev := &Exited{Attempt: id, Status: status, Result: w.result(id), Run: time.Millisecond,
		CPU: 2 * time.Millisecond, Memory: 3}
	w.endings[id] = *ev
	if a := w.core.attempts[id]; r.preempted && !a.unwanted && status == probe.Killed {
		w.seen["preempted"]++
		end := w.endings[id]
		end.Status = probe.Preempted
		w.endings[id] = end
	}
	l, before := w.wire(w.owners[id]), 0
	if l != nil {
		before = len(l.toFront)
	}
	w.startsLate = true
	w.step(ev)
	w.startsLate = false
	if l == nil || r.stopped {
		return
	}
	if !slices.ContainsFunc(l.toFront[before:], func(f flight) bool {
		m, ok := f.msg.(*probe.Finished)
		return ok && m.Attempt == id
	}) && !w.isHeld(id) {
		w.t.Fatalf("attempt %s of link %d ended, and no Finished was sent", id, l.id)
	}
}

var someFiles = []probe.File{{Digest: [32]byte{1}, URL: "http://store/a", Bytes: 1 << 20},
	{Digest: [32]byte{2}, URL: "http://store/b"}}

// answerFetch reports the end of a fetch, or of a fetch whose files are released already.
func (w *world) answerFetch() {
	var ids []probe.AttemptID
	for id, arrived := range w.files {
		if !arrived {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareAttempts)
	if i := w.draw("fetch", len(ids)+1); i < len(ids) {
		w.answerOneFetch(ids[i], w.draw("failed", 4) == 3)
		return
	}
	w.seen["fetched too late"]++
	w.step(Fetched{Attempt: probe.AttemptID{Frontend: 1, Seq: 1 << 40}, Err: "cancelled"})
}

func (w *world) answerOneFetch(id probe.AttemptID, failed bool) {
	ev := Fetched{Attempt: id, Took: time.Second, Bytes: 1 << 20}
	if failed {
		ev.Err = "no such file"
		w.endings[id] = Exited{Attempt: id, Status: probe.NoInput, Error: ev.Err}
		if !w.isRude(id) {
			w.neverStart[id] = "without its files"
		}
	}
	w.files[id] = !failed
	w.step(ev)
	if _, asked := w.files[id]; failed && asked {
		w.t.Fatalf("the files of %s, one of which will never come, are kept", id)
	}
}

// answerAllFetches reports the end of all fetches.
func (w *world) answerAllFetches() (any bool) {
	for _, id := range slices.SortedFunc(maps.Keys(w.files), compareAttempts) {
		if arrived, asked := w.files[id]; asked && !arrived {
			w.answerOneFetch(id, false)
			any = true
		}
	}
	return any
}

func (w *world) pass() {
	w.advance(time.Duration(pick(w, "us", 100, 300, 1_000, 5_000, 100_000)) * time.Microsecond)
}

// passToWake passes time until the core's next wake.
func (w *world) passToWake() {
	if at := w.core.NextWake(); !at.IsZero() {
		w.advance(min(at.Sub(w.now), 20*time.Millisecond))
	}
}

func (w *world) passLong() {
	w.advance(time.Duration(pick(w, "ms", 500, 500, 500, 1_200, 11_000, 31_000)) * time.Millisecond)
}

// advance passes time, with a Wake whenever the core asked for it. It delivers messages that would be late.
func (w *world) advance(d time.Duration) {
	for end := w.now.Add(d); ; {
		next, late := end, (*wire)(nil)
		for _, l := range w.wires {
			for _, f := range l.toWorker {
				if f.deadline.Before(next) {
					next, late = f.deadline, l
				}
			}
		}
		at := w.core.NextWake()
		switch {
		case !at.IsZero() && at.Before(w.now):
			w.t.Fatalf("a wake was due %v ago", w.now.Sub(at))
		case !at.IsZero() && !at.After(next):
			w.now = at
			w.step(Wake{})
			if again := w.core.NextWake(); !again.IsZero() && !again.After(at) {
				w.t.Fatal("the wake that was due changed nothing")
			}
		case late != nil:
			w.now = next
			i := slices.IndexFunc(late.toWorker, func(f flight) bool { return f.deadline.Equal(next) })
			w.deliverAt(late, i)
		default:
			w.now = end
			w.checkOverdue()
			return
		}
		if err := w.core.Check(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// checkOverdue checks that a core with all its wakes has nothing overdue.
func (w *world) checkOverdue() {
	c := w.core
	late := func(label string, since time.Time, limit time.Duration) {
		if age := w.now.Sub(since); age >= limit {
			w.t.Fatalf("%s is %v old", label, age)
		}
	}
	if p := c.asked.First(); p != nil {
		late("a turn", p.expiryBegan, c.cfg.ReadyExpiry)
		if p.expiryBegan != p.askedAt {
			w.seen["answer awaited for longer"]++
		}
	}
	if a := c.staged.First(); a != nil {
		late("a staged attempt", a.stateSince, c.patienceFor(a))
	}
	if a := c.orphans.First(); a != nil {
		late("an orphan", a.stateSince, c.cfg.Grace)
	}
	if a := c.unclaimed.First(); a != nil {
		late("a result", a.stateSince, c.cfg.Retain)
	}
}

func (w *world) leave() {
	if w.draw("leave", 30) == 29 {
		w.step(Leave{})
	}
}

// cutAll breaks all links, with messages under way. After the grace period the core must have stopped all running
// attempts. When these attempts end, the core must be empty.
func (w *world) cutAll() {
	for len(w.wires) > 0 {
		l := w.wires[0]
		w.step(LinkDown{Link: l.id})
		w.cut(l)
	}
	w.passAllWakes()
	for _, id := range slices.SortedFunc(maps.Keys(w.runs), compareAttempts) {
		if !w.runs[id].stopped {
			w.t.Fatalf("attempt %s still runs, though nobody waits for it", id)
		}
		w.exitOne(id, probe.Killed)
	}
	w.passAllWakes()
	w.checkEmpty()
}

// answerAll has the frontends answer all messages and take back all places. Nothing is lost any more, so the
// worker becomes empty without a broken link.
func (w *world) answerAll() {
	for round := 0; ; round++ {
		if round == 1000 {
			w.t.Fatal("there is no end of messages")
		}
		busy := false
		for _, l := range slices.Clone(w.wires) {
			for len(l.toWorker) > 0 {
				w.deliverAt(l, 0)
				busy = true
			}
			for len(l.toFront) > 0 {
				msg := l.toFront[0].msg
				l.toFront = l.toFront[1:]
				w.hearMsg(l.front, msg)
				busy = true
			}
			for len(l.reports) > 0 {
				w.reportSentOf(l)
				busy = true
			}
			f := l.front
			for _, r := range f.turns {
				w.send(f, probe.Decline{Res: r.Res, Turn: r.Turn})
			}
			if len(f.toAck) > 0 {
				w.send(f, probe.Ack{Attempts: f.toAck})
			}
			f.turns, f.toAck = nil, nil
			if round == 0 {
				w.send(f, probe.Cancel{First: 1, Count: uint32(max(f.nextRes, 40))})
			}
		}
		busy = w.answerAllFetches() || busy
		for _, id := range slices.SortedFunc(maps.Keys(w.runs), compareAttempts) {
			w.exitOne(id, probe.Succeeded)
			busy = true
		}
		if !busy && round > 0 {
			break
		}
	}
	if w.core.Load().Queued+w.core.Load().Running > 0 {
		w.t.Fatalf("left over: %+v", w.core.Load())
	}
	for len(w.wires) > 0 { // results whose Finished was lost
		l := w.wires[0]
		w.step(LinkDown{Link: l.id})
		w.cut(l)
	}
	w.passAllWakes() // and unclaimed results
	w.checkEmpty()
}

// passAllWakes passes time until the core asks for no wake.
func (w *world) passAllWakes() {
	for range 1000 {
		at := w.core.NextWake()
		if at.IsZero() {
			return
		}
		w.advance(at.Sub(w.now))
	}
	w.t.Fatal("there is no end of wakes")
}

// checkEmpty checks a worker with nothing to do. Check cannot find leaked slots: the sums stay right.
func (w *world) checkEmpty() {
	c := w.core
	if err := c.Check(); err != nil {
		w.t.Fatal(err)
	}
	places := 0
	for _, l := range c.links {
		places += len(l.places)
	}
	counts := map[string]int{
		"places": places, "attempts": len(c.attempts), "queued": c.queue.len() + c.spareQueue.len(),
		"stopping": c.stopping.Len(), "aging": c.aging.Len(), "parked": c.parkedCount, "asked": c.asked.Len(),
		"asked ahead": len(c.askedAhead), "staged": c.staged.Len(), "expected ends": c.expectedEnds.Len(),
		"ending soon": len(c.endingSoon),
		"retained":    c.retained.Len(), "unclaimed": c.unclaimed.Len(), "kept": c.retainedBytes,
		"orphans": c.orphans.Len(),
		"running": len(c.runs), "fetches": len(c.fetches), "runs": len(w.runs), "files": len(w.files),
	}
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		if counts[label] != 0 {
			w.t.Fatalf("left over: %d %s", counts[label], label)
		}
	}
	if c.free != c.capacity || w.free != (room{c.capacity.all, c.capacity.all}) || c.promised != (probe.Demand{}) ||
		c.preemptible != (probe.Demand{}) || c.endingSoonRoom != (probe.Demand{}) {
		w.t.Fatalf("free %v of %v, promised %v, ending soon %v", c.free, c.cfg.Capacity, c.promised, c.endingSoonRoom)
	}
	if !c.Idle() || !c.NextWake().IsZero() {
		w.t.Fatalf("not idle, or a wake is due at %v", c.NextWake())
	}
	w.seen["rode"] += int(c.Stats.RidesStarted)
	w.seen["spare"] += int(c.Stats.SpareStarted)
	w.seen["grew regular"] += int(c.Stats.Promoted)
	w.seen["orphaned"] += int(c.Stats.Orphaned)
	w.seen["claimed"] += int(c.Stats.Claimed)
	w.seen["abandoned"] += int(c.Stats.Abandoned)
	w.seen["forgotten"] += int(c.Stats.Forgotten)
	w.seen["backfilled"] += int(c.Stats.Backfilled)
}
