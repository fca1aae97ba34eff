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

// Server is a frontend. Make a Server with New, then Start; at the end Drain and Close.
type Server struct {
	cfg       Config
	log       *slog.Logger
	metrics   *serverMetrics
	startedAt time.Time

	listener    *listener
	apiListener *quietListener
	gate        *gate
	api         server.Server
	peers       *peers
	fleet       *fleet // nil without gossip
	files       *files.Reader
	readSlots   chan struct{} // holds an element for each part of a file that is being read
	cacheReads  cacheReads
	terms       *terms
	stop        context.CancelFunc
	ctx         context.Context
	acceptCtx   context.Context // ends when no more clients are accepted
	endAccept   context.CancelFunc
	goroutines  sync.WaitGroup
	failed      chan error
	dial        func(ctx context.Context, addr string) (net.Conn, error) // connects to a worker

	mu               mutex // guards all below
	core             *frontend.Core
	acts             []frontend.Action
	dirtyLinks       []*link           // links to be flushed at the end of the step
	lingeringWorkers []frontend.Worker // workers whose links are to be flushed at lingerAt
	lingerAt         time.Time
	links            []*link // by frontend.Worker; nil where retired
	byAddr           map[string]*link
	linkByRun        map[workerRun]*link // the present or last link of a worker's run
	jobs             map[probe.JobID]*clientJob
	jobParts         map[string]*jobParts // of jobs that come in parts, by id
	partsBytes       int                  // of jobParts
	unreadBytes      int                  // bytes of the results of submitted jobs that clients have not fetched
	fetchedBytes     int                  // bytes of the fetched outcomes that shared jobs keep
	endedJobs        endedList
	sentAnswers      []sentAnswer // last answers whose arrival the core is to be told, oldest first
	replies          []reply      // answers to be written when the mutex is free
	scratch          outcomeScratch
	laterEvents      []frontend.Event // events found while actions were carried out
	sweptAt          time.Time        // when the server last looked for clients that are gone
	steppedAt        time.Time        // when the core last stepped
	timer            *time.Timer
	timerAt          time.Time
	draining         bool

	workerList workerList

	recorder recorder
}

// New checks cfg and makes a server. The server does not serve before Start.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	for cfg.Core.ID == 0 {
		cfg.Core.ID = probe.FrontendID(rand.Uint64())
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	s := &Server{
		cfg:       cfg,
		log:       cfg.Logger,
		startedAt: time.Now(),
		core:      frontend.New(cfg.Core, rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Core.ID)))),
		byAddr:    map[string]*link{},
		linkByRun: map[workerRun]*link{},
		jobs:      map[probe.JobID]*clientJob{},
		jobParts:  map[string]*jobParts{},
		failed:    make(chan error, 1),
		files:     files.NewReader(cfg.Keys, cfg.connSecrets()),
		readSlots: make(chan struct{}, maxReads),
	}
	s.dial = s.dialWorker
	s.terms = &terms{server: s, name: cfg.Tenants}
	if cfg.Gossip != "" {
		s.fleet = newFleet(s)
	}
	s.recorder = newRecorder(s.startedAt, cfg.Seed)
	s.metrics = newMetrics(cfg.Metrics, s)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.acceptCtx, s.endAccept = context.WithCancel(s.ctx)
	return s, nil
}

// Start listens, connects to the workers and serves in the background.
func (s *Server) Start() error {
	raw, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("frontend: listen on %s: %w: is another phoebe dev or phoebe frontend running there? "+
			"choose another address", s.cfg.Listen, err)
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
	s.timer = time.AfterFunc(time.Hour, s.onTimer)
	s.log.Info("frontend starts", "frontend", s.cfg.Name, "address", s.Addr(), "id", s.cfg.Core.ID.String(), "seed",
		s.cfg.Seed, "policy", s.cfg.Policy.Name)
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
	s.apiListener = newQuietListener(s.listener, s.acceptCtx)
	s.api = phoebe.NewServer(s.gate.handler,
		server.WithListener(s.apiListener),
		server.WithTransServerFactory(gonet.NewTransServerFactory()),
		server.WithTransHandlerFactory(s.gate),
		server.WithExitSignal(func() <-chan error { s.apiListener.noteKitexWaits(); return make(chan error) }),
		server.WithExitWaitTime(time.Millisecond),
	)
	s.goroutines.Go(s.runChecks)
	s.goroutines.Go(s.runRecorder)
	s.goroutines.Go(func() {
		defer s.apiListener.noteAccept() // in case Run failed before Accept
		defer s.apiListener.noteKitexWaits()
		if err := s.api.Run(); err != nil && s.ctx.Err() == nil {
			s.failed <- fmt.Errorf("frontend: serve: %w", err)
		}
	})
	return nil
}

