package serve

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/exposition"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// serverMetrics are metrics counted by the server, at each event. exposeAll adds the metrics of the core, the
// recorder and gossip. All metrics are listed in probe/exposition/METRICS.md.
type serverMetrics struct {
	set                                                      *metrics.Set
	accepted, linksLost, protocolErrors, clientsLost         *metrics.Counter
	unauthorized, forwarded, skipped, looksRefused           *metrics.Counter
	connsRefused, connsIdle, connsGarbage, connsUnintroduced *metrics.Counter
	outcomes                                                 [frontend.DeadlineExceeded + 1]*metrics.Counter
	refusals                                                 [frontend.Leaving + 1]*metrics.Counter
}

func newMetrics(set *metrics.Set, s *Server) *serverMetrics {
	m := &serverMetrics{
		set:               set,
		accepted:          set.GetOrCreateCounter("phoebe_frontend_jobs_accepted_total"),
		linksLost:         set.GetOrCreateCounter("phoebe_frontend_links_lost_total"),
		protocolErrors:    set.GetOrCreateCounter("phoebe_frontend_protocol_errors_total"),
		clientsLost:       set.GetOrCreateCounter("phoebe_frontend_clients_lost_total"),
		unauthorized:      set.GetOrCreateCounter("phoebe_frontend_unauthorized_total"),
		forwarded:         set.GetOrCreateCounter("phoebe_frontend_calls_forwarded_total"),
		connsRefused:      set.GetOrCreateCounter(`phoebe_frontend_connections_closed_total{reason="limit"}`),
		connsIdle:         set.GetOrCreateCounter(`phoebe_frontend_connections_closed_total{reason="idle"}`),
		connsUnintroduced: set.GetOrCreateCounter(`phoebe_frontend_connections_closed_total{reason="proxy"}`),
		connsGarbage:      set.GetOrCreateCounter(`phoebe_frontend_connections_closed_total{reason="garbage"}`),
		looksRefused:      set.GetOrCreateCounter("phoebe_frontend_looks_refused_total"),
		// of kinds that only a newer worker knows
		skipped: set.GetOrCreateCounter("phoebe_frontend_messages_skipped_total"),
	}
	for kind, name := range map[frontend.OutcomeKind]string{
		frontend.Result: "result", frontend.Failed: "failed", frontend.Cancelled: "cancelled",
		frontend.DeadlineExceeded: "deadline_exceeded",
	} {
		m.outcomes[kind] = set.GetOrCreateCounter(fmt.Sprintf("phoebe_frontend_tasks_total{outcome=%q}", name))
	}
	for reason, name := range map[frontend.RefusedReason]string{
		frontend.Invalid: "invalid", frontend.TooBigJob: "too_large", frontend.NoSuchWorker: "no_worker",
		frontend.Overloaded: "overloaded", frontend.Leaving: "draining",
	} {
		m.refusals[reason] = set.GetOrCreateCounter(fmt.Sprintf("phoebe_frontend_jobs_refused_total{reason=%q}", name))
	}
	set.RegisterMetricsWriter(s.exposeAll)
	return m
}

// exposeAll adds the counts of the core, the recorder and the gossip.
func (s *Server) exposeAll(w io.Writer) {
	var t exposition.Text
	s.exposeCore(&t)
	s.exposeWorkers(&t)
	s.recorder.exposeTimes(&t)
	if s.fleet != nil {
		s.fleet.exposeGossip(&t)
	}
	_, _ = t.WriteTo(w) // w is a buffer of the set
}

