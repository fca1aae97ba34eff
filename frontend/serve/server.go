package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cloudwego/kitex/pkg/remote/trans/gonet"
	"github.com/cloudwego/kitex/server"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/worker/files"
)

// Server is a frontend. Make it with New, then Start; at the end Drain and Close.
type Server struct {
	cfg     Config
	log     *slog.Logger
	metrics *serverMetrics
	began   time.Time

	listener *listener
	quiet    *quiet
	gate     *gate
	api      server.Server
	peers    *peers
	fleet    *fleet // nil without gossip
	files    *files.Reader
	reads    chan struct{} // an element for each part of a file that is being read
	terms    *terms
	stop     context.CancelFunc
	ctx      context.Context
	accepts  context.Context // ends when no more clients are accepted
	shut     context.CancelFunc
	running  sync.WaitGroup
	failed   chan error
	dial     func(ctx context.Context, addr string) (net.Conn, error) // to a worker

	mu       mutex // guards all below
	core     *frontend.Core
	acts     []frontend.Action
	dirty    []*link           // to be flushed at the end of the step
	lingers  []frontend.Worker // whose links are to be flushed at lingerAt
	lingerAt time.Time
	links    []*link // by frontend.Worker; nil where retired
	byAddr   map[string]*link
	runs     map[run]*link // that is, or was last, linked to a run of a worker
	jobs     map[probe.JobID]*record
	unread   int // bytes of the results of submitted jobs that clients have not fetched
	ended    endedList
	answered []answered // of which it is to be told that they have arrived, oldest first
	replies  []reply    // to be written when the mutex is free
	scratch  scratch
	later    []frontend.Event // found while actions were carried out
	swept    time.Time        // when clients that are gone were last looked for
	stepped  time.Time        // the last step
	timer    *time.Timer
	timerAt  time.Time
	draining bool

	recorder recorder
}

// New checks cfg and makes a server that does not serve yet.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.defaults()
	for cfg.Core.ID == 0 {
		cfg.Core.ID = probe.FrontendID(rand.Uint64())
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	s := &Server{
		cfg:    cfg,
		log:    cfg.Logger,
		began:  time.Now(),
		core:   frontend.New(cfg.Core, rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Core.ID)))),
		byAddr: map[string]*link{},
		runs:   map[run]*link{},
		jobs:   map[probe.JobID]*record{},
		failed: make(chan error, 1),
		files:  files.NewReader(cfg.Keys, cfg.asked()),
		reads:  make(chan struct{}, mostReads),
	}
	s.dial = s.dialWorker
	s.terms = &terms{server: s, name: cfg.Tenants}
	if cfg.Gossip != "" {
		s.fleet = newFleet(s)
	}
	s.recorder = newRecorder(s.began, cfg.Seed)
	s.metrics = newMetrics(cfg.Metrics, s)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.accepts, s.shut = context.WithCancel(s.ctx)
	return s, nil
}

// Start listens, connects to the workers and serves in the background.
func (s *Server) Start() error {
	raw, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("frontend: listen on %s: %w: is another one running? choose another address", s.cfg.Listen, err)
	}
	s.listener = newListener(raw, s)
	if s.cfg.Advertise == "" {
		s.cfg.Advertise = raw.Addr().String()
	}
	if s.cfg.Name == "" {
		s.cfg.Name = s.cfg.Advertise
	}
	s.gate = newGate(s)
	s.peers = newPeers(&s.cfg)
	s.timer = time.AfterFunc(time.Hour, s.wake)
	s.log.Info("frontend starts", "frontend", s.cfg.Name, "address", s.Addr(), "id", s.cfg.Core.ID.String(), "seed", s.cfg.Seed, "policy", s.cfg.Policy.Name)
	err = s.terms.start()
	if err == nil {
		err = s.findWorkers()
	}
	if err != nil {
		s.setWorkers(nil)
		s.stop()
		raw.Close()
		return fmt.Errorf("frontend: %w", err)
	}
	s.quiet = newQuiet(s.listener, s.accepts)
	s.api = phoebe.NewServer(s.gate.calls,
		server.WithListener(s.quiet),
		server.WithTransServerFactory(gonet.NewTransServerFactory()),
		server.WithTransHandlerFactory(s.gate),
		server.WithExitSignal(func() <-chan error { s.quiet.wait(); return make(chan error) }),
		server.WithExitWaitTime(time.Millisecond),
	)
	s.running.Go(s.tick)
	s.running.Go(s.record)
	s.running.Go(func() {
		defer s.quiet.accept() // in case it never came to that
		defer s.quiet.wait()
		if err := s.api.Run(); err != nil && s.ctx.Err() == nil {
			s.failed <- fmt.Errorf("frontend: serve: %w", err)
		}
	})
	return nil
}

