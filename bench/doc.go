// Package bench is the latency harness: open-loop workloads (Poisson arrivals or a trace), the recording of a
// run, the ideal and the omniscient response for comparison, and the reports.
//
// A workload is a list of Jobs that depends only on its parameters and its seed. So a run asks every policy the very
// same questions at the very same moments. A Recorder collects the outcomes of a run. A Document holds the finished
// runs, and WriteTable, WriteJSON and WriteHTML print the document. A SimDocument holds simulated runs, and a Page is
// any report with plots.
//
// # What the JSON of phoebe bench holds
//
// Names tell units: _ms, _us and _s are milliseconds, microseconds and seconds, _per_s is a rate, _share is a share
// from 0 to 1. _cpus are CPUs: 2 means two CPUs all the time. A name without a unit is a count, a ratio or a name.
// Responses count from the intended send time.
//
//	meta            the origin of the numbers:
//	  command version commit go date seed settings
//	  machine         os kernel arch cpu (its model) cpus gomaxprocs
//	  load_average_before load_average_after    over a minute
//	  cpu_before      like cpu, in the half second before the first run
//	cpu             use of the machine during all runs:
//	  seconds         length of the time
//	  own_cpus        used by the benchmark and its child processes
//	  others_cpus     used by all other processes
//	  stolen_cpus     taken by the host of a virtual machine
//	  pressure_share  share of the time in which some thread waited for a CPU
//	warnings        disturbances of the figures by other processes
//	checks          what the benchmark checked after its runs, with figures, a line each
//	cut_short       why the document has less than was asked for
//	runs            every repeat of every policy at every load on every cluster:
//	  cluster         embedded, processes, running (a cluster that was there), A or B
//	  policy workload load slots repeat (from 1) seed
//	  started_s       since the start of the first run
//	  jobs tasks      answered in full, and their tasks
//	  errors          jobs not answered in full
//	  cut_short_s     seconds that counted, if the run was cut short; such a run joins no summary of complete runs
//	  refused         refusals by reason
//	  retries         of tasks, without copies
//	  retried         retries, by how the attempt before ended: lost, preempted, failed, ..., not told
//	  copies          second attempts of tasks, because the first was late
//	  offered_tasks_per_s achieved_tasks_per_s
//	  response_ms     mean p50 p90 p95 p99 p999 max, of jobs
//	  ideal_ms        likewise, of the longest task of each job
//	  omniscient_ms   likewise, under a central queue with exact knowledge and no delay
//	  ratio           response_ms / ideal_ms, statistic by statistic
//	  ratio_omniscient  response_ms / omniscient_ms, likewise
//	  phases_us       p50 p99 mean of tasks in each phase, named after its end: sampled queued ready bound
//	                  started finished delivered; the mean is over all tasks; a skipped phase takes 0
//	  cpu             as above, for this run with its warm-up
//	  over_time       parts of the measured time: at_s (the middle, from the start of the run) jobs
//	                  p50_ms p99_ms omniscient_p50_ms omniscient_p99_ms
//	  simulated       the same jobs in the simulator: jobs, delay_us (of a message one way) response_ms
//	                  ratio (the run's response_ms / the simulated)
//	summaries       the repeats of a run combined: cluster policy workload load slots seeds, and summed up
//	                jobs tasks errors refused retries retried copies; then, for each figure of a run:
//	  median          of the repeats
//	  low high        bounds of the true median with this confidence, by order statistics: see Spread
//	comparisons     of two fleets with the same jobs by turns (clusters A and B above; load is the sum of both loads):
//	  policy workload load repeat
//	  pairs           jobs answered in full by both fleets
//	  a_ms b_ms       p50 p99 of the responses
//	  pair            B's response over A's, the median over the pairs: ratio low high (95 % confidence)
//	  p50 p99         B's quantile over A's, likewise, by resampling pairs
//	noop_runs       of jobs that do nothing, every repeat on every cluster: cluster repeat cpu, and
//	  rtt_us          p50 p99 of jobs with one task, in sequence
//	  floor_us        p50 p99 of the relayed echo in turns with the jobs: see Floor
//	  over_floor      rtt_us / floor_us
//	  tasks_per_s_1 tasks_per_s_16    in jobs of 100 tasks, with 1 and 16 jobs in flight
//	  cpu_us_per_task   of load generator and cluster, 16 jobs in flight
//	noop_summaries  by cluster: repeats confidence median low high
//	noop            the median of the first of them
package bench
