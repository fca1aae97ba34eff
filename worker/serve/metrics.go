package serve

import (
	"io"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/exposition"
	"github.com/phoebe-sched/phoebe/probe/histogram"
	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/files"
)

// meters are the metrics of a server. Servers that share a set report sums.
type meters struct {
	connections, links, running, places *metrics.Gauge
	heldBytes, fullLinks                *metrics.Gauge
	wait, run                           timer
	tasks                               [probe.NoInput + 1]*metrics.Counter
	outcomes                            []outcome
	files                               []fileOutcome
	spareRan, spareLost                 *metrics.FloatCounter
	cacheBytes                          *metrics.Gauge
	skipped                             *metrics.Counter // messages of kinds that only newer frontends know
	set                                 *metrics.Set

	seenFiles files.Stats  // cache's stats at the last update of the counters
	seenStats worker.Stats // core's stats at the last update of the counters
	seenLoad  probe.Load   // load at the last update of the gauges
	// seenHeldBytes and seenFullLinks are the values at the last update of the gauges.
	seenHeldBytes, seenFullLinks int
}

// timer counts durations.
type timer struct {
	mu sync.Mutex
	h  histogram.Histogram
}

func (t *timer) addDuration(d time.Duration) {
	t.mu.Lock()
	t.h.Add(d)
	t.mu.Unlock()
}

func (t *timer) exposeAs(text *exposition.Text, name string) {
	t.mu.Lock()
	h := t.h
	t.mu.Unlock()
	text.Histogram(name, "", &h, time.Second)
}

// outcome is a counter that follows a field of worker.Stats.
type outcome struct {
	counter *metrics.Counter
	value   func(*worker.Stats) uint64
}

// fileOutcome is a counter that follows a field of files.Stats.
type fileOutcome struct {
	counter *metrics.Counter
	value   func(*files.Stats) uint64
}

func newMeters(set *metrics.Set, capacity probe.Demand) *meters {
	m := &meters{
		set:         set,
		connections: set.GetOrCreateGauge("phoebe_worker_connections", nil),
		links:       set.GetOrCreateGauge("phoebe_worker_links", nil),
		running:     set.GetOrCreateGauge("phoebe_worker_running", nil),
		places:      set.GetOrCreateGauge("phoebe_worker_queue_places", nil),
		heldBytes:   set.GetOrCreateGauge("phoebe_worker_held_result_bytes", nil),
		fullLinks:   set.GetOrCreateGauge("phoebe_worker_full_links", nil),
		skipped:     set.GetOrCreateCounter("phoebe_worker_messages_skipped_total"),
	}
	set.RegisterMetricsWriter(func(w io.Writer) {
		var t exposition.Text
		m.wait.exposeAs(&t, "phoebe_worker_reservation_wait_seconds")
		m.run.exposeAs(&t, "phoebe_worker_task_run_seconds")
		t.Value("phoebe_worker_capacity_cores", "", float64(capacity.CPU)/1000)
		t.Value("phoebe_worker_capacity_bytes", "", float64(capacity.Mem)*(1<<20))
		_, _ = t.WriteTo(w) // w is a buffer of the set and cannot fail
	})
	for s, name := range map[probe.Status]string{
		probe.Succeeded: "succeeded", probe.Failed: "failed", probe.Panicked: "panicked",
		probe.Killed: "killed", probe.TimedOut: "timed_out", probe.TooLarge: "too_large", probe.NoInput: "no_input",
	} {
		m.tasks[s] = set.GetOrCreateCounter(`phoebe_worker_tasks_total{status="` + name + `"}`)
	}
	add := func(metric, label, value string, field func(*worker.Stats) uint64) {
		m.outcomes = append(m.outcomes, outcome{set.GetOrCreateCounter(metric + `{` + label + `="` + value + `"}`), field})
	}
	reservations := func(outcome string, field func(*worker.Stats) uint64) {
		add("phoebe_worker_reservations_total", "outcome", outcome, field)
	}
	reservations("queued", func(s *worker.Stats) uint64 { return s.Reserved })
	reservations("started", func(s *worker.Stats) uint64 { return s.RidesStarted })
	reservations("bound", func(s *worker.Stats) uint64 { return s.Bound })
	reservations("declined", func(s *worker.Stats) uint64 { return s.Declined })
	reservations("expired", func(s *worker.Stats) uint64 { return s.Expired })
	reservations("refused", func(s *worker.Stats) uint64 { return s.Refused })
	reservations("cancelled", func(s *worker.Stats) uint64 { return s.Cancelled })
	add("phoebe_worker_early_asks_total", "outcome", "asked", func(s *worker.Stats) uint64 { return s.EarlyAsks })
	add("phoebe_worker_early_asks_total", "outcome", "late", func(s *worker.Stats) uint64 { return s.Late })
	orphans := func(outcome string, field func(*worker.Stats) uint64) {
		add("phoebe_worker_orphans_total", "outcome", outcome, field)
	}
	orphans("orphaned", func(s *worker.Stats) uint64 { return s.Orphaned })
	orphans("claimed", func(s *worker.Stats) uint64 { return s.Claimed })
	orphans("abandoned", func(s *worker.Stats) uint64 { return s.Abandoned })
	orphans("forgotten", func(s *worker.Stats) uint64 { return s.Forgotten })
	spare := func(outcome string, field func(*worker.Stats) uint64) {
		add("phoebe_worker_spare_total", "outcome", outcome, field)
	}
	spare("started", func(s *worker.Stats) uint64 { return s.SpareStarted })
	spare("preempted", func(s *worker.Stats) uint64 { return s.Preempted })
	spare("promoted", func(s *worker.Stats) uint64 { return s.Promoted })
	m.spareRan = set.GetOrCreateFloatCounter(`phoebe_worker_spare_run_seconds_total`)
	m.spareLost = set.GetOrCreateFloatCounter(`phoebe_worker_spare_lost_seconds_total`)
	m.cacheBytes = set.GetOrCreateGauge("phoebe_worker_cache_bytes", nil)
	cache := func(metric string, field func(*files.Stats) uint64) {
		m.files = append(m.files, fileOutcome{set.GetOrCreateCounter(metric), field})
	}
	cache(`phoebe_worker_files_total{outcome="hit"}`, func(s *files.Stats) uint64 { return s.Hits })
	cache(`phoebe_worker_files_total{outcome="miss"}`, func(s *files.Stats) uint64 { return s.Misses })
	cache(`phoebe_worker_files_total{outcome="shared"}`, func(s *files.Stats) uint64 { return s.Shared })
	cache(`phoebe_worker_files_total{outcome="failed"}`, func(s *files.Stats) uint64 { return s.Failures })
	cache(`phoebe_worker_files_total{outcome="evicted"}`, func(s *files.Stats) uint64 { return s.Evictions })
	cache(`phoebe_worker_files_total{outcome="spoilt"}`, func(s *files.Stats) uint64 { return s.Spoilt })
	cache(`phoebe_worker_files_total{outcome="served"}`, func(s *files.Stats) uint64 { return s.Served })
	cache(`phoebe_worker_fetched_bytes_total{from="peer"}`, func(s *files.Stats) uint64 { return s.FromPeers })
	cache(`phoebe_worker_fetched_bytes_total{from="http"}`, func(s *files.Stats) uint64 { return s.FromHTTP })
	cache(`phoebe_worker_fetched_bytes_total{from="file"}`, func(s *files.Stats) uint64 { return s.FromFiles })
	cache("phoebe_worker_peer_failures_total", func(s *files.Stats) uint64 { return s.PeerFailures })
	cache("phoebe_worker_served_bytes_total", func(s *files.Stats) uint64 { return s.ServedBytes })
	return m
}

