// What all pages are made of.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Job, Wrong } from './api'
import { meaning, partColor, useDark } from './colors'
import { share, time } from './format'

// say has a screen reader say something.
export function say(text: string): void {
  const at = document.getElementById('said')
  if (at) at.textContent = text
}

// go leads to another page.
export function go(to: string): void { location.hash = to }

export function link(...parts: (string | number)[]): string { return `#/${parts.map((p) => encodeURIComponent(p)).join('/')}` }

export function Tile(p: { label: string; value: string; title?: string; bad?: boolean }) {
  return (
    <div class={p.bad ? 'tile bad' : 'tile'} title={p.title ?? p.value}>
      <dt>{p.label}</dt><dd>{p.value}</dd>
    </div>
  )
}

export function Choice<T extends string | number>(p: { label: string; value: T; of: readonly (readonly [T, string])[]; on: (v: T) => void }) {
  return (
    <label class="choice">{p.label}
      <select value={String(p.value)} onChange={(e) => {
        const chosen = p.of.find(([v]) => String(v) === e.currentTarget.value)
        if (chosen) p.on(chosen[0])
      }}>
        {p.of.map(([v, text]) => <option key={v} value={String(v)}>{text}</option>)}
      </select>
    </label>
  )
}

// Tabs are a few things of which one is shown.
export function Tabs<T extends string | number>(p: { label: string; value: T; of: readonly (readonly [T, string])[]; on: (v: T) => void }) {
  return (
    <div class="tabs" role="group" aria-label={p.label}>
      {p.of.map(([v, text]) => (
        <button key={v} type="button" aria-pressed={v === p.value} onClick={() => p.on(v)}>{text}</button>
      ))}
    </div>
  )
}

// Blame is a bar of what a response went on.
export function Blame(p: { of: Job; wide?: boolean }) {
  const dark = useDark()
  const list = (p.of.Blame ?? []).filter((b) => b.Took > 0)
  const all = list.reduce((n, b) => n + b.Took, 0)
  if (all === 0) return <span class="dim">{p.of.Running ? 'under way' : 'not kept'}</span>
  const largest = [...list].sort((a, b) => b.Took - a.Took)
  const text = largest.map((b) => `${b.Part} ${time(b.Took)} (${share(b.Took / all)})`).join(', ')
  return (
    <>
      <div class={p.wide ? 'blame wide' : 'blame'} role="img" aria-label={`blame: ${text}`} title={text}>
        {list.map((b) => <i key={b.Part} style={{ width: `${(100 * b.Took) / all}%`, background: partColor(b.Part, dark) }} />)}
      </div>
      {p.wide && (
        <ul class="legend">
          {largest.map((b) => (
            <li key={b.Part} title={meaning[b.Part]}>
              <i style={{ background: partColor(b.Part, dark) }} />{b.Part} <b>{time(b.Took)}</b> <span class="dim">{share(b.Took / all)}</span>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

// worst is what made a job slow: most of its response beside running, if that is worth a word.
export function worst(j: Job): string {
  const all = (j.Blame ?? []).reduce((n, b) => n + b.Took, 0)
  const first = (j.Blame ?? []).filter((b) => b.Part !== 'run').sort((a, b) => b.Took - a.Took)[0]
  return all === 0 ? '' : first && first.Took > all / 10 ? first.Part : 'run'
}

// moveRow goes to the next row of the page, or the one before: what has the class "row".
export function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main .row')]
  if (rows.length === 0) return
  const at = rows.indexOf(document.activeElement as HTMLElement)
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]!.focus()
}

// Failure tells why there is no answer. That a job is forgotten is none.
export function Failure(p: { of: unknown }) {
  const text = (p.of as Error).message
  if (p.of instanceof Wrong && p.of.status === 404) return <p class="dim" role="status">{text}. Jobs that have ended are kept for a time: the slowest and those that failed for longest.</p>
  return <p class="bad" role="alert">{text}</p>
}

// Later draws what an answer is needed for.
export function Later<T>(p: { ask: (signal: AbortSignal) => Promise<T>; key_: string; every?: number; children: (said: T) => ComponentChildren }) {
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
  if (said.error !== undefined) return <Failure of={said.error} />
  return <>{p.children(said.value as T)}</>
}

// Admin has something done for who knows the admin token. Each act tells what came of it.
export function Admin(p: { label: string; acts: readonly (readonly [string, (token: string) => Promise<string>])[]; children?: ComponentChildren }) {
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
      <label class="choice">admin token <input type="password" autocomplete="off" value={token} onInput={(e) => setToken(e.currentTarget.value)} /></label>
      {p.children}
      {p.acts.map(([name, act]) => <button key={name} type="button" onClick={() => void sure(act)}>{name}</button>)}
      <span role="status" class={said?.bad ? 'bad' : ''}>{said?.text}</span>
    </form>
  )
}

// useWidth is how wide an element is.
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
