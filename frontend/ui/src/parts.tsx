// Components shared by all pages.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Job, AnswerError } from './api'
import { partMeaning, partColor, useDark } from './colors'
import { share, time } from './format'

// announce has screen readers speak a text.
export function announce(text: string): void {
  const at = document.getElementById('said')
  if (at) at.textContent = text
}

// goTo shows another page.
export function goTo(to: string): void { location.hash = to }

export function linkTo(...parts: (string | number)[]): string {
  return `#/${parts.map((p) => encodeURIComponent(p)).join('/')}`
}

export function Tile(p: { label: string; value: string; title?: string; bad?: boolean; to?: string }) {
  return (
    <div class={p.bad ? 'tile bad' : 'tile'} title={p.title ?? p.value}>
      <dt class={p.title ? 'word' : ''}>{p.label}</dt>
      <dd>{p.to ? <a href={p.to}>{p.value}</a> : p.value}</dd>
    </div>
  )
}

export function Choice<T extends string | number>(p: { label: string; value: T;
  options: readonly (readonly [T, string])[]; on: (v: T) => void }) {
  return (
    <label class="choice">{p.label}
      <select value={String(p.value)} onChange={(e) => {
        const chosen = p.options.find(([v]) => String(v) === e.currentTarget.value)
        if (chosen) p.on(chosen[0])
      }}>
        {p.options.map(([v, text]) => <option key={v} value={String(v)}>{text}</option>)}
      </select>
    </label>
  )
}

// Tabs choose between a few views.
export function Tabs<T extends string | number>(p: { label: string; value: T;
  options: readonly (readonly [T, string])[]; on: (v: T) => void }) {
  return (
    <div class="tabs" role="group" aria-label={p.label}>
      {p.options.map(([v, text]) => (
        <button key={v} type="button" aria-pressed={v === p.value} onClick={() => p.on(v)}>{text}</button>
      ))}
    </div>
  )
}

