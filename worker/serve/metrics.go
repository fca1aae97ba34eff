package serve

import (
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/files"
)

// gauges of one server; the sum of several where they share a set.
type meters struct {
	connections, links, running, places *metrics.Gauge
	wait, run                           *metrics.Histogram
	tasks                               [probe.TooLarge + 1]*metrics.Counter
	outcomes                            []outcome
	files                               []fileOutcome
	cached                              *metrics.Gauge
	skipped                             *metrics.Counter // messages of kinds that only a newer frontend knows
	set                                 *metrics.Set

	seenFiles files.Stats  // what the counters have of the cache's
	seen      worker.Stats // what the counters have of the core's
	load      probe.Load   // what the gauges have of it
}

// outcome is one counter that follows a field of worker.Stats.
type outcome struct {
	counter *metrics.Counter
	of      func(*worker.Stats) uint64
}

// fileOutcome is one counter that follows a field of files.Stats.
type fileOutcome struct {
	counter *metrics.Counter
	of      func(*files.Stats) uint64
}

func newMeters(set *metrics.Set) *meters {
	m := &meters{
		set:         set,
		connections: set.GetOrCreateGauge("worker_connections", nil),
		links:       set.GetOrCreateGauge("worker_links", nil),
		running:     set.GetOrCreateGauge("worker_running", nil),
		skipped:     set.GetOrCreateCounter("worker_messages_skipped_total"),
		places:      set.GetOrCreateGauge("worker_queue_places", nil),
		wait:        set.GetOrCreateHistogram("worker_reservation_wait_seconds"),
		run:         set.GetOrCreateHistogram("worker_task_run_seconds"),
	}
	for s, name := range map[probe.Status]string{
		probe.Succeeded: "succeeded", probe.Failed: "failed", probe.Panicked: "panicked",
		probe.Killed: "killed", probe.TimedOut: "timed_out", probe.TooLarge: "too_large",
	} {
		m.tasks[s] = set.GetOrCreateCounter(`worker_tasks_total{status="` + name + `"}`)
	}
	add := func(metric, label, value string, of func(*worker.Stats) uint64) {
		m.outcomes = append(m.outcomes, outcome{set.GetOrCreateCounter(metric + `{` + label + `="` + value + `"}`), of})
	}
	reservations := func(outcome string, of func(*worker.Stats) uint64) {
		add("worker_reservations_total", "outcome", outcome, of)
	}
	reservations("queued", func(s *worker.Stats) uint64 { return s.Reserved })
	reservations("started", func(s *worker.Stats) uint64 { return s.RidesStarted })
	reservations("bound", func(s *worker.Stats) uint64 { return s.Bound })
	reservations("declined", func(s *worker.Stats) uint64 { return s.Declined })
	reservations("expired", func(s *worker.Stats) uint64 { return s.Expired })
	reservations("refused", func(s *worker.Stats) uint64 { return s.Refused })
	reservations("cancelled", func(s *worker.Stats) uint64 { return s.Cancelled })
	add("worker_early_asks_total", "outcome", "asked", func(s *worker.Stats) uint64 { return s.EarlyAsks })
	add("worker_early_asks_total", "outcome", "late", func(s *worker.Stats) uint64 { return s.Late })
	orphans := func(outcome string, of func(*worker.Stats) uint64) {
		add("worker_orphans_total", "outcome", outcome, of)
	}
	orphans("orphaned", func(s *worker.Stats) uint64 { return s.Orphaned })
	orphans("claimed", func(s *worker.Stats) uint64 { return s.Claimed })
	orphans("abandoned", func(s *worker.Stats) uint64 { return s.Abandoned })
	orphans("forgotten", func(s *worker.Stats) uint64 { return s.Forgotten })
	m.cached = set.GetOrCreateGauge("worker_cache_bytes", nil)
	cache := func(metric string, of func(*files.Stats) uint64) {
		m.files = append(m.files, fileOutcome{set.GetOrCreateCounter(metric), of})
	}
	cache(`worker_files_total{outcome="hit"}`, func(s *files.Stats) uint64 { return s.Hits })
	cache(`worker_files_total{outcome="miss"}`, func(s *files.Stats) uint64 { return s.Misses })
	cache(`worker_files_total{outcome="shared"}`, func(s *files.Stats) uint64 { return s.Shared })
	cache(`worker_files_total{outcome="failed"}`, func(s *files.Stats) uint64 { return s.Failures })
	cache(`worker_files_total{outcome="evicted"}`, func(s *files.Stats) uint64 { return s.Evictions })
	cache(`worker_files_total{outcome="spoilt"}`, func(s *files.Stats) uint64 { return s.Spoilt })
	cache(`worker_files_total{outcome="served"}`, func(s *files.Stats) uint64 { return s.Served })
	cache(`worker_file_bytes_total{from="peer"}`, func(s *files.Stats) uint64 { return s.FromPeers })
	cache(`worker_file_bytes_total{from="http"}`, func(s *files.Stats) uint64 { return s.FromHTTP })
	cache(`worker_file_bytes_total{from="file"}`, func(s *files.Stats) uint64 { return s.FromFiles })
	cache("worker_file_peer_failures_total", func(s *files.Stats) uint64 { return s.PeerFailures })
	cache("worker_file_served_bytes_total", func(s *files.Stats) uint64 { return s.ServedBytes })
	return m
}

// protocolError counts a connection that was closed, or a frame that was dropped, for a reason.
func (m *meters) protocolError(reason string) {
	m.set.GetOrCreateCounter(`worker_protocol_errors_total{reason="` + reason + `"}`).Inc()
}

// heartbeat counts one that was answered, refused or failed.
func (m *meters) heartbeat(outcome string) {
	m.set.GetOrCreateCounter(`worker_heartbeats_total{outcome="` + outcome + `"}`).Inc()
}

// exited is called once for each task.
func (m *meters) exited(status probe.Status, run time.Duration) {
	m.tasks[status].Inc()
	m.run.Update(run.Seconds())
}

// followFiles brings the metrics of files up to the cache. It is called by one goroutine at a time.
func (m *meters) followFiles(stats *files.Stats) {
	for i := range m.files {
		o := &m.files[i]
		o.counter.AddInt64(int64(o.of(stats) - o.of(&m.seenFiles)))
	}
	m.cached.Add(float64(stats.Bytes) - float64(m.seenFiles.Bytes))
	m.seenFiles = *stats
}

// follow brings counters and gauges up to the core. It is called once for each batch of events.
func (m *meters) follow(stats *worker.Stats, load probe.Load) {
	if *stats != m.seen {
		for i := range m.outcomes {
			o := &m.outcomes[i]
			if d := o.of(stats) - o.of(&m.seen); d != 0 {
				o.counter.AddInt64(int64(d))
			}
		}
		m.seen = *stats
	}
	if load.Running != m.load.Running {
		m.running.Add(float64(load.Running) - float64(m.load.Running))
	}
	if load.Queued != m.load.Queued {
		m.places.Add(float64(load.Queued) - float64(m.load.Queued))
	}
	m.load = load
}
