package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// Server is a worker: it listens for frontends, and runs their tasks. Its methods are safe for concurrent use.
type Server struct {
	cfg         Config
	log         *slog.Logger
	meters      *meters
	pool        *exec.Pool
	alarm       *exec.Alarm
	incarnation uint64
	door        *door.Door
	engine      engine
	addr        net.Addr // set by Start
	closeOnce   sync.Once
	closeErr    error

	done chan struct{} // closed when the server serves no more
	err  error         // the reason, before done is closed

	mu           sync.Mutex
	core         *worker.Core
	acts         []worker.Action
	exits        []worker.Exited // of tasks that ended during their start
	links        map[worker.LinkID]*conn
	nextLink     worker.LinkID
	tasks        map[probe.AttemptID]exec.Running
	connsToWrite []*conn // whose outbox the holder of the mutex must write
	wake         *exec.Timer
	wakeAt       time.Time // when wake is due; zero: never
	stepping     bool      // a panic now leaves the core broken
	started      bool
	leaving      bool
	closing      bool
	ended        bool // closed: the core takes no more events

	store store

	announcer        *announcer // nil: the worker announces itself to no frontend
	matrix           probe.WaitMatrix
	matrixAt         time.Time
	finished, failed uint64 // attempts that ended by themselves, and the failures among them
	maintenance      struct {
		at    time.Time
		lasts time.Duration
	}

	idle      chan struct{} // closed when a leaving core is idle
	idleKnown bool
}

// New returns a server. The server listens from Start on, and must be closed.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	// Another worker with the same registry may have allowed processes before.
	if cfg.AllowExec && !slices.Contains(cfg.Registry.Names(), "exec") {
		if err := cfg.Registry.AllowProcessesAs(cfg.Processes); err != nil {
			return nil, fmt.Errorf("allow processes: %w", err)
		}
	}
	cfg.Core.Functions = cfg.Registry.Names()
	pool, err := exec.NewPool(cfg.Registry)
	if err != nil {
		return nil, err
	}
	if text, isWarning := pool.DescribeProcesses(); cfg.AllowExec && isWarning {
		cfg.Logger.Warn("commands are allowed: " + text)
	} else if cfg.AllowExec {
		cfg.Logger.Info("commands are allowed: " + text)
	}
	alarm, err := exec.OpenAlarm()
	if err != nil {
		return nil, errors.Join(err, pool.Close(context.Background()))
	}
	s := &Server{
		cfg:         cfg,
		log:         cfg.Logger,
		meters:      newMeters(cfg.Metrics, cfg.Core.Capacity),
		pool:        pool,
		alarm:       alarm,
		incarnation: rows.NewIncarnation(time.Now().UnixMilli(), rand.Uint64()),
		done:        make(chan struct{}),
		core:        worker.New(cfg.Core),
		links:       map[worker.LinkID]*conn{},
		tasks:       map[probe.AttemptID]exec.Running{},
		store:       store{fetches: map[probe.AttemptID]*fetch{}, origins: map[string]*originQueue{}},
		idle:        make(chan struct{}),
	}
	RaiseFileLimit(uint64(cfg.MaxConns) + filesLeftFree)
	s.door = s.newDoor()
	if cfg.Goroutines {
		s.engine = &goEngine{server: s, streams: map[*stream]bool{}}
	} else {
		s.engine = &gnetEngine{server: s, booted: make(chan struct{}), stopped: make(chan struct{})}
	}
	return s, nil
}

// Start listens, and returns once the worker accepts connections. Start may be called once.
func (s *Server) Start() error {
	s.mu.Lock()
	if s.started || s.closing {
		s.mu.Unlock()
		return errors.New("worker: Start was called twice, or after Close")
	}
	err := s.openStore()
	s.started = err == nil
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.engine.start(); err != nil {
		return fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	s.log.Info("worker serves", "worker", s.cfg.Name, "address", s.addr.String(),
		"capacity", s.cfg.Core.Capacity.String(), "functions", s.cfg.Core.Functions)
	if len(s.cfg.Join) > 0 {
		return s.startAnnouncing()
	}
	return nil
}

// adoptAddr notes the address, before there are connections.
func (s *Server) adoptAddr(addr net.Addr) {
	s.addr = addr
	if s.cfg.Name == "" {
		_, port, _ := net.SplitHostPort(addr.String())
		s.cfg.Name = s.cfg.Host + ":" + port
	}
}

// Addr returns the address of the server, after Start.
func (s *Server) Addr() net.Addr { return s.addr }

// Done is closed when the server serves no more: after Close, or after the error that Err returns.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns the error that ended the server, once Done is closed; nil after Close.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Ready returns nil while the worker should be given work.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return errors.New("draining")
	}
	return s.Err()
}

