// A job's tasks as bars, a hundred thousand of them. Lanes are laid out once; a look at them fills an image by hand, of which each
// line of pixels is one lane, so that it costs what there is to see and not what there is.
import type { Tasks } from './trace'

export type Mode = 'stage' | 'worker' | 'critical'

export interface Lane { label: string; group: string; first: number; end: number } // of the tasks in Layout.order; the stage or worker

export interface Layout { lanes: Lane[]; order: Int32Array; span: number; what: string }

export interface View { from: number; to: number; top: number; laneHeight: number } // time in microseconds, top in lanes

const slack = 0.05 // of a run

// layout puts tasks into lanes.
export function layout(t: Tasks, mode: Mode): Layout {
  const all = Array.from({ length: t.n }, (_, i) => i)
  let span = 1
  for (let i = 0; i < t.n; i++) span = Math.max(span, t.delivery[i]!)
  for (const e of t.earlier) span = Math.max(span, e.Ended)
  if (mode !== 'worker') {
    const list = mode === 'critical' ? t.critical : all.sort((a, b) => t.stage[a]! - t.stage[b]! || t.released[a]! - t.released[b]! || t.started(a) - t.started(b))
    return {
      lanes: list.map((i, k) => {
        const group = t.stages[t.stage[i]!]?.Name ?? ''
        return { label: `${group} ${t.task[i]}`.trim(), group, first: k, end: k + 1 }
      }),
      order: Int32Array.from(list), span, what: mode === 'critical' ? 'task of the critical path' : 'task',
    }
  }
  // Of a worker, each lane has the first tasks that do not overlap, but for what is not known better: moments are reckoned from here.
  const inOrder = new Intl.Collator('en', { numeric: true })
  const rank = new Float64Array(t.workers.length)
  t.workers.map((name, i) => ({ name, i })).sort((a, b) => inOrder.compare(a.name, b.name)).forEach((w, k) => { rank[w.i] = k })
  const ran = all.filter((i) => t.known[i]).concat(t.earlier.map((_, k) => t.n + k))
    .sort((a, b) => rank[t.workerOf(a)]! - rank[t.workerOf(b)]! || t.started(a) - t.started(b))
  const lanes: { label: string; tasks: number[]; until: number }[] = []
  let worker = -1, from = 0
  for (const i of ran) {
    if (t.workerOf(i) !== worker) {
      worker = t.workerOf(i)
      from = lanes.length
    }
    let lane = lanes.slice(from, from + 256).find((l) => l.until <= t.started(i) + (t.ended(i) - t.started(i)) * slack)
    if (!lane) lanes.push(lane = { label: t.workers[worker] ?? '', tasks: [], until: 0 })
    lane.tasks.push(i)
    lane.until = t.ended(i)
  }
  const order: number[] = []
  return {
    lanes: lanes.map((l) => {
      const first = order.length
      for (const i of l.tasks) order.push(i)
      return { label: l.label, group: l.label, first, end: order.length }
    }),
    order: Int32Array.from(order), span, what: 'slot of a worker',
  }
}

export interface Palette { phases: Uint32Array; failed: number; vain: number; back: number; mark: number }

// A lane of so many lines shows in its lower part, from there on, attempts that did not give the outcome.
const least = 6, lower = 0.6

// draw fills the pixels of an image, and tells how many lanes a line stands for.
export function draw(pixels: Uint32Array, width: number, height: number, t: Tasks, l: Layout, v: View, mode: Mode, p: Palette, selected: number): number {
  pixels.fill(p.back)
  const perPixel = (v.to - v.from) / width
  const x = (us: number) => Math.round((us - v.from) / perPixel)
  const each = Math.max(1, Math.floor(v.laneHeight))
  const gap = each >= 5 ? 1 : 0
  const step = v.laneHeight >= 1 ? 1 : 1 / v.laneHeight
  for (let y = 0; y < height; y += each) {
    const lane = l.lanes[Math.floor(v.top + (v.laneHeight >= 1 ? y / each : y * step))]
    if (!lane) break
    const line = y * width
    const fill = (from: number, to: number, color: number) => {
      const a = Math.max(0, x(from)), b = Math.min(width, Math.max(x(to), x(from) + 1))
      if (b > a) pixels.fill(color, line + a, line + b)
    }
    // Of the tasks of a lane, which follow each other, the first that is in sight.
    const last = (i: number) => (mode === 'worker' ? t.ended(i) : Math.max(t.delivery[i]!, ...t.othersOf(i).map((k) => t.ended(k))))
    let lo = lane.first, hi = lane.end
    while (lo < hi) {
      const mid = (lo + hi) >> 1
      if (last(l.order[mid]!) < v.from) lo = mid + 1
      else hi = mid
    }
    for (let k = lo; k < lane.end; k++) {
      const i = l.order[k]!
      if (mode === 'worker') {
        if (t.started(i) > v.to) break
        fill(t.started(i), t.ended(i), i === selected ? p.mark : i >= t.n ? p.vain : t.failed(i) ? p.failed : p.phases[5]!)
        continue
      }
      if (t.released[i]! > v.to) break
      if (!t.known[i]) {
        fill(t.released[i]!, t.delivery[i]!, p.failed)
        continue
      }
      let from = t.released[i]!
      for (let m = 0; m < 7; m++) {
        const to = Math.max(from, t.ends[m]![i]!)
        if (to > from) fill(from, to, i === selected && m === 5 ? p.mark : m === 5 && t.failed(i) ? p.failed : p.phases[m]!)
        from = to
      }
    }
    for (let k = 1; k < each - gap && y + k < height; k++) pixels.copyWithin(line + k * width, line, line + width)
    if (mode === 'worker' || each < least) continue
    for (let i = lane.first; i < lane.end; i++) {
      for (const other of t.othersOf(l.order[i]!)) {
        const a = Math.max(0, x(t.started(other))), b = Math.min(width, Math.max(x(t.ended(other)), x(t.started(other)) + 1))
        for (let k = Math.ceil(each * lower); b > a && k < each - gap && y + k < height; k++) pixels.fill(p.vain, line + k * width + a, line + k * width + b)
      }
    }
  }
  return step
}

// at is the task at a place of the picture, or -1.
export function at(xAt: number, yAt: number, width: number, t: Tasks, l: Layout, v: View, mode: Mode): number {
  const lane = l.lanes[Math.floor(v.top + yAt / (v.laneHeight >= 1 ? Math.floor(v.laneHeight) : v.laneHeight))]
  if (!lane) return -1
  const us = v.from + (xAt * (v.to - v.from)) / width, close = (3 * (v.to - v.from)) / width
  let best = -1, distance = close
  for (let k = lane.first; k < lane.end; k++) {
    const i = l.order[k]!
    const from = mode === 'worker' ? t.started(i) : t.released[i]!, to = mode === 'worker' ? t.ended(i) : t.delivery[i]!
    const d = us < from ? from - us : us > to ? us - to : 0
    if (d <= distance) {
      best = i
      distance = d
    }
    if (from > us + close) break
  }
  return best
}
