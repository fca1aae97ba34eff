// Package worker is the deciding core of a worker: a queue of places, the room that the places wait for, and the
// running attempts. The core does no I/O. Package worker/serve is the shell around the core, and bench/sim drives
// the core in virtual time. Both only call [Core.Step] and carry out the returned actions.
//
// Reserve queues a place without a task (a reservation: late binding). Enqueue queues a place with a task (bound
// early). The place at the head of the queue waits for room. When there is room, a task bound early starts. A
// reservation gets its turn instead: the worker holds a slot and sends Ready to the frontend. The slot is held
// until the frontend answers Bind or Decline, or until ReadyExpiry passes (Sparrow, section 3.5). While bytes come from
// the frontend, ReadyExpiry begins again: a large payload takes its time on a slow link. Three things go beyond
// Sparrow:
//
//   - a Reserve may bring tasks along. Such a task starts if there is room now and no waiting place is delayed;
//   - a Bind may put its place back into the queue for more tasks of the job (a sticky place);
//   - if a running task has an estimate, the next place asks its frontend one round trip before the end of the
//     task.
//
// Tasks need different CPU and memory. While the head of the queue has no room, a later place may fill a gap. The
// place must not delay the expected start of a place ahead (conservative backfilling; findGaps). If all places
// need the same, as short tasks do, the worker never computes gaps. The same forecast gives the wait matrix that
// frontends use to place long tasks (Apollo, section 3.2; Core.Matrix). The forecast consists of the running
// tasks and the queue at its expected cost. A part of the worker, the short part, is closed to long tasks while
// short tasks would have to wait for long tasks (shortpart.go). A Pong tells a frontend the expected waits of its
// queued tasks, the reported progress of its running tasks, and the CPU time and memory of running processes. A Pong
// also tells the pace of this worker: the run time of long tasks over their expected run time (progress.go).
//
// Files of a task bound early are fetched while the task waits. The task keeps its place. Other tasks may go
// first if their expected end is before the expected arrival of the files. Once the files are late, any task may
// go first.
//
// A place has a class. Yielded and spare places wait in a queue of their own, and start only in room that no
// regular place can use. A place becomes regular when it is due. If a regular place has waited for PreemptAfter,
// the worker stops spare tasks in its way; yielded tasks run on (spare.go).
//
// When the link of a frontend breaks, the worker drops all places of the frontend, with the tasks that were bound
// early and still wait. Running attempts run on for Grace (10 s), and the worker keeps results for Retain (30 s). Any
// frontend may claim both. If no frontend does, the worker then stops the attempts and forgets the results.
//
// Clients choose the ids of jobs. So the worker tells jobs with the same id apart by their tenants, and a claim takes
// only attempts and places of its tenant. A frontend of an older version names no tenant, and its claims take nothing
// of a guarded job.
//
// # Where is ...
//
//	Which place gets the next free slot?                  places.go, Core.assignRoom
//	Whose turn comes first under the order fair?          fair.go, fair.nextPlace
//	What does a turn cost its tenant?                     fair.go, place.TurnCost
//	When may a later place fill a gap?                    plan.go, Core.findGaps
//	How long would a task wait here?                      plan.go, Core.Matrix
//	How long would a task of this tenant wait here?       shares.go, Core.writeShares
//	When is spare work stopped?                           spare.go, Core.preemptForRegular
//	When are slots closed to long tasks?                  shortpart.go, Core.noteShortArrival
//	Why does the worker refuse a task?                    places.go, Core.whyCannotRun
//	What if a frontend does not answer Ready?             places.go, Core.expireOverdue
//	What happens at the end of a task?                    attempts.go, Core.endAttempt
//	What happens when a frontend's link breaks?           attempts.go, Core.linkDown; places.go, Core.expireOverdue
//	Who gets attempts by a claim (repair, moved job)?     claims.go, Core.grantClaim; claims.go, Core.claimAttempt
//
// To understand the rest, read testdata/*.txt, then Step.
package worker
