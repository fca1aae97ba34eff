// The history of a job's tasks, as columns.
import { type Earlier, get, type Job, type TracePage, type UnderWay } from './api'
import { phases } from './histogram'

type Column = 'task' | 'stage' | 'worker' | 'tries' | 'path' | 'bound' | 'outcome' | 'released' | 'again' |
  'held' | 'known' | 'fetched' | 'expected' | 'promised' | 'waited' | 'ownTenant' | 'otherTenants' |
  'longTasks' | 'closedShare' | 'idleSlot'

const names: Column[] = [
  'task', 'stage', 'worker', 'tries', 'path', 'bound', 'outcome', 'released', 'again', 'held', 'known',
  'fetched', 'expected', 'promised', 'waited', 'ownTenant', 'otherTenants', 'longTasks',
  'closedShare', 'idleSlot',
]

// Tasks holds times in microseconds since the job's arrival. Tasks are numbered in the order of their ends.
// Attempts in vain have the numbers from n on.
export class Tasks {
  readonly n: number
  readonly earlier: Earlier[] = []
  readonly underWay: readonly UnderWay[]
  private readonly earlierByTask = new Map<number, number[]>() // attempts in vain, by task
  readonly workers: string[] = []
  readonly words: string[] = []
  readonly stages: { Name: string; After: string[] | null }[]
  readonly columns: Record<Column, Float64Array>
  readonly ends: Float64Array[]
  readonly critical: number[]

  constructor(readonly job: Job, readonly frontend: string, readonly total: number, pages: TracePage[]) {
    this.n = pages.reduce((n, p) => n + (p.Tasks[0]?.length ?? 0), 0)
    this.stages = pages[0]?.Stages ?? []
    this.underWay = pages[0]?.UnderWay ?? []
    this.columns = Object.fromEntries(names.map((c) => [c, new Float64Array(this.n)])) as Record<Column,
      Float64Array>
    this.ends = phases.map(() => new Float64Array(this.n))
    let at = 0
    const numbers = new Map<string, number>()
    for (const p of pages) {
      const workers = renumber(this.workers, numbers, p.Workers ?? []),
        words = renumber(this.words, new Map(this.words.map((w, i) => [w, i])), p.Words ?? [])
      p.Columns.forEach((name, c) => {
        const from = p.Tasks[c]!
        const phase = (phases as readonly string[]).indexOf(name)
        const to = phase >= 0 ? this.ends[phase]! : this.columns[name as Column]
        if (!to) return
        const map = name === 'worker' ? workers : name === 'path' || name === 'bound' || name === 'outcome'
          ? words : null
        for (let i = 0; i < from.length; i++) to[at + i] = map ? map[from[i]!]! : from[i]!
      })
      for (const e of p.Earlier ?? []) {
        const task = at + e.At, list = this.earlierByTask.get(task) ?? []
        list.push(this.n + this.earlier.length)
        this.earlierByTask.set(task, list)
        this.earlier.push({ ...e, At: task, Worker: workers[e.Worker]! })
      }
      at += p.Tasks[0]?.length ?? 0
    }
    this.critical = this.findCritical()
  }

  get task() { return this.columns.task }
  get stage() { return this.columns.stage }
  get worker() { return this.columns.worker }
  get released() { return this.columns.released }
  get known() { return this.columns.known }
  get delivery() { return this.ends[6]! }
  taskOf(i: number): number { return i < this.n ? i : this.earlier[i - this.n]!.At }
  earlierOf(i: number): readonly number[] { return this.earlierByTask.get(i) ?? [] }
  workerOf(i: number): number { return i < this.n ? this.worker[i]! : this.earlier[i - this.n]!.Worker }
  started(i: number): number {
    if (i < this.n) return this.ends[4]![i]!
    const e = this.earlier[i - this.n]!
    return e.Started || e.Sent || e.Ended
  }
  ended(i: number): number { return i < this.n ? this.ends[5]![i]! : this.earlier[i - this.n]!.Ended }
  word(c: 'path' | 'bound' | 'outcome', i: number): string { return this.words[this.columns[c][i]!] ?? '' }
  failed(i: number): boolean { return this.word('outcome', i) !== 'result' }

  // findCritical returns the critical path. It goes back from the last task of all to the last task of the
  // earlier stages, and so on.
  private findCritical(): number[] {
    const last = new Map<number, number>()
    // If two outcomes came at once, the task whose run ended later counts as later.
    const ended = (a: number, b: number) => this.delivery[a]! - this.delivery[b]!
      || this.ends[5]![a]! - this.ends[5]![b]!
    const later = (a: number | undefined, b: number | undefined) => (a === undefined
      || (b !== undefined && ended(b, a) > 0) ? b : a)
    for (let i = 0; i < this.n; i++) {
      const known = last.get(this.stage[i]!)
      last.set(this.stage[i]!, later(known, i)!)
    }
    const found: number[] = []
    let task = [...last.values()].reduce<number | undefined>(later, undefined)
    const seen = new Set<number>()
    while (task !== undefined && !seen.has(this.stage[task]!)) {
      found.unshift(task)
      seen.add(this.stage[task]!)
      const before = (this.stages[this.stage[task]!]?.After ?? [])
        .map((name) => this.stages.findIndex((s) => s.Name === name))
      task = before.map((s) => last.get(s)).reduce<number | undefined>(later, undefined)
    }
    return found
  }
}

// spansOf returns the time in vain and the lengths of a task's phases, without empty ones.
export function spansOf(t: Tasks, i: number): { name: string; us: number }[] {
  let from = t.released[i]!
  const again = Math.max(from, t.columns.again[i]!)
  const held = Math.min(again + t.columns.held[i]!, Math.max(again, t.ends[0]![i]!))
  const ends: [string, number][] = [['in vain', again], ['maximum', held],
    ...phases.map((name, m): [string, number] => [name, t.ends[m]![i]!])]
  return ends.map(([name, end]) => {
    const to = Math.max(from, end), us = to - from
    from = to
    return { name, us }
  }).filter((s) => s.us > 0)
}

// renumber adds texts to a list, and returns the index of each.
function renumber(list: string[], numbers: Map<string, number>, texts: string[]): number[] {
  return texts.map((text) => {
    let n = numbers.get(text)
    if (n === undefined) {
      n = list.push(text) - 1
      numbers.set(text, n)
    }
    return n
  })
}

// Progress is told the number of loaded tasks, of all tasks.
type Progress = (loaded: number, all: number) => void

// loadTrace asks for all tasks of a job, page by page.
export async function loadTrace(job: string, signal: AbortSignal, progress: Progress): Promise<Tasks> {
  const pages: TracePage[] = []
  for (let from = 0; ;) {
    const p = await get<TracePage>('trace', { job, from }, signal)
    pages.push(p)
    progress(p.Next || p.Total, p.Total)
    if (!p.Next) return new Tasks(pages[0]!.Job, p.Frontend, p.Total, pages)
    from = p.Next
  }
}
