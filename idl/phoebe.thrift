// The public API of phoebe. Any Thrift client can call it, with framed transport and binary protocol.
//
// To run a job, connect to any frontend, and call Run with tasks. Run answers with all outcomes. For a
// large or long job, call Submit instead, then call Events again and again until done is true. If a call
// throws Refused, act on the reason. If the connection breaks after Submit, go on with Events at any
// frontend: the frontend forwards the call to the job's owner. If the owner is lost, or a Run has no
// answer, submit the unfinished tasks to another frontend, with a Resubmission.
//
// Field ids are never reused. Unless a field says otherwise: durations are microseconds, sizes are bytes,
// CPU is millicores (1000 = one core), memory is MiB, and zero or absent means the default.
namespace go phoebe.v1
namespace py phoebe.v1
namespace java dev.phoebe.v1
namespace rs phoebe.v1

// How the tasks of a job are placed. The policies other than PHOEBE exist for comparisons.
enum Policy {
  DEFAULT = 0,      // the frontend's default, normally PHOEBE
  PHOEBE = 1,       // late binding with ride-along, informed sampling, sticky places, overlap, resampling
  LATE_BINDING = 2, // plain Sparrow: batch sampling, late binding, proactive cancellation
  BATCH = 3,        // batch sampling by probed queue length, bound at once
  PER_TASK = 4,     // each task to the shorter of its own sampled queues
  RANDOM = 5,       // each task to a random worker
}

// The path by which the tasks are placed. Sampling with late binding suits short tasks. Estimation, a guess
// where each task ends first, suits long tasks and tasks with inputs or files.
enum Mode {
  AUTO = 0,     // the frontend picks the path for each task; with other policies than PHOEBE: always sampling
  SAMPLE = 1,   // all tasks by sampling; tasks with files are refused
  ESTIMATE = 2, // all tasks by estimation; not with the policies that bind early
}

enum RefusedReason {
  INVALID = 1,       // the request is wrong; the message names the field and the remedy
  TOO_LARGE = 2,     // a payload or the job exceeds a limit; the message names the limit
  NO_WORKER = 3,     // no worker of the fleet has the function, the labels, the host or the room
  OVERLOADED = 4,    // try again after retry_after_us
  DRAINING = 5,      // the frontend is about to leave: use another frontend
  UNKNOWN_JOB = 6,   // the job is unknown here, and at the owner in the handle
  UNAUTHORIZED = 7,  // the secret is missing or wrong
  OWNER_LOST = 8,    // the job's owner does not answer: resubmit the unfinished tasks under the same id
  FORBIDDEN = 9,     // the caller is known, but has no right to the call: the job belongs to another tenant
  // No reachable worker has the file. If there is a retry_after_us, wait for that time and try again. Then
  // run the task again that made the file.
  NO_FILE = 10,
}

// The exception of every call. Act on the reason, never on the message.
exception Refused {
  1: required RefusedReason reason,
  2: required string message,       // for humans
  3: i64 retry_after_us = 0,        // when to try again; 0: do not try the same call again
  4: optional bool started,         // true: tasks of the job have run; not set by frontends of version 0.1.0
}

// Who calls. If the frontend was started with a secret, the secret is needed, or a token of a tenant in its
// place. The frontend looks for the secret before it reads anything else. So the caller, and the request
// before the caller, may only hold numbers and booleans ahead of the secret, as all generated code writes
// them. A frontend refuses a request larger than 4 KiB without a secret, and closes the connection.
struct Caller {
  1: optional string secret,
  2: optional string name,          // for the frontend's log
  3: bool forwarded = false,        // sent by another frontend: do not forward again
  // With forwarded: the first caller, as client/TENANT, for the log. Absent: the frontend itself, or a
  // caller with all rights.
  4: optional string on_behalf,
  // With forwarded: the tenant of the first caller, if the caller may only touch jobs of a tenant. An older
  // frontend says so in on_behalf only.
  5: optional string bound_to,
}

// The room that a task takes on a worker while it runs. The defaults make one slot.
struct Demand {
  1: i32 cpu_millicores = 0, // default 1000
  2: i32 memory_mib = 0,     // default 256
}

// Where a task may run. All label selectors must hold. If there are hosts, the worker's host or name must
// be one of the hosts. Selectors: "key=value", "key!=value", "key" (has the label), "!key" (does not have
// the label).
struct Constraint {
  1: list<string> labels,
  2: list<string> hosts,
}

// How fast a copy can be read at its host.
enum Tier {
  DISK = 0,
  MEMORY = 1,
}

// The place of a copy of an input. At least one of at and rack must be set.
struct Copy {
  1: string at = "",        // a host, or the name of a worker
  2: string rack = "",      // of at; needed if no worker at the host reports its rack
  3: Tier tier = Tier.DISK,
}

// How the output of a stage comes to a task.
enum Pass {
  NONE = 0,   // not at all: the task finds the data itself
  INLINE = 1, // small data with the task; larger data as files
  FILE = 2,   // as files, from the caches of other workers, even if the data is small
}

// Data that a task reads: data with known copies, or the output of an earlier stage. The output lies at the
// workers that ran the stage's tasks. phoebe places tasks near their inputs. phoebe itself moves only
// outputs of stages, if passing is set.
struct Input {
  1: i64 bytes = 0,
  2: list<Copy> copies,        // at most 16
  3: string stage = "",        // instead of copies: a stage that comes before the task's own stage
  4: Pass passing = Pass.NONE, // of the stage's output
  5: i32 partition = 0,        // of the output to pass
}

// The output of a task in one partition, for tasks of later stages: the data itself, or a file in the cache
// of the task's worker. A needed file may be lost with its worker, or dropped from the cache to make room.
// Then the task runs again, unless it may start only once. The second run gives no further outcome.
struct Output {
  1: required i32 partition,
  2: required i64 bytes,
  3: optional binary data,   // absent: a file
  4: optional string sha256, // of the file, as 64 hexadecimal digits
}

// A file that must be on the worker's disk before the task starts. If the worker does not have the file,
// the worker fetches the file while the task waits.
struct File {
  1: required string url,     // http, https or file
  2: required string sha256,  // of the content, as 64 hexadecimal digits
  3: i64 bytes = 0,           // 0: not known
}

