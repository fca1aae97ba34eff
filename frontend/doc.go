// Package frontend is the deciding core of a frontend. The core admits jobs, samples workers, and binds tasks to
// workers. It does no I/O. Package frontend/serve is the shell around the core, and bench/sim drives the core in
// virtual time. Each of the two calls [Core.Step] with events, and carries out the actions that Step returns.
//
// # Short tasks
//
// A job's tasks are grouped by their demands of a worker. For the m waiting tasks of a group, the frontend reserves
// d*m places at sampled workers (batch sampling: Sparrow, section 3.3; d is the job's probe ratio, 2 by default). A
// task that rides along (below) counts as one of these places.
// The workers that are ready first get the tasks (late binding: section 3.5). When no task waits any more, the
// other places are cancelled (section 3.6).
// phoebe adds parts to the policy. Each part can be switched in [Policy]:
//
//   - ride-along: a reservation may bring a task along, which starts at once if the worker has room;
//   - informed: tasks ride only to workers that the view believes to have a free slot and no queue, and a worker that
//     becomes idle is offered waiting tasks. Without this part, tasks ride to a random sample;
//   - sticky: a place is kept while its job has waiting tasks, so jobs are served more nearly in the order of arrival
//     (compare Eagle's sticky batch probing);
//   - overlap: a worker may ask for a task one round trip before the time when it expects a free slot;
//   - share: if the job of a place needs the turn no more, another job of the tenant gets the turn;
//   - bundle: if tasks are shorter than the round trip for the next task, a turn gets several tasks;
//   - resample: if the places of a job get no turns, the job gets more places;
//   - seniority: places of later stages stand in queues as if they had come with the job, and turns of later jobs go to
//     them. Otherwise the job would wait, once for each stage, behind all work that came after the job;
//   - near: tasks go to their inputs, if the inputs are worth the wait.
//
// # Long tasks
//
// In mode auto, tasks that are long, or need files or much data, go another way. Package estimate estimates where
// each task would be done first. The estimates use the wait matrices that workers report when asked, and that gossip
// brings ([Heard]). A matrix has shares, because tenants take turns at workers: the task's tenant may wait for a small
// part of the wait behind all tasks. The task is bound early, to that worker. If several tasks are due together, the
// batch is matched with workers, each task with one worker. Sampling avoids workers busy with long tasks.
//
// [Core.Explain] returns the way that a task went, with the reason: the candidates with their terms, or the workers
// sampled.
//
// A job may have stages. Each stage starts when the stages before have ended.
//
// # Tenants
//
// Tenants are kept apart. If a tenant's jobs have waited too long, or if a tenant's tasks would leave little room to
// other tenants, the frontend refuses the tenant's job. The frontend offers room at workers to one tenant after
// another. Long tasks wait in a line where tenants take turns by their tokens (package probe/fair), and a job's
// priority counts among the jobs of its tenant. The order of turns at a worker is up to the worker. Under fair, the
// default order, a tenant waits only for its own jobs. Under fifo, a tenant waits behind the jobs of all tenants. Each
// tenant that asks for more than there is may add up to MaxWait to this wait.
//
// A tenants file may say how many tokens tenants have. Tasks placed by estimation are regular as far as the tenant's
// tokens go. Tasks beyond the tokens are spare, and use what no other tenant uses. The tasks beyond that wait in
// workers' queues take at most twice as many slots as the tenant has tokens. When tokens fall free, the most urgent
// tasks beyond become regular.
//
// If a tenant's maximum is used, the frontend holds the tenant's further tasks. Held tasks leave by the priority of
// their jobs, then by the arrival of their jobs. In a job the stage with the longest critical path goes first. In a
// stage the tasks added first go first, and among these the task with the longest hint.
//
// A frontend's view of a worker is only a hint. A wrong hint costs time, never a task. The baselines random,
// per-task and batch bind early, as in section 5 of the Sparrow paper.
//
// # Floors
//
// The core stands on floors, the lowest first. Core tells an event to the lower floors as facts. Facts leave work
// to be done, which is noted as wants. At the end of a step the wants are planned, and the decisions are committed.
// Each fact has one owner, and no floor calls a higher floor:
//
//	estimate  where a long task is done first: pure
//	view      what the frontend believes of workers; knows no jobs
//	place     who is sampled: turns a Want and the view into Decisions, without effects
//	jobs      jobs, tenants, stages, groups and tasks, and admission. Each change of a task's state goes through move
//	ledger    what was given out on each link: places, attempts, claims, acknowledgements. It alone commits decisions
//	planner   turns wants into decisions: who is asked for places, what a turn gets, where a long task goes
//	Core      Step, timers, links that come and go
//
// The first three floors are packages. The other floors are types of this package. Each type embeds the next lower
// type, so no type can call a method of a higher type. The files have an order, too: each file names only what the
// file itself and lower files declare (TestFloors lists the order). The jobs, tasks and places form one web of pointers
// (facts.go). Only jobs and ledger change the web, and the planner and Core read it (TestOwners).
//
// # Where is ...
//
//	Does a task go by sampling or by estimation?   route.go, jobs.choosePath
//	Which worker does a short task go to?
//	  one that looks idle: the task rides          place/place.go, Sampler.Place; places.go, ledger.reservePlaces
//	  else: the first whose place gets a turn      turns.go, planner.handleReady; places.go, ledger.bindTurn
//	  or: one that becomes idle earlier            plan.go, planner.offerTasks
//	Which worker does a long task go to?           long.go, planner.matchBatch
//	What happens when a link breaks?
//	  places go, attempts are adrift               core.go, Core.loseLink; claims.go, ledger.unlinkWorker
//	  it is back: attempts are claimed             core.go, Core.bringWorkerUp; claims.go, ledger.linkWorker
//	  the worker answers: runs, ended, unknown     outcomes.go, ledger.handleStarted; outcomes.go, ledger.handleRefused
//	  it is not back in AdriftFor (1 s): lost      core.go, Core.wakeWorker; core.go, Core.loseWorker
//	What happens when a worker is lost?            core.go, Core.loseWorker; outcomes.go, ledger.loseAttempt
//	What happens when an attempt ends?             outcomes.go, ledger.handleFinished
//	What if a client moves a job to a frontend?    claims.go, ledger.claimJob
//	When does a late task get a copy?              tail.go, planner.lookAtTail; copy.go, ledger.whyNoCopy
//	When does a queued long task move?             moves.go, planner.moveToRoom; outcomes.go, ledger.takeBackMoved
//	When does a process stand still?               ledger.go, ledger.noteStanding
//	Which run times do other frontends teach?      view/lessons.go, View.TakeLessons
//	When does a stage start?                       outcomes.go, ledger.advanceStages; tasks.go, jobs.startStages
//	Why is a job refused?                          admit.go, jobs.admitJob; admit.go, jobs.refuseBusy
//	Who decides a tenant's share?                  budget.go, jobs.updateQuotas; budget.go, jobs.coverByTokens
//	What would I change to add a policy?
//	  its row in Policies, and its parts           place/policy.go, ParsePolicy
//	  how it chooses workers                       place/place.go, Sampler.PlacerFor; wants.go, planner.planGroup
//	  or only which workers it may choose          view/sets.go, Need.isMetBy; admit.go, jobs.admitTasks
//	  other calls of the sampler, to be checked    plan.go, planner.resampleJob; plan.go, planner.offerJob
//	  names in the API (IDL) and the client        serve/parse.go, policyFromAPI; client/job.go, Policy.toWire
//
// # When a link breaks
//
// The frontend drops the places at the worker, and their groups look for places elsewhere. Tasks with an attempt
// there, running or bound early, are adrift for AdriftFor (1 s). The worker drops the frontend's places. Running
// attempts run on for Grace (10 s), and results stay for Retain (30 s).
//
// If the link is back in time, the frontend claims each attempt. The worker answers Started or Finished, or refuses
// with Unknown and the time for which it remembers attempts. An attempt sent within that time never started, and is
// taken back; an older attempt counts as lost. If the link stays down, all attempts there are lost. Then a task runs
// again elsewhere, perhaps beside the old attempt until Grace ends, unless the task may start only once.
//
// # Words
//
//	job, stage, task   a client's submission; the tasks that do the same work on different data; a unit of work
//	along              of a stage: its tasks wait for single partitions of an earlier stage, not for all its tasks
//	group              tasks of a job with equal demands of a worker: they are placed together, and wait in one queue
//	tenant             the owner of jobs: a path such as ads/etl, with tenants above and below
//	hungry             of a job, or a tenant: some of its tasks wait for turns
//	set                the workers that are up and may run the tasks of a group
//	stranded           of a group, and its tasks: no worker of its set is up
//	link               the connection to a worker; up, draining, adrift (broken, and may come back) or down
//	place              a group's entry in a worker's queue. A place is live while believed to be in the queue
//	reservation        the places that one Reserve asked for
//	turn               a place comes to the front, and its worker says Ready; the answer is Bind or Decline
//	bind               to give a task to a worker: late, at a place's turn, or early, without an earlier place
//	ride               a task sent along with its reservation, to start if there is room at once
//	attempt            one try at a task, at a worker
//	pace               of a worker: how many times as long as expected long tasks take at the worker lately
//	copy               a second attempt at a late task, which runs, or waits in its queue, longer than expected
//	move               a long task goes from the queue of a worker, which gives the task back, to a worker with room
//	paused             of a job: no more tasks start, because the client has too many results to fetch
//	remade             of a task: it runs again after its outcome, because its outputs are lost with their worker
//	keep               of a sticky place: it stays in the queue after its turn, for another task
//	surplus            of a place: its job needs it no more; kept for a moment for the turns of other jobs
//	share              to give the turn of a place to a task of another job
//	want               a group that may need more places than it has
//	seat               a group's entry in its job's list for a host that the group names. The seats show which groups
//	                   a worker may serve
//	probe              a share of the sample: m waiting tasks are worth d*m probes. A place counts as a probe; of a
//	                   sticky job, all places that one reservation has count as one probe
//	shelf              tasks of a group that had better run at one host, in one rack, or anywhere
//	green, ripe        of a task on a shelf: the shelf's workers may not take it yet, or may
//	decision           what one worker gets, and why; in explanations also where a task went, and why
//	sample             the decisions made at one time for a group
//	class              of a place: regular; spare: starts where no regular task can, and is stopped if a regular task
//	                   needs the room; yielded: starts like spare, and is not stopped
//	due                of a job: when its spare work counts as regular
//	held               of a task: it waits because its tenant's maximum is used
//	beyond, debt       a task bound early that its tenant's tokens do not cover: it is spare until a token is free
//	tactic             how a group spends messages: rides, bundles, places per worker. It depends on the tasks' run
//	                   time in round trips, and on the price
//	price              of a message: the CPU that it takes; the busier the machine, the higher
//	claim              to ask workers for attempts: after a broken link, or of a job that came from another frontend
//	confirm            of a worker: to say that a job without attempts is still at this frontend
//	round              a question to sampled workers for their queue lengths, in the policies per-task and batch
//	batch, sleeping    long tasks to be placed together next; a long task to be placed later, or once there is room
//	window             of a group whose workers' queues are full: how many of its tasks may be at workers
//	crowd              long tasks of a group that wait until others of it, or of its tenant, have started or ended
//	avoided            of a worker: long tasks use it, so short tasks had better keep away
//	lag                how long a job waits for turns before it samples again
package frontend
