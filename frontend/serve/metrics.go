package serve

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe/gossip"
	"github.com/phoebe-sched/phoebe/probe/gossip/view"
	"github.com/phoebe-sched/phoebe/probe/heartbeat"
)

// serverMetrics are what a frontend counts, in Prometheus' conventions.
type serverMetrics struct {
	set                                              *metrics.Set
	accepted, linksLost, protocolErrors, clientsLost *metrics.Counter
	unauthorized, forwarded, skipped                 *metrics.Counter
	connsRefused, connsIdle, connsGarbage            *metrics.Counter
	outcomes                                         [frontend.DeadlineExceeded + 1]*metrics.Counter
	refusals                                         [frontend.Leaving + 1]*metrics.Counter
	responseTime, runTime, queueTime, launchTime     *metrics.Histogram
}

func newMetrics(set *metrics.Set, s *Server) *serverMetrics {
	m := &serverMetrics{
		set:            set,
		accepted:       set.GetOrCreateCounter("frontend_jobs_accepted_total"),
		linksLost:      set.GetOrCreateCounter("frontend_links_lost_total"),
		protocolErrors: set.GetOrCreateCounter("frontend_protocol_errors_total"),
		skipped:        set.GetOrCreateCounter("frontend_messages_skipped_total"), // of kinds that only a newer worker knows
		clientsLost:    set.GetOrCreateCounter("frontend_clients_lost_total"),
		unauthorized:   set.GetOrCreateCounter("frontend_unauthorized_total"),
		forwarded:      set.GetOrCreateCounter("frontend_calls_forwarded_total"),
		connsRefused:   set.GetOrCreateCounter(`frontend_connections_closed_total{reason="limit"}`),
		connsIdle:      set.GetOrCreateCounter(`frontend_connections_closed_total{reason="idle"}`),
		connsGarbage:   set.GetOrCreateCounter(`frontend_connections_closed_total{reason="garbage"}`),
		responseTime:   set.GetOrCreateHistogram("frontend_job_response_seconds"),
		runTime:        set.GetOrCreateHistogram("frontend_task_run_seconds"),
		queueTime:      set.GetOrCreateHistogram("frontend_task_queue_seconds"),
		launchTime:     set.GetOrCreateHistogram("frontend_task_launch_seconds"),
	}
	for kind, name := range map[frontend.OutcomeKind]string{
		frontend.Result: "result", frontend.Failed: "failed", frontend.Cancelled: "cancelled", frontend.DeadlineExceeded: "deadline_exceeded",
	} {
		m.outcomes[kind] = set.GetOrCreateCounter(fmt.Sprintf("frontend_tasks_total{outcome=%q}", name))
	}
	for reason, name := range map[frontend.RefusedReason]string{
		frontend.Invalid: "invalid", frontend.TooBigJob: "too_large", frontend.NoSuchWorker: "no_worker",
		frontend.Overloaded: "overloaded", frontend.Leaving: "draining",
	} {
		m.refusals[reason] = set.GetOrCreateCounter(fmt.Sprintf("frontend_jobs_refused_total{reason=%q}", name))
	}
	gauge := func(name string, value func() float64) {
		set.GetOrCreateGauge(fmt.Sprintf("%s{frontend=%q}", name, s.cfg.Core.ID.String()), func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return value()
		})
	}
	gauge("frontend_jobs", func() float64 { return float64(s.core.Jobs()) })
	gauge("frontend_tasks_pending", func() float64 { pending, _ := s.core.Pending(); return float64(pending) })
	gauge("frontend_tasks_running", func() float64 { _, running := s.core.Pending(); return float64(running) })
	for _, c := range []struct {
		name string
		of   func(*frontend.Stats) uint64
	}{
		{"frontend_places_total", func(t *frontend.Stats) uint64 { return t.Places }},
		{"frontend_rides_total", func(t *frontend.Stats) uint64 { return t.Rides }},
		{"frontend_rides_started_total", func(t *frontend.Stats) uint64 { return t.RidesStarted }},
		{"frontend_binds_total", func(t *frontend.Stats) uint64 { return t.Binds }},
		{"frontend_declines_total", func(t *frontend.Stats) uint64 { return t.Declines }},
		{"frontend_resamples_total", func(t *frontend.Stats) uint64 { return t.Resamples }},
		{"frontend_retries_total", func(t *frontend.Stats) uint64 { return t.Retries }},
		{"frontend_attempts_lost_total", func(t *frontend.Stats) uint64 { return t.Losses }},
		{"frontend_attempts_adopted_total", func(t *frontend.Stats) uint64 { return t.Adopted }},
		{"frontend_tasks_estimated_total", func(t *frontend.Stats) uint64 { return t.Estimated }},
		{"frontend_matches_left_over_total", func(t *frontend.Stats) uint64 { return t.Leftovers }},
		{"frontend_matrices_asked_total", func(t *frontend.Stats) uint64 { return t.Asked }},
	} {
		gauge(c.name, func() float64 { return float64(c.of(&s.core.Stats)) })
	}
	for what, of := range map[string]*estimate.Accuracy{"wait": &s.core.Waits, "run": &s.core.Runs} { // of tasks placed by estimation
		gauge("frontend_"+what+"_estimates_total", func() float64 { return float64(of.Seen) })
		gauge("frontend_"+what+"_estimates_good_total", func() float64 { return float64(of.Good) }) // within 10 % or 1 s of the truth
	}
	if s.fleet != nil {
		s.fleet.metrics(set)
	}
	return m
}