// Tasks of a job that do the same work on different data. The tasks start when all tasks of the stages in
// after have results. If a task of any stage ends without a result, the whole job fails.
struct Stage {
  1: required string name,
  2: list<string> after,          // names of stages
  3: optional binary common,      // data for all tasks of the stage: sent once to each worker for the job
  // Stages of after for which a task waits only for the tasks of its own partition. The task gets the
  // outputs of only these tasks.
  4: optional list<string> along,
}

struct Task {
  1: required string function_name,
  2: binary payload,                // input of the function
  3: optional Demand demand,
  4: i64 estimate_us = 0,           // expected run time; 0: unknown
  5: optional Constraint constraint,
  6: bool retryable = true,         // false: started at most once, ever
  7: i64 timeout_us = 0,            // longest run time of an attempt; 0: none
  8: i32 retries = 0,               // number of retries after a failure of the function
  9: i32 index = -1,                // in a resubmission: the task's index in the original job
  10: optional string stage = "",   // name of the task's stage, in a job with stages
  11: optional list<Input> inputs,  // at most 256
  12: optional list<File> files,    // at most 64
  13: i32 partition = -1,           // number in the stage; -1: by the order of tasks; not in a resubmission
  // The class splits the tasks of a function for learning. For each class, phoebe learns run times, and the
  // resources used by tasks without a demand. Example: a query's fingerprint with the stage's name.
  14: string run_class = "",
  // Wait before the first retry after a failure of the function, doubled for each further retry, up to a
  // minute.
  15: i64 backoff_us = 0,
  // Partitions to wait for, at most 256, in the stages that the task's stage goes along; none: the task's
  // own.
  16: optional list<i32> along,
}

// Results of a stage's tasks at one worker.
struct StageRun {
  1: required string stage,
  2: required string worker,  // name, as in the outcomes
  3: required i32 tasks,      // number of results there
}

// The outputs of a task that has ended with a result, as in its outcome.
struct Made {
  1: required string stage,
  2: required i32 task,
  3: required string worker,
  4: required list<Output> outputs,
  5: i32 partition = 0,           // of the task
  6: optional Task spec,          // the task as submitted; needed to run the task again if its files are lost
}

// A resubmission goes to another frontend after the loss of the owner. It has the same job id, all stages,
// and only the unfinished tasks, each with its index in the original job. The new owner claims the attempts
// that still run, and does not run them again. Do not resubmit a job with stages if a task has ended
// without a result: the job has failed.
struct Resubmission {
  1: required string previous_owner,
  2: optional list<StageRun> ran, // of the left-out tasks, so that the frontend knows where outputs are
  // Counts resubmissions, from 1 to 1,000,000. Of two owners, the higher count wins.
  3: i32 count = 1,
  // Time since the first submission. If age_us is set, a retryable=false task starts again if it certainly
  // never started.
  4: i64 age_us = 0,
  5: optional list<Made> made,    // outputs of the left-out tasks
  6: i32 tasks = 0,               // number of all tasks, with additions; 0: highest listed index + 1
  // A job too large for one call comes in parts: several calls of Submit, one after the other. All parts
  // have id, tenant, count, part and parts. The first part has no tasks: frontends of version 0.1.0 refuse
  // such a job. Each further part has some of the tasks. The last part has all other fields, too. The
  // frontend has the job after the last part. If the frontend refuses a part as OWNER_LOST, begin again with
  // the first part.
  7: i32 part = 0,                // counted from 0
  8: i32 parts = 1,
  // Of a shared job: outcomes of the left-out tasks, for other clients of the job. An older frontend ignores
  // the outcomes.
  9: optional list<Outcome> outcomes,
}

// Whether the tasks of a job may delay other tasks.
enum JobClass {
  AUTO = 0,    // the frontend decides
  REGULAR = 1,
  // A spare task starts only where no regular task can. If a regular task needs the room, the spare task is
  // stopped and tried again, unless it may start only once.
  SPARE = 2,
}

struct Job {
  // A ULID, chosen by the client; submitting it twice is submitting it once. If the first bit is set, only
  // one tenant may submit the id: the first 8 bytes are then those of the SHA-256 of the tenant, apart from
  // the bit. An older frontend takes the id from all tenants.
  1: required string id,
  2: string tenant = "",
  3: i32 priority = 0,              // higher goes first among the tenant's jobs
  4: i64 deadline_us = 0,           // from receipt; 0: none
  5: Mode mode = Mode.AUTO,
  6: Policy policy = Policy.DEFAULT,
  7: double probe_ratio = 0,        // reservations for each task, 1 to 10
  8: optional Constraint constraint,
  9: required list<Task> tasks,
  10: optional Resubmission resubmission,
  11: bool phases = false,          // report the phases of each outcome
  12: optional list<Stage> stages,  // at most 1000; none: the job has a single stage
  13: optional string traceparent,  // of the job's span, in the format of W3C trace context
  14: optional JobClass job_class,  // none: AUTO
  // For SPARE: the time from receipt after which tasks that have not started become regular. None: half of
  // the deadline, or never.
  15: optional i64 due_us,
  // Extend may add tasks. The job may begin without tasks, and does not end before an Extend with last.
  16: bool open = false,
  // A result may be larger than the limit for messages. A larger result is a file at its worker, for
  // ReadFile.
  17: bool large_results = false,
  // Several clients may submit or follow the job. The frontend keeps fetched outcomes for the other clients,
  // as far as memory allows. Each client submits the job with a resubmission, at first with an empty
  // previous_owner. The frontend then asks all other frontends for the job. If no frontend has the job, the
  // id decides which frontend takes the job. An older frontend takes the job without a question: if two
  // clients submit at the same moment at two frontends, the job may start twice.
  18: bool shared = false,
  // How long the job goes on without a call of Events, if longer than the frontend's client grace time. The
  // frontend limits the time. An older frontend keeps to its client grace time.
  19: i64 grace_us = 0,
}

// Names a job and its owner, the frontend that has the job. Any frontend takes a call with a handle, and
// forwards the call to the owner.
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
  TASK_ERROR = 1,       // the function returned an error, or the process a non-zero exit code
  TIMEOUT = 2,          // an attempt ran longer than the task's timeout
  LOST = 3,             // a task that may start only once was lost; it may or may not have run
  POISON = 4,           // several workers died while they ran the task
  NO_WORKER = 5,        // every worker that could run the task left, and none came back in time
  RESULT_TOO_LARGE = 6, // the result exceeds the limit of the worker or the job
  PANIC = 7,            // the function panicked, or the process was killed by a signal
  INFRASTRUCTURE = 8,   // the task could not be launched, after several tries
  NO_INPUT = 9,         // a needed file could not be fetched, or does not have its digest
  STAGE_FAILED = 10,    // another task failed, in a job with stages: the message says which task, and why
}

