// The public API of phoebe: any Thrift client (framed transport, binary protocol) can call it.
//
// Field ids are never reused. Unless a field says otherwise: durations are microseconds, sizes are
// bytes, CPU is millicores (1000 = one core), memory is MiB, and zero or absent means "the default".
namespace go phoebe.v1
namespace py phoebe.v1
namespace java dev.phoebe.v1
namespace rs phoebe.v1

// How a job's tasks are placed. The baselines exist to be compared with.
enum Policy {
  DEFAULT = 0,      // what the frontend was started with; phoebe unless told otherwise
  PHOEBE = 1,       // late binding with ride-along, informed sampling, sticky places, overlap, resampling
  LATE_BINDING = 2, // plain Sparrow: batch sampling, late binding, proactive cancellation
  BATCH = 3,        // batch sampling by probed queue length, bound at once
  PER_TASK = 4,     // each task to the shorter of its own sampled queues
  RANDOM = 5,       // each task to a random worker
}

// Which path places the tasks: sampling and late binding, which suits short ones, or an estimate of where each is
// done first, which suits long ones and those that care where they run.
enum Mode {
  AUTO = 0,     // each task by the path that suits it; with another policy than PHOEBE, all by sampling
  SAMPLE = 1,   // all by sampling; tasks with files are refused
  ESTIMATE = 2, // all by estimates; not with the policies that bind early
}

enum RefusedReason {
  INVALID = 1,       // the request itself is wrong; the message names the field and the remedy
  TOO_LARGE = 2,     // a payload or the job exceeds a limit named in the message
  NO_WORKER = 3,     // no worker of the fleet has the function, the labels, the host or the room
  OVERLOADED = 4,    // come back after retry_after_us
  DRAINING = 5,      // this frontend is leaving: use another one
  UNKNOWN_JOB = 6,   // no such job here, nor at the owner that the handle names
  UNAUTHORIZED = 7,  // the secret is missing or wrong
  OWNER_LOST = 8,    // the job's owner does not answer: resubmit what is unfinished under the same id
  FORBIDDEN = 9,     // the caller is known, and may not do this: the job is of another tenant
  NO_FILE = 10,      // no worker that can be reached has the file: run the task again that made it, after a while if there is a retry_after_us
}

// The one exception of every call. Act on reason, never on the text.
exception Refused {
  1: required RefusedReason reason,
  2: required string message,
  3: i64 retry_after_us = 0,
}

// Who calls. The secret is needed where the frontend was started with one, or a token of a tenant in its place: it is looked for before anything else is
// read, so that in the caller, and in the request before the caller, there may only be numbers and truth values. All
// generated code writes them so. What is larger than 4 KiB and tells no secret is refused and its connection closed.
struct Caller {
  1: optional string secret,
  2: optional string name,
  3: bool forwarded = false,        // by another frontend: not to be forwarded again
  4: optional string on_behalf,     // of whom a frontend has forwarded it, as client/TENANT; absent: of itself, or of who may do all
}

struct Demand {
  1: i32 cpu_millicores = 0, // default 1000
  2: i32 memory_mib = 0,     // default 256
}

// Where a task may run. All label selectors must hold, and, if hosts are given, the worker's host or
// name must be one of them. Selectors: "key=value", "key!=value", "key" (has it), "!key" (has it not).
struct Constraint {
  1: list<string> labels,
  2: list<string> hosts,
}

// How fast a copy can be read at its host.
enum Tier {
  DISK = 0,
  MEMORY = 1,
}

// Where an input is: one of at and rack, at least.
struct Copy {
  1: string at = "",        // a host, or the name of a worker
  2: string rack = "",      // of at, if no worker is there that would tell
  3: Tier tier = Tier.DISK,
}

// How what the tasks of a stage have left comes to a task.
enum Pass {
  NONE = 0,   // the task finds it itself
  INLINE = 1, // with the task, if it is small, else as files
  FILE = 2,   // as files of workers' caches, however small it is
}

// Data that a task reads: where copies of it are, or the stage whose output it is, which lies where the tasks of
// that stage have run. phoebe places tasks near their inputs; of data, it moves only what tasks have left for later
// stages, where passing says so.
struct Input {
  1: i64 bytes = 0,
  2: list<Copy> copies,     // at most 16
  3: string stage = "",     // instead: one that the task's own comes after
  4: Pass passing = Pass.NONE, // of what the stage's tasks have left
  5: i32 partition = 0,     // in this partition
}

// What a task has left in one partition, for those of later stages: the data itself, or a file in its worker's cache. If a file that
// others need is lost, with its worker or as the cache had to make room, the task runs again, unless it may start only once; no other
// outcome of it is told.
struct Output {
  1: required i32 partition,
  2: required i64 bytes,
  3: optional binary data,
  4: optional string sha256,
}

// A file that must be on the worker's disk before the task starts: fetched while it waits, unless it is there.
struct File {
  1: required string url,     // http, https or file
  2: required string sha256,  // of its content, as 64 hexadecimal digits
  3: i64 bytes = 0,           // 0: not known
}