// countFault counts a closed connection, or a dropped frame, by reason.
func (m *meters) countFault(reason string) {
	m.set.GetOrCreateCounter(`phoebe_worker_protocol_errors_total{reason="` + reason + `"}`).Inc()
}

// countHeartbeat counts a heartbeat that was answered, refused or failed.
func (m *meters) countHeartbeat(outcome string) {
	m.set.GetOrCreateCounter(`phoebe_worker_heartbeats_total{outcome="` + outcome + `"}`).Inc()
}

// countExited counts the end of a task.
func (m *meters) countExited(status probe.Status, run time.Duration) {
	m.tasks[status].Inc()
	m.run.addDuration(run)
}

// followFiles updates the metrics of files from the cache's stats. Only a single goroutine at a time may call it.
func (m *meters) followFiles(stats *files.Stats) {
	for i := range m.files {
		o := &m.files[i]
		o.counter.AddInt64(int64(o.value(stats) - o.value(&m.seenFiles)))
	}
	m.cacheBytes.Add(float64(stats.Bytes) - float64(m.seenFiles.Bytes))
	m.seenFiles = *stats
}

// followCore updates counters and gauges from the core. It is called once for each batch of events.
func (m *meters) followCore(stats *worker.Stats, load probe.Load) {
	if *stats != m.seenStats {
		for i := range m.outcomes {
			o := &m.outcomes[i]
			if d := o.value(stats) - o.value(&m.seenStats); d != 0 {
				o.counter.AddInt64(int64(d))
			}
		}
		m.spareRan.Add((stats.SpareRan - m.seenStats.SpareRan).Seconds())
		m.spareLost.Add((stats.SpareLost - m.seenStats.SpareLost).Seconds())
		m.seenStats = *stats
	}
	if load.Running != m.seenLoad.Running {
		m.running.Add(float64(load.Running) - float64(m.seenLoad.Running))
	}
	if load.Queued != m.seenLoad.Queued {
		m.places.Add(float64(load.Queued) - float64(m.seenLoad.Queued))
	}
	m.seenLoad = load
}

// followUnsent updates the gauges of results that wait to be sent.
func (m *meters) followUnsent(heldBytes, fullLinks int) {
	if heldBytes != m.seenHeldBytes {
		m.heldBytes.Add(float64(heldBytes - m.seenHeldBytes))
		m.seenHeldBytes = heldBytes
	}
	if fullLinks != m.seenFullLinks {
		m.fullLinks.Add(float64(fullLinks - m.seenFullLinks))
		m.seenFullLinks = fullLinks
	}
}