// Where a task may be tried again after a failure of its function, within its retries.
enum Retry {
  ANYWHERE = 0,
  ELSEWHERE = 1, // at another worker, if another worker may run the task
  NEVER = 2,
}

struct Failure {
  1: required FailureReason reason,
  2: required string message,
  3: optional string code,   // of the function's own error, for programs
  4: optional binary detail, // of the function's own error
  5: Retry retry_where = Retry.ANYWHERE,
}

// The end of each phase, in microseconds after the frontend received the job. Moments at the worker are
// estimates: both directions of the link are assumed to be equally slow.
struct Phases {
  1: i64 sampled_us,
  2: i64 queued_us,
  3: i64 ready_us,
  4: i64 bound_us,
  5: i64 started_us,
  6: i64 finished_us,
  7: i64 delivered_us,
}

// The resources that an attempt used, as far as the worker can tell. 0 means nothing, or not known.
struct Usage {
  1: i64 cpu_us = 0,
  2: i32 memory_mib = 0,    // peak
  3: i64 fetched_bytes = 0, // of files that were not at the worker
  4: i64 fetch_us = 0,      // time until all files were there, while the task waited
}

// The end of a task. Each task has a single outcome.
struct Outcome {
  1: required i32 task,     // index in the original job
  2: required OutcomeKind kind,
  3: optional binary result,
  4: optional Failure failure,
  5: string worker = "",
  6: i32 attempts = 0,
  7: i64 run_us = 0,        // run time of the attempt that counted, measured by its executor
  8: optional Phases phases,
  9: optional Usage usage,  // of the attempt that counted; absent: nothing is known
  10: optional list<Output> outputs, // for later stages
  // Instead of result, in a job with large_results: a result too large for a message. ReadFile reads the
  // file.
  11: optional Output result_file,
  // In a job with phases: how many of the attempts were copies of a late attempt, and how other attempts
  // ended before the task was tried again. The frontend remembers four attempts without an outcome.
  12: i32 copies = 0,
  13: optional list<AttemptEnd> retried,
}

struct RunRequest {
  1: optional Caller caller,
  2: required Job job,
}

struct RunResponse {
  1: required Handle handle,
  2: required list<Outcome> outcomes, // one for each task, in the order of their ends
}

struct SubmitRequest {
  1: optional Caller caller,
  2: required Job job,
}

struct SubmitResponse {
  1: required Handle handle,
  2: i64 age_us = 0,          // of a shared job: time since its first submission
}

// Exactly one field is set. A client skips unknown events.
struct Event {
  1: optional Outcome outcome,
}

struct EventsRequest {
  1: optional Caller caller,
  2: required Handle handle,
  3: i64 cursor = 0,        // first 0, then cursor of the last answer; the frontend forgets earlier events
  4: i64 max_wait_us = 0,   // longest wait for the first event; at most 60 s
  5: i32 max_events = 0,    // default and limit 1000
  // A frontend's question to the owner: does it have the job? The answer brings no event, and the question
  // is no sign of life of the client.
  6: bool only_ask = false,
  // The caller follows a job that another client submitted. As long as the submitter calls Events, the cursor
  // of the follower acknowledges nothing. An older frontend does not know followers: its answer has tasks 0,
  // and with its next call the follower would take outcomes from the submitter.
  7: bool follow = false,
}

struct EventsResponse {
  1: required list<Event> events,
  2: required i64 cursor,
  3: required bool done,    // this answer or earlier answers have delivered every outcome
  4: i32 tasks = 0,         // number of all tasks of the job so far; 0: not sent
}

struct CancelRequest {
  1: optional Caller caller,
  2: required Handle handle,   // the owner may be empty or out of date: then all frontends are asked
  3: string reason = "",
  4: string frontend = "",     // name or address of the only frontend to ask; empty: any
}

// Cancels some tasks of a job that have no outcome yet. The job goes on: later stages start without the
// tasks.
struct CancelTasksRequest {
  1: optional Caller caller,
  2: required Handle handle,
  3: required list<i32> tasks, // indices in the original job
  4: string reason = "",
}

// Adds stages and tasks to an open job that has not ended. The frontend adds nothing twice, so a client may
// repeat a call without an answer.
struct ExtendRequest {
  1: optional Caller caller,
  2: required Handle handle,
  3: required i32 from_task,       // number of all tasks of the job so far: the index of the first new task
  4: optional list<Stage> stages,  // each with a task in the call; may come after any stage of the job
  5: optional list<Task> tasks,    // of new stages, or of unfinished stages; the latter with a partition
  6: bool last = false,            // no more additions: the open job ends with its tasks
}

struct ExtendResponse {
  1: required i32 tasks,           // number of all tasks of the job so far
}

struct CancelResponse {
  1: required i32 cancelled, // number of cancelled tasks
}

struct ExplainRequest {
  1: optional Caller caller,
  2: required Handle handle, // the owner may be empty or out of date: then the frontend asks other frontends
  3: i32 task = -1,          // index; -1: all tasks
}

enum Path {
  SAMPLING = 1,
  ESTIMATION = 2,
}

// Why a task goes its path.
enum Cause {
  BY_MODE = 1,      // the job's mode names the path
  BY_POLICY = 2,    // the job's policy only samples
  BY_INPUTS = 3,    // the task has inputs that take long to read
  BY_FILES = 4,     // the task needs files
  // 5 is no longer used
  BY_IGNORANCE = 6, // the run time is unknown, and sampling does not depend on run times
  BY_LENGTH = 7,    // the task is long
  BY_BREVITY = 8,   // the task is short
  BY_CLASS = 9,     // the job is spare
}

// The source of an expected run time.
enum Source {
  NOTHING = 0,
  HINT = 1,           // the task's estimate
  CORRECTED_HINT = 2, // the task's estimate, corrected by the errors of the stage's finished tasks
  STAGE = 3,          // finished tasks of the stage
  FUNCTION = 4,       // finished tasks of the function
  FUNCTION_AT_PEERS = 5, // finished tasks of the function at other frontends
}