// Tasks of a job that do the same work on different data. They start when all tasks of the stages in after have
// results. If a task of any stage ends without one, so does the whole job.
struct Stage {
  1: required string name,
  2: list<string> after,
  3: optional binary common, // goes with the payload of each of its tasks: sent once for each worker and job
  4: optional list<string> along, // of after: of these, a task waits only for the tasks of its own partition, and gets what they have left
}

struct Task {
  1: required string function_name,
  2: binary payload,
  3: optional Demand demand,
  4: i64 estimate_us = 0,           // expected run time; 0: unknown
  5: optional Constraint constraint,
  6: bool retryable = true,         // false: started at most once, ever
  7: i64 timeout_us = 0,            // longest run time of one attempt; 0: none
  8: i32 retries = 0,               // how often the task's own failure is retried
  9: i32 index = -1,                // in a resubmission: its index in the original job
  10: optional string stage = "",   // its name, in a job with stages
  11: optional list<Input> inputs,  // at most 256
  12: optional list<File> files,    // at most 64
  13: i32 partition = -1,           // its number in the stage; -1: as listed, which a resubmission does not tell
  14: string run_class = "",            // run times are learnt for each class of a function, such as a query's fingerprint with its stage's name; and what tasks use whose demand is left open
  15: i64 backoff_us = 0,           // before the first retry of the task's own failure; before each further one twice as long, up to a minute
  16: optional list<i32> along,     // where its stage goes along others: the partitions that it waits for, if not its own; at most 256
}

// Where tasks of a stage have ended with results.
struct StageRun {
  1: required string stage,
  2: required string worker,  // as the outcomes name it
  3: required i32 tasks,      // how many there
}

// What a task that has ended with a result has left, as its outcome says.
struct Made {
  1: required string stage,
  2: required i32 task,
  3: required string worker,
  4: required list<Output> outputs,
  5: i32 partition = 0,           // of the task
  6: optional Task spec,          // the task itself, as it was submitted: without it, it cannot run again for files that are lost
}

// A resubmission goes to another frontend after the owner was lost: same job id, unfinished tasks only,
// each with its index in the original job. Attempts that still run are claimed, not run again. All stages are
// named again, those that have ended, too. A job with stages of which a task ended without a result has failed:
// it is not to be resubmitted.
struct Resubmission {
  1: required string previous_owner,
  2: optional list<StageRun> ran, // of tasks that are left out, so that it is known where the outputs of stages are
  3: i32 count = 1,               // 1 for the first resubmission of the job, then one more for each: of two owners the later one counts
  4: i64 age_us = 0,              // since the first submission; if it is given, tasks that certainly never started are started although they may start only once
  5: optional list<Made> made,    // by tasks that are left out
  6: i32 tasks = 0,               // that the job has had in all, with those that Extend has added; 0: up to the highest index of those that are listed
}

// What the tasks of a job may stand in the way of.
enum JobClass {
  AUTO = 0,    // it is left to the frontend
  REGULAR = 1,
  SPARE = 2,   // they start only where nothing regular can, and are stopped, and tried again, where they stand in its way; those that may start only once stay
}

struct Job {
  1: required string id,            // a ULID, chosen by the client; submitting it twice is submitting it once
  2: string tenant = "",
  3: i32 priority = 0,              // higher goes first, where workers queue by priority
  4: i64 deadline_us = 0,           // from receipt; 0: none
  5: Mode mode = Mode.AUTO,
  6: Policy policy = Policy.DEFAULT,
  7: double probe_ratio = 0,        // reservations per task, 1 to 10
  8: optional Constraint constraint,
  9: required list<Task> tasks,
  10: optional Resubmission resubmission,
  11: bool phases = false,          // report each outcome's phases
  12: optional list<Stage> stages,  // at most 1000; none: the tasks are all of one
  13: optional string traceparent,  // of its span, as W3C's trace context has it
  14: optional JobClass job_class,  // none: AUTO
  15: optional i64 due_us,          // of SPARE: from when on, from receipt, what of it has not started is regular; none: from half of its deadline, or never
  16: bool open = false,            // Extend is to add tasks: it does not end before one that says last. It may begin without any
  17: bool large_results = false,   // a result may be larger than what travels: then it is a file at its worker, which ReadFile reads
}

// Names a job and the frontend that owns it. Any frontend takes a call with it and forwards to the owner.
struct Handle {
  1: required string job,
  2: required string owner,
}

enum OutcomeKind {
  RESULT = 1,
  FAILED = 2,
  CANCELLED = 3,
  DEADLINE_EXCEEDED = 4,
}