// Blame is a bar with the parts of a job's response.
export function Blame(p: { job: Job; wide?: boolean }) {
  const dark = useDark()
  const list = (p.job.Blame ?? []).filter((b) => b.Took > 0)
  const all = list.reduce((n, b) => n + b.Took, 0)
  if (p.job.Running && !p.wide) {
    const done = p.job.Ended / Math.max(1, p.job.Tasks)
    return <div class="blame open" role="img" aria-label={`open: ${share(done)} of the tasks have ended`}
      title={`open: ${share(done)} of the tasks have ended`}><i style={{ width: `${100 * done}%` }} /></div>
  }
  if (all === 0) return <span class="dim">{p.job.Running ? 'open: the job has not ended' : 'not kept'}</span>
  const largest = [...list].sort((a, b) => b.Took - a.Took)
  const text = largest.map((b) => `${b.Part} ${time(b.Took)} (${share(b.Took / all)})`).join(', ')
  return (
    <>
      <div class={p.wide ? 'blame wide' : 'blame'} role="img" aria-label={`blame: ${text}`} title={text}>
        {list.map((b) => <i key={b.Part}
          style={{ width: `${(100 * b.Took) / all}%`, background: partColor(b.Part, dark) }} />)}
      </div>
      {p.wide && (
        <ul class="legend">
          {largest.map((b) => (
            <li key={b.Part} title={partMeaning[b.Part]}>
              <i style={{ background: partColor(b.Part, dark) }} />{b.Part} <b>{time(b.Took)}</b> <span
                class="dim">{share(b.Took / all)}</span>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

// JobName is the id of a job. On a narrow page only the end of the id is shown, where ids differ.
export function JobName(p: { job: string }) {
  return <><span class="only-wide">{p.job}</span><span class="only-narrow">…{p.job.slice(-6)}</span></>
}

// JobLink leads to a job.
export function JobLink(p: { job: string }) {
  return <a class="row id" href={linkTo('job', p.job)} title={p.job}><JobName job={p.job} /></a>
}

// BlameLegend explains the colours of the blame bars of some jobs.
export function BlameLegend(p: { jobs: Job[] }) {
  const dark = useDark()
  const found = new Set(p.jobs.flatMap((j) => (j.Blame ?? []).filter((b) => b.Took > 0).map((b) => b.Part)))
  return (
    <ul class="legend" aria-label="colours of blame">
      {Object.keys(partMeaning).filter((part) => found.has(part)).map((part) => <li key={part}
        title={partMeaning[part]}><i style={{ background: partColor(part, dark) }} />{part}</li>)}
      {p.jobs.some((j) => j.Running) && <li title="the part of an open job's tasks that has ended"><i
        class="open" />open</li>}
    </ul>
  )
}

// keptMeaning explains the reasons to keep a job.
export const keptMeaning = 'failed: a task has no result; slow: among the 64 slowest of a minute and ' +
  'policy; sample: drawn by lot'

// functionsOf names the functions of a job. Frontends name at most eight.
export function functionsOf(j: Job): string {
  const list = j.Functions ?? []
  return list.length > 0 ? list.join(', ') + (list.length === 8 ? ', …' : '') : 'a job'
}

// mainCause returns the largest part of a job's response beside the run, or 'run' if that part is under a
// tenth.
export function mainCause(j: Job): string {
  const all = (j.Blame ?? []).reduce((n, b) => n + b.Took, 0)
  const first = (j.Blame ?? []).filter((b) => b.Part !== 'run').sort((a, b) => b.Took - a.Took)[0]
  return all === 0 ? '' : first && first.Took > all / 10 ? first.Part : 'run'
}

// moveRow moves the focus to the next or previous element with the class "row".
export function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main .row')]
  if (rows.length === 0) return
  const at = rows.indexOf(document.activeElement as HTMLElement)
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]!.focus()
}

// Failure shows why there is no answer. A forgotten job is no failure.
export function Failure(p: { error: unknown }) {
  const text = (p.error as Error).message
  if (p.error instanceof AnswerError && p.error.status === 404) {
    const hint = 'Ended jobs are kept for a time: failed jobs and the slowest jobs for longest.'
    return <p class="dim" role="status">{text}. {hint}</p>
  }
  return <p class="bad" role="alert">{text}</p>
}

// Loaded draws its children once there is an answer.
export function Loaded<T>(p: { ask: (signal: AbortSignal) => Promise<T>; key_: string; every?: number;
  children: (answer: T) => ComponentChildren }) {
  const [said, set] = useState<{ key: string; value?: T; error?: unknown }>({ key: '' })
  const ask = useRef(p.ask)
  ask.current = p.ask
  useEffect(() => {
    const stop = new AbortController()
    let timer = 0
    const once = async () => {
      try {
        const value = await ask.current(stop.signal)
        if (!stop.signal.aborted) set({ key: p.key_, value })
      } catch (e) {
        if (!stop.signal.aborted) set({ key: p.key_, error: e })
      }
      if (p.every && !stop.signal.aborted) timer = window.setTimeout(() => void once(), p.every)
    }
    void once()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [p.key_, p.every])
  if (said.key !== p.key_) return <p class="dim" role="status">loading…</p>
  if (said.error !== undefined) return <Failure error={said.error} />
  return <>{p.children(said.value as T)}</>
}

// Admin offers actions that need the admin token. Each action returns a text about its effect.
export function Admin(p: { label: string;
  acts: readonly (readonly [string, (token: string) => Promise<string>])[]; children?: ComponentChildren }) {
  const [open, setOpen] = useState(false)
  const [token, setToken] = useState('')
  const [said, setSaid] = useState<{ text: string; bad: boolean } | null>(null)
  if (!open) return <button type="button" onClick={() => setOpen(true)}>{p.label}</button>
  const sure = async (act: (token: string) => Promise<string>) => {
    try {
      setSaid({ text: await act(token), bad: false })
    } catch (e) {
      setSaid({ text: (e as Error).message, bad: true })
    }
  }
  return (
    <form class="inline" onSubmit={(e) => e.preventDefault()}>
      <label class="choice">admin token <input type="password" autocomplete="off" value={token}
        onInput={(e) => setToken(e.currentTarget.value)} /></label>
      {p.children}
      {p.acts.map(([name, act]) => <button key={name} type="button" onClick={() => void sure(act)}>{name}
        </button>)}
      <span role="status" class={said?.bad ? 'bad' : ''}>{said?.text}</span>
    </form>
  )
}

// fitText shortens a text to a width, in pixels. The middle of the text goes first.
export function fitText(g: CanvasRenderingContext2D, text: string, width: number): string {
  if (g.measureText(text).width <= width) return text
  for (let n = text.length - 1; n > 2; n--) {
    const short = `${text.slice(0, Math.ceil(n / 2))}…${text.slice(text.length - Math.floor(n / 2))}`
    if (g.measureText(short).width <= width) return short
  }
  return '…'
}

// useWidth returns a ref for an element, and the element's width.
export function useWidth<E extends HTMLElement>(): [{ current: E | null }, number] {
  const box = useRef<E>(null)
  const [width, set] = useState(0)
  useEffect(() => {
    const e = box.current
    if (!e) return
    set(e.clientWidth)
    const o = new ResizeObserver(() => set(e.clientWidth))
    o.observe(e)
    return () => o.disconnect()
  }, [])
  return [box, width]
}