// findWorkers starts to watch the lists of workers, and gossip if there is any. Each list calls takeList, so
// every listed worker gets a link.
func (s *Server) findWorkers() error {
	workers := s.cfg.Workers
	if s.fleet != nil {
		workers = Union{workers, s.fleet}
	}
	if err := workers.Watch(s.ctx, s.takeList); err != nil || s.fleet == nil {
		return err
	}
	return s.fleet.start()
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Advertised returns the address for clients and peers. The handles of jobs name it as owner.
func (s *Server) Advertised() string { return s.cfg.Advertise }

// Failed yields an error if the server stops serving by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Ready says why no jobs should be sent here, or returns nil if jobs may be sent.
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
		if up, _, _, _ := l.linkStatus(); up {
			return nil
		}
	}
	return errors.New("no worker is linked")
}

// Warning returns a problem of a frontend that serves all the same, or "".
func (s *Server) Warning() string {
	warnings := []string{s.terms.whyFileRejected(), s.workerList.whyWorkersKept()}
	if s.fleet != nil {
		warnings = append(warnings, s.fleet.whyCutOff(), s.fleet.whyAddrShared())
	}
	return strings.Join(slices.DeleteFunc(warnings, func(w string) bool { return w == "" }), "; ")
}

// fetchPatience bounds Drain's wait for the next poll of a job's client. After a cancellation the client may never
// come back.
const fetchPatience = 10 * time.Second

// confirmPatience bounds Drain's wait for a client to confirm outcomes. Drain waits if the client has all outcomes,
// and some task of the job may start only once.
const confirmPatience = 500 * time.Millisecond

// drainPoll is the period of Drain's checks.
const drainPoll = 5 * time.Millisecond

// firstCall bounds Drain's wait for the first call on a connection accepted just before.
var firstCall = time.Second

// Drain refuses new jobs. Drain returns when all jobs have ended, the clients have the outcomes, and the workers
// have all messages, or when ctx ends. An open job without a task left is given up, not waited for.
//
// While clients ask for a job by Events, the server accepts connections, because a client may connect for each call.
// After that, the server accepts no more clients. For up to firstCall (1 s), Drain still admits the jobs of clients
// that connected before Drain and have not called yet. Such a client may make a single call on each connection, and
// may know no further frontend.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	if _, _, hasPollers := s.countUnfinished(); !hasPollers {
		s.stopAccepting()
	}
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for until := time.Now().Add(firstCall); s.listener.awaitsFirstCalls() && time.Now().Before(until) &&
		ctx.Err() == nil; {
		<-tick.C
	}
	s.mu.Lock()
	s.stepLocked(frontend.Leave{})
	s.unlockAndFlush()
	var answering map[*clientConn]int64 // connections whose last answer was not written
	var pinged map[*link]uint64         // links whose last Ping has no answer yet
	for {
		s.giveUpOpenJobs()
		unfinished, unfetched, hasPollers := s.countUnfinished()
		if !hasPollers {
			s.stopAccepting()
		}
		if unfinished == 0 && unfetched == 0 {
			if answering == nil {
				answering = s.listener.listAnswering()
			}
			maps.DeleteFunc(answering,
				func(c *clientConn, answers int64) bool { return c.closed.Load() || c.answerCount.Load() != answers })
			if len(answering) == 0 && pinged == nil {
				pinged = s.sendLastReceipts()
			}
			maps.DeleteFunc(pinged, (*link).hasAnswered)
			if len(answering)+len(pinged) == 0 {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf(
				"frontend: %d jobs are unfinished, the outcomes of %d were not fetched, %d workers have not taken all "+
					"messages: %w", unfinished, unfetched, len(pinged), context.Cause(ctx))
		}
	}
}

// giveUpOpenJobs gives up the open jobs that have no task left. Their clients may add tasks at any time, and take
// the jobs to another frontend.
func (s *Server) giveUpOpenJobs() {
	s.mu.Lock()
	defer s.unlockAndFlush()
	for id, r := range s.jobs {
		if !r.isRun && !r.ended && r.unfinished == 0 && len(r.outcomes) == 0 {
			s.laterEvents = append(s.laterEvents, frontend.Outdated{Job: id})
		}
	}
}