// Drain refuses new work. It returns nil when all tasks have ended and frontends have acknowledged all results. If
// ctx ends first, Drain returns the cause of ctx. If the server ends first, Drain returns the error of the server.
// Close must still follow.
func (s *Server) Drain(ctx context.Context) error {
	s.withCore(nil, func(now time.Time) {
		s.leaving = true
		s.stepCore(now, worker.Leave{})
		s.announceChange()
	})
	select {
	case <-s.idle:
		return nil
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeWait is the time that Close gives Go functions to heed their context.
var closeWait = 2 * time.Second

// Close breaks all connections and kills all tasks. The error names tasks that would not end.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	<-s.done
	return s.closeErr
}

func (s *Server) close() error {
	s.mu.Lock()
	started, announcer := s.started, s.announcer
	s.closing = true
	if s.wake != nil {
		s.wake.Stop()
	}
	s.mu.Unlock()
	if announcer != nil {
		announcer.stop()
		<-announcer.stopped
	}
	if started {
		s.engine.stop()
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeWait, errors.New("they ignore their context"))
	defer cancel()
	err := s.pool.Close(ctx)
	err = errors.Join(err, s.alarm.Close(), s.closeStore())
	s.mu.Lock()
	s.ended = true
	s.meters.followCore(&s.core.Stats, probe.Load{})
	s.meters.followUnsent(0, 0)
	s.mu.Unlock()
	s.closeDone(nil)
	return err
}

// closeDone closes done, the first time.
func (s *Server) closeDone(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
	default:
		s.err = err
		close(s.done)
	}
}

// fail ends the server for a reason other than Close. Close must still release its resources.
func (s *Server) fail(err error) {
	s.log.Error("worker fails", "worker", s.cfg.Name, "err", err)
	s.closeDone(err)
}

// engineStopped is called when an engine that had started has ended.
func (s *Server) engineStopped(err error) {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if !closing {
		s.fail(fmt.Errorf("the network engine stopped by itself: %w",
			cmp.Or(err, errors.New("it could not accept connections"))))
	}
}

// recoverPanic keeps a panic from ending the process, which may be another program's, and calls cleanUp. A panic
// in the core's step leaves the core broken and ends the server. Use recoverPanic by defer, without holding the
// mutex.
func (s *Server) recoverPanic(doing string, cleanUp func()) {
	v := recover()
	if v == nil {
		return
	}
	s.meters.countFault("panic")
	err := fmt.Errorf("panic while %s: %v\n%s", doing, v, debug.Stack())
	s.mu.Lock()
	broken := s.stepping
	s.mu.Unlock()
	if broken {
		s.fail(err)
	} else {
		s.log.Error("worker recovers", "worker", s.cfg.Name, "err", err)
	}
	if cleanUp != nil {
		cleanUp()
	}
}

// withCore runs f, which steps the core, and then writes the core's messages. The argument home is the caller's
// home if the caller runs at a connection's home, and otherwise nil.
func (s *Server) withCore(home any, f func(now time.Time)) {
	var room [8]*conn
	for _, c := range s.runLocked(room[:0], f) {
		c.writeTaken(c.home == home)
	}
}

// runLocked runs f under the mutex, and appends the connections that the caller has to write to conns.
func (s *Server) runLocked(conns []*conn, f func(now time.Time)) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(time.Now())
	return s.endLocked(conns)
}

// deliverBatch brings the received messages of c to the core, and reports received bytes.
func (s *Server) deliverBatch(c *conn) {
	s.withCore(c.home, func(now time.Time) {
		if !c.hadLink {
			s.linkUp(now, c)
		}
		for _, m := range c.batch {
			if c.link == 0 {
				break
			}
			if away, ok := m.(probe.Away); ok {
				go s.obeyOperator(away, c.frontendName, c.wire.RemoteAddr().String())
				continue
			}
			if _, ping := m.(probe.Ping); ping { // Pong tells the progress of tasks
				s.deliverProgress(now)
			}
			s.stepCore(now, worker.Received{Link: c.link, Msg: m})
		}
		if c.arrived >= reportArrived && c.link != 0 {
			s.stepCore(now, worker.Arrived{Link: c.link, Bytes: c.arrived})
			c.arrived = 0
		}
	})
}

// deliverProgress brings the latest reports of running tasks, and the latest samples of processes, to the core.
func (s *Server) deliverProgress(now time.Time) {
	var ev worker.Progressed
	for id, r := range s.tasks {
		if done, ago := r.Progress(); done > 0 {
			ev.Attempts = append(ev.Attempts, worker.Progress{Attempt: id, Done: done, Ago: ago})
		}
		if use := r.Use(); use.Ran > 0 {
			ev.Uses = append(ev.Uses, probe.Use{Attempt: id, Ran: use.Ran, CPU: use.CPU,
				Memory: probe.MiB(min((use.Memory+1<<20-1)>>20, math.MaxInt32))})
		}
	}
	if len(ev.Attempts)+len(ev.Uses) > 0 {
		s.stepCore(now, ev)
	}
}