enum FailureReason {
  TASK_ERROR = 1,       // the function returned an error or the process a non-zero exit code
  TIMEOUT = 2,          // an attempt ran longer than the task's timeout
  LOST = 3,             // a task that may start only once was lost; it may or may not have run
  POISON = 4,           // several workers died while they ran it
  NO_WORKER = 5,        // every worker that could run it went away and none came back in time
  RESULT_TOO_LARGE = 6, // the result exceeds the worker's or the job's limit
  PANIC = 7,            // the function panicked, or the process was killed by a signal
  INFRASTRUCTURE = 8,   // it could not be launched, however often it was tried
  NO_INPUT = 9,         // a file that it needs could not be fetched, or is not what its digest says
  STAGE_FAILED = 10,    // another task of its job, which has stages, failed: the message says which, and why
}

// Where a task whose function failed may be tried again, as often as its retries allow.
enum Retry {
  ANYWHERE = 0,
  ELSEWHERE = 1, // not at that worker, if another one may run it
  NEVER = 2,
}

struct Failure {
  1: required FailureReason reason,
  2: required string message,
  3: optional string code,   // of the function's own error, for programs
  4: optional binary detail, // likewise
  5: Retry retry_where = Retry.ANYWHERE,
}

// When each phase was reached, in microseconds after the frontend received the job. Worker-side moments
// are converted from durations under the assumption that both directions of a link are equally slow.
struct Phases {
  1: i64 sampled_us,
  2: i64 queued_us,
  3: i64 ready_us,
  4: i64 bound_us,
  5: i64 started_us,
  6: i64 finished_us,
  7: i64 delivered_us,
}

// What an attempt used, as far as its worker can tell; 0 is nothing, or not known.
struct Usage {
  1: i64 cpu_us = 0,
  2: i32 memory_mib = 0,    // at its peak
  3: i64 fetched_bytes = 0, // of files that were not at the worker
  4: i64 fetch_us = 0,      // until all its files were there, while it waited
}

struct Outcome {
  1: required i32 task,
  2: required OutcomeKind kind,
  3: optional binary result,
  4: optional Failure failure,
  5: string worker = "",
  6: i32 attempts = 0,
  7: i64 run_us = 0,        // of the attempt that counted, measured by its executor
  8: optional Phases phases,
  9: optional Usage usage,  // of that attempt; absent where nothing is known
  10: optional list<Output> outputs, // that it has left for later stages
  11: optional Output result_file,  // instead of result: it is too large to travel, and ReadFile reads it. Only of a job with large_results
}

struct RunRequest {
  1: optional Caller caller,
  2: required Job job,
}

struct RunResponse {
  1: required Handle handle,
  2: required list<Outcome> outcomes, // one for each task, in the order in which they finished
}

struct SubmitRequest {
  1: optional Caller caller,
  2: required Job job,
}

struct SubmitResponse {
  1: required Handle handle,
}

// Exactly one field is set; a client skips what it does not know.
struct Event {
  1: optional Outcome outcome,
}

struct EventsRequest {
  1: optional Caller caller,
  2: required Handle handle,
  3: i64 cursor = 0,        // 0 first, then what the last answer said; events before it are forgotten
  4: i64 max_wait_us = 0,   // how long to wait for the first event; at most 60 s
  5: i32 max_events = 0,    // default and limit 1000
}

struct EventsResponse {
  1: required list<Event> events,
  2: required i64 cursor,
  3: required bool done,    // every outcome has been delivered with this answer or before
}

struct CancelRequest {
  1: optional Caller caller,
  2: required Handle handle,
  3: string reason = "",
}

// Ends some tasks of a job that have no outcome yet, as cancelled. The job goes on: stages after theirs start without them.
struct CancelTasksRequest {
  1: optional Caller caller,
  2: required Handle handle,
  3: required list<i32> tasks, // their indices in the original job
  4: string reason = "",
}

// Adds stages and tasks to a job that was submitted and has not ended. What was added before is not added again, so that a
// call without an answer may be made once more.
struct ExtendRequest {
  1: optional Caller caller,
  2: required Handle handle,
  3: required i32 from_task,       // how many tasks the job has had so far, in all: the index of the first new one
  4: optional list<Stage> stages,  // after those that it has; each comes with a task, at least
  5: optional list<Task> tasks,    // of new stages, or of those that have not ended: then with their partition
  6: bool last = false,            // no more are added: a job that is open ends with its tasks
}

struct ExtendResponse {
  1: required i32 tasks,           // that the job has had so far, in all
}

struct CancelResponse {
  1: required i32 cancelled, // tasks that had no outcome yet
}

struct ExplainRequest {
  1: optional Caller caller,
  2: required Handle handle, // the owner may be empty, or no longer the one: then this frontend asks the others it knows
  3: i32 task = -1,          // its index; -1: all
}

enum Path {
  SAMPLING = 1,
  ESTIMATION = 2,
}

// Why a task goes its path.
enum Cause {
  BY_MODE = 1,      // the job says so
  BY_POLICY = 2,    // the job's policy only samples
  BY_INPUTS = 3,    // it has inputs that take long to read
  BY_FILES = 4,     // it needs files
  // 5 is no longer used
  BY_IGNORANCE = 6, // nothing is known of its run time: sampling does not depend on knowing
  BY_LENGTH = 7,    // it is long
  BY_BREVITY = 8,   // it is short
  BY_CLASS = 9,     // its job is spare
}

