// Package worker is the deciding core of a worker: a queue of places, the room they wait for, and the
// attempts that run. It does no I/O; package worker/serve is the shell around it, bench/sim drives it in
// virtual time, and both do nothing but call [Core.Step] and carry out the actions it returns.
//
// A place is queued by Reserve (late binding: it has no task yet) or by Enqueue (bound early). When
// there is room for the place at the head of the queue, a task bound early starts; a reservation's turn
// comes: its slot is held and the frontend is told Ready, until it answers with Bind or Decline or the
// expiry passes (Sparrow, section 3.3). Three things go beyond that:
//
//   - a Reserve may bring tasks along, started if there is room right now and nothing that waits is delayed;
//   - a Bind may put its place back into the queue for more tasks of the job (a sticky place);
//   - a running task with an estimate lets the next place ask one round trip before it ends.
//
// Tasks need CPU and memory, and not all the same. While there is no room for the head of the queue, a later
// place may fill a gap, if that does not delay the expected start of any place ahead of it (conservative
// backfilling; findGaps). Where all places need the same, as short tasks do, nothing of this is ever reckoned.
// The same forecast, of what runs and of what waits at its expected cost, gives the wait matrix that frontends
// place long tasks by (Apollo, section 3.2; Core.Matrix). A share of the worker is closed to long tasks while
// there are short ones that would have to wait for them (share.go). A Pong tells each frontend how long its own
// tasks that wait are expected to, how far those are that run and say so, and how much slower long tasks are here than was expected (progress.go).
//
// Files that a task bound early needs are fetched while it waits. It keeps its place, others overtake it as long as
// they are done when its files are expected, and from then on whoever comes next.
//
// A place has a class. What is not regular waits in a line of its own, starts only where nothing regular can, and is
// regular from when it is due on. What is spare is stopped again where it stands in the way of a regular place that has
// waited for some time; what is yielded stays (spare.go).
//
// Everything a frontend can do is undone when its link breaks, except that its attempts run on for a
// grace period, in which they can be claimed.
//
// To understand the rest, read testdata/*.txt, then Step.
package worker
