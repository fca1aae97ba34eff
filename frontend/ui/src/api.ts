// The server's answers, in the SDK's types. Durations are in nanoseconds, instants are texts, and bytes are
// base64.

export interface Series { Path: string; Policy: string; Tenant: string; Histograms: string }

export interface WindowOf {
  At: string; Length: number; Series: Series[]; Functions: FunctionOf[] | null
  Accepted: number; Tasks: number; Failed: number
  Refused: Record<string, number>; QueueAge: number; TasksPending: number; TasksRunning: number;
  Frontends: number
  Capacity: number; TenantSlots: SlotUse[] | null; FunctionSlots: SlotUse[] | null // Capacity 0: no count
}

// FunctionOf holds the histograms of a function: the phases of tasks, the whole time of tasks with a result,
// and the whole time of tasks without a result.
export interface FunctionOf { Function: string; Histograms: string }

export interface SlotUse { Name: string; Slots: number }

export interface Estimates { Of: string; Seen: number; Good: number; Over: number; Error: number }

export interface Frontend {
  Name: string; Address: string; Err: string; Version: string; Uptime: number; Draining: boolean; Jobs: number
  TasksPending: number; TasksRunning: number; Workers: number; Warning: string; CutOff: boolean;
  Silence: number; Clock: string
  LostMeasurements: number; LostJobs: number; KeptJobs: number; Estimates: Estimates[] | null;
  RoundTrips: string | null
}

export interface Handle { Job: string; Owner: string }

export interface Job {
  Handle: Handle; Frontend: string; Policy: string; Tenant: string; Path: string; Came: string;
  Response: number; Tasks: number; Functions: string[] | null
  Ended: number; Failed: number; Stages: number; Running: boolean; Class: string;
  Blame: { Part: string; Took: number }[] | null; Kept: string[] | null
  Fleeting?: boolean // the frontend may forget the job within a minute
}

export interface Watched { Windows: WindowOf[]; Slowest: Job[] | null; Frontends: Frontend[];
  LeftOut: number }

export interface Frame { At: string; Watch?: Watched;
  Fleet?: { List: string; Frontend: string; Levels: string | null; Stale: string | null }; Error?: string }

export interface Names { List: string; Names: string[]; Addresses: string[]; Racks: string[];
  Hosts: string[] | null; Levels: string | null }

export interface Gone { Name: string; Address: string; Rack: string; UpAgo: number; Off: boolean }

export interface History { At: number[] | null; Addresses: string[] | null; Levels: string | null;
  Gone: Gone[] | null }

export interface Demand { CPU: number; Memory: number }

export interface Worker {
  Name: string; Address: string; State: string; Host: string; Labels: string[] | null;
  Functions: string[] | null; Capacity: Demand
  Free: Demand; Queued: number; Running: number; HeardAgo: number; RTT: number; Reservations: number;
  Attempts: number; Error: string
  Rack: string; Row: { Age: number; From: string; Flaws: string[] | null } | null
  View: { Age: number; Waits: number[][] | null; Speed: number; Files: number; Maintenance: number }
}

export interface Cluster { Frontend: string; Workers: Worker[]; Next: string; Total: number }

export interface Seen { Frontend: string; Worker?: Worker; Error?: string }

export interface JobPage { Jobs: Job[]; Next: string; Frontends: Frontend[] }

export interface TracePage {
  Job: Job; Stages: { Name: string; After: string[] | null }[] | null; Frontend: string; Total: number;
  Next: number
  Workers: string[] | null; Words: string[] | null; Columns: string[]; Tasks: number[][]; Earlier?: Earlier[];
  UnderWay?: UnderWay[]
  Frontends: Frontend[]
}

// UnderWay is an attempt that has not ended. Moments are in microseconds since the job's arrival;
// 0: not known, or not yet.
export interface UnderWay { Task: number; Stage: number; Tries: number; Worker: string; Bound: string;
  State: string; Sent: number; Started: number
  Sampled?: number; CPU?: number; MemoryMiB?: number } // of a process: see client.UnderWay

// Earlier is an attempt without the outcome of its task. Moments are in microseconds since the job's arrival;
// 0: not known, or never.
export interface Earlier { At: number; Worker: number; Bound: string; End: string; Sent: number;
  Started: number; Ended: number }

export interface Candidate {
  Worker: string; Kind: string; I: number; W: number; R: number; Read: number; Success: number; E: number;
  C: number; Noise: number
  Age: number; Steps: number; FetchBytes: number
}

export interface Decision {
  Task: number; Alike: number; Path: string; Cause: string; Why: string; Threshold: number; At: number;
  Tries: number
  Work: { Run: number; Dev: number; Source: string; Samples: number }
  Attempt: string; Worker: string; Outcome: string; Waited: number; Ran: number;
  Candidates: Candidate[] | null; Seen: number
  Chosen: number; Reason: string; Text: string; Far: string
  Samples: {
    At: number; Tasks: number; Tactic: string; More: number
    Chosen: { Worker: string; Why: string; Rides: number; Places: number; Bound: boolean;
      Fates: { What: string; Times: number }[] | null }[] | null
  }[] | null
}

export interface Explanation { Frontend: string; Decisions: Decision[] }

// AnswerError is an error instead of an answer.
export class AnswerError extends Error {
  constructor(readonly status: number, text: string) { super(text) }
}

// get asks the server a question. Addresses are relative to the page.
export async function get<T>(question: string, params: Record<string, string | number | undefined> = {},
  signal?: AbortSignal): Promise<T> {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) if (v !== undefined) q.set(k, String(v))
  const text = q.toString()
  return readAnswer<T>(await fetch(`api/${question}${text ? `?${text}` : ''}`, signal ? { signal } : {}))
}

// change asks the server for an action. Actions need the admin token.
export async function change<T>(action: string, params: Record<string, string>, token: string): Promise<T> {
  return readAnswer<T>(await fetch(`api/${action}?${new URLSearchParams(params)}`,
    { method: 'POST', headers: { Authorization: `Bearer ${token}` } }))
}

async function readAnswer<T>(r: Response): Promise<T> {
  const text = await r.text()
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    throw new AnswerError(r.status, text.slice(0, 200) || r.statusText)
  }
  const { Error: error, Unknown: unknown } = answer as { Error?: string; Unknown?: string }
  if (!r.ok) throw new AnswerError(r.status, error ?? r.statusText)
  if (unknown) throw new AnswerError(404, unknown)
  return answer as T
}

export function bytes(base64: string | null): Uint8Array {
  return base64 ? Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)) : new Uint8Array()
}
