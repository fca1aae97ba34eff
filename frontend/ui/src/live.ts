// The page's knowledge of the fleet. Frames come by events, or by polling if events are not available.
import { useEffect, useState } from 'preact/hooks'
import { bytes, get, type Frame, type Frontend, type History, type Gone, type Job, type Names, type Watched,
  type WindowOf } from './api'

export type Length = 1 | 10 | 300

export interface Fleet {
  list: string
  frontend: string
  names: Names | null // workers on the list, and behind them the workers that have left the list
  columns: Column[] // oldest first
  gone: Gone[] // workers that are not up any more
  goneAt: number // time of the answer with gone
}

// Column is a sample of all workers: levels and stale have the order of Fleet.names. A binned column has
// levels for each percent of the workers instead, lowest first.
export interface Column { at: number; levels: Uint8Array; stale: Uint8Array; binned: boolean }

const noFleet = { list: '', frontend: '', names: null, columns: [], gone: [], goneAt: 0 }

export const columnMillis = 2000 // time between two columns
export const rememberedColumns = 300 // ten minutes

export type Status = 'connecting' | 'live' | 'polling' | 'paused' | 'lost'

// Numbers of windows: a minute, ten minutes and six hours, as in phoebe top.
const shownWindows: Record<Length, number> = { 1: 60, 10: 60, 300: 72 }
const spareWindows = 8 // remembered beyond, because the latest windows have not ended
const frameSeconds = 4 // covered by a frame

class Live {
  status: Status = 'connecting'
  error = ''
  at = 0
  clockAhead = 0 // lead of the frontends' clocks over the browser's, in milliseconds
  frontends: Frontend[] = [] // by name
  slowest: Job[] = []
  leftOut = 0
  fleet: Fleet = noFleet
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
        this.fleet = { ...noFleet, list: f.Fleet.List, frontend: f.Fleet.Frontend, columns: [] }
      }
      this.addColumn({ at, levels, stale: bytes(f.Fleet.Stale), binned: false })
      if (!this.fleet.names || missed) void this.loadNames()
    }
    this.setStatus(how)
  }

  // addColumn adds the latest column. Of two columns within columnMillis the later column stays.
  private addColumn(c: Column): void {
    const list = this.fleet.columns
    const last = list[list.length - 1]
    if (last && Math.floor(last.at / columnMillis) >= Math.floor(c.at / columnMillis)) list.pop()
    list.push(c)
    if (list.length > rememberedColumns) list.shift()
  }

  // loadNames asks for the names of the workers, and for the history of the fleet.
  private async loadNames(): Promise<void> {
    if (this.loadingNames) return
    this.loadingNames = true
    const { list, frontend, names: known } = this.fleet
    try {
      const [names, history] = await Promise.all([known ?? get<Names>('fleet', { frontend }),
        get<History>('history', { frontend })])
      if (names.List === list && this.fleet.list === list) this.takeHistory(names, history)
      this.setStatus(this.status)
    } catch { /* the next frame asks again */ } finally {
      this.loadingNames = false
    }
  }

  // takeHistory merges the frontend's samples and the columns of frames, in the order of time. Workers that
  // have left the list get names behind the listed workers.
  private takeHistory(names: Names, h: History): void {
    const f = this.fleet
    f.goneAt = this.at
    f.gone = h.Gone ?? []
    const rows = h.Addresses ?? []
    const known = new Map(names.Addresses.map((a, i) => [a, i]))
    const off = f.gone.filter((w) => w.Off && !known.has(w.Address) && rows.includes(w.Address))
    f.names = off.length === 0 ? names : { ...names, Names: [...names.Names, ...off.map((w) => w.Name)],
      Addresses: [...names.Addresses, ...off.map((w) => w.Address)],
      Racks: [...names.Racks, ...off.map((w) => w.Rack)],
      Hosts: [...names.Hosts ?? [], ...off.map(() => '')] }
    const places = new Map(f.names.Addresses.map((a, i) => [a, i]))
    const at = h.At ?? [], levels = bytes(h.Levels), each = at.length ? levels.length / at.length : 0
    const columns = at.map((t, i): Column => {
      const sample = levels.subarray(i * each, (i + 1) * each)
      const binned = rows.length === 0
      if (binned) return { at: t, levels: sample, stale: new Uint8Array(), binned }
      const to = new Uint8Array(2 * places.size).fill(255)
      rows.forEach((a, row) => {
        const place = places.get(a)
        if (place !== undefined) to.set(sample.subarray(2 * row, 2 * row + 2), 2 * place)
      })
      return { at: t, levels: to, stale: new Uint8Array(), binned }
    })
    const all = new Map([...columns, ...f.columns].map((c) => [Math.floor(c.at / columnMillis), c]))
    f.columns = [...all.values()].sort((a, b) => a.at - b.at).slice(-rememberedColumns)
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
    const keep = shownWindows[length] + spareWindows
    const all = [...known.keys()].sort((a, b) => a - b)
    for (const at of all.slice(0, Math.max(0, all.length - keep))) known.delete(at)
    this.frontends = [...w.Frontends].sort((a, b) => (a.Name < b.Name ? -1 : 1))
    const clock = Date.parse(w.Frontends[0]?.Clock ?? '')
    if (clock > 0) this.clockAhead = clock - Date.now()
  }

  // windowsOf returns the latest windows of a length, oldest first. A window that has not ended is left out.
  windowsOf(length: Length): { at: number; w: WindowOf }[] {
    const list = [...this.windows[length]].map(([at, w]) => ({ at, w })).sort((a, b) => a.at - b.at)
    const now = Date.now() + this.clockAhead
    while (length === 1 && list.length > 0 && list[list.length - 1]!.at + 1500 > now) list.pop()
    return list.slice(-shownWindows[length])
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
