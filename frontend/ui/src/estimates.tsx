// How good are the estimates?
import { useEffect, useRef, useState } from 'preact/hooks'
import { get, type Job, type JobPage } from './api'
import { useDark } from './colors'
import { count, share, time } from './format'
import { useLive } from './live'
import { JobName, linkTo, useWidth } from './parts'
import { loadTrace } from './trace'

interface Sum { quantity: string; seen: number; good: number; over: number; error: number }

export function Estimates() {
  const live = useLive()
  const by = new Map<string, Sum>()
  for (const f of live.frontends) {
    for (const e of f.Estimates ?? []) {
      const s = by.get(e.Of) ?? { quantity: e.Of, seen: 0, good: 0, over: 0, error: 0 }
      by.set(e.Of, { quantity: e.Of, seen: s.seen + e.Seen, good: s.good + e.Good, over: s.over + e.Over,
        error: s.error + e.Error })
    }
  }
  return (
    <>
      <section class="card">
        <header><h2>Expected against actual</h2>
          <span class="dim">of tasks placed by estimation, since the frontends started</span></header>
        <div class="scroll" tabIndex={0} role="region" aria-label="estimates">
          <table>
            <thead><tr><th scope="col">estimate of</th><th scope="col">frontend</th>
              <th scope="col" class="n">compared</th><th scope="col" class="n">within 10 % or 1 s</th>
              <th scope="col" class="n">estimate too high</th>
              <th scope="col" class="n">mean error</th></tr></thead>
            <tbody>
              {[...by.values()]
                .map((s) => <Row key={s.quantity} quantity={s.quantity} frontend="all" s={s} />)}
              {live.frontends.flatMap((f) => (f.Estimates ?? []).map((e) => (
                <Row key={f.Name + e.Of} quantity={e.Of} frontend={f.Name}
                  s={{ quantity: e.Of, seen: e.Seen, good: e.Good, over: e.Over, error: e.Error }} />
              )))}
              {by.size === 0
                && <tr><td colSpan={6} class="dim">no estimate was compared with an actual time yet</td></tr>}
            </tbody>
          </table>
        </div>
      </section>
      <Scatter />
    </>
  )
}

function Row(p: { quantity: string; frontend: string; s: Sum }) {
  const s = p.s
  return (
    <tr><th scope="row">{p.quantity}</th><td>{p.frontend}</td><td class="n">{count(s.seen)}</td>
      <td class="n">{s.seen ? share(s.good / s.seen) : '–'}</td>
      <td class="n">{s.seen ? share(s.over / s.seen) : '–'}</td>
      <td class="n" title="expected less actual; above 0: the estimate was too high">{s.seen
        ? time(s.error / s.seen) : '–'}</td></tr>
  )
}

interface Point { job: string; task: number; promised: number; actual: number; quantity: 'run' | 'wait' }

const jobsRead = 24
const pagesRead = 8