// The expected run time of a task on a worker of average speed, with all inputs at hand.
struct Work {
  1: i64 mean_us,           // a hint, or the median of finished tasks
  2: i64 deviation_us,      // standard deviation; 0: not known
  3: Source source,
  4: i32 samples,           // number of finished tasks behind the estimate
}

// A worker that a task could run on, with each term of the worker's estimate: C = success*E + K*(1 -
// success)*E and E = I + W + R, after Apollo (Boutin et al., OSDI 2014, section 3.3).
struct Candidate {
  1: required string worker,
  2: string kind,           // why: has input, has file, same rack, light, in pool, asked
  3: i64 i_us,              // time to fetch missing files
  4: i64 w_us,              // wait for room
  5: i64 r_us,              // run time, with the time to read inputs
  6: i64 read_us,           // part of R: time to read inputs
  7: double success,        // probability that the worker survives until the task's end
  8: i64 e_us,
  9: i64 c_us,
  10: i64 noise_us,         // random addition to C in the choice, to make frontends choose differently
  11: i64 age_us,           // of the worker's wait matrix
  12: i32 steps,            // eighths of the worker added to the task's size in the matrix, because of age_us
  13: i64 fetch_bytes,      // of missing files
  14: i64 memory_bytes,     // of inputs in the memory of the worker's host
  15: i64 disk_bytes,       // of inputs on a disk of the worker's host
  16: i64 rack_bytes,       // of inputs elsewhere in the worker's rack
  17: i64 across_bytes,     // of inputs in other racks
}

// Counts reservations with the same result.
struct Fate {
  1: required string what,   // the result, in words
  2: i32 times,
}

// A worker chosen for sampled tasks.
struct Sampled {
  1: required string worker,
  2: required string why,    // reason for the choice
  3: i32 rides,              // number of tasks sent along with their reservations
  4: i32 places,             // number of reservations without a task
  5: bool bound,             // true: instead of reservations, a single task was bound at once
  6: list<Fate> fates,       // results of the reservations so far
}

// One drawing of workers for sampled tasks.
struct Sample {
  1: i64 at_us,              // since the job was received
  2: i32 tasks,              // number of tasks that waited
  3: required string tactic, // by which the tasks were placed
  4: list<Sampled> chosen,
  5: i32 more,               // number of further chosen workers, not remembered
}

// A place where a sampled task could read its inputs.
struct Site {
  1: required string at,     // "at" with a host, "in rack" with a name, or "anywhere"
  2: i64 read_us,            // time to read the inputs there
  3: list<string> workers,   // some workers that are up there; empty for anywhere
}

// A decision on a task: which path the task goes and why, and, on the path of estimation, which worker the
// task was placed at. A task has one decision for each placement.
struct Decision {
  1: required i32 task,     // index; with alike above 0, of the first task
  2: required Path path,
  3: required Cause cause,
  4: required string why,   // cause, in words
  5: i64 threshold_us,      // a task with at least this expected run time is long
  6: optional Work work,    // expected work, by which the path was chosen; absent: no estimate was needed
  7: i64 at_us,             // when the task was placed or last tried, since the job was received
  8: i32 tries,             // tries to place the task since it was placed last; 0: not tried yet, or sampled
  9: string attempt = "",   // id; empty: the task is at no worker
  10: string worker = "",   // of the attempt
  11: string outcome = "",  // of the attempt, or the reason why the task still waits
  12: i64 waited_us,        // at the worker, until the start; 0: not known
  13: i64 ran_us,
  14: optional Usage usage, // absent: nothing is known
  15: list<Candidate> candidates, // of estimation, best first; at most 16
  16: i32 seen,             // number of all candidates, also of candidates missing here
  17: i32 chosen = -1,      // position in candidates; -1: not placed, or at a worker missing in candidates
  18: string reason = "",   // of the choice
  19: required string text, // the whole decision, for humans
  20: i32 alike,            // number of further tasks with an equal decision; only in an answer on all tasks
  21: list<Sample> samples, // for the sampled task and tasks like it, in order, as far as remembered
  22: list<Site> near,      // for a sampled task with inputs, nearest first; the last site is anywhere
  23: i64 read_us,          // time to read the inputs at the worker
  24: i64 delay_us,         // how long the task waited for a worker near its inputs
  25: string far = "",      // why the task does not read at the nearest site; empty: it does
  26: string task_class = "", // regular, spare, or yielded: starts like spare, but is not stopped
  27: string class_why = "",
  28: i64 due_us = 0,       // when the task becomes regular, since the job's receipt; 0: always was, or never
  29: string tokens = "",   // effect of the tenant's tokens or maximum on the task; empty: neither is limited
  30: string copy_of = "",  // if the attempt is a copy: the late attempt
  31: string copies = "",   // for a task at a worker: where its copy is, or why it has no copy
  32: optional Demand demand,  // room that the task takes on its worker
  33: string demand_why = "",  // source of the demand
}

struct ExplainResponse {
  1: required list<Decision> decisions, // in the order of the decisions; at least one
  2: required string frontend,          // name of the frontend that made the decisions
}

struct ClusterRequest {
  1: optional Caller caller,
  2: string after = "",            // next_page of the previous answer; empty: the first page
  3: i32 max_workers = 0,          // 0: all; some fleets have 20,000
  4: string worker = "",           // name or address of a single worker
  5: bool figures = false,         // send figures of all workers instead of workers; without pages
  6: i64 known = 0,                // with figures: number of the list whose names the caller has
  7: string frontend = "",         // name or address of another frontend, to which to forward the call
  8: bool frontends_only = false,  // leave the workers out, to ask only which frontend this is
  9: bool tenants = false,         // list tenants, too
  // Send the history of the workers, too. An older frontend sends no history.
  15: bool history = false,
}

