// Package sim drives the real cores of frontends and workers in virtual time. Its shells do the work of
// frontend/serve and worker/serve, over a simulated network. There messages take a delay, may pass through the
// real codec, and get lost with their connection. The outcome depends only on the seed, not on the machine: a run
// has no goroutines, and no map order decides anything.
//
// [Run] measures a policy under a workload. [Sweep] runs many policies on the same jobs. A rival is another
// scheduler over the same workers (rivals.go says how to add a rival). [Faults] runs a random schedule of
// crashes, hung processes, broken and half-open connections against a cluster, and checks invariants after every
// step. In every fourth run nothing goes wrong; then no task may be lost or tried again.
//
// The CPU time of frontends and workers is left out unless [CPU] says how much a message costs. The CPU time of
// clients, and the exact sleep of executors, are always left out.
package sim
