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

// Which path places the tasks. Only sampling exists so far; ESTIMATE is refused.
enum Mode {
  AUTO = 0,
  SAMPLE = 1,
  ESTIMATE = 2,
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
}

// The one exception of every call. Act on reason, never on the text.
exception Refused {
  1: required RefusedReason reason,
  2: required string message,
  3: i64 retry_after_us = 0,
}

// Who calls. The secret is needed where the frontend was started with one.
struct Caller {
  1: optional string secret,
  2: optional string name,
  3: bool forwarded = false,        // by another frontend: not to be forwarded again
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
}

// A resubmission goes to another frontend after the owner was lost: same job id, unfinished tasks only,
// each with its index in the original job. Attempts that still run are claimed, not run again.
struct Resubmission {
  1: required string previous_owner,
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
}

struct Failure {
  1: required FailureReason reason,
  2: required string message,
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

struct Outcome {
  1: required i32 task,
  2: required OutcomeKind kind,
  3: optional binary result,
  4: optional Failure failure,
  5: string worker = "",
  6: i32 attempts = 0,
  7: i64 run_us = 0,        // of the attempt that counted, measured by its executor
  8: optional Phases phases,
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

struct CancelResponse {
  1: required i32 cancelled, // tasks that had no outcome yet
}

struct ClusterRequest {
  1: optional Caller caller,
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
  19: list<i64> wait_us,           // its expected wait, by steps of its CPU, then of its memory (1, 2, 4, 8, 12, 16, 24, 32 of 32 parts); -1: never fits
  20: string rack = "",
}

struct Member {                    // a frontend, as gossip tells
  1: required string name,
  2: string address = "",          // for clients
  3: string gossip = "",           // for frontends
  4: string heartbeat = "",        // for workers
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
}

service Phoebe {
  // Runs a job and answers with all its outcomes: the fastest way for a small job.
  RunResponse Run(1: RunRequest request) throws (1: Refused refused),
  // Takes a job and answers at once.
  SubmitResponse Submit(1: SubmitRequest request) throws (1: Refused refused),
  // Long-polls what happened to a job after the cursor. Not polling for the client grace time cancels the job.
  EventsResponse Events(1: EventsRequest request) throws (1: Refused refused),
  CancelResponse Cancel(1: CancelRequest request) throws (1: Refused refused),
  // What this frontend believes of the fleet.
  ClusterResponse Cluster(1: ClusterRequest request) throws (1: Refused refused),
}