// A frontend's view of a worker.
struct WorkerStatus {
  1: required string name,
  2: required string address,
  3: required string state,        // connecting, up, adrift, draining or down
  4: string host = "",
  5: list<string> labels,
  6: list<string> functions,
  7: Demand capacity,
  8: Demand free,                  // without what stoppable spare tasks use; last value from the worker
  9: i32 queued = 0,               // places in the worker's queue, last value from the worker
  10: i32 running = 0,             // tasks, last value from the worker
  11: i64 heard_us_ago = 0,
  12: i64 rtt_us = 0,
  13: i32 reservations = 0,        // of the frontend, without a task that rides along
  14: i32 attempts = 0,            // of the frontend
  15: string error = "",
  16: i64 row_us_ago = -1,         // age of the gossip about the worker; -1: none
  17: string row_from = "",        // source of the gossip: "itself", or names of frontends
  18: list<string> row_flaws,      // absurd values in the gossip, which were replaced
  // Expected waits at the worker, by steps of its CPU, then by steps of its memory. The steps are 1, 2, 4,
  // 8, 12, 16, 24 and 32 of 32 parts. -1: a task of the size never fits.
  19: list<i64> wait_us,
  20: string rack = "",
  21: i64 wait_us_ago = -1,        // age of wait_us; -1: nothing is known, and wait_us is empty
  22: double speed = 0,            // relative to the average worker; 2 is twice as fast; 0: not known
  23: i32 files = 0,               // number of files in the worker's cache, as far as gossip tells
  24: i64 maintenance_us = -1,     // time until the announced absence; -1: none is announced
  25: string cache_error = "",     // why the worker's cache takes no new files; "": it does, or there is none
  26: optional Demand spare,       // used by the frontend's spare tasks, a part of free; absent: not told
}

// A frontend in the gossip.
struct Member {
  1: required string name,
  2: string address = "",          // for clients
  3: string gossip = "",           // for frontends
  4: string heartbeat = "",        // for workers
}

// The view of all workers, in few bytes each.
struct Figures {
  1: i64 number = 0,               // version of names, addresses, hosts and racks, with their order; not 0
  2: list<string> names,           // the lists are empty if the caller knows this version
  3: list<string> addresses,
  4: list<string> racks,
  // 8 bytes for each worker, in the order of the lists:
  //  - 0: state: 0 connecting, 1 up, 2 adrift, 3 draining, 4 down
  //  - 1: share of the worker's CPU in use, of 255
  //  - 2: share of the worker's memory in use, of 255
  //  - 3: number of places in the queue
  //  - 4: number of running tasks
  //  - 5: expected wait of a task that takes an eighth of the worker
  //  - 6: round trip
  //  - 7: time since the last message of the worker
  //
  // Bytes 3 to 7 are logarithms: n stands for 2^(n/8) places, tasks or microseconds, 0 for none, 255 for
  // not known.
  5: binary figures,
  6: binary ages,                  // one byte for each worker, also a logarithm: age of the expected wait
  7: list<string> hosts,           // like names; an older frontend sends no hosts
}

// Samples of the workers in the last ten minutes, each two seconds.
struct FleetHistory {
  1: list<i64> at_us,              // moments of the samples, oldest first, since 1970
  // Addresses of the workers, also of workers that left. With more than 2,000 workers the list is empty.
  2: list<string> addresses,
  // Row after row, with 5 bytes for each sample: bytes 0, 1, 5, 6 and 7 of Figures.figures. Each address has
  // a row. Without addresses there are 100 rows, a row for each percent of the workers, lowest first. Each of
  // the 5 figures is then sorted alone. State 255: the worker was not on the list, or (without addresses) not
  // up.
  3: binary figures,
  4: list<GoneWorker> gone,        // the latest first; at most 64
}

// A worker that was up in the last ten minutes, and is not up.
struct GoneWorker {
  1: required string name,
  2: required string address,
  3: string rack = "",
  4: i64 up_us_ago = 0,            // time since the worker was last seen up
  5: bool off = false,             // the worker is off the list
}

// Counts of a frontend over the last minute. If the frontend started later, the counts begin at the start.
struct LastMinute {
  1: required i64 us,              // length of the counted time
  2: i64 jobs = 0,                 // jobs that have ended
  3: i64 tasks = 0,                // tasks with an outcome
  4: i64 failed = 0,               // tasks with an outcome, but without a result
  5: binary responses,             // response times of the jobs: a histogram
}

// The state of a tenant at a frontend. Amounts are thousandths of slots, for the tenant's own jobs, without
// the tenants below.
struct TenantStatus {
  1: required string path,
  2: i64 used = 0,                 // by tasks at workers
  3: i64 spare = 0,                // part of used: by tasks that are not regular, or not covered by tokens
  4: i64 wanted = 0,               // used, and what waiting tasks could use
  5: i64 tokens = -1,              // share of the tenant's tokens that it may use here; -1: not limited
  6: i64 most = -1,                // share of the tenant's maximum that it may use here; -1: no maximum
  7: i32 held = 0,                 // tasks that wait because the tenant's maximum is used
  8: i32 pending = 0,              // tasks without an outcome, of tenants below, too
  9: i64 refused = 0,              // refused jobs so far; counted for the 1024 tenants with most refusals
  10: optional LastMinute last_minute, // absent: no task ended, or the tenant is counted in other_tenants
}

// One frontend's view of the fleet.
struct ClusterResponse {
  1: required string frontend,     // name
  2: required string address,
  3: required string version,
  4: i64 uptime_us = 0,
  5: bool draining = false,
  6: i32 jobs = 0,
  7: i32 tasks_pending = 0,        // without an outcome
  8: i32 tasks_running = 0,        // attempts that run, without attempts in workers' queues
  9: list<WorkerStatus> workers,
  10: list<Member> members,        // with the frontend itself; empty without gossip
  11: string warning = "",         // a problem of the frontend, although it serves
  12: i64 clock_us = 0,            // the frontend's clock, since 1970; 0: not sent
  13: i64 file_limit = 0,          // number of files that the frontend may have open; 0: not known
  14: i32 max_clients = 0,         // number of client connections that the frontend takes; 0: not sent
  15: string next_page = "",       // after of the next page; empty: this page is the last
  16: i32 total = 0,               // workers, on all pages
  17: optional Figures figures,
  // At most 1000 tenants, with the largest wants, that have jobs here or had jobs refused. Only tenants
  // that the caller may see.
  18: list<TenantStatus> tenants,
  // Thousandths of slots taken by tasks at workers that are not regular, or not covered by tokens. Not sent
  // with figures or frontends_only.
  19: i64 spare = 0,
  20: i64 copies = 0,              // second attempts of late tasks, since the frontend started
  21: i64 copies_won = 0,          // copies that ended first, or started first while the first attempt waited
  22: i64 preempted = 0,           // attempts stopped for regular work, since the frontend started
  // The other frontends that the frontend knows. Each has a name and an address. If gossip has lost a
  // frontend, error says so. Not sent with figures, and with frontends_only only if tenants is set.
  23: list<Told> others,
  24: optional LastMinute last_minute,   // of all jobs; sent with others, but not to a client of a tenant
  25: optional LastMinute other_tenants, // sum of the tenants that the frontend does not count separately
  30: optional FleetHistory history,     // if asked for
}

