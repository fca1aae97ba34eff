// Package estimate places tasks by their expected completion time, as Apollo does (Boutin et al., OSDI 2014,
// sections 3.2 to 3.4): candidates among all workers, the estimate C of each, and a matching of a batch of
// tasks with workers. It also learns how long tasks run and how often workers fail, and says which tasks are
// worth an estimate at all ([Route]). The frontend's core calls it; it does no I/O, reads no clock and draws
// no random numbers but from the generator it is handed.
//
// A [Fleet] is what is known of the workers, [Fleet.Decide] places one task and [Fleet.Batch] several; both
// return each decision as a value, a [Decision] with its candidates and their terms.
//
// The estimate is that of section 3.3:
//
//	E = I + W + R
//	C = Psucc*E + Kfail*(1-Psucc)*E
//
// with I the fetching of files that are not cached there, W the wait for room from the worker's wait matrix,
// R the reading of inputs plus the run itself, and Psucc the chance that the worker is there until the end.
// A worker fetches while the task waits, so that I + W is too much by as much as the two overlap; we keep the
// paper's sum, which prefers a worker that has the file already.
package estimate