// By what a run time is expected.
enum Source {
  NOTHING = 0,
  HINT = 1,           // the task's estimate
  CORRECTED_HINT = 2, // that, and how far the estimates of its stage's finished tasks were off
  STAGE = 3,          // finished tasks of its stage
  FUNCTION = 4,       // finished tasks of its function
}

// How long a task is expected to run, its inputs at hand, on a worker of average speed.
struct Work {
  1: i64 mean_us,
  2: i64 deviation_us,      // 0: not known
  3: Source source,
  4: i32 samples,           // finished tasks behind it
}

// A worker that a task could run on, with each term of its estimate: C = success*E + K*(1 - success)*E and
// E = I + W + R, after Apollo (Boutin et al., OSDI 2014, section 3.3).
struct Candidate {
  1: required string worker,
  2: string kind,           // why it is one: has input, has file, same rack, light, in pool, asked
  3: i64 i_us,              // fetching files that it has not
  4: i64 w_us,              // waiting for room
  5: i64 r_us,              // running, with reading inputs
  6: i64 read_us,           // of it, reading inputs
  7: double success,        // the chance that the worker is there until the end
  8: i64 e_us,
  9: i64 c_us,
  10: i64 noise_us,         // what chance added to C in the choice, to keep frontends apart
  11: i64 age_us,           // of its wait matrix
  12: i32 steps,            // eighths of the worker by which the matrix was read for a larger task, as it was old
  13: i64 fetch_bytes,      // of files that it has not
  14: i64 memory_bytes,     // inputs read from the memory of its host,
  15: i64 disk_bytes,       // from a disk of its host,
  16: i64 rack_bytes,       // from its rack,
  17: i64 across_bytes,     // and from elsewhere
}

// A decision on a task: which path it goes and why, and, on that of estimation, where it was placed. A task has one
// for each time that it was placed.
struct Fate {
  1: required string what,   // in words
  2: i32 times,
}

struct Sampled {             // a worker that was chosen for sampled tasks
  1: required string worker,
  2: required string why,    // why it was
  3: i32 rides,              // tasks that were sent with their reservations
  4: i32 places,             // reservations without a task
  5: bool bound,             // instead of these: one task, at once
  6: list<Fate> fates,       // what became of the reservations so far
}

struct Sample {              // what was decided for sampled tasks, at one time
  1: i64 at_us,              // since the job was received
  2: i32 tasks,              // that waited
  3: required string tactic, // by which they were placed
  4: list<Sampled> chosen,
  5: i32 more,               // that were chosen, too, and are not remembered
}

struct Site {                // where a sampled task could read its inputs
  1: required string at,     // "at" a host, "in rack" and its name, or "anywhere"
  2: i64 read_us,            // what that takes
  3: list<string> workers,   // some of those that are up there; of anywhere none is named
}

struct Decision {
  1: required i32 task,     // of several that are alike, the first
  2: required Path path,
  3: required Cause cause,
  4: required string why,   // cause, in words
  5: i64 threshold_us,      // from which run time on a task is long
  6: optional Work work,    // by which it was chosen; absent where none was looked at
  7: i64 at_us,             // when it was placed or last tried, since the job was received
  8: i32 tries,             // how often it was tried since it was placed last; 0: not tried yet, or sampled
  9: string attempt = "",   // empty: it is at no worker
  10: string worker = "",   // of the attempt
  11: string outcome = "",  // of the attempt, or what the task waits for
  12: i64 waited_us,        // there, until it started; 0: not known
  13: i64 ran_us,
  14: optional Usage usage, // absent where nothing is known
  15: list<Candidate> candidates, // of estimation, best first: at most 16
  16: i32 seen,             // candidates, with those that are left out here
  17: i32 chosen = -1,      // position in candidates; -1: it stays unplaced, or goes to none of them
  18: string reason = "",   // of the choice
  19: required string text, // all of it, to be read
  20: i32 alike,            // other tasks of which it tells as well, where all were asked for
  21: list<Sample> samples, // of a sampled task and of others like it, in order: those that are remembered
  22: list<Site> near,      // of a sampled task with inputs, nearest first; the last is anywhere
  23: i64 read_us,          // what reading its inputs takes at the worker
  24: i64 delay_us,         // for which it had waited near its inputs when it was given to the worker
  25: string far = "",      // why it does not read where that takes least; empty: it does
  26: string task_class = "", // of its places: regular, yielded (it starts only where nothing regular can, and stays) or spare
  27: string class_why = "",
  28: i64 due_us = 0,       // from when on they are regular, since the job was received; 0: from the start, or never
  29: string tokens = "",   // how it stands to its tenant's tokens, or what of its maximum it waits for; empty: neither is limited
  30: string copy_of = "",  // the attempt that was late, where this one is a copy of it
  31: string copies = "",   // of a task at a worker: where its copy is, or why it has none
  32: optional Demand demand,  // what it takes of its worker
  33: string demand_why = "",
}