// A measured quantity. The first seven are the phases of a task. The first phase begins when the task could
// start, and each further phase begins at the end of the phase before.
enum Measure {
  SAMPLING = 0,  // until the first places were reserved, or the worker was chosen
  LINK = 1,      // until the worker had the message
  QUEUE = 2,     // until the task's turn in the worker's queue
  BINDING = 3,   // until the frontend sent its answer to the turn
  LAUNCH = 4,    // until the start
  RUN = 5,
  DELIVERY = 6,  // until the frontend had the outcome
  RESPONSE = 7,  // of a job
  SLOWDOWN = 8,  // of a job: response over the longest chain of its tasks' run times, in thousandths
}

// A cause of a part of a job's response time.
enum Part {
  SAMPLING = 0,
  LINK = 1,
  QUEUE = 2,         // without a known cause
  BINDING = 3,
  LAUNCH = 4,
  RUN = 5,           // up to the expected run time
  DELIVERY = 6,
  STAGE_WAIT = 7,    // from the end of the last task of the earlier stages to the start of the next stage
  FETCH = 8,         // in the queue, while the task's files were not there
  EXCESS = 9,        // run time above the expected run time
  OUTSIDE = 10,      // time of a task without a known run
  OWN_TENANT = 11,   // in the queue, behind tasks of the task's own tenant
  OTHER_TENANTS = 12,// in the queue, behind tasks of other tenants
  LONG_TASKS = 13,   // in the queue, behind tasks that were bound early
  CLOSED_SHARE = 14, // in the queue, while free room was kept for other tasks
  IDLE_SLOT = 15,    // in the queue, while a free slot waited for a frontend's answer
  IN_VAIN = 16,      // earlier attempts at the task, which gave no outcome, and the rests after them
  MAXIMUM = 17,      // before the sampling, while the tenant's maximum was used
}

// A frontend's report about itself, beside an answer of several frontends. If the frontend is not part of the
// answer, error says why.
struct Told {
  1: required string name,      // the address, if the frontend has never answered
  2: required string address,
  3: string error = "",         // why the answer lacks the frontend
  4: string version = "",
  5: i64 uptime_us = 0,
  6: bool draining = false,
  7: i32 jobs = 0,              // under way
  8: i32 tasks_pending = 0,
  9: i32 tasks_running = 0,
  10: i32 workers = 0,          // linked
  11: string warning = "",
  12: bool cut_off = false,     // cut off from the gossip
  13: i64 silence_us = -1,      // time since the last gossip from another frontend; -1: no gossip
  14: i64 clock_us = 0,         // the frontend's clock, since 1970
  15: i64 lost_measurements = 0,// lost by the recorder for lack of room, since the frontend started
  16: i64 lost_jobs = 0,        // jobs to be kept that were lost
  17: i32 kept_jobs = 0,
  18: list<Estimates> estimates,
  19: binary round_trips,       // to the frontend's workers, since the frontend started: a histogram
}

// How good the estimates of a frontend were, since the frontend started.
struct Estimates {
  1: required string of,        // wait or run
  2: i64 seen = 0,              // number of estimates
  3: i64 good = 0,              // estimates within 10 % or 1 s of the real time
  4: i64 over = 0,              // estimates above the real time
  5: i64 error_us = 0,          // sum of the differences to the real times
}

// The format of a histogram: unsigned LEB128 numbers. First comes the number of cells with a count above 0.
// If there are such cells, the sum of all durations in nanoseconds comes next. Then come two numbers for
// each such cell: the distance from the previous cell (from cell 0 for the first), and the count. Cell 0
// counts durations under 1024 ns. From there on, each doubling has 16 cells: cell 1 + 16*o + p begins at
// (16 + p) * 2^(o + 6) ns. The last cell, 513, counts all durations from 2^42 ns on.

struct WatchRequest {
  1: optional Caller caller,
  // Length of a window: one second, ten seconds or five minutes. A length in between is rounded up.
  2: i64 window_us = 0,
  3: i64 since_us = 0,          // earliest start, since 1970; 0: all remembered windows: 60, 60 and 72
  4: i32 top = 0,               // number of the slowest jobs to list; at most 64
}

// The histograms of a path, a policy and a tenant. The name "other" stands for all that frontends do not
// count separately.
struct Series {
  1: required string path,
  2: required string policy,
  3: required string tenant,
  4: required binary histograms, // one for each Measure, in order
}

struct Refusals {
  1: required RefusedReason reason,
  2: i64 times = 0,
}

// The histograms of a function. The name "other" stands for all functions that frontends do not count
// separately: beyond the 16 with most tasks.
struct FunctionSeries {
  1: required string function_name,
  // Of tasks with a result: a histogram for each of the seven phases, and a histogram of the whole time. Of
  // tasks without a result: a histogram of the whole time, from the release to the outcome.
  2: required binary histograms,
}

// Slots taken by the tasks of a tenant, or of a function, at workers.
struct SlotUse {
  1: required string name,      // "other": the sum of all tenants, or functions, beyond the 16 largest
  2: required i64 slots,        // thousandths, the mean over the window
}

struct Window {
  1: required i64 at_us,        // start, since 1970; a multiple of the length
  2: required i64 length_us,
  3: list<Series> series,
  4: i64 accepted = 0,          // jobs
  5: i64 tasks = 0,             // with an outcome
  6: i64 failed = 0,            // tasks with an outcome, but without a result
  7: list<Refusals> refusals,   // of jobs
  8: i64 queue_age_us = 0,      // longest wait of a job for the start of its first task
  9: i32 tasks_pending = 0,     // maximum
  10: i32 tasks_running = 0,    // maximum
  11: i32 frontends = 0,        // number of frontends whose counts are included
  // Slots of the workers that are up, in thousandths. A frontend counts the slots each two seconds. Absent:
  // the window has no count, or an older frontend answers.
  20: optional i64 capacity,
  21: list<SlotUse> tenant_slots,   // largest first
  22: list<SlotUse> function_slots, // largest first
  23: list<FunctionSeries> functions,
}

