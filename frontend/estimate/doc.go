// Package estimate places tasks by their expected completion time, as Apollo does (Boutin et al., OSDI 2014,
// sections 3.2 to 3.4). It selects candidates among all workers, computes the estimate C of each candidate, and
// matches a batch of tasks with workers. It also learns run times of tasks and failure rates of workers, and
// decides which tasks are worth an estimate at all ([Route]). The frontend's core calls the package. The package
// does no I/O, reads no clock, and draws random numbers only from the caller's generator.
//
// A [Fleet] holds the knowledge about workers. [Fleet.Decide] places a single task, [Fleet.Batch] several tasks.
// Both return a [Decision] for each task: a value with the candidates and the terms of their estimates.
//
// The estimate is the estimate of section 3.3:
//
//	E = I + W + R
//	C = Psucc*E + Kfail*(1-Psucc)*E
//
// I is the time to fetch files missing in the worker's cache. W is the wait for room, from the worker's wait matrix
// (section 3.2). R is the time to read the inputs plus the run itself. Psucc is the chance that the worker stays up
// until the end of the task. A worker fetches files while the task waits, so I + W overestimates by the overlap.
// The package keeps the paper's sum, which prefers workers that have the file already.
package estimate
