// Package bench is the latency harness: open-loop workloads (Poisson arrivals or a trace), what a run
// recorded, the ideal and the omniscient response beside it, and the reports made of them.
//
// A workload is a list of Jobs that depends on nothing but its parameters and its seed, so every policy of a
// run is asked the very same questions at the very same moments. A Recorder collects what became of them,
// a Document holds the finished runs, and WriteTable, WriteJSON and WriteHTML print it. A SimDocument is the same for
// simulated runs, and a Page any other report with plots.
//
// # What the JSON of phoebe bench holds
//
// Names tell units: _ms, _us and _s are milli-, microseconds and seconds, _per_s is a rate, _cpus are CPUs (2: two of
// them all the time), _share is a share from 0 to 1. What has no unit is a count, a ratio or a name. Responses
// count from the intended send time.
//
//	meta            where the numbers come from:
//	  command version commit go date seed settings
//	  machine         os kernel arch cpu (its model) cpus gomaxprocs
//	  load_average_before load_average_after    of one minute
//	  cpu_before      like cpu, in the half second before the first run
//	cpu             who used the machine during all runs:
//	  seconds         that this is about
//	  own_cpus        used by the benchmark and the processes that it started
//	  others_cpus     used by everything else
//	  stolen_cpus     taken by the host of a virtual machine
//	  pressure_share  of the time, in which some thread waited for a CPU
//	warnings        that others have disturbed the figures
//	cut_short       why there is less than was asked for
//	runs            every repeat of every policy at every load on every cluster:
//	  cluster         embedded, processes, running (one that was there), A or B
//	  policy workload load slots repeat (from 1) seed
//	  started_s       from when the first run began
//	  jobs tasks      answered in full, and their tasks
//	  errors          jobs that were not
//	  cut_short_s     of a run that was cut short: what counted of its time; it is in no summary but its own
//	  refused         refusals by reason
//	  retries         of jobs and tasks
//	  offered_tasks_per_s achieved_tasks_per_s
//	  response_ms     mean p50 p90 p95 p99 p999 max, of jobs
//	  ideal_ms        likewise: their longest task
//	  omniscient_ms   likewise: by one queue with exact knowledge and no delay
//	  ratio           response_ms / ideal_ms, statistic by statistic
//	  ratio_omniscient  response_ms / omniscient_ms, likewise
//	  phases_us       p50 p99 mean of tasks in each phase, named after what ends it: sampled queued ready bound
//	                  started finished delivered; the mean is over all tasks, a phase that is skipped takes 0
//	  cpu             as above, of this run, its warm-up included
//	  over_time       parts of the measured time: at_s (the middle, from the start of the run) jobs
//	                  p50_ms p99_ms omniscient_p50_ms omniscient_p99_ms
//	  simulated       the same jobs in the simulator: jobs, delay_us (of a message one way) response_ms
//	                  ratio (the run's response_ms / these)
//	summaries       the repeats of a run together: cluster policy workload load slots seeds, and of all repeats
//	                jobs tasks errors refused retries; then, of each figure of a run:
//	  median          over so many repeats
//	  low high        between which its true median lies with this confidence, by order statistics: see Spread
//	comparisons     of two fleets that had the same jobs by turns (clusters A and B above; load is that of both):
//	  policy workload load repeat
//	  pairs           jobs that both have answered in full
//	  a_ms b_ms       p50 p99 of their responses
//	  pair            B's response over A's, the median over the pairs: ratio low high (95 % confidence)
//	  p50 p99         the same of B's quantile over A's, by resampling pairs
//	noop_runs       of jobs that do nothing, every repeat on every cluster: cluster repeat cpu, and
//	  rtt_us          p50 p99 of a one-task job, one after the other
//	  floor_us        p50 p99 of the relayed echo in turns with them: see Floor
//	  over_floor      rtt_us / floor_us
//	  tasks_per_s_1 tasks_per_s_16    in jobs of 100, so many in flight
//	  cpu_us_per_task   of load generator and cluster, 16 in flight
//	noop_summaries  by cluster: repeats confidence median low high
//	noop            the median of the first of them
package bench