struct WatchResponse {
  1: required list<Window> windows, // in order; the last windows may be incomplete: ask for them again
  2: list<JobSummary> slowest,      // kept jobs that came in the windows, slowest first
  3: required list<Told> frontends, // the answering frontend first
  4: i32 left_out = 0,              // number of the oldest windows, left out of a too large answer
}

// Selects jobs. A job must meet all conditions that are set.
struct JobFilter {
  1: string policy = "",
  2: optional string tenant,        // absent: any; there is a tenant without a name
  3: bool failed = false,           // only jobs with a task without a result
  4: bool running = false,          // only jobs under way
  5: i64 slower_us = 0,             // minimum of the response time, so far
  6: i64 from_us = 0,               // earliest arrival, since 1970
  7: i64 until_us = 0,              // arrival before, since 1970; 0: now
  8: string id = "",                // beginning of the job's id
  9: string frontend = "",          // name or address of the owner
}

struct JobsRequest {
  1: optional Caller caller,
  2: optional JobFilter filter,
  3: string cursor = "",            // first empty, then next_page of the last answer
  4: i32 max_jobs = 0,              // default 100, limit 1000
}

struct PartOf {
  1: required Part part,
  2: required i64 us,
}

// A job under way, or a kept job. Frontends keep failed jobs, the slowest jobs of each minute and policy,
// and a sample of the rest.
struct JobSummary {
  1: required string job,
  2: required string owner,         // address, as in the job's handle
  3: required string frontend,      // name of the owner
  4: string policy = "",
  5: string tenant = "",
  6: i64 came_us = 0,               // arrival, since 1970
  7: i64 response_us = 0,           // so far, if the job is under way
  8: i32 tasks = 0,
  9: i32 ended = 0,                 // tasks that have ended
  10: i32 failed = 0,               // tasks that have ended without a result
  11: bool running = false,         // the job is under way
  12: list<PartOf> blame,           // of a kept job; the parts add up to the response
  13: i32 stages = 0,
  14: string path = "",             // of the tasks: sampling, estimation or mixed
  15: list<string> kept,            // reasons to keep the job: failed, slow, sample, listed
  16: optional JobClass job_class,  // none: AUTO, or not sent
  17: i64 due_us = 0,               // when the job becomes regular, since arrival; 0: always was, or never
  18: i32 copies = 0,               // number of second attempts of late tasks
  19: i32 preempted = 0,            // number of attempts stopped to make room for regular work
  // false: Trace knows the job for at least a minute after the answer. true: the frontend may forget the job
  // earlier, because too many jobs were listed lately.
  24: bool fleeting = false,
  25: list<string> functions,       // of the tasks, at most 8; an older frontend sends no functions
}

struct JobsResponse {
  1: required list<JobSummary> jobs, // latest arrival first
  2: string next_page = "",          // cursor of the next page; empty: this page is the last
  3: required list<Told> frontends,
}

struct TraceRequest {
  1: optional Caller caller,
  2: required string job,
  3: i32 first = 0,                  // position of the first attempt of the page
  4: i32 max_attempts = 0,           // default and limit 20,000
}

// How a task came to its worker.
enum Binding {
  NOT_KNOWN = 0,
  LATE = 1,    // with a turn of a place
  RIDE = 2,    // with the reservation, and started at once
  SHARED = 3,  // with a turn of another job's place
  BUNDLE = 4,  // behind another task, with the same turn
  AHEAD = 5,   // with a turn that the worker asked for before it had room
  EARLY = 6,   // placed by estimation, or by a policy that binds early
  COPY = 7,    // as a second attempt, because the first attempt was late
}

// Why an attempt ended without giving its task the outcome.
enum AttemptEnd {
  NOT_TOLD = 0,
  FAILED = 1,     // and was tried again, like the next three
  TIMED_OUT = 2,
  PANICKED = 3,
  NO_INPUT = 4,
  KILLED = 5,     // by its worker, because the worker drained or had given its frontend up
  PREEMPTED = 6,  // spare, and in the way of regular work
  LOST = 7,       // the worker left, or did not know the attempt
  BEATEN = 8,     // another attempt at the task had ended before
  STOPPED = 9,    // the task was no longer wanted
  MOVED = 10,     // withdrawn from the queue, because another worker could start the task sooner
}

// State of an attempt that has not ended, as far as its frontend knows.
enum AttemptState {
  NOT_TOLD = 0,
  SENT = 1,     // on the way to the worker
  QUEUED = 2,   // in the queue of the worker
  RUNS = 3,
  CUT_OFF = 4,  // the link to the worker is broken: the attempt may run, or may have ended
}

struct TraceResponse {
  1: required JobSummary job,
  2: list<Stage> stages,
  3: required list<string> workers, // names; attempts refer to them by position
  4: required i32 total,            // number of known attempts of the job
  // Attempts in the order of their ends, as unsigned LEB128 numbers. Durations are nanoseconds. The first
  // number is the number of fields of an attempt. Then come the fields of the first attempt, of the second,
  // and so on. Later versions may only add fields.
  //  - 0: task
  //  - 1: stage
  //  - 2: worker: position in workers + 1, 0 for none
  //  - 3: tries: number of attempts up to this attempt
  //  - 4: path: 0 sampling, 1 estimation
  //  - 5: Binding
  //  - 6: OutcomeKind
  //  - 7: FailureReason, 0 for none
  //  - 8: when the task could start, since the job's arrival
  //  - 9: 1 if the ends of all phases are known; 0: only the delivery is known
  //  - 10 to 16: the ends of the phases since the job's arrival, from SAMPLING to DELIVERY
  //  - 17: time until the task's files were at the worker
  //  - 18: expected run time, 0 if not known
  //  - 19: expected wait at the worker, if the task was placed by estimation
  //  - 20: real wait at the worker
  //  - 21 to 25: parts of the wait, from OWN_TENANT to IDLE_SLOT; all 0 if the worker does not report them
  //  - 26: when the task could go to a worker again, after attempts in vain; 0 if there was none
  //  - 27: time before the sampling in which the tenant's maximum was used
  5: required binary attempts,
  6: i32 next_page = 0,             // first of the next page; 0: this page is the last
  7: string frontend = "",          // name of the frontend that knows the job
  8: list<Told> frontends,
  // Attempts that did not give an outcome, for the tasks of the page: the last 4 of each task, in the order
  // of the tasks, in the same format:
  //  - 0: position, among all known attempts, of the attempt that gave the task's outcome
  //  - 1: worker: position in workers + 1, 0 for none
  //  - 2: Binding
  //  - 3: AttemptEnd
  //  - 4: when the attempt was sent, since the job's arrival; 0 if not known
  //  - 5: when the attempt started; 0 if never, or not known
  //  - 6: when the attempt ended
  9: optional binary earlier,
  // The attempts of a running job that have not ended, in the format of earlier. Only the first page has
  // these attempts, each with the numbers:
  //  - 0: task
  //  - 1: stage
  //  - 2: worker: position in workers + 1, 0 for none
  //  - 3: tries: number of attempts at the task so far
  //  - 4: Binding
  //  - 5: AttemptState
  //  - 6: when the attempt was sent, since the job's arrival; 0 if not known
  //  - 7: when the attempt started, as far as the frontend knows; 0 if not yet, or not known
  //  - 8: of a process, the run time at the last sample of its use; 0 if there is none
  //  - 9: CPU time at the sample, in nanoseconds, like 8
  //  - 10: MiB in use at the sample
  10: optional binary under_way,    // at most max_attempts; absent: the frontend does not tell
  11: i32 attempts_under_way = 0,   // number of attempts that have not ended, also beyond under_way
}

