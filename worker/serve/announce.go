package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/heartbeat"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/names"
)

const (
	// beatTimeout bounds a heartbeat and the connection for it: less than the time between two heartbeats.
	beatTimeout = 900 * time.Millisecond
	// leaveTimeout bounds the last heartbeats, with the news of the departure.
	leaveTimeout = 500 * time.Millisecond
)

// announcer tells frontends about this worker and its state. Only its own goroutine uses an announcer, except for
// the fields changed and stop.
type announcer struct {
	server           *Server
	log              *slog.Logger
	beats            *rows.Announcer
	conns            map[string]*heartbeat.Conn
	problem          string    // last logged reason why no frontend knows this worker
	problemLoggedAt  time.Time // when problem was last logged
	newerRun         uint64    // last logged newer run under this worker's name
	filesAnnouncedAt time.Time // when frontends last got a new list of files

	changed chan struct{} // news for frontends, to be sent at once
	seeds   chan []string // addresses behind the names of frontends, after a change
	ctx     context.Context
	stop    context.CancelFunc
	stopped chan struct{}
}

// startAnnouncing starts the announcer. The address and the name are known.
func (s *Server) startAnnouncing() error {
	cfg := &s.cfg
	addr := cfg.Advertise
	if addr == "" {
		addr = s.addr.String()
	}
	beats, err := rows.NewAnnouncer(names.Plain(cfg.Join), rows.Profile{
		Name: cfg.Name, Addr: addr, Host: cfg.Host, Rack: cfg.Rack, Capacity: cfg.Core.Capacity, Labels: cfg.Labels,
	}, s.incarnation)
	if err != nil {
		return err
	}
	a := &announcer{
		server: s, log: s.log.With("worker", cfg.Name), beats: beats, conns: map[string]*heartbeat.Conn{},
		changed: make(chan struct{}, 1), seeds: make(chan []string), stopped: make(chan struct{}),
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.announcer = a
		go a.runLoop()
		if slices.ContainsFunc(cfg.Join, names.Is) {
			go a.lookUp(cfg.Join)
		}
	}
	return nil
}

// announceChange has a change announced at once. The mutex is held.
func (s *Server) announceChange() {
	if s.announcer == nil {
		return
	}
	select {
	case s.announcer.changed <- struct{}{}:
	default:
	}
}

// Maintenance announces that this worker will be away: the absence begins after in, and takes lasts. If lasts is 0,
// the worker withdraws an earlier announcement. Frontends use the announcement to place tasks by estimation.
func (s *Server) Maintenance(in, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maintenance.at, s.maintenance.lasts = time.Now().Add(in), lasts
	s.announceChange()
}

// obeyOperator carries out an order that an operator gave through a frontend.
func (s *Server) obeyOperator(m probe.Away, frontend, addr string) {
	defer s.recoverPanic("leaving", nil)
	request := "maintenance"
	if m.Drain {
		request = "drain"
	}
	s.cfg.Audit.Note(audit.Entry{What: request, Name: frontend, From: addr}, nil)
	s.log.Info("an operator has this worker leave", "worker", s.cfg.Name, "frontend", frontend,
		"drain", m.Drain, "in", m.In.String(), "for", m.Lasts.String())
	switch {
	case !m.Drain:
		s.Maintenance(m.In, m.Lasts)
	case s.cfg.OnLeave != nil:
		s.cfg.OnLeave(frontend)
	default:
		_ = s.Drain(context.Background()) // Drain ends with the server
	}
}

// runLoop sends a round of heartbeats at each tick and at each change, until stop.
func (a *announcer) runLoop() {
	defer close(a.stopped)
	defer a.server.recoverPanic("announcing itself", nil)
	tick := time.NewTicker(rows.DefaultConfig.Heartbeat)
	defer tick.Stop()
	for {
		if a.sendRound(beatTimeout) { // a frontend wants more, at once
			a.sendRound(beatTimeout)
		}
		select {
		case <-tick.C:
		case <-a.changed:
		case addrs := <-a.seeds:
			a.beats.SetSeeds(addrs)
		case <-a.ctx.Done():
			a.announceLeaving()
			return
		}
	}
}