// linkUp welcomes a frontend, and gives its connection a link.
func (s *Server) linkUp(now time.Time, c *conn) {
	s.nextLink++
	c.hadLink, c.link, c.outEpoch = true, s.nextLink, c.epoch
	s.links[c.link] = c
	s.meters.links.Inc()
	s.queueMsg(c, probe.Welcome{
		Speaks:      probe.Spoken,
		Epoch:       c.epoch,
		Worker:      s.cfg.Name,
		Incarnation: s.incarnation,
		Host:        s.cfg.Host,
		Rack:        s.cfg.Rack,
		Capacity:    s.cfg.Core.Capacity,
		Open:        s.cfg.Core.AlwaysOpen(),
		Labels:      s.cfg.Labels,
		Functions:   s.cfg.Core.Functions,
		MaxPayload:  uint32(s.cfg.Core.MaxPayload),
		MaxResult:   uint32(s.cfg.MaxResult),
		Speed:       uint32(math.Round(s.cfg.Speed * 1000)),
		Cache:       s.store.addr,
		Draining:    s.leaving,
	})
	s.stepCore(now, worker.LinkUp{Link: c.link, Frontend: c.frontend, Features: c.features})
}

// reportLinkDown tells the core that the connection c is closed, and its link down. It does nothing if the core
// dropped the link before.
func (s *Server) reportLinkDown(c *conn) {
	s.withCore(c.home, func(now time.Time) {
		if id := c.link; id != 0 {
			s.forgetLink(c)
			s.stepCore(now, worker.LinkDown{Link: id})
		}
	})
}

// forgetLink forgets the link of a connection.
func (s *Server) forgetLink(c *conn) {
	delete(s.links, c.link)
	c.link = 0
	s.meters.links.Dec()
}

// stepCore steps the core with an event and carries out the actions. Then it steps the core with the exits of tasks
// that ended during their start. The mutex is held.
func (s *Server) stepCore(now time.Time, ev worker.Event) {
	if s.stepping || s.ended {
		return // stepping is still set: a panic broke the core
	}
	s.stepping = true
	s.acts = s.core.Step(now, ev, s.acts[:0])
	s.performActions(now)
	for i := 0; i < len(s.exits); i++ {
		s.acts = s.core.Step(now, &s.exits[i], s.acts[:0])
		s.performActions(now)
	}
	clear(s.exits)
	s.exits = s.exits[:0]
	s.stepping = false
}

// performActions carries out the actions of a step. No action blocks.
func (s *Server) performActions(now time.Time) {
	for _, a := range s.acts {
		switch a := a.(type) {
		case *worker.Send:
			if c := s.links[a.Link]; c != nil {
				s.queueMsg(c, a.Msg)
				if a.Report {
					c.reportWhenSent()
				}
			}
			if m, ok := a.Msg.(probe.Ready); ok {
				s.meters.wait.addDuration(m.Waited)
			}
		case *worker.Start:
			s.startAttempt(a)
		case worker.Stop:
			if r := s.tasks[a.Attempt]; r != nil {
				r.Kill("its frontend does not want it any more, or other work needed the room")
			}
		case worker.Drop:
			if c := s.links[a.Link]; c != nil {
				s.forgetLink(c)
				c.wire.Close()
			}
		case worker.Fetch:
			s.queueFetch(&a, now)
		case worker.Release:
			s.releaseFetch(a.Attempt)
		}
	}
	clear(s.acts)
}

// startAttempt starts an attempt. If the attempt ends at once, its end goes to s.exits.
func (s *Server) startAttempt(a *worker.Start) {
	id := a.Launch.Attempt
	task := exec.Attempt{
		Function:  a.Launch.Function,
		Payload:   a.Launch.Payload,
		Timeout:   a.Launch.Timeout,
		Deadline:  a.Launch.Deadline,
		MaxResult: s.cfg.MaxResult,
		Memory:    a.Demand.Mem,
		Job:       a.Job,
		Index:     a.Launch.Task,
		Tenant:    a.Tenant,
		Worker:    s.cfg.Name,
		Demand:    a.Demand,
		Common:    a.Common,
		Context:   a.Launch.Context,
	}
	if s.store.cache != nil {
		task.Store = &s.store
	}
	if len(a.Launch.Files) > 0 {
		task.Files = s.filePaths(id)
	}
	result, ended := s.pool.Inline(&task)
	if !ended {
		s.startInPool(id, &task)
		return
	}
	if s.store.cache != nil && len(result.Passed) > 0 {
		s.store.noteTenant(task.Tenant, nil, result.Passed)
	}
	s.exits = append(s.exits, s.exitEvent(id, &result))
}