// findWorkers has links made to all workers there are.
func (s *Server) findWorkers() error {
	workers := s.cfg.Workers
	if s.fleet != nil {
		workers = Union{workers, s.fleet}
	}
	if err := workers.Watch(s.ctx, s.setWorkers); err != nil || s.fleet == nil {
		return err
	}
	return s.fleet.start()
}

// Addr is the address that it listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Advertised is the address that the handles of its jobs name as owner.
func (s *Server) Advertised() string { return s.cfg.Advertise }

// Failed yields an error if the server stops serving by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Ready says why no jobs should be sent here, or nil.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errors.New("draining")
	}
	for _, l := range s.links {
		if l == nil {
			continue
		}
		if up, _, _, _ := l.status(); up {
			return nil
		}
	}
	return errors.New("no worker is linked")
}

// Warning says what is not well although jobs may be sent here, or "".
func (s *Server) Warning() string {
	warnings := []string{s.terms.warning()}
	if s.fleet != nil {
		warnings = append(warnings, s.fleet.warning())
	}
	return strings.Join(slices.DeleteFunc(warnings, func(w string) bool { return w == "" }), "; ")
}

// fetchPatience is how long Drain waits for the next poll of a job's client: one that has cancelled its job may
// never come back.
const fetchPatience = 10 * time.Second

// confirmPatience is how long Drain waits for a client that has all outcomes of tasks that may start only once to say so.
const confirmPatience = 500 * time.Millisecond

// drainPoll is how often Drain looks whether all is done.
const drainPoll = 5 * time.Millisecond

// firstCall is how long Drain waits for the first call on a connection that was accepted just before.
const firstCall = time.Second

// Drain refuses new jobs and waits until those under way have ended, or are open and have no task left, their clients have the
// outcomes, and the workers have what they were sent, or ctx ends. It accepts no more clients once no job is left that they ask for by Events: they
// may connect for each call. Whoever has connected but not called yet when it begins is not refused: it may be a client
// that calls once on each connection and knows of no other frontend.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	if _, _, asked := s.left(); !asked {
		s.acceptNobody()
	}
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for until := time.Now().Add(firstCall); s.listener.expects() && time.Now().Before(until) && ctx.Err() == nil; {
		<-tick.C
	}
	s.mu.Lock()
	s.stepLocked(frontend.Leave{})
	s.unlock()
	var answering map[*clientConn]int64 // connections that had not written their last answer
	var telling map[*link]uint64        // links whose workers have not answered their last Ping
	for {
		s.handOn()
		unfinished, unfetched, asked := s.left()
		if !asked {
			s.acceptNobody()
		}
		if unfinished == 0 && unfetched == 0 {
			if answering == nil {
				answering = s.listener.answering()
			}
			maps.DeleteFunc(answering, func(c *clientConn, answers int64) bool { return c.closed.Load() || c.answers.Load() != answers })
			if len(answering) == 0 && telling == nil {
				telling = s.lastWords()
			}
			maps.DeleteFunc(telling, (*link).tookIn)
			if len(answering)+len(telling) == 0 {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("frontend: %d jobs are unfinished, the outcomes of %d were not fetched, %d workers have not heard all: %w", unfinished, unfetched, len(telling), context.Cause(ctx))
		}
	}
}

// handOn gives up the jobs that are open and have no task left: their clients may add to them at any time, and take them elsewhere.
func (s *Server) handOn() {
	s.mu.Lock()
	defer s.unlock()
	for id, r := range s.jobs {
		if !r.run && !r.over && r.left == 0 && len(r.outcomes) == 0 {
			s.later = append(s.later, frontend.Outdated{Job: id})
		}
	}
}

