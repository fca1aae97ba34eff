// The page's knowledge of the fleet. Frames come by events, or by polling if events are not available.
import { useEffect, useState } from 'preact/hooks'
import { bytes, get, type Frame, type Frontend, type Job, type Names, type Watched,
  type WindowOf } from './api'

export type Length = 1 | 10 | 300

export interface Fleet {
  list: string
  frontend: string
  names: Names | null
  columns: { at: number; levels: Uint8Array; stale: Uint8Array }[] // oldest first
}

export type Status = 'connecting' | 'live' | 'polling' | 'paused' | 'lost'

const rememberedSeconds = 120 // of windows and levels
const frameSeconds = 4 // covered by a frame

class Live {
  status: Status = 'connecting'
  error = ''
  at = 0
  clockAhead = 0 // lead of the frontends' clocks over the browser's, in milliseconds
  frontends: Frontend[] = []
  slowest: Job[] = []
  leftOut = 0
  fleet: Fleet = { list: '', frontend: '', names: null, columns: [] }
  paused = false
  private readonly windows: Record<Length, Map<number,
    WindowOf>> = { 1: new Map(), 10: new Map(), 300: new Map() }
  private readonly watchers = new Set<() => void>()
  private source: EventSource | null = null
  private loadingNames = false

  start(): void {
    void this.loadWindows(1)
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
    s.onmessage = (e) => this.takeFrame(JSON.parse(e.data as string) as Frame, 'live')
    s.onerror = () => {
      this.setStatus('lost')
      if (s.readyState === EventSource.CLOSED) { // refused: there are too many viewers
        this.source = null
        this.poll()
      }
    }
  }

  private poll(): void {
    const once = async () => {
      try {
        if (!document.hidden) this.takeFrame(await get<Frame>('frame'), 'polling')
      } catch (e) {
        this.error = String((e as Error).message)
        this.setStatus('lost')
      }
      setTimeout(() => void once(), 2000)
    }
    void once()
  }

  pause(): void {
    this.paused = !this.paused
    if (!this.paused) void this.loadWindows(1)
    this.setStatus(this.paused ? 'paused' : 'live')
  }

  private setStatus(how: Status): void {
    this.status = this.paused ? 'paused' : how
    for (const f of this.watchers) f()
  }

  watch(f: () => void): () => void {
    this.watchers.add(f)
    return () => this.watchers.delete(f)
  }

  private takeFrame(f: Frame, how: Status): void {
    if (this.paused) return
    const at = Date.parse(f.At)
    const missed = this.at > 0 && at - this.at > frameSeconds * 1000
    this.at = at
    this.error = f.Error ?? ''
    if (f.Watch) {
      this.takeWindows(1, f.Watch)
      if (missed) void this.loadWindows(1)
    }
    if (f.Fleet) {
      const levels = bytes(f.Fleet.Levels)
      if (f.Fleet.List !== this.fleet.list || f.Fleet.Frontend !== this.fleet.frontend) {
        this.fleet = { list: f.Fleet.List, frontend: f.Fleet.Frontend, names: null, columns: [] }
      }
      this.fleet.columns.push({ at, levels, stale: bytes(f.Fleet.Stale) })
      if (this.fleet.columns.length > rememberedSeconds) this.fleet.columns.shift()
      if (!this.fleet.names) void this.loadNames()
    }
    this.setStatus(how)
  }

  private async loadNames(): Promise<void> {
    if (this.loadingNames) return
    this.loadingNames = true
    try {
      const names = await get<Names>('fleet', { frontend: this.fleet.frontend })
      if (names.List === this.fleet.list) this.fleet.names = names
      this.setStatus(this.status)
    } catch { /* the next frame asks again */ } finally {
      this.loadingNames = false
    }
  }

  // loadWindows asks for all windows of a length.
  async loadWindows(length: Length): Promise<void> {
    try {
      const w = await get<Watched>('watch', { window: length })
      this.slowest = w.Slowest ?? []
      this.leftOut = w.LeftOut
      this.takeWindows(length, w)
      this.setStatus(this.status)
    } catch (e) {
      this.error = String((e as Error).message)
      this.setStatus(this.status)
    }
  }

  private takeWindows(length: Length, w: Watched): void {
    const known = this.windows[length]
    for (const x of w.Windows) known.set(Date.parse(x.At), x)
    const keep = length === 1 ? rememberedSeconds : 80
    const all = [...known.keys()].sort((a, b) => a - b)
    for (const at of all.slice(0, Math.max(0, all.length - keep))) known.delete(at)
    this.frontends = w.Frontends
    const clock = Date.parse(w.Frontends[0]?.Clock ?? '')
    if (clock > 0) this.clockAhead = clock - Date.now()
  }

  // windowsOf returns the windows of a length, oldest first. A window that has not ended is left out.
  windowsOf(length: Length): { at: number; w: WindowOf }[] {
    const list = [...this.windows[length]].map(([at, w]) => ({ at, w })).sort((a, b) => a.at - b.at)
    const now = Date.now() + this.clockAhead
    while (length === 1 && list.length > 0 && list[list.length - 1]!.at + 1500 > now) list.pop()
    return list
  }
}

export const live = new Live()

// useLive draws the component again with each frame.
export function useLive(): Live {
  const [, again] = useState(0)
  useEffect(() => live.watch(() => again((n) => n + 1)), [])
  return live
}

// useWindows keeps windows of a length up to date.
export function useWindows(length: Length): { at: number; w: WindowOf }[] {
  const l = useLive()
  useEffect(() => {
    void l.loadWindows(length)
    const timer = setInterval(() => { if (!l.paused && !document.hidden) void l.loadWindows(length) },
      length === 300 ? 30_000 : 10_000)
    return () => clearInterval(timer)
  }, [length])
  return l.windowsOf(length)
}