// metrics are those of the gossip. The node keeps the counts.
func (f *fleet) metrics(set *metrics.Set) {
	s := f.server
	add := func(name string, labels string, value func(*gossip.Node) float64) {
		set.GetOrCreateGauge(fmt.Sprintf("%s{frontend=%q%s}", name, s.cfg.Core.ID.String(), labels), func() float64 {
			s.mu.Lock()
			node := f.node
			s.mu.Unlock()
			if node == nil {
				return 0
			}
			return value(node)
		})
	}
	add("frontend_gossip_cut_off", "", func(n *gossip.Node) float64 {
		if n.Health().CutOff {
			return 1
		}
		return 0
	})
	add("frontend_gossip_members", "", func(n *gossip.Node) float64 { return float64(n.Health().Members) })
	add("frontend_gossip_silence_seconds", "", func(n *gossip.Node) float64 { return n.Health().Silence.Seconds() })
	for _, c := range []struct {
		name, labels string
		of           func(*gossip.Stats) uint64
	}{
		{"frontend_gossip_bytes_total", `,direction="in"`, func(t *gossip.Stats) uint64 { return t.BytesIn }},
		{"frontend_gossip_bytes_total", `,direction="out"`, func(t *gossip.Stats) uint64 { return t.BytesOut }},
		{"frontend_gossip_messages_total", `,direction="in"`, func(t *gossip.Stats) uint64 { return t.PacketsIn }},
		{"frontend_gossip_messages_total", `,direction="out"`, func(t *gossip.Stats) uint64 { return t.PacketsOut }},
		{"frontend_gossip_unsent_total", "", func(t *gossip.Stats) uint64 { return t.Dropped + t.Failed }},
		{"frontend_gossip_garbage_total", "", func(t *gossip.Stats) uint64 { return t.Garbage }},
		{"frontend_gossip_complaints_total", "", func(t *gossip.Stats) uint64 { return t.Complaints }},
		{"frontend_gossip_stalls_total", "", func(t *gossip.Stats) uint64 { return t.Stalls }},
		{"frontend_view_workers", "", func(t *gossip.Stats) uint64 { return uint64(t.Workers) }},
		{"frontend_view_flawed_total", "", func(t *gossip.Stats) uint64 { return t.Flawed }},
		{"frontend_view_clock_back_total", "", func(t *gossip.Stats) uint64 { return t.ClockBack }},
	} {
		add(c.name, c.labels, func(n *gossip.Node) float64 { t := n.Stats(); return float64(c.of(&t)) })
	}
	for o := view.Old; o <= view.Invalid; o++ {
		add("frontend_view_rows_total", fmt.Sprintf(",outcome=%q", o), func(n *gossip.Node) float64 { return float64(n.Stats().Merged[o.String()]) })
	}
	for _, c := range []struct {
		outcome string
		of      func(heartbeat.Stats) uint64
	}{
		{"answered", func(t heartbeat.Stats) uint64 { return t.Answered }},
		{"unauthorized", func(t heartbeat.Stats) uint64 { return t.Unauthorized }},
		{"garbage", func(t heartbeat.Stats) uint64 { return t.Errors }},
		{"connection_limit", func(t heartbeat.Stats) uint64 { return t.Limit }},
	} {
		add("frontend_heartbeats_total", fmt.Sprintf(",outcome=%q", c.outcome), func(*gossip.Node) float64 { return float64(c.of(f.heartbeats.Stats())) })
	}
}

func (m *serverMetrics) outcome(o *frontend.Outcome) {
	m.outcomes[o.Kind].Inc()
	if o.Kind == frontend.Result {
		p := &o.Phases
		m.runTime.Update(o.Run.Seconds())
		m.queueTime.Update(max(0, p.Ready-p.Queued).Seconds())
		m.launchTime.Update(max(0, p.Started-p.Ready).Seconds())
	}
}

func (m *serverMetrics) refused(e *frontend.RefusedError) { m.refusals[e.Reason].Inc() }

func (m *serverMetrics) response(d time.Duration) { m.responseTime.Update(d.Seconds()) }