// lastWords tells the workers that clients have all results, and sends a Ping behind that on every link.
func (s *Server) lastWords() map[*link]uint64 {
	s.mu.Lock()
	s.settle()
	s.unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	pings := map[*link]uint64{}
	for _, l := range s.links {
		if l != nil {
			pings[l] = l.ping()
		}
	}
	return pings
}

// acceptNobody ends listening, while connections stay.
func (s *Server) acceptNobody() {
	s.shut()
	s.listener.Close()
}

// left counts the jobs that have not ended, and those that have but whose clients do not have all outcomes yet, and
// tells whether clients still ask for one of them by Events.
func (s *Server) left() (unfinished, unfetched int, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range s.jobs {
		if r.over && !r.kept && (r.polls > 0 || now.Sub(r.endedAt) < fetchPatience || now.Sub(r.polled) < fetchPatience) {
			unfetched++
			asked = asked || !r.run
		}
		if r.kept && r.once && !r.run && len(r.receipts) > 0 && now.Sub(r.polled) < confirmPatience {
			unfetched++
			asked = true
		}
		asked = asked || !r.over && !r.run
	}
	return s.core.Jobs(), unfetched, asked
}

// Close stops serving at once; jobs under way are lost to this frontend, and their clients take them elsewhere.
func (s *Server) Close() error {
	s.stop()
	var err error
	if s.fleet != nil {
		err = s.fleet.close()
	}
	s.listener.Close()
	s.listener.closeAll()
	s.mu.Lock()
	for _, r := range s.jobs {
		r.notify()
	}
	clear(s.jobs) // calls under way, and tick, find none that they could end once more
	links := s.links
	s.links = nil
	clear(s.byAddr)
	s.timer.Stop()
	s.mu.Unlock()
	for _, l := range links {
		if l != nil {
			l.retire()
		}
	}
	<-s.quiet.waits
	<-s.quiet.accepts // before that, there is nothing yet that it would stop
	s.api.Stop()      // complains of calls that had not been answered in time: their connections are closed already
	s.peers.close()
	s.files.Close()
	s.running.Wait()
	return err
}

// setWorkers makes links to the workers that are new and retires those that are gone.
func (s *Server) setWorkers(addrs []string) {
	var gone []*link
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	keep := make(map[string]bool, len(addrs))
	for _, addr := range addrs {
		keep[addr] = true
	}
	var free []int
	for i, l := range s.links {
		if l != nil && !keep[l.addr] {
			s.links[i] = nil
			delete(s.byAddr, l.addr)
			s.release(l)
			gone = append(gone, l)
			s.stepLocked(frontend.WorkerGone{Worker: l.key, Off: true})
		}
		if s.links[i] == nil {
			free = append(free, i)
		}
	}
	for _, addr := range addrs {
		if s.byAddr[addr] != nil {
			continue
		}
		i := len(s.links)
		if len(free) > 0 {
			i, free = free[0], free[1:]
		} else {
			s.links = append(s.links, nil)
		}
		s.stepLocked(frontend.Listed{Worker: frontend.Worker(i), Address: addr})
		s.links[i] = newLink(s, frontend.Worker(i), addr)
		s.byAddr[addr] = s.links[i]
	}
	s.unlock()
	for _, l := range gone {
		s.log.Info("worker taken off the list", "worker", l.addr)
		l.retire()
	}
}

// linked reports whether there is a link to the worker at addr that is up.
func (s *Server) linked(addr string) bool {
	s.mu.Lock()
	l := s.byAddr[addr]
	s.mu.Unlock()
	if l == nil {
		return false
	}
	up, _, _, _ := l.status()
	return up
}

func (s *Server) dialWorker(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{
		Timeout:         s.cfg.DialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3},
		Control:         func(_, _ string, c syscall.RawConn) error { return setUserTimeout(c, s.cfg.Lease) },
	}
	return s.cfg.Keys.Connect(ctx, d.DialContext, addr, identity.Worker)
}

// serves reports whether l is a link of this server still: its key may be another one's by now. The mutex is held.
func (s *Server) serves(l *link) bool { return int(l.key) < len(s.links) && s.links[l.key] == l }

