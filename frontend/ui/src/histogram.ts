// Histograms of frontends: 16 cells for each doubling from 1024 ns on. See the IDL.
import { bytes, type FunctionOf, type Series, type WindowOf } from './api'

const perOctave = 16
const cells = 514

// Measures, in the order of the SDK's Measure. The first seven are the phases of a task.
export const phases = ['sampling', 'link', 'queue', 'binding', 'launch', 'run', 'delivery'] as const
export const run = 5
export const response = 7
export const slowdown = 8
export const failure = 8 // of a function: the time of tasks without a result
const measures = 9

function cellFloor(i: number): number {
  if (i <= 0) return 0
  const octave = Math.floor((i - 1) / perOctave), part = (i - 1) % perOctave
  return (perOctave + part) * 2 ** (octave + 6)
}

export class Histogram {
  count = 0
  sum = 0
  private readonly cells = new Float64Array(cells)

  add(cell: number, n: number): void {
    if (cell >= 0 && cell < cells) this.cells[cell]! += n
  }

  merge(o: Histogram): void {
    this.count += o.count
    this.sum += o.sum
    for (let i = 0; i < cells; i++) this.cells[i]! += o.cells[i]!
  }

  // quantile returns the middle of the quantile's cell, in nanoseconds, or null without counts.
  quantile(q: number): number | null {
    if (this.count === 0) return null
    let rank = Math.max(1, Math.min(Math.ceil(q * this.count), this.count))
    for (let i = 0; i < cells; i++) {
      const n = this.cells[i]!
      if (n >= rank) return i === cells - 1 ? cellFloor(i) : Math.floor((cellFloor(i) + cellFloor(i + 1)) / 2)
      rank -= n
    }
    return null
  }
}

// unpack adds the packed histograms in b.
export function unpack(b: Uint8Array, into: Histogram[]): void {
  let at = 0
  const next = (): number => {
    let n = 0, unit = 1
    for (;;) {
      const x = b[at++]
      if (x === undefined) return n
      n += (x & 127) * unit
      if (x < 128) return n
      unit *= 128
    }
  }
  for (const h of into) {
    let used = next()
    if (used === 0) continue
    h.sum += next()
    for (let cell = 0; used > 0; used--) {
      cell += next()
      const n = next()
      h.add(cell, n)
      h.count += n
    }
  }
}

// Filter chooses series by path, policy and tenant, or a function. Frontends count each function over all
// policies and tenants.
export interface Filter { path: string; policy: string; tenant: string | null; function: string | null }

export const noFilter: Filter = { path: '', policy: '', tenant: null, function: null }

function matches(f: Filter, s: Series): boolean {
  return (!f.path || s.Path === f.path) && (!f.policy || s.Policy === f.policy)
    && (f.tenant === null || s.Tenant === f.tenant)
}

const unpacked = new WeakMap<Series | FunctionOf, Histogram[]>()

export function seriesHistograms(s: Series | FunctionOf): Histogram[] {
  let list = unpacked.get(s)
  if (!list) {
    list = emptyHistograms()
    unpack(bytes(s.Histograms), list)
    unpacked.set(s, list)
  }
  return list
}

export function emptyHistograms(): Histogram[] {
  return Array.from({ length: measures }, () => new Histogram())
}

const merged = new WeakMap<WindowOf, Map<string, Histogram[]>>()

// windowHistograms sums a window's series that match the filter.
export function windowHistograms(w: WindowOf, f: Filter): Histogram[] {
  const key = JSON.stringify(f)
  let by = merged.get(w)
  if (!by) merged.set(w, by = new Map())
  let sum = by.get(key)
  if (!sum) {
    const parts = f.function === null ? w.Series.filter((s) => matches(f, s))
      : (w.Functions ?? []).filter((s) => s.Function === f.function)
    sum = sumHistograms(parts.map(seriesHistograms))
    if (f.function !== null) sum[slowdown] = new Histogram() // here a function has its failures
    by.set(key, sum)
  }
  return sum
}

export function sumHistograms(parts: Histogram[][]): Histogram[] {
  const sum = emptyHistograms()
  for (const p of parts) for (let m = 0; m < measures; m++) if (p[m]!.count > 0) sum[m]!.merge(p[m]!)
  return sum
}