// sendLastReceipts tells the workers that clients have all results. Then it sends a Ping on every link, and returns
// the number of each Ping.
func (s *Server) sendLastReceipts() map[*link]uint64 {
	s.mu.Lock()
	s.settleReceipts()
	s.unlockAndFlush()
	s.mu.Lock()
	defer s.mu.Unlock()
	pings := map[*link]uint64{}
	for _, l := range s.links {
		if l != nil {
			pings[l] = l.sendPing()
		}
	}
	return pings
}

// stopAccepting ends listening. Connections stay.
func (s *Server) stopAccepting() {
	s.endAccept()
	s.listener.Close()
}

// countUnfinished counts the jobs under way, and the ended jobs with outcomes to be fetched. hasPollers says
// whether clients still ask for any counted job by Events.
func (s *Server) countUnfinished() (unfinished, unfetched int, hasPollers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range s.jobs {
		if r.ended && !r.inEndedList &&
			(len(r.waitingPolls) > 0 || now.Sub(r.endedAt) < fetchPatience || now.Sub(r.polledAt) < fetchPatience) {
			unfetched++
			hasPollers = hasPollers || !r.isRun
		}
		if r.inEndedList && r.hasOnceTasks && !r.isRun && len(r.receipts) > 0 && now.Sub(r.polledAt) < confirmPatience {
			unfetched++
			hasPollers = true
		}
		hasPollers = hasPollers || !r.ended && !r.isRun
	}
	return s.core.Jobs(), unfetched, hasPollers
}

// Close stops serving at once. Jobs under way are lost to the frontend. The clients take the jobs to peers.
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
		r.notifyWaiters()
	}
	clear(s.jobs) // calls under way, and runChecks, find no job to end once more
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
	<-s.apiListener.kitexWaits
	<-s.apiListener.acceptCalled // before Accept there is nothing for Stop to stop
	s.api.Stop()                 // logs calls without an answer, whose connections are closed already
	s.peers.close()
	s.files.Close()
	s.goroutines.Wait()
	return err
}

