// What the page knows of the fleet, and how it learns it: by events, or by asking where there are none.
import { useEffect, useState } from 'preact/hooks'
import { bytes, get, type Frame, type Frontend, type Job, type Names, type Watched, type WindowOf } from './api'

export type Length = 1 | 10 | 300

export interface Fleet {
  list: string
  frontend: string
  names: Names | null
  columns: { at: number; levels: Uint8Array; stale: Uint8Array }[] // the oldest first
}

export type How = 'connecting' | 'live' | 'polling' | 'paused' | 'lost'

const remembered = 120 // seconds of windows and of levels
const gap = 4 // seconds that a frame covers

class Live {
  how: How = 'connecting'
  error = ''
  at = 0
  ahead = 0 // milliseconds by which the frontends' clocks are before this one
  frontends: Frontend[] = []
  slowest: Job[] = []
  leftOut = 0
  fleet: Fleet = { list: '', frontend: '', names: null, columns: [] }
  paused = false
  private readonly windows: Record<Length, Map<number, WindowOf>> = { 1: new Map(), 10: new Map(), 300: new Map() }
  private readonly watchers = new Set<() => void>()
  private source: EventSource | null = null
  private naming = false

  start(): void {
    void this.fill(1)
    this.connect()
  }

  private connect(): void {
    if (typeof EventSource === 'undefined') {
      this.poll()
      return
    }
    this.source?.close()
    const s = new EventSource('api/live')
    this.source = s
    s.onmessage = (e) => this.frame(JSON.parse(e.data as string) as Frame, 'live')
    s.onerror = () => {
      this.set('lost')
      if (s.readyState === EventSource.CLOSED) { // it was refused: there are too many viewers
        this.source = null
        this.poll()
      }
    }
  }

  private poll(): void {
    const once = async () => {
      try {
        if (!document.hidden) this.frame(await get<Frame>('frame'), 'polling')
      } catch (e) {
        this.error = String((e as Error).message)
        this.set('lost')
      }
      setTimeout(() => void once(), 2000)
    }
    void once()
  }

  pause(): void {
    this.paused = !this.paused
    if (!this.paused) void this.fill(1)
    this.set(this.paused ? 'paused' : 'live')
  }

  private set(how: How): void {
    this.how = this.paused ? 'paused' : how
    for (const f of this.watchers) f()
  }

  watch(f: () => void): () => void {
    this.watchers.add(f)
    return () => this.watchers.delete(f)
  }

  private frame(f: Frame, how: How): void {
    if (this.paused) return
    const at = Date.parse(f.At)
    const missed = this.at > 0 && at - this.at > gap * 1000
    this.at = at
    this.error = f.Error ?? ''
    if (f.Watch) {
      this.take(1, f.Watch)
      if (missed) void this.fill(1)
    }
    if (f.Fleet) {
      const levels = bytes(f.Fleet.Levels)
      if (f.Fleet.List !== this.fleet.list || f.Fleet.Frontend !== this.fleet.frontend) {
        this.fleet = { list: f.Fleet.List, frontend: f.Fleet.Frontend, names: null, columns: [] }
      }
      this.fleet.columns.push({ at, levels, stale: bytes(f.Fleet.Stale) })
      if (this.fleet.columns.length > remembered) this.fleet.columns.shift()
      if (!this.fleet.names) void this.name()
    }
    this.set(how)
  }

  private async name(): Promise<void> {
    if (this.naming) return
    this.naming = true
    try {
      const names = await get<Names>('fleet', { frontend: this.fleet.frontend })
      if (names.List === this.fleet.list) this.fleet.names = names
      this.set(this.how)
    } catch { /* the next frame asks again */ } finally {
      this.naming = false
    }
  }

  // fill asks for all windows of a length.
  async fill(length: Length): Promise<void> {
    try {
      const w = await get<Watched>('watch', { window: length })
      this.slowest = w.Slowest ?? []
      this.leftOut = w.LeftOut
      this.take(length, w)
      this.set(this.how)
    } catch (e) {
      this.error = String((e as Error).message)
      this.set(this.how)
    }
  }

  private take(length: Length, w: Watched): void {
    const known = this.windows[length]
    for (const x of w.Windows) known.set(Date.parse(x.At), x)
    const keep = length === 1 ? remembered : 80
    const all = [...known.keys()].sort((a, b) => a - b)
    for (const at of all.slice(0, Math.max(0, all.length - keep))) known.delete(at)
    this.frontends = w.Frontends
    const clock = Date.parse(w.Frontends[0]?.Clock ?? '')
    if (clock > 0) this.ahead = clock - Date.now()
  }

  // since are the windows of a length, the oldest first, without one that still goes on.
  since(length: Length): { at: number; w: WindowOf }[] {
    const list = [...this.windows[length]].map(([at, w]) => ({ at, w })).sort((a, b) => a.at - b.at)
    const now = Date.now() + this.ahead
    while (length === 1 && list.length > 0 && list[list.length - 1]!.at + 1500 > now) list.pop()
    return list
  }
}

export const live = new Live()

// useLive draws again with each frame.
export function useLive(): Live {
  const [, again] = useState(0)
  useEffect(() => live.watch(() => again((n) => n + 1)), [])
  return live
}

// useWindows keeps windows of a length up to date.
export function useWindows(length: Length): { at: number; w: WindowOf }[] {
  const l = useLive()
  useEffect(() => {
    void l.fill(length)
    const timer = setInterval(() => { if (!l.paused && !document.hidden) void l.fill(length) }, length === 300 ? 30_000 : 10_000)
    return () => clearInterval(timer)
  }, [length])
  return l.since(length)
}