struct ExplainResponse {
  1: required list<Decision> decisions, // in the order in which they were made; at least one
  2: required string frontend,          // the name of the one that made them
}

struct ClusterRequest {
  1: optional Caller caller,
  2: string after = "",            // the address of the last worker that is known already: those behind it
  3: i32 max_workers = 0,          // 0: all; there are fleets of 20,000
  4: string worker = "",           // only the one of this name or address
  5: bool figures = false,         // figures of all workers instead of workers; after and max_workers mean nothing then
  6: i64 known = 0,                // with figures: the list whose names the caller has
  7: string frontend = "",         // the name or the address of another frontend, that is to be asked by this one
  8: bool frontends_only = false,  // leave the workers out: what a client asks to know whom it has reached
  9: bool tenants = false,         // tell of tenants, too
}

struct WorkerStatus {
  1: required string name,
  2: required string address,
  3: required string state,        // connecting, up, adrift, draining or down
  4: string host = "",
  5: list<string> labels,
  6: list<string> functions,
  7: Demand capacity,
  8: Demand free,                  // as last heard
  9: i32 queued = 0,               // places in its queue, as last heard
  10: i32 running = 0,
  11: i64 heard_us_ago = 0,
  12: i64 rtt_us = 0,
  13: i32 reservations = 0,        // of this frontend
  14: i32 attempts = 0,            // of this frontend
  15: string error = "",
  16: i64 row_us_ago = -1,         // age of what gossip tells of it; -1: nothing
  17: string row_from = "",        // who that comes from: "itself", or names of frontends
  18: list<string> row_flaws,      // what in it was absurd, and replaced
  19: list<i64> wait_us,           // the wait that this frontend expects there, by steps of its CPU, then of its memory (1, 2, 4, 8, 12, 16, 24, 32 of 32 parts); -1: never fits
  20: string rack = "",
  21: i64 wait_us_ago = -1,        // age of wait_us; -1: nothing is known, and wait_us is empty
  22: double speed = 0,            // how much faster than the average worker it runs tasks; 0: not known
  23: i32 files = 0,               // in its cache, as far as gossip tells
  24: i64 maintenance_us = -1,     // until it is away, as it has announced; -1: it has not
}

struct Member {                    // a frontend, as gossip tells
  1: required string name,
  2: string address = "",          // for clients
  3: string gossip = "",           // for frontends
  4: string heartbeat = "",        // for workers
}

// What is believed of all workers, in few bytes each.
struct Figures {
  1: i64 number = 0,               // a number that stands for the names, addresses, hosts and racks, in this order; not 0
  2: list<string> names,           // these are empty if the caller knows the list
  3: list<string> addresses,
  4: list<string> racks,
  // For each worker in the order of the list, 8 bytes: its state (0 connecting, 1 up, 2 adrift, 3 draining, 4 down); the share of
  // its CPU that is taken, and of its memory, of 255; places in its queue; tasks that run there; the wait that is expected there
  // for a task of an eighth of it; the round trip; how long it was not heard. The last five are logarithms: n stands for 2^(n/8)
  // places, tasks or microseconds, 0 for none, and 255 for what is not known.
  5: binary figures,
  6: binary ages,                  // for each worker a byte, likewise: how old that wait is
}

// What a frontend has of a tenant. Amounts are in thousandths of slots, and are those of the tenant's own jobs, without tenants below it.
struct TenantStatus {
  1: required string path,
  2: i64 used = 0,                 // by tasks at workers
  3: i64 spare = 0,                // of these, by tasks that are not regular, or not covered by its tokens
  4: i64 wanted = 0,               // by these, and by tasks that could be there
  5: i64 tokens = -1,              // so much of them it may have here; -1: they are not limited
  6: i64 most = -1,                // so much it may have here of its maximum; -1: there is none
  7: i32 held = 0,                 // tasks that its maximum keeps waiting
  8: i32 pending = 0,              // tasks without an outcome, with those of tenants below it
  9: i64 refused = 0,              // jobs, since they are counted: of the 1024 tenants of whom most were
}

struct ClusterResponse {
  1: required string frontend,     // its name
  2: required string address,
  3: required string version,
  4: i64 uptime_us = 0,
  5: bool draining = false,
  6: i32 jobs = 0,
  7: i32 tasks_pending = 0,
  8: i32 tasks_running = 0,
  9: list<WorkerStatus> workers,
  10: list<Member> members,        // itself among them; empty without gossip
  11: string warning = "",         // what is not well although it serves
  12: i64 clock_us = 0,            // its clock, since 1970; 0: not told
  13: i64 file_limit = 0,          // files that it may have open; 0: not known
  14: i32 max_clients = 0,         // connections of clients that it takes; 0: not told
  15: string next_page = "",        // after of the next page; empty: this is the last
  16: i32 total = 0,               // workers, on all pages
  17: optional Figures figures,
  18: list<TenantStatus> tenants,  // those with jobs here, or of whom jobs were refused, that want most, at most 1000; only what the caller may see
  19: i64 spare = 0,               // thousandths of slots that tasks at workers take that are not regular, or not covered by tokens; not told with figures or frontends_only
  20: i64 copies = 0,              // second attempts of late tasks, since it started
  21: i64 copies_won = 0,          // of these, those that were done first, or started first of two that waited
  22: i64 preempted = 0,           // attempts that were stopped as they stood in the way of regular work, since it started
}