// lookUp follows the addresses behind the names of frontends.
func (a *announcer) lookUp(join []string) {
	warn := func(err error) { a.log.Warn("frontends cannot be looked up", "err", err) }
	names.Watcher{Addrs: join, Warn: warn}.Watch(a.ctx, func(addrs []string) {
		select {
		case a.seeds <- addrs:
		case <-a.ctx.Done():
		}
	})
}

// announceLeaving sends the last heartbeats of a leaving worker to its frontends.
func (a *announcer) announceLeaving() {
	if len(a.beats.Members()) > 0 {
		a.sendRound(leaveTimeout)
	}
	for _, c := range a.conns {
		c.Close()
	}
}

// filesEvery is the least time between two changes of the announced list of files.
const filesEvery = 10 * time.Second

// announceFiles puts the list of cached files into the heartbeats.
func (a *announcer) announceFiles() {
	if now := time.Now(); a.server.store.cache != nil && now.Sub(a.filesAnnouncedAt) >= filesEvery {
		if ids, changed := a.server.recentFiles(); changed && a.beats.SetFiles(ids) {
			a.filesAnnouncedAt = now
		}
	}
}

// beatResult is a heartbeat, and its outcome.
type beatResult struct {
	rows.Beat
	keys   *identity.Keys
	conn   *heartbeat.Conn
	answer rows.Answer
	err    error
}

// sendRound sends a heartbeat to each frontend that is due, and takes the answers. The result again means that a
// frontend asks for another heartbeat.
func (a *announcer) sendRound(timeout time.Duration) (again bool) {
	a.announceFiles()
	beats := a.beats.Beats(a.server.currentRow(a.ctx.Err() != nil), a.server.cfg.connSecrets().Tell())
	results := make([]beatResult, len(beats))
	deadline := time.Now().Add(timeout)
	var all sync.WaitGroup
	for i := range beats {
		r := &results[i]
		r.Beat, r.keys, r.conn = beats[i], a.server.cfg.Keys, a.conns[beats[i].Addr]
		all.Go(func() { r.sendBeat(deadline) })
	}
	all.Wait()

	var errs []error
	usedConns := make(map[string]*heartbeat.Conn, len(results))
	for i := range results {
		r := &results[i]
		outcome := "answered"
		if r.err == nil {
			usedConns[r.Addr] = r.conn
			again = a.beats.Answered(&r.Beat, &r.answer) || again
		} else {
			outcome = "failed"
			if errors.As(r.err, new(*heartbeat.RefusedError)) {
				outcome = "refused"
			}
			a.beats.Failed(&r.Beat)
			errs = append(errs, fmt.Errorf("%s: %w", r.Addr, withoutPorts(r.err)))
		}
		a.server.meters.countHeartbeat(outcome)
	}
	for addr, c := range a.conns { // of frontends that get no heartbeats any more
		if usedConns[addr] == nil && c != nil {
			c.Close()
		}
	}
	a.conns = usedConns
	a.logRound(errs, len(results), time.Now())
	return again
}

// sendBeat sends the heartbeat and takes the answer. If an old connection fails, sendBeat tries once more on a new
// connection. After an error conn is nil. sendBeat runs on a goroutine of its own.
func (r *beatResult) sendBeat(deadline time.Time) {
	old := r.conn
	if r.err = r.tryBeat(deadline); r.err != nil && old != nil &&
		!errors.As(r.err, new(*heartbeat.RefusedError)) && time.Now().Before(deadline) {
		r.err = r.tryBeat(deadline) // the frontend may have closed an idle connection, or restarted
	}
}

// tryBeat tries once, and connects first if there is no connection.
func (r *beatResult) tryBeat(deadline time.Time) (err error) {
	if r.conn == nil {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if r.conn, err = heartbeat.Dial(ctx, r.Addr, r.keys); err != nil {
			r.conn = nil
			return err
		}
	}
	if err = r.conn.Beat(deadline, &r.Heartbeat, &r.answer); err != nil {
		r.conn.Close()
		r.conn = nil
	}
	return err
}

