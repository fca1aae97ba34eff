// Package frontend is the deciding core of a frontend: jobs, admission, sampling and binding. It does no
// I/O; package frontend/serve is the shell around it, bench/sim drives it in virtual time, and both do
// nothing but call [Core.Step] and carry out the actions it returns.
//
// A job's tasks are grouped by what they demand of a worker. For the m waiting tasks of a group, d*m
// places are reserved at sampled workers (Sparrow, section 3.2, batch sampling); whoever is ready first
// gets a task (section 3.3, late binding); when none waits any more, the other places are cancelled
// (section 3.6). The policy phoebe adds, each switchable in [Policy]:
//
//   - ride-along: where the view believes a slot is free, the reservation brings its task with it;
//   - informed: such workers are sampled first, and one that becomes idle is offered what waits;
//   - sticky: a place is kept while its job has waiting tasks, so jobs are served more nearly in the order
//     in which they came (compare Eagle's sticky batch probing);
//   - overlap: a worker may ask one round trip before it expects a slot to fall free;
//   - bundle: tasks that are shorter than the round trip for the next one are given out several at a time;
//   - resample: a job whose places do not come round is given more.
//
// Tasks that are long, or that care where they run (inputs, files, constraints of their own), go another way in
// mode auto: each is estimated to be done first somewhere (package estimate), by the wait matrices that workers
// tell when they are asked and that gossip brings ([Heard]), and is bound early, there. A batch of them is matched
// with workers, one to each. Sampling keeps away from workers that such tasks hold. [Core.Explain] says which way
// a task went and why, with the candidates and their terms. A job may have stages, each of which starts when those
// before it have ended.
//
// Tenants are kept apart: a job is refused because others of its tenant have waited for too long, or because they are so
// many that little would be left to other tenants; what room workers have is offered to tenants by turns. Whose turn
// comes first at a worker is up to the worker's order: only under fair does a tenant wait for its own jobs alone. Under
// fifo it waits behind those of all others, up to MaxWait for each that asks for more than there is.
//
// What a frontend believes of a worker, its view, is only ever a hint: a wrong one costs time, never a
// task. The baselines random, per-task and batch bind early, as in section 5 of the paper.
package frontend