// One thing that is measured. The first seven are the phases of a task, which follow each other from when it could start.
enum Measure {
  SAMPLING = 0,  // until its first places were asked for, or it was decided where it goes
  LINK = 1,      // until the worker had that
  QUEUE = 2,     // until its turn came there
  BINDING = 3,   // until the frontend's answer to that was on its way
  LAUNCH = 4,    // until it started
  RUN = 5,
  DELIVERY = 6,  // until the frontend had the outcome
  RESPONSE = 7,  // of a job
  SLOWDOWN = 8,  // of a job: its response over the longest chain of runs of its tasks, in thousandths
}

// One that time of a job is blamed on.
enum Part {
  SAMPLING = 0,
  LINK = 1,
  QUEUE = 2,         // for what it is not known
  BINDING = 3,
  LAUNCH = 4,
  RUN = 5,           // as long as was expected
  DELIVERY = 6,
  STAGE_WAIT = 7,    // from the end of the last task of the stages before until the next stage started
  FETCH = 8,         // of the queue, while the task's files were not there
  EXCESS = 9,        // of the run, what was more than expected
  OUTSIDE = 10,      // of a task of which it is not known what became of it where
  OWN_TENANT = 11,   // of the queue, behind tasks of its own tenant,
  OTHER_TENANTS = 12,// of others,
  LONG_TASKS = 13,   // behind tasks that were bound early,
  CLOSED_SHARE = 14, // with room that is kept free,
  IDLE_SLOT = 15,    // and with a slot that waited for a frontend to say what to run
}

// What a frontend has to say of itself beside the answer, or why it has none.
struct Told {
  1: required string name,      // its address, if it has never answered
  2: required string address,
  3: string error = "",         // why it is not in the answer
  4: string version = "",
  5: i64 uptime_us = 0,
  6: bool draining = false,
  7: i32 jobs = 0,              // under way
  8: i32 tasks_pending = 0,
  9: i32 tasks_running = 0,
  10: i32 workers = 0,          // linked
  11: string warning = "",
  12: bool cut_off = false,     // from the gossip
  13: i64 silence_us = -1,      // since it heard of another frontend by gossip; -1: it does not gossip
  14: i64 clock_us = 0,         // its clock, since 1970
  15: i64 lost_measurements = 0,// of the recorder, since it started, as there was no room
  16: i64 lost_jobs = 0,        // that were to be kept
  17: i32 kept_jobs = 0,
  18: list<Estimates> estimates,
  19: binary round_trips,       // to its workers since it started: a histogram
}

// How good the estimates were by which a frontend has placed tasks, since it started.
struct Estimates {
  1: required string of,        // wait or run
  2: i64 seen = 0,
  3: i64 good = 0,              // within 10 % or 1 s
  4: i64 over = 0,              // more than it was
  5: i64 error_us = 0,          // by how much they were off, together
}

// A histogram is unsigned LEB128 numbers: how many cells have counted something, and, if any has, the sum of all durations in
// nanoseconds, and for each of these cells its distance from the one before it, from cell 0 for the first, and what it has
// counted. Cell 0 has what is under 1024 ns. From there on there are 16 cells for each doubling: cell 1 + 16*o + p begins at
// (16 + p) * 2^(o + 6) ns. The last one, 513, has all from 2^42 ns on.

struct WatchRequest {
  1: optional Caller caller,
  2: i64 window_us = 0,         // how long each is: a second, ten, or five minutes; what is between is taken for the next longer
  3: i64 since_us = 0,          // windows that start then or later, since 1970; 0: all that are remembered: 60, 60 and 72 of them
  4: i32 top = 0,               // how many of the slowest jobs to name; at most 64
}

// What was counted of a path, a policy and a tenant: "other" stands for all that are not told apart.
struct Series {
  1: required string path,
  2: required string policy,
  3: required string tenant,
  4: required binary histograms, // one behind the other, of each Measure in order
}

struct Refusals {
  1: required RefusedReason reason,
  2: i64 times = 0,
}

struct Window {
  1: required i64 at_us,        // its start, since 1970; a multiple of its length
  2: required i64 length_us,
  3: list<Series> series,
  4: i64 accepted = 0,          // jobs
  5: i64 tasks = 0,             // with an outcome
  6: i64 failed = 0,            // of these, without a result
  7: list<Refusals> refusals,   // of jobs
  8: i64 queue_age_us = 0,      // the longest for which a job has waited for its first task to start
  9: i32 tasks_pending = 0,     // the most
  10: i32 tasks_running = 0,    // the most
  11: i32 frontends = 0,        // whose share is in it
}

