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
//   - resample: a job whose places do not come round is given more;
//   - seniority: the places of later stages stand in queues as if they had come with their job, so that it does not wait
//     behind all that came after it once for each stage, and turns of jobs that came later go to them.
//
// Tasks that are long, or need files or much data, go another way in mode auto: each is estimated to be done first somewhere (package estimate), by the wait matrices that workers
// tell when they are asked and that gossip brings ([Heard]), and is bound early, there. A batch of them is matched
// with workers, one to each. Sampling keeps away from workers that such tasks hold. [Core.Explain] says which way
// a task went and why, with the candidates and their terms, or with the workers that were sampled. A job may have stages, each of which starts when those
// before it have ended.
//
// Tenants are kept apart: a job is refused because others of its tenant have waited for too long, or because they are so
// many that little would be left to other tenants; what room workers have is offered to tenants by turns. Whose turn
// comes first at a worker is up to the worker's order: under fair, which is the default, a tenant waits for its own jobs
// alone. Under fifo it waits behind those of all others, up to MaxWait for each that asks for more than there is.
// Where a file says how many tokens tenants have, tasks that are placed by estimation are regular as far as their tenant's tokens go, and
// spare beyond: they use what nobody else does. Of these, no more wait at workers than twice what the tokens cover. What falls free of
// tokens makes the most urgent of them regular.
//
// What a frontend believes of a worker, its view, is only ever a hint: a wrong one costs time, never a
// task. The baselines random, per-task and batch bind early, as in section 5 of the paper.
//
// # Rooms
//
// An event is told as facts; what they leave to be done is noted as wants; at the end of a step these are planned, and what is
// decided is committed. Each fact has one owner, and no room calls one that stands above it:
//
//	estimate  where a long task is done first: pure
//	view      what is believed of workers; knows nothing of jobs
//	place     who is sampled: a Want and the view give Decisions, and nothing else happens
//	jobs      jobs, tenants, stages, groups and tasks, and admission. Every change of a task's state goes through move
//	ledger    what was promised on each link: places, attempts, claims, acknowledgements. It alone commits decisions
//	planner   what is wanted becomes decisions: who is asked for places, what a turn gets, where a long task goes
//	Core      Step, timers, links that come and go
//
// The first three are packages. The others are types of this one, each of which embeds the one before, so that none has a
// method of a higher one to call; of their files, too, each names only what is below it (TestFloors). What they know is
// one web of pointers (facts.go), which the planner and Core read, and the two below them change (TestOwners).
//
// # Words
//
//	job, stage, task   what a client submits; tasks that do the same work on different data; one unit
//	group              tasks of a job that demand the same of a worker: they are placed together, and wait in one queue
//	tenant             for whom jobs are; its jobs with waiting tasks are hungry
//	set                the workers that are up and may run the tasks of a group
//	link               the connection to a worker; up, draining, adrift (it broke, and may come back) or down
//	place              an entry in a worker's queue that a group holds. It is live while it is believed to be there
//	reservation        the places that one Reserve asked for
//	turn               a place comes to the front, and its worker says Ready; the answer is Bind or Decline
//	bind               to give a task to a worker: late, at a place's turn, or early, without a place that came before
//	ride               a task that is sent along with its reservation, to start if there is room at once
//	attempt            one try at a task, at a worker
//	pace               of a worker: how many times as long as expected long tasks take there lately
//	copy               a second attempt of a task that is late: it runs, or waits in its queue, for longer than was expected
//	full               of a job: its client has so many results to fetch that no more of its tasks start
//	remade             of a task: it runs again after its outcome, as what it had left for later stages is lost with its worker
//	keep               what a sticky place does after its turn: it stays, for another task
//	spare              a place that its job needs no more, kept for a moment for the turns of other jobs
//	share              to give a turn to another job than the place is of
//	want               a group that may need more places than it has
//	seat               a group's among those of its job with waiting tasks, by the host that it names: so a worker finds its own
//	probe              what a task is worth in places: so many for each, of which a worker gets one or several
//	shelf              the tasks of a group that had better be run at one host, in one rack, or anywhere: green until they may be, then ripe
//	decision           what one worker gets, and why it; in explanations, also where a long task went, or one with inputs, and why
//	sample             the decisions of one time for a group
//	class              what a place may stand in the way of: regular, yielded (it starts where nothing regular can, and stays) or spare (and is stopped)
//	beyond             of a task that was bound early: its tenant's tokens do not cover it. It is spare, until one falls free
//	tactic             what the messages for a group are spent on: by how many round trips its tasks run, and by the price
//	price              of a message: the CPU that it takes, the more the busier the machine is
//	claim              to ask workers for the attempts of a job that came from another frontend
//	round              workers that are asked how long their queues are, by the baselines that bind by that
//	due, sleeping      a long task that is to be placed with the next batch, or later
//	held               of a worker: by long tasks, so that short ones had better keep away
//	lag                how long a job waits for turns before it samples again
package frontend