struct RecordingsRequest {
  1: optional Caller caller,
}

// A file in which a frontend has recorded the events around a broken objective.
struct Recording {
  1: required string frontend,  // name of the frontend that has the file
  2: required string name,      // of the file
  3: i64 size_bytes = 0,
  4: i64 at_us = 0,             // since 1970
  5: string broken = "",        // the objective
  6: i64 observed_us = 0,       // the response time that broke the objective
  7: string slowest = "",       // the worker whose tasks took most time beyond the usual; empty: no task did
  8: string phase = "",         // the phase in which the tasks of slowest spent most of that time
}

struct RecordingsResponse {
  1: required list<Recording> recordings, // newest first
  2: required list<Told> frontends,       // the answering frontend first
}

struct RecordingRequest {
  1: optional Caller caller,
  2: required string frontend,  // name of the frontend that has the file
  3: required string name,
  4: i64 from_byte = 0,
}

struct RecordingResponse {
  1: required binary data,      // from from_byte on, at most 1 MiB
  2: i64 size_bytes = 0,        // of the whole file
}

// Makes a worker leave, or announce an absence.
struct LeaveRequest {
  1: optional Caller caller,
  2: required string worker,    // name or address
  3: bool drain = false,        // true: end the running tasks, take no new tasks, and exit
  4: i64 in_us = 0,             // if drain is false: time until the absence
  5: i64 lasts_us = 0,          // length of the absence; 0: take back the announcement
  6: string frontend = "",      // name or address of the only frontend to ask; empty: all frontends
}

struct LeaveResponse {}

struct LocateRequest {
  1: optional Caller caller,
  2: required list<string> sha256, // of the files' contents, as 64 hexadecimal digits; at most 100 files
}

struct LocateResponse {
  1: required list<list<Copy>> copies, // for each file, at most 16 workers with the file in their caches
}

// Reads a part of a file in a worker's cache that a task has written: a result or an output. A client of a
// tenant may read the files that the tenant's tasks have written or read at a worker since its start.
struct ReadFileRequest {
  1: optional Caller caller,
  2: required string sha256,    // of the whole file, as in the outcome
  3: string worker = "",        // as in the outcome; the frontend asks this worker first, then other workers
  4: i64 from_byte = 0,
  5: i32 max_bytes = 0,         // default and limit 1 MiB
}

struct ReadFileResponse {
  1: required binary data,      // from from_byte on
  2: required i64 size_bytes,   // of the whole file
}

service Phoebe {
  // Runs a job, and answers with all outcomes: the fastest way for a small job.
  RunResponse Run(1: RunRequest request) throws (1: Refused refused),
  // Accepts a job, and answers at once.
  SubmitResponse Submit(1: SubmitRequest request) throws (1: Refused refused),
  // Waits for the events of a job after the cursor. If a client does not call Events for the client grace
  // time (default 30 s), the frontend cancels the job.
  EventsResponse Events(1: EventsRequest request) throws (1: Refused refused),
  // Cancels the tasks of a job that have no outcome yet.
  CancelResponse Cancel(1: CancelRequest request) throws (1: Refused refused),
  CancelResponse CancelTasks(1: CancelTasksRequest request) throws (1: Refused refused),
  ExtendResponse Extend(1: ExtendRequest request) throws (1: Refused refused),
  // Returns the decisions on a job's tasks, with reasons, while the job runs and for some time after.
  ExplainResponse Explain(1: ExplainRequest request) throws (1: Refused refused),
  // Returns the frontend's view of the fleet.
  ClusterResponse Cluster(1: ClusterRequest request) throws (1: Refused refused),
  // Returns the counts of all frontends over time, added up.
  WatchResponse Watch(1: WatchRequest request) throws (1: Refused refused),
  // Lists the jobs of all frontends that are under way or kept.
  JobsResponse Jobs(1: JobsRequest request) throws (1: Refused refused),
  // Returns the history of the tasks of a listed job.
  TraceResponse Trace(1: TraceRequest request) throws (1: Refused refused),
  // Lists the recordings that frontends have made of broken objectives.
  RecordingsResponse Recordings(1: RecordingsRequest request) throws (1: Refused refused),
  // Returns a part of a recording.
  RecordingResponse Recording(1: RecordingRequest request) throws (1: Refused refused),
  // Makes a worker leave, or announce an absence. The answer means that the order has been sent to the
  // worker.
  LeaveResponse Leave(1: LeaveRequest request) throws (1: Refused refused),
  // Tells which workers have files in their caches, as far as the frontend knows by gossip. A client of a
  // tenant learns of files that the tenant's tasks have written or read.
  LocateResponse Locate(1: LocateRequest request) throws (1: Refused refused),
  // Returns a part of a file that a task has written. Any frontend can read the file, so reading survives
  // the loss of the job's frontend.
  ReadFileResponse ReadFile(1: ReadFileRequest request) throws (1: Refused refused),
}