// welcomed tells the core that a connection is up, and reports whether it is. If not, the connection is closed already,
// or leads to where another link does.
func (s *Server) welcomed(c *linkConn, m probe.Welcome) (other *link, ok bool) {
	s.mu.Lock()
	defer s.unlock()
	l := c.link
	if !s.serves(l) {
		return nil, false
	}
	s.release(l)
	l.run = run{m.Worker, m.Incarnation}
	if other := s.twin(l); other != nil {
		return other, false
	}
	if !c.rise() {
		return nil, false
	}
	s.runs[l.run] = l
	s.stepLocked(frontend.WorkerUp{Worker: l.key, Welcome: m})
	return nil, true
}

// twin is another link to the worker that was found at l's address, or nil. A worker keeps only the latest of a
// frontend's connections: two links would take it from each other without end. The mutex is held.
func (s *Server) twin(l *link) *link {
	if other := s.runs[l.run]; other != nil && other != l && other.holds(s.cfg.Lease) {
		return other
	}
	return nil
}

// linkedElsewhere reports whether l has a twin, as long as which it had better not connect.
func (s *Server) linkedElsewhere(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twin(l) != nil
}

// release forgets that l has, or had, the worker that was found at its address. The mutex is held.
func (s *Server) release(l *link) {
	if s.runs[l.run] == l {
		delete(s.runs, l.run)
	}
}

// lost tells the core that a link broke, unless it has been made again meanwhile: the core would take that for lost,
// and nobody would tell it better. WorkerUp by itself tells it that an earlier connection is over.
func (s *Server) lost(l *link, ev frontend.Event) {
	s.mu.Lock()
	l.mu.Lock()
	up := l.isUp()
	l.mu.Unlock()
	if !up && s.serves(l) {
		s.stepLocked(ev)
	}
	s.unlock()
}

// received steps through the messages of one frame.
func (s *Server) received(l *link, msgs []probe.Msg) {
	s.mu.Lock()
	if s.serves(l) {
		for _, m := range msgs {
			if pong, ok := m.(probe.Pong); ok {
				l.ponged(pong.Seq)
			}
		}
		s.stepLocked(frontend.Frame{Worker: l.key, Msgs: msgs})
	}
	s.unlock()
}

func (s *Server) stepLocked(ev frontend.Event) {
	now := time.Now()
	if now.Sub(s.swept) > s.cfg.ClientGrace { // this process was absent: jobs whose clients went away meanwhile are not its own
		s.sweepLocked(now)
	}
	s.stepped = now
	s.acts = s.core.Step(now, ev, s.acts[:0])
	for _, a := range s.acts {
		s.do(a)
	}
	clear(s.acts)
}

func (s *Server) do(a frontend.Action) {
	switch a := a.(type) {
	case frontend.Send:
		if int(a.Worker) >= len(s.links) || s.links[a.Worker] == nil {
			return // taken off the list
		}
		l := s.links[a.Worker]
		l.send(a.Msg)
		switch {
		case a.MayWait:
			s.linger(a.Worker)
		case len(s.dirty) == 0 || s.dirty[len(s.dirty)-1] != l:
			s.dirty = append(s.dirty, l)
		}
	case *frontend.Done:
		s.metrics.outcomes[a.Outcome.Kind].Inc()
		if r := s.jobs[a.Job]; r != nil {
			if r.done(&a.Outcome, s.cfg.MaxRunResult, &s.scratch); !r.run {
				s.weigh(r)
			}
			s.countTask(&r.timed, &a.Outcome)
		}
	case frontend.Accepted:
		s.metrics.accepted.Inc()
		s.recorder.tally.Accepted++
	case frontend.Refused:
		s.metrics.refusals[a.Err.Reason].Inc()
		s.recorder.tally.Refused[refusals[a.Err.Reason]]++
		r := s.jobs[a.Job]
		r.refused = a.Err
		delete(s.jobs, a.Job)
	case frontend.Extended:
		r := s.jobs[a.Job]
		r.extended = a
		r.left += a.Added
	case frontend.Ended:
		s.endRecord(a.Job)
	case frontend.Collect:
		s.collect(a.Worker)
	case frontend.Moved:
		s.log.Info("job was claimed by another frontend", "job", a.Job.String())
		if r := s.jobs[a.Job]; r != nil {
			r.moved = true
		}
		s.endRecord(a.Job)
	}
}