// exposeCore adds the counts of the core. It takes the mutex once.
func (s *Server) exposeCore(t *exposition.Text) {
	now := time.Now()
	s.mu.Lock()
	jobs, oldest, stats := s.core.Jobs(), s.core.Oldest(now), s.core.Stats
	unread, full := s.unreadBytes, 0
	for _, r := range s.jobs {
		if r.paused && !r.ended {
			full++
		}
	}
	pending, running := s.core.Pending()
	estimates := map[string]estimate.Accuracy{"wait": s.core.Waits, "run": s.core.Runs}
	trips, used := s.recorder.roundTrips, s.core.Tenants(math.MaxInt, now)
	s.mu.Unlock()

	age := 0.0
	if !oldest.IsZero() {
		age = now.Sub(oldest).Seconds()
	}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"jobs", float64(jobs)}, {"jobs_full", float64(full)}, {"results_unread_bytes", float64(unread)},
		{"tasks_pending", float64(pending)}, {"tasks_running", float64(running)}, {"queue_age_seconds", age},
		{"places_total", float64(stats.Places)}, {"rides_total", float64(stats.Rides)},
		{"rides_started_total", float64(stats.RidesStarted)},
		{"binds_total", float64(stats.Binds)}, {"declines_total", float64(stats.Declines)},
		{"resamples_total", float64(stats.Resamples)},
		{"retries_total", float64(stats.Retries)}, {"attempts_lost_total", float64(stats.Losses)},
		{"attempts_adopted_total", float64(stats.Adopted)},
		{"attempts_preempted_total", float64(stats.Preempted)}, {"tasks_remade_total", float64(stats.Remade)},
		{"copies_total", float64(stats.Copies)}, {"copies_won_total", float64(stats.CopiesWon)},
		{"copies_lost_work_seconds_total", time.Duration(stats.InVain).Seconds()},
		{"tasks_estimated_total", float64(stats.Estimated)}, {"matches_left_over_total", float64(stats.Leftovers)},
		{"matrices_asked_total", float64(stats.Asked)}, {"moves_total", float64(stats.Moves)},
	} {
		t.Value("phoebe_frontend_"+v.name, "", v.value)
	}
	for quantity, e := range estimates { // of tasks placed by estimation
		labels := exposition.Labels("of", quantity)
		t.Value("phoebe_frontend_estimates_total", labels, float64(e.Seen))
		t.Value("phoebe_frontend_estimates_good_total", labels, float64(e.Good))
		t.Value("phoebe_frontend_estimates_over_total", labels, float64(e.TooHigh))
		t.Value("phoebe_frontend_estimate_error_seconds_total", labels, e.Error)
	}
	t.Histogram("phoebe_frontend_round_trip_seconds", "", &trips, time.Second)
	exposeTenants(t, used)
}

// exposeTenants adds series for the tenants with the largest wants, and a series for the rest together.
func exposeTenants(t *exposition.Text, used []frontend.TenantStatus) {
	var others frontend.TenantStatus
	for i, s := range append(used, frontend.TenantStatus{}) {
		switch {
		case i == len(used):
			s = others
			s.Path = rec.Other
		case s.Pending == 0: // such a tenant has only counts of refused jobs
			continue
		case i >= maxTenantSeries || s.Path == rec.Other:
			others.Use, others.Spare, others.Want = others.Use+s.Use, others.Spare+s.Spare, others.Want+s.Want
			continue
		}
		for what, n := range map[string]int64{"use": s.Use, "uncovered": s.Spare, "want": s.Want} {
			t.Value("phoebe_frontend_tenant_slots", exposition.Labels("tenant", s.Path, "what", what),
				float64(n)/float64(tenants.Slot))
		}
	}
}

// maxTenantSeries bounds the tenants with series of their own.
const maxTenantSeries = 16

// workersPerLook bounds the workers looked at under a single hold of the mutex.
const workersPerLook = 64

