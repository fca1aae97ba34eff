// Package sim drives the real cores of frontends and workers in virtual time. Its shells do what
// frontend/serve and worker/serve do, over a network of its own: messages take a delay, may pass through the
// real codec, and get lost with their connection. One seed has one outcome, whatever the machine: a run has
// no goroutines, and no map order decides anything.
//
// [Run] measures a policy under a workload, [Sweep] many of them on the same jobs; rivals of the frontends are
// schedulers over the same workers (rivals.go says how to add one). [Faults] lets a random schedule of crashes,
// hung processes, broken and half-open connections loose on a cluster and checks invariants after every step; in every
// fourth run nothing goes wrong, and nothing may be lost or tried again.
//
// What processes need to decide, encode, send and receive is left out unless [CPU] says what a message costs. Always left out
// are what clients need, and how exactly executors sleep.
package sim
