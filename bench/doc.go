// Package bench is the latency harness: open-loop workloads (Poisson arrivals or a trace), what a run
// recorded, the ideal and the omniscient response beside it, and the reports made of them.
//
// A workload is a list of Jobs that depends on nothing but its parameters and its seed, so every policy of a
// run is asked the very same questions at the very same moments. A Recorder collects what became of them,
// a Document holds the finished runs, and WriteTable, WriteJSON and WriteHTML print it. A SimDocument is the same for
// simulated runs, and a Page any other report with plots.
package bench