struct WatchResponse {
  1: required list<Window> windows, // in order; the last ones may not be complete: ask for them again
  2: list<JobSummary> slowest,      // of the jobs that are kept and came in these windows, slowest first
  3: required list<Told> frontends, // the one that answers is the first
  4: i32 left_out = 0,              // of the oldest windows, as the answer would be too large
}

// Which jobs are meant: those for which all of this holds.
struct JobFilter {
  1: string policy = "",
  2: optional string tenant,        // absent: any; there is a tenant without a name
  3: bool failed = false,           // some task of it has no result
  4: bool running = false,          // only those that are under way
  5: i64 slower_us = 0,             // whose response, so far, is at least this
  6: i64 from_us = 0,               // that came then or later, since 1970
  7: i64 until_us = 0,              // and before; 0: now
  8: string id = "",                // whose id begins so
  9: string frontend = "",          // that belong to the frontend of this name
}

struct JobsRequest {
  1: optional Caller caller,
  2: optional JobFilter filter,
  3: string cursor = "",            // empty first, then next_page of the last answer
  4: i32 max_jobs = 0,              // default 100, limit 1000
}

struct PartOf {
  1: required Part part,
  2: required i64 us,
}

// A job that is under way, or one that is kept: those that failed, the slowest of each minute and policy, and a sample.
struct JobSummary {
  1: required string job,
  2: required string owner,         // its address, as in the job's handle
  3: required string frontend,      // its name
  4: string policy = "",
  5: string tenant = "",
  6: i64 came_us = 0,               // since 1970
  7: i64 response_us = 0,           // so far, of one that is under way
  8: i32 tasks = 0,
  9: i32 ended = 0,                 // of these
  10: i32 failed = 0,               // of these, without a result
  11: bool running = false,         // it is under way
  12: list<PartOf> blame,           // of one that is kept: they add up to the response
  13: i32 stages = 0,
  14: string path = "",             // of its tasks: sampling, estimation or mixed
  15: list<string> kept,            // why: failed, slow, sample
  16: optional JobClass job_class,  // none: AUTO, or it is not told
  17: i64 due_us = 0,               // from when on it is regular, since it came; 0: from the start, or never
  18: i32 copies = 0,               // second attempts at its tasks, as the first ones were late
  19: i32 preempted = 0,            // attempts that stood in the way of regular work, and were stopped
}

struct JobsResponse {
  1: required list<JobSummary> jobs, // the one that came last first
  2: string next_page = "",        // cursor of the next page; empty: this is the last
  3: required list<Told> frontends,
}

struct TraceRequest {
  1: optional Caller caller,
  2: required string job,
  3: i32 first = 0,                  // attempts before this one are not told
  4: i32 max_attempts = 0,          // default and limit 20,000
}

// How a task came to its worker.
enum Binding {
  NOT_KNOWN = 0,
  LATE = 1,    // with a turn of a place
  RIDE = 2,    // with the reservation, and it started at once
  SHARED = 3,  // with a turn of another job's place
  BUNDLE = 4,  // behind another task that a turn got
  AHEAD = 5,   // with a turn that the worker asked for before it had room
  EARLY = 6,   // placed by estimation, or by a policy that binds early
  COPY = 7,    // as a second attempt, as the first one was late
}

// Why an attempt ended that did not give the outcome of its task.
enum AttemptEnd {
  NOT_TOLD = 0,
  FAILED = 1,     // and was tried again, as is the case with the next three
  TIMED_OUT = 2,
  PANICKED = 3,
  NO_INPUT = 4,
  KILLED = 5,     // by its worker, which drained, or had given its frontend up
  PREEMPTED = 6,  // it was spare, and in the way
  LOST = 7,       // its worker went away, or knew nothing of it
  BEATEN = 8,     // another attempt at the task had ended before
  STOPPED = 9,    // the task was not wanted any more
}

struct TraceResponse {
  1: required JobSummary job,
  2: list<Stage> stages,
  3: required list<string> workers, // names, that attempts refer to
  4: required i32 total,            // attempts of the job that are known
  // Attempts in the order in which they ended. First the number of fields of each, then the fields of each one behind the other:
  // unsigned LEB128 numbers, durations in nanoseconds. Fields are only ever added:
  //  0 task
  //  1 stage
  //  2 worker: position in workers + 1, 0 for none
  //  3 tries: it is the last one of so many
  //  4 path: 0 sampling, 1 estimation
  //  5 Binding
  //  6 OutcomeKind
  //  7 FailureReason, 0 for none
  //  8 when the task could start, since its job came
  //  9 1 if it is known when its phases ended; else there is only the delivery
  // 10 to 16 the end of each phase since the job came, from SAMPLING to DELIVERY
  // 17 that it took until its files were there
  // 18 the run that was expected, 0 if that is not known
  // 19 the wait at the worker that was promised to a task placed by estimation
  // 20 what that was
  // 21 to 25 what of the wait there was for what: OWN_TENANT to IDLE_SLOT; all 0 of a worker that does not tell
  5: required binary attempts,
  6: i32 next_page = 0,        // first of the next page; 0: this is the last
  7: string frontend = "",          // that knows it
  8: list<Told> frontends,
  // Attempts that did not give the outcomes of the tasks of this page, the last 4 of a task at most, in the order of these tasks, in
  // numbers as above:
  //  0 the position of the one that did among all that are known
  //  1 worker: position in workers + 1, 0 for none
  //  2 Binding
  //  3 AttemptEnd
  //  4 when it was sent, since its job came, 0 if that is not known
  //  5 when it started, 0 if it never did, or that is not known
  //  6 when it ended
  9: optional binary earlier,
}