// unlock sets the timer, unlocks, and writes what the steps since the lock want sent.
func (s *Server) unlock() {
	s.arrived(s.stepped, 4)
	for len(s.later) > 0 {
		later := s.later
		s.later = nil
		for _, ev := range later {
			s.stepLocked(ev)
		}
	}
	var room [16]*link
	dirty := append(room[:0], s.dirty...)
	var desk [4]reply
	replies := append(desk[:0], s.replies...)
	clear(s.dirty)
	clear(s.replies)
	s.dirty, s.replies = s.dirty[:0], s.replies[:0]
	at := s.core.NextWake()
	if at.IsZero() || !s.lingerAt.IsZero() && s.lingerAt.Before(at) {
		at = s.lingerAt
	}
	// A timer that fires too early costs a Wake without effect; one is moved only if it is too late, so that
	// the many jobs that end before their timers do not set it again and again.
	if s.timer != nil && !at.IsZero() && (s.timerAt.IsZero() || at.Before(s.timerAt)) {
		s.timerAt = at
		s.timer.Reset(time.Until(at))
	}
	alone := s.core.Jobs() <= fewJobs
	s.mu.Unlock()
	for _, l := range dirty {
		l.flush(alone)
	}
	for _, r := range replies {
		r.conn.pay(r.frame)
	}
}

// fewJobs is how many jobs may be under way and what is said to workers still be written at once. With more of them there is more
// to say soon, and fastrpc's goroutine, which has to be woken, finds more to write then: half as many writes for no-op jobs of
// 100 tasks, 16 in flight.
const fewJobs = 4

// linger has a worker's link flushed soon, if nothing else does it before.
func (s *Server) linger(key frontend.Worker) {
	if s.lingerAt.IsZero() {
		s.lingerAt = time.Now().Add(frontend.LingerFor)
	}
	if n := len(s.lingers); n == 0 || s.lingers[n-1] != key {
		s.lingers = append(s.lingers, key)
	}
}

// endLinger flushes all that lingers.
func (s *Server) endLinger() {
	for _, key := range s.lingers {
		if int(key) < len(s.links) && s.links[key] != nil { // else taken off the list meanwhile
			s.dirty = append(s.dirty, s.links[key])
		}
	}
	s.lingers, s.lingerAt = s.lingers[:0], time.Time{}
}

func (s *Server) wake() {
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	s.timerAt = time.Time{}
	if !s.lingerAt.IsZero() && !time.Now().Before(s.lingerAt) {
		s.endLinger()
	}
	s.stepLocked(frontend.Wake{})
	s.unlock()
}

// watch gives up the workers that are silent, all of them before any of their tasks goes elsewhere: it would go to
// another of them, and so on, until it is taken for what they die of. Where this process itself was absent, as it was
// stopped or its machine was, it has not listened, and they may not have been silent.
func (s *Server) watch(links []*link, absence time.Duration) {
	var silent []*link
	for _, l := range links {
		if absence > s.cfg.Lease/3 {
			l.excuse(absence)
		}
		if l.check(s.cfg.Lease) {
			silent = append(silent, l)
		}
	}
	for _, l := range silent {
		s.lost(l, frontend.WorkerGone{Worker: l.key})
	}
}

// tick looks after what is silent: links, clients' connections, jobs whose clients are gone; and tells the core what messages cost.
func (s *Server) tick() {
	every := min(s.cfg.Lease/3, s.cfg.ClientGrace/3, time.Second)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var m meter
	m.busy()
	var shared time.Time
	for last := monotonic(); ; {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		now := monotonic()
		absence := time.Duration(now-last) - every
		last = now
		busy := m.busy()
		s.mu.Lock()
		s.stepLocked(busy)
		s.unlock()
		if at := time.Now(); at.Sub(shared) >= shareEvery {
			shared = at
			s.share()
		}
		s.watch(s.allLinks(), absence)
		s.listener.sweep()
		s.sweepJobs()
		if s.fleet != nil {
			s.fleet.review()
		}
	}
}
