package serve

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
)

// serverMetrics are what a frontend counts, in Prometheus' conventions.
type serverMetrics struct {
	set                                              *metrics.Set
	accepted, linksLost, protocolErrors, clientsLost *metrics.Counter
	unauthorized, forwarded, connsRefused, connsIdle *metrics.Counter
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
		clientsLost:    set.GetOrCreateCounter("frontend_clients_lost_total"),
		unauthorized:   set.GetOrCreateCounter("frontend_unauthorized_total"),
		forwarded:      set.GetOrCreateCounter("frontend_calls_forwarded_total"),
		connsRefused:   set.GetOrCreateCounter(`frontend_connections_closed_total{reason="limit"}`),
		connsIdle:      set.GetOrCreateCounter(`frontend_connections_closed_total{reason="idle"}`),
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
	} {
		gauge(c.name, func() float64 { return float64(c.of(&s.core.Stats)) })
	}
	return m
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