struct RecordingsRequest {
  1: optional Caller caller,
}

// A file in which a frontend has recorded what happened as an objective was broken.
struct Recording {
  1: required string frontend,  // the name of the one that has it
  2: required string name,      // of the file
  3: i64 size_bytes = 0,
  4: i64 at_us = 0,             // since 1970
  5: string broken = "",        // the objective
  6: i64 observed_us = 0,       // what its response was instead
  7: string slowest = "",       // the worker whose tasks took most beyond what is usual; empty: none did
  8: string phase = "",         // of its tasks, in which they spent that
}

struct RecordingsResponse {
  1: required list<Recording> recordings, // newest first
  2: required list<Told> frontends,       // the one that answers is the first
}

struct RecordingRequest {
  1: optional Caller caller,
  2: required string frontend,  // the name of the one that has it
  3: required string name,
  4: i64 from_byte = 0,
}

struct RecordingResponse {
  1: required binary data,      // from from_byte on, at most 1 MiB
  2: i64 size_bytes = 0,        // of the whole file
}

// A worker is to leave at once, or to announce that it will be away.
struct LeaveRequest {
  1: optional Caller caller,
  2: required string worker,    // its name or address
  3: bool drain = false,        // end what runs, take nothing new, and end
  4: i64 in_us = 0,             // else: away in so long
  5: i64 lasts_us = 0,          // for so long; 0: an announcement is called off
}

struct LeaveResponse {}

struct LocateRequest {
  1: optional Caller caller,
  2: required list<string> sha256, // of the contents of files, as 64 hexadecimal digits: at most 100
}

struct LocateResponse {
  1: required list<list<Copy>> copies, // of each of these files: in the caches of which workers it is, at most 16
}

// A part of a file that a task has left in its worker's cache: its result, or an output. Who knows its digest may read it.
struct ReadFileRequest {
  1: optional Caller caller,
  2: required string sha256,    // of the whole file, as the outcome says
  3: string worker = "",        // that made it, as the outcome names it: it is asked first, then others that are said to have it
  4: i64 from_byte = 0,
  5: i32 max_bytes = 0,         // default and limit 1 MiB
}

struct ReadFileResponse {
  1: required binary data,      // from from_byte on
  2: required i64 size_bytes,   // of the whole file
}

service Phoebe {
  // Runs a job and answers with all its outcomes: the fastest way for a small job.
  RunResponse Run(1: RunRequest request) throws (1: Refused refused),
  // Takes a job and answers at once.
  SubmitResponse Submit(1: SubmitRequest request) throws (1: Refused refused),
  // Long-polls what happened to a job after the cursor. Not polling for the client grace time cancels the job.
  EventsResponse Events(1: EventsRequest request) throws (1: Refused refused),
  CancelResponse Cancel(1: CancelRequest request) throws (1: Refused refused),
  CancelResponse CancelTasks(1: CancelTasksRequest request) throws (1: Refused refused),
  ExtendResponse Extend(1: ExtendRequest request) throws (1: Refused refused),
  // What was decided on a job's tasks, and why: while it is under way, and for a time after.
  ExplainResponse Explain(1: ExplainRequest request) throws (1: Refused refused),
  // What this frontend believes of the fleet.
  ClusterResponse Cluster(1: ClusterRequest request) throws (1: Refused refused),
  // What all frontends have counted over time, together.
  WatchResponse Watch(1: WatchRequest request) throws (1: Refused refused),
  // Jobs of all frontends that are under way, or have ended and are kept.
  JobsResponse Jobs(1: JobsRequest request) throws (1: Refused refused),
  // What the tasks of such a job have been through.
  TraceResponse Trace(1: TraceRequest request) throws (1: Refused refused),
  // What frontends have recorded as objectives were broken.
  RecordingsResponse Recordings(1: RecordingsRequest request) throws (1: Refused refused),
  // A part of such a file.
  RecordingResponse Recording(1: RecordingRequest request) throws (1: Refused refused),
  // Tells a worker to leave: once this is answered, it has been sent.
  LeaveResponse Leave(1: LeaveRequest request) throws (1: Refused refused),
  // Where files are that tasks may need, as far as this frontend has heard by gossip.
  LocateResponse Locate(1: LocateRequest request) throws (1: Refused refused),
  // A part of a file that a task has left. Any frontend reads it, so that it outlives the one that had the job.
  ReadFileResponse ReadFile(1: ReadFileRequest request) throws (1: Refused refused),
}