// withoutPorts returns err without the ports, which differ from connection to connection. So the same problem is
// logged once.
func withoutPorts(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// repeatProblem is the time after which an unchanged problem is logged again: the log of a worker without frontends
// should show that the problem lasts, without a line for each round.
const repeatProblem = time.Minute

// logRound logs the state after a round at now, if the state is new, or if a problem was logged repeatProblem ago.
func (a *announcer) logRound(errs []error, total int, now time.Time) {
	problem := ""
	if total > 0 && len(errs) == total {
		problem = errors.Join(errs...).Error()
	}
	switch {
	case problem != "" && (problem != a.problem || now.Sub(a.problemLoggedAt) >= repeatProblem):
		a.problemLoggedAt = now
		a.log.Warn("no frontend takes this worker's heartbeats: new frontends will not find this worker",
			"err", problem)
	case problem == "" && a.problem != "":
		a.log.Info("a frontend takes this worker's heartbeats again")
	}
	a.problem = problem
	if newer := a.beats.Superseded(); newer != a.newerRun {
		if a.newerRun = newer; newer != 0 {
			a.log.Error("another worker that was started later has the name of this worker: " +
				"frontends ignore this worker until each has a name of its own")
		}
	}
}

// matrixEvery is the least time between two computations of the wait matrix, because a computation holds up the
// core. It is less than the time between heartbeats, so each heartbeat has a new matrix.
const matrixEvery = 900 * time.Millisecond

// currentRow returns this worker's row in the view of frontends, as of now. If leaves is set, the row says that the
// worker has left.
func (s *Server) currentRow(leaves bool) rows.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if age := now.Sub(s.matrixAt); age >= matrixEvery && !s.stepping && !s.ended {
		s.matrix, s.matrixAt = s.core.Matrix(now), now
	}
	r := rows.Row{
		Age: now.Sub(s.matrixAt), Draining: s.leaving, Finished: s.finished, Failed: s.failed,
		Speed: s.cfg.Speed, Matrix: s.matrix,
	}
	if leaves {
		r.State = rows.Left
	}
	// In counts from the time of the row, which was r.Age ago. A maintenance that has begun lasts for the rest
	// only.
	if in, lasts := s.maintenance.at.Sub(now), s.maintenance.lasts; lasts > 0 && in+lasts > 0 {
		r.Maintenance = rows.Maintenance{In: max(in, 0) + r.Age, Lasts: lasts + min(in, 0)}
	}
	return r
}

// checkAnnouncement reports errors in the announced data.
func (c *Config) checkAnnouncement() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Advertise != "" {
		if host, port, err := net.SplitHostPort(c.Advertise); err != nil || host == "" || port == "" || port == "0" {
			wrong("advertise %q: want host:port, where frontends reach this worker", c.Advertise)
		}
	}
	if len(c.Join) == 0 {
		if c.Advertise != "" && c.CacheDir == "" {
			wrong("an address to advertise, but no frontends to announce it to: " +
				"give the heartbeat addresses of some frontends")
		}
		return errs
	}
	for _, j := range c.Join {
		if err := names.Check(j); err != nil {
			wrong("join %w: want the heartbeat address of a frontend", err)
		}
	}
	if addr, err := net.ResolveTCPAddr("tcp", c.Listen); c.Advertise == "" && err == nil &&
		(addr.IP == nil || addr.IP.IsUnspecified()) {
		wrong("listen on %q: frontends cannot reach this worker at that address: set the address to advertise",
			c.Listen)
	}
	if len(c.Labels) > rows.MaxLabels {
		wrong("%d labels: a worker announces at most %d", len(c.Labels), rows.MaxLabels)
	}
	for _, l := range c.Labels {
		if len(l) > rows.MaxLabel {
			wrong("label %q has %d bytes: a worker announces labels of at most %d", l[:32], len(l), rows.MaxLabel)
		}
	}
	for _, s := range []struct{ what, text string }{
		{"name", c.Name}, {"host name", c.Host}, {"rack", c.Rack}, {"address", c.Advertise},
	} {
		if len(s.text) > rows.MaxName {
			wrong("the worker's %s has %d bytes: a worker announces at most %d", s.what, len(s.text), rows.MaxName)
		}
	}
	return errs
}