// Scatter plots expected and actual runs and waits, for tasks of the latest kept jobs.
function Scatter() {
  const [points, setPoints] = useState<Point[] | null>(null)
  const [box, width] = useWidth<HTMLDivElement>()
  const canvas = useRef<HTMLCanvasElement>(null)
  const dark = useDark()
  const [asTable, setTable] = useState(false)
  useEffect(() => {
    const stop = new AbortController()
    const read = async () => {
      const jobs: Job[] = []
      let cursor = ''
      for (let pages = 0; pages < pagesRead && jobs.length < jobsRead; pages++) {
        const page = await get<JobPage>('jobs', { cursor }, stop.signal)
        jobs.push(...page.Jobs.filter((j) => !j.Running && j.Path !== 'sampling' && j.Tasks <= 2000))
        cursor = page.Next
        if (!cursor) break
      }
      const list: Point[] = []
      for (const j of jobs.slice(0, jobsRead)) {
        try {
          const t = await loadTrace(j.Handle.Job, stop.signal, () => {})
          for (let i = 0; i < t.n; i++) {
            if (!t.known[i]) continue
            if (t.columns.expected[i]! > 0) list.push({ job: j.Handle.Job, task: t.task[i]!,
              promised: t.columns.expected[i]! * 1000, actual: (t.ended(i) - t.started(i)) * 1000,
              quantity: 'run' })
            if (t.columns.promised[i]! > 0) list.push({ job: j.Handle.Job, task: t.task[i]!,
              promised: t.columns.promised[i]! * 1000, actual: t.columns.waited[i]! * 1000,
              quantity: 'wait' })
          }
        } catch { /* the job is not kept any more */ }
        if (stop.signal.aborted) return
      }
      setPoints(list)
    }
    read().catch(() => { if (!stop.signal.aborted) setPoints([]) })
    return () => stop.abort()
  }, [])
  const height = 280
  useEffect(() => {
    const c = canvas.current
    if (!c || !points || width === 0) return
    const g = c.getContext('2d')!
    g.clearRect(0, 0, width, height)
    const low = 1e4, high = 1e11 // 10 us to 100 s
    const pos = (ns: number) => Math.min(1, Math.max(0, Math.log(ns / low) / Math.log(high / low)))
    const left = 58, bottom = height - 22
    const x = (ns: number) => left + pos(ns) * (width - left - 10),
      y = (ns: number) => bottom - pos(ns) * (bottom - 8)
    g.font = '11px system-ui, sans-serif'
    g.lineWidth = 1
    const sparse = width < 560 // each second label, so that labels stay apart
    for (let t = low, k = 0; t <= high; t *= 10, k++) {
      g.fillStyle = dark ? '#ffffff14' : '#00000012'
      g.fillRect(x(t), 8, 1, bottom - 8)
      g.fillRect(left, y(t), width - left - 10, 1)
      g.fillStyle = dark ? '#9aa5b1' : '#56616b'
      if (!sparse || k % 2 === 0) g.fillText(time(t), Math.min(x(t) - 12, width - 48), height - 6)
      g.fillText(time(t), 4, y(t) + 4)
    }
    g.strokeStyle = dark ? '#9aa5b1' : '#56616b'
    g.setLineDash([4, 4])
    g.beginPath()
    g.moveTo(x(low), y(low))
    g.lineTo(x(high), y(high))
    g.stroke()
    g.setLineDash([])
    for (const p of points) {
      g.fillStyle = p.quantity === 'run' ? (dark ? '#7cc4f0b0' : '#2b8cc4b0')
        : (dark ? '#e69f00b0' : '#b97f00b0')
      if (p.quantity === 'run') g.fillRect(x(p.promised) - 1.5, y(p.actual) - 1.5, 3, 3)
      else {
        g.beginPath()
        g.arc(x(p.promised), y(p.actual), 2.4, 0, 7)
        g.fill()
      }
    }
  })
  const worst = (points ?? [])
    .map((p) => ({ ...p, off: Math.abs(Math.log(Math.max(1e3, p.actual) / p.promised)) }))
    .sort((a, b) => b.off - a.off).slice(0, 50)
  return (
    <section class="card">
      <header><h2>Expected (across) and actual (up)</h2>
        <span class="dim">
          {points ? `${count(points.length)} tasks of the latest kept jobs, placed by estimation`
            : 'reading…'}
        </span>
        <button class="quiet" type="button" aria-pressed={asTable} onClick={() => setTable(!asTable)}
          aria-label="expected and actual as a table">table</button></header>
      <ul class="legend"><li><i style={{ background: dark ? '#7cc4f0' : '#2b8cc4' }} />run (squares)</li>
        <li><i class="round" style={{ background: dark ? '#e69f00' : '#b97f00' }} />wait at the worker
        (dots)</li><li class="dim">on the line: as expected</li></ul>
      <div ref={box} role="img"
        aria-label={points ? `${points.length} estimates against actual times; the table has the worst`
        : 'not read yet'} tabIndex={0}>
        <canvas ref={canvas} width={Math.max(1, width)} height={height} aria-hidden="true" />
      </div>
      {asTable && (
        <div class="scroll twin" tabIndex={0} role="region" aria-label="worst estimates">
          <table>
            <thead><tr><th scope="col">task</th><th scope="col">of</th><th scope="col" class="n">expected</th>
              <th scope="col" class="n">actual</th></tr></thead>
            <tbody>{worst.map((p, i) => <tr key={i}>
              <td><a class="row id" href={linkTo('task', p.job, p.task)} title={p.job}>
                <JobName job={p.job} /> {p.task}</a></td>
              <td>{p.quantity}</td><td class="n">{time(p.promised)}</td><td class="n">{time(p.actual)}</td>
              </tr>)}</tbody>
          </table>
        </div>
      )}
    </section>
  )
}