// setWorkers makes links to new workers and retires the links of workers no longer listed.
func (s *Server) setWorkers(addrs []string) {
	var gone []*link
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	listed := make(map[string]bool, len(addrs))
	for _, addr := range addrs {
		listed[addr] = true
	}
	var free []int
	for i, l := range s.links {
		if l != nil && !listed[l.addr] {
			s.links[i] = nil
			delete(s.byAddr, l.addr)
			s.forgetRun(l)
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
	s.unlockAndFlush()
	for _, l := range gone {
		s.log.Info("worker taken off the list", "worker", l.addr)
		l.retire()
	}
}

// isLinked reports whether a link to the worker at addr is up.
func (s *Server) isLinked(addr string) bool {
	s.mu.Lock()
	l := s.byAddr[addr]
	s.mu.Unlock()
	if l == nil {
		return false
	}
	up, _, _, _ := l.linkStatus()
	return up
}

// dialWorker connects to the worker at addr. Keep-alive probes and the user timeout end a dead connection.
func (s *Server) dialWorker(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{
		Timeout:         s.cfg.DialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3},
		Control: func(_, _ string, c syscall.RawConn) error {
			limitUnsent(c, maxKernelUnsent)
			return setUserTimeout(c, s.cfg.Lease)
		},
	}
	return s.cfg.Keys.Connect(ctx, d.DialContext, addr, identity.Worker)
}

// hasLink reports whether l is still a link of this server. After l is retired, its key may belong to another link.
// The mutex is held.
func (s *Server) hasLink(l *link) bool { return int(l.key) < len(s.links) && s.links[l.key] == l }

// reportUp tells the core that connection c is up, and reports whether c is. If not, c is closed already, or the
// link other has the same worker.
func (s *Server) reportUp(c *linkConn, m probe.Welcome) (other *link, ok bool) {
	s.mu.Lock()
	defer s.unlockAndFlush()
	l := c.link
	if !s.hasLink(l) {
		return nil, false
	}
	s.forgetRun(l)
	l.workerRun, l.recordNumber = workerRun{m.Worker, m.Incarnation}, 0
	if other := s.findTwin(l); other != nil {
		return other, false
	}
	if !c.markUp() {
		return nil, false
	}
	s.linkByRun[l.workerRun] = l
	s.stepLocked(frontend.WorkerUp{Worker: l.key, Welcome: m})
	return nil, true
}

// findTwin returns another link to the worker that was found at l's address, or nil. A worker keeps only the latest
// of a frontend's connections, so two links would take the worker from each other without end. The mutex is held.
func (s *Server) findTwin(l *link) *link {
	if other := s.linkByRun[l.workerRun]; other != nil && other != l && other.isUpOrRecent(s.cfg.Lease) {
		return other
	}
	return nil
}

// isLinkedElsewhere reports whether l has a twin. While l has one, l should not connect.
func (s *Server) isLinkedElsewhere(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findTwin(l) != nil
}

// forgetRun forgets the run of the worker found at l's address. The mutex is held.
func (s *Server) forgetRun(l *link) {
	if s.linkByRun[l.workerRun] == l {
		delete(s.linkByRun, l.workerRun)
	}
}

// reportLost tells the core that l broke, if l is still down. A late report would make the core drop a new link,
// and no later event would correct that. WorkerUp alone tells the core that an earlier connection is over.
func (s *Server) reportLost(l *link, ev frontend.Event) {
	s.mu.Lock()
	l.mu.Lock()
	up := l.isUp()
	l.mu.Unlock()
	if !up && s.hasLink(l) {
		s.stepLocked(ev)
	}
	s.unlockAndFlush()
}

// stepFrame steps the core with the messages of a frame.
func (s *Server) stepFrame(l *link, msgs []probe.Msg) {
	s.mu.Lock()
	if s.hasLink(l) {
		for _, m := range msgs {
			if pong, ok := m.(probe.Pong); ok {
				l.notePong(pong.Seq)
			}
		}
		s.stepLocked(frontend.Frame{Worker: l.key, Msgs: msgs})
	}
	s.unlockAndFlush()
}

// stepLocked steps the core with ev and carries out the actions. The mutex is held.
func (s *Server) stepLocked(ev frontend.Event) {
	now := time.Now()
	s.sweepAfterPause(now)
	s.steppedAt = now
	s.acts = s.core.Step(now, ev, s.acts[:0])
	for _, a := range s.acts {
		s.carryOut(a)
	}
	clear(s.acts)
}

// carryOut carries out one action of the core. The mutex is held.
func (s *Server) carryOut(a frontend.Action) {
	switch a := a.(type) {
	case frontend.Send:
		if int(a.Worker) >= len(s.links) || s.links[a.Worker] == nil {
			return // taken off the list
		}
		l := s.links[a.Worker]
		l.send(a.Msg)
		switch {
		case a.MayWait:
			s.flushSoon(a.Worker)
		case len(s.dirtyLinks) == 0 || s.dirtyLinks[len(s.dirtyLinks)-1] != l:
			s.dirtyLinks = append(s.dirtyLinks, l)
		}
	case *frontend.Done:
		s.metrics.outcomes[a.Outcome.Kind].Inc()
		if r := s.jobs[a.Job]; r != nil {
			if r.addOutcome(&a.Outcome, s.cfg.MaxRunResult, &s.scratch); !r.isRun {
				s.countUnread(r)
			}
			s.countTask(&r.timing, &a.Outcome)
		}
	case frontend.Accepted:
		s.metrics.accepted.Inc()
		s.recorder.tally.Accepted++
	case frontend.Refused:
		s.metrics.refusals[a.Err.Reason].Inc()
		s.recorder.tally.Refused[refusedReasons[a.Err.Reason]]++
		r := s.jobs[a.Job]
		r.refused = a.Err
		delete(s.jobs, a.Job)
	case frontend.Extended:
		r := s.jobs[a.Job]
		r.extended = a
		r.unfinished += a.Added
	case frontend.Ended:
		s.endJob(a.Job)
	case frontend.Collect:
		s.ackFromWorker(a.Worker)
	case frontend.Moved:
		s.log.Info("job was claimed by another frontend", "job", a.Job.String())
		if r := s.jobs[a.Job]; r != nil {
			r.moved = true
		}
		s.endJob(a.Job)
	}
}

// unlockAndFlush sets the timer, unlocks, and writes the messages and answers of the steps since the lock.
func (s *Server) unlockAndFlush() {
	s.ackArrived(s.steppedAt, 4)
	for len(s.laterEvents) > 0 {
		later := s.laterEvents
		s.laterEvents = nil
		for _, ev := range later {
			s.stepLocked(ev)
		}
	}
	var linkRoom [16]*link
	dirty := append(linkRoom[:0], s.dirtyLinks...)
	var replyRoom [4]reply
	replies := append(replyRoom[:0], s.replies...)
	clear(s.dirtyLinks)
	clear(s.replies)
	s.dirtyLinks, s.replies = s.dirtyLinks[:0], s.replies[:0]
	wakeAt := s.core.NextWake()
	if wakeAt.IsZero() || !s.lingerAt.IsZero() && s.lingerAt.Before(wakeAt) {
		wakeAt = s.lingerAt
	}
	// A timer that fires too early costs a Wake without effect. So the timer moves only if it would fire too late,
	// and is not set again and again for jobs that end before the timer fires.
	if s.timer != nil && !wakeAt.IsZero() && (s.timerAt.IsZero() || wakeAt.Before(s.timerAt)) {
		s.timerAt = wakeAt
		s.timer.Reset(time.Until(wakeAt))
	}
	urgent := s.core.Jobs() <= fewJobs
	s.mu.Unlock()
	for _, l := range dirty {
		l.flush(urgent)
	}
	for _, r := range replies {
		r.conn.writeAnswer(r.frame)
	}
}

// fewJobs is the largest number of jobs under way at which messages to workers are written at once. With more jobs,
// more messages follow soon. Then fastrpc's goroutine, which has to be woken, finds more to write. That halves the
// writes for no-op jobs of 100 tasks, 16 in flight.
const fewJobs = 4

// flushSoon has a worker's link flushed within frontend.LingerFor, if no other message flushes the link before.
func (s *Server) flushSoon(key frontend.Worker) {
	if s.lingerAt.IsZero() {
		s.lingerAt = time.Now().Add(frontend.LingerFor)
	}
	if n := len(s.lingeringWorkers); n == 0 || s.lingeringWorkers[n-1] != key {
		s.lingeringWorkers = append(s.lingeringWorkers, key)
	}
}

// flushLingering flushes all links that flushSoon noted.
func (s *Server) flushLingering() {
	for _, key := range s.lingeringWorkers {
		if int(key) < len(s.links) && s.links[key] != nil { // else taken off the list meanwhile
			s.dirtyLinks = append(s.dirtyLinks, s.links[key])
		}
	}
	s.lingeringWorkers, s.lingerAt = s.lingeringWorkers[:0], time.Time{}
}

// onTimer flushes lingering links and steps the core when the timer fires.
func (s *Server) onTimer() {
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	s.timerAt = time.Time{}
	if !s.lingerAt.IsZero() && !time.Now().Before(s.lingerAt) {
		s.flushLingering()
	}
	s.stepLocked(frontend.Wake{})
	s.unlockAndFlush()
}

// checkLinks gives up the workers that are silent. All silent workers are given up before any task goes elsewhere.
// Otherwise a task would go to the next silent worker, and so on, until the core blames the task for the deaths. If
// the process or the machine was stopped, absence is the length of the stop. During the stop the process did not
// listen, so the workers may not have been silent.
func (s *Server) checkLinks(links []*link, absence time.Duration) {
	var silent []*link
	for _, l := range links {
		if absence > s.cfg.Lease/3 {
			l.excuseAbsence(absence)
		}
		if l.checkConn(s.cfg.Lease) {
			silent = append(silent, l)
		}
	}
	for _, l := range silent {
		s.reportLost(l, frontend.WorkerGone{Worker: l.key})
	}
}

// runChecks looks after silent links, clients' connections, and jobs whose clients are gone. It also tells the core
// the cost of messages.
func (s *Server) runChecks() {
	every := min(s.cfg.Lease/3, s.cfg.ClientGrace/3, time.Second)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var m cpuMeter
	m.measureBusy()
	var shared time.Time
	for last := monotonicNow(); ; {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		now := monotonicNow()
		absence := time.Duration(now-last) - every
		last = now
		busy := m.measureBusy()
		s.mu.Lock()
		s.stepLocked(busy)
		s.unlockAndFlush()
		if at := time.Now(); at.Sub(shared) >= shareEvery {
			shared = at
			s.shareNeeds()
			s.shareLessons()
		}
		s.checkLinks(s.allLinks(), absence)
		s.listener.sweepIdle()
		s.listener.endCallsOfGone()
		s.recheckList()
		s.peers.dropLost(time.Now())
		s.sweepJobs()
		if s.fleet != nil {
			s.fleet.dropFormer()
		}
	}
}