// startInPool has the executor run an attempt, which may also end at once.
func (s *Server) startInPool(id probe.AttemptID, task *exec.Attempt) {
	onEnd := func(r exec.Result) { s.attemptExited(id, &r) }
	if s.store.cache != nil {
		tenant, inputs := task.Tenant, []probe.Passed(nil)
		if task.Context != nil {
			inputs = task.Context.Inputs
		}
		onEnd = func(r exec.Result) {
			s.store.noteTenant(tenant, inputs, r.Passed) // without the mutex: the cache may wait for its disk
			s.attemptExited(id, &r)
		}
	}
	running, result, ended := s.pool.Start(*task, onEnd)
	if ended {
		s.exits = append(s.exits, s.exitEvent(id, &result))
		return
	}
	s.tasks[id] = running // attemptExited waits for the mutex, so tasks is set first
}

// attemptExited is called by the executor at the end of an attempt.
func (s *Server) attemptExited(id probe.AttemptID, r *exec.Result) {
	defer s.recoverPanic("ending a task", nil)
	s.withCore(nil, func(now time.Time) {
		delete(s.tasks, id)
		ev := s.exitEvent(id, r)
		s.stepCore(now, &ev)
	})
}

// exitEvent counts the end of an attempt, and returns the event for the core.
func (s *Server) exitEvent(id probe.AttemptID, r *exec.Result) worker.Exited {
	status := statuses[r.Status]
	s.meters.countExited(status, r.Run)
	if status != probe.Killed {
		s.finished++
		if status != probe.Succeeded {
			s.failed++
		}
	}
	return worker.Exited{
		Attempt: id, Status: status, Result: r.Output, Error: r.Err,
		Run: r.Run, CPU: r.CPU, Memory: probe.MiB((r.MaxRSS + 1<<20 - 1) >> 20),
		Code: r.Code, Detail: r.Detail, Retry: r.Retry, Outputs: r.Passed, DiskFailed: r.DiskFailed,
	}
}

var statuses = [...]probe.Status{
	exec.Succeeded: probe.Succeeded,
	exec.Failed:    probe.Failed,
	exec.Panicked:  probe.Panicked,
	exec.Killed:    probe.Killed,
	exec.TimedOut:  probe.TimedOut,
	exec.TooLarge:  probe.TooLarge,
	exec.NoInput:   probe.NoInput,
}

// queueMsg puts a message into a connection's outbox. The mutex is held. If the connection has no writer, the
// holder of the mutex becomes the writer.
func (s *Server) queueMsg(c *conn, m probe.Msg) {
	if !c.writing {
		c.writing = true
		s.connsToWrite = append(s.connsToWrite, c)
	}
	c.appendMsg(m)
}

// reportSent tells the core which messages of c have left, if the kernel has all taken bytes except the last waiting
// bytes. It reports whether the core was told anything. The mutex is held.
func (s *Server) reportSent(c *conn, waiting int) (any bool) {
	for len(c.reports) > 0 && c.reports[0] <= c.allTaken-int64(waiting) {
		c.reports = c.reports[1:]
		if c.link != 0 {
			s.stepCore(time.Now(), worker.Sent{Link: c.link})
			any = true
		}
	}
	return any
}

// endLocked ends the work under the mutex, which is still held. It updates the metrics and the alarm, and appends the
// connections that the caller has to write to conns.
func (s *Server) endLocked(conns []*conn) []*conn {
	if s.ended {
		return nil
	}
	s.meters.followCore(&s.core.Stats, s.core.Load())
	s.meters.followUnsent(s.core.Unsent())
	s.setAlarm()
	if s.leaving && !s.idleKnown && s.core.Idle() {
		s.idleKnown = true
		close(s.idle)
	}
	for i, c := range s.connsToWrite {
		c.takeOutbox()
		conns = append(conns, c)
		s.connsToWrite[i] = nil
	}
	s.connsToWrite = s.connsToWrite[:0]
	return conns
}

// setAlarm has Wake sent when the core's next wake is due. An early Wake does no harm, so setAlarm never puts off
// the alarm.
func (s *Server) setAlarm() {
	at := s.core.NextWake()
	if at.IsZero() || !s.wakeAt.IsZero() && !at.Before(s.wakeAt) || s.closing {
		return
	}
	if s.wake != nil {
		s.wake.Stop()
	}
	s.wakeAt = at
	s.wake = s.alarm.About(at, s.wakeUp)
}

// wakeUp is called by the alarm.
func (s *Server) wakeUp() {
	defer s.recoverPanic("waking up", nil)
	s.withCore(nil, func(now time.Time) {
		s.wakeAt, s.wake = time.Time{}, nil
		s.stepCore(now, worker.Wake{})
	})
}
