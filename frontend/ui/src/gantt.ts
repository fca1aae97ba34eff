// A job's tasks as bars, up to a hundred thousand. Lanes are laid out once. A paint fills an image by hand,
// with a line of pixels for each visible lane. So the cost depends on the visible lanes, not on all of them.
import { run } from './histogram'
import type { Tasks } from './trace'

export type Mode = 'stage' | 'worker' | 'critical'

// Lane is a row of tasks: Layout.order from first to end. group is the stage or worker.
export interface Lane { label: string; group: string; first: number; end: number }

export interface Layout { lanes: Lane[]; order: Int32Array; span: number; what: string }

// View is the visible part: from and to in microseconds, top in lanes.
export interface View { from: number; to: number; top: number; laneHeight: number }

const allowedOverlap = 0.05 // part of a run

// layoutLanes puts tasks into lanes.
export function layoutLanes(t: Tasks, mode: Mode): Layout {
  const all = Array.from({ length: t.n }, (_, i) => i)
  let span = 1
  for (let i = 0; i < t.n; i++) span = Math.max(span, t.delivery[i]!)
  for (const e of t.earlier) span = Math.max(span, e.Ended)
  if (mode !== 'worker') {
    const list = mode === 'critical' ? t.critical
      : all.sort((a, b) => t.stage[a]! - t.stage[b]! || t.released[a]! - t.released[b]!
      || t.started(a) - t.started(b))
    return {
      lanes: list.map((i, k) => {
        const group = t.stages[t.stage[i]!]?.Name ?? ''
        return { label: `${group} ${t.task[i]}`.trim(), group, first: k, end: k + 1 }
      }),
      order: Int32Array.from(list), span, what: mode === 'critical' ? 'task of the critical path' : 'task',
    }
  }
  // A worker's tasks fill lanes in order. Each task goes into the first lane where it does not overlap. A
  // small overlap is allowed, because moments at a worker are estimates.
  const inOrder = new Intl.Collator('en', { numeric: true })
  const rank = new Float64Array(t.workers.length)
  t.workers.map((name, i) => ({ name, i })).sort((a, b) => inOrder.compare(a.name, b.name))
    .forEach((w, k) => { rank[w.i] = k })
  const ran = all.filter((i) => t.known[i]).concat(t.earlier.map((_, k) => t.n + k))
    .sort((a, b) => rank[t.workerOf(a)]! - rank[t.workerOf(b)]! || t.started(a) - t.started(b))
  const lanes: { label: string; tasks: number[]; until: number }[] = []
  let worker = -1, from = 0
  for (const i of ran) {
    if (t.workerOf(i) !== worker) {
      worker = t.workerOf(i)
      from = lanes.length
    }
    let lane = lanes.slice(from, from + 256)
      .find((l) => l.until <= t.started(i) + (t.ended(i) - t.started(i)) * allowedOverlap)
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

// A lane of minLaneHeight pixels or more shows attempts in vain in its lower part. The part begins at
// vainFrom of the lane's height.
const minLaneHeight = 6, vainFrom = 0.6

const minTaskWidth = 2 // pixels

// drawLanes fills the pixels of an image, and returns the number of lanes for each line.
export function drawLanes(pixels: Uint32Array, width: number, height: number, t: Tasks, l: Layout, v: View,
  mode: Mode, p: Palette, selected: number): number {
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
    const fill = (from: number, to: number, color: number, minWidth = 1) => {
      const a = Math.max(0, x(from)), b = Math.min(width, Math.max(x(to), x(from) + minWidth))
      if (b > a) pixels.fill(color, line + a, line + b)
    }
    // Find the first visible task. The tasks of a lane are in order.
    const endOf = (i: number) => (mode === 'worker' ? t.ended(i)
      : Math.max(t.delivery[i]!, ...t.earlierOf(i).map((k) => t.ended(k))))
    let lo = lane.first, hi = lane.end
    while (lo < hi) {
      const mid = (lo + hi) >> 1
      if (endOf(l.order[mid]!) < v.from) lo = mid + 1
      else hi = mid
    }
    // On a slot, neighbours of the same color are one range from left to right. A range for each task would
    // take most of a frame's time.
    let left = 0, right = 0, color = 0
    for (let k = lo; k < lane.end; k++) {
      const i = l.order[k]!
      if (mode === 'worker') {
        if (t.started(i) > v.to) break
        const from = x(t.started(i)), a = Math.max(0, from),
          b = Math.min(width, Math.max(x(t.ended(i)), from + minTaskWidth)),
          c = i === selected ? p.mark : i >= t.n ? p.vain : t.failed(i) ? p.failed : p.phases[run]!
        if (c !== color || a > right) {
          if (right > left) pixels.fill(color, line + left, line + right)
          left = a
          right = b
          color = c
        } else right = Math.max(right, b)
        continue
      }
      if (t.released[i]! > v.to) break
      if (!t.known[i]) {
        fill(t.released[i]!, t.delivery[i]!, p.failed, minTaskWidth)
        continue
      }
      let from = t.released[i]!
      // In a task narrower than minTaskWidth nobody could tell the phases, so the task has the colour of a
      // run.
      if (x(t.delivery[i]!) - x(from) < minTaskWidth) {
        fill(from, from, i === selected ? p.mark : t.failed(i) ? p.failed : p.phases[run]!, minTaskWidth)
        continue
      }
      for (let m = 0; m < 7; m++) {
        const to = Math.max(from, t.ends[m]![i]!)
        if (to > from) fill(from, to,
          i === selected && m === 5 ? p.mark : m === 5 && t.failed(i) ? p.failed : p.phases[m]!)
        from = to
      }
    }
    if (right > left) pixels.fill(color, line + left, line + right)
    for (let k = 1; k < each - gap && y + k < height; k++) {
      pixels.copyWithin(line + k * width, line, line + width)
    }
    if (mode === 'worker' || each < minLaneHeight) continue
    for (let i = lane.first; i < lane.end; i++) {
      for (const other of t.earlierOf(l.order[i]!)) {
        const a = Math.max(0, x(t.started(other))),
          b = Math.min(width, Math.max(x(t.ended(other)), x(t.started(other)) + 1))
        for (let k = Math.ceil(each * vainFrom); b > a && k < each - gap && y + k < height; k++) {
          pixels.fill(p.vain, line + k * width + a, line + k * width + b)
        }
      }
    }
  }
  return step
}

// taskAt returns the task at a point of the picture, or -1.
export function taskAt(xAt: number, yAt: number, width: number, t: Tasks, l: Layout, v: View,
  mode: Mode): number {
  const lane = l.lanes[Math.floor(v.top + yAt / (v.laneHeight >= 1 ? Math.floor(v.laneHeight)
    : v.laneHeight))]
  if (!lane) return -1
  const us = v.from + (xAt * (v.to - v.from)) / width, close = (3 * (v.to - v.from)) / width
  let best = -1, distance = close
  for (let k = lane.first; k < lane.end; k++) {
    const i = l.order[k]!
    const from = mode === 'worker' ? t.started(i) : t.released[i]!,
      to = mode === 'worker' ? t.ended(i) : t.delivery[i]!
    const d = us < from ? from - us : us > to ? us - to : 0
    if (d <= distance) {
      best = i
      distance = d
    }
    if (from > us + close) break
  }
  return best
}