// exposeWorkers sums up the view of the workers.
func (s *Server) exposeWorkers(t *exposition.Text) {
	states := map[string]int{"up": 0, "draining": 0, "adrift": 0, "down": 0}
	var capacity, free probe.Demand
	queued := uint64(0)
	for from, more := 0, true; more; from += workersPerLook {
		s.mu.Lock()
		to := min(from+workersPerLook, len(s.links))
		for _, l := range s.links[min(from, to):to] {
			if l == nil {
				continue
			}
			state, all, load := s.core.Load(l.key)
			if states[state]++; state == "up" {
				capacity, free = capacity.Add(all),
					free.Add(probe.Demand{CPU: max(load.Free.CPU, 0), Mem: max(load.Free.Mem, 0)})
				queued += uint64(load.Queued)
			}
		}
		more = to < len(s.links)
		s.mu.Unlock()
	}
	for state, n := range states {
		t.Value("phoebe_frontend_workers", exposition.Labels("state", state), float64(n))
	}
	t.Value("phoebe_frontend_capacity_cores", "", float64(capacity.CPU)/1000)
	t.Value("phoebe_frontend_capacity_bytes", "", float64(capacity.Mem)*(1<<20))
	t.Value("phoebe_frontend_free_cores", "", float64(free.CPU)/1000)
	t.Value("phoebe_frontend_free_bytes", "", float64(free.Mem)*(1<<20))
	t.Value("phoebe_frontend_worker_queue_places", "", float64(queued))
}

// exposeGossip adds the counts of gossip and heartbeats.
func (f *fleet) exposeGossip(t *exposition.Text) {
	f.server.mu.Lock()
	node := f.node
	f.server.mu.Unlock()
	if node == nil {
		return
	}
	health, stats, beats := node.Health(), node.Stats(), f.heartbeats.Stats()
	cutOff := 0.0
	if health.CutOff {
		cutOff = 1
	}
	for _, v := range []struct {
		name, label, labelValue string
		value                   float64
	}{
		{"gossip_cut_off", "", "", cutOff},
		{"gossip_members", "", "", float64(health.Members)},
		{"gossip_silence_seconds", "", "", health.Silence.Seconds()},
		{"gossip_traffic_bytes_total", "direction", "in", float64(stats.BytesIn)},
		{"gossip_traffic_bytes_total", "direction", "out", float64(stats.BytesOut)},
		{"gossip_messages_total", "direction", "in", float64(stats.PacketsIn)},
		{"gossip_messages_total", "direction", "out", float64(stats.PacketsOut)},
		{"gossip_unsent_total", "", "", float64(stats.Dropped + stats.Failed)},
		{"gossip_garbage_total", "", "", float64(stats.Garbage)},
		{"gossip_messages_skipped_total", "", "", float64(stats.Skipped)},
		{"gossip_complaints_total", "", "", float64(stats.Complaints)},
		{"gossip_stalls_total", "", "", float64(stats.Stalls)},
		{"gossip_lesson_bytes", "", "", float64(stats.LessonBytes)},
		{"view_workers", "", "", float64(stats.Workers)},
		{"view_flawed_total", "", "", float64(stats.Flawed)},
		{"view_clock_back_total", "", "", float64(stats.ClockBack)},
		{"heartbeats_total", "outcome", "answered", float64(beats.Answered)},
		{"heartbeats_total", "outcome", "unauthorized", float64(beats.Unauthorized)},
		{"heartbeats_total", "outcome", "version", float64(beats.Versions)},
		{"heartbeats_total", "outcome", "garbage", float64(beats.Errors)},
		{"heartbeats_total", "outcome", "connection_limit", float64(beats.Limit)},
	} {
		labels := ""
		if v.label != "" {
			labels = exposition.Labels(v.label, v.labelValue)
		}
		t.Value("phoebe_frontend_"+v.name, labels, v.value)
	}
	for o := rows.Old; o <= rows.Invalid; o++ {
		t.Value("phoebe_frontend_view_rows_total", exposition.Labels("outcome", o.String()),
			float64(stats.Merged[o.String()]))
	}
	ages := node.Ages()
	slices.Sort(ages)
	for _, q := range []float64{0.5, 0.99, 1} {
		age := time.Duration(0)
		if n := len(ages); n > 0 {
			age = ages[histogram.QuantileRank(q, n)-1]
		}
		t.Value("phoebe_frontend_view_age_seconds", exposition.Labels("share", fmt.Sprint(q)), age.Seconds())
	}
}
