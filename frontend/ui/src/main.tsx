// The frame of all pages: navigation, alarms and keys.
import { type ComponentChildren, type FunctionComponent, render } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { loadTheme, switchTheme, useDark } from './colors'
import { Estimates } from './estimates'
import { Fleet, WorkerPage } from './fleet'
import { Frontends } from './frontends'
import { clock } from './format'
import { JobPage } from './job'
import { Jobs } from './jobs'
import { live, useLive } from './live'
import { Overview } from './overview'
import { goTo, linkTo, moveRow, announce } from './parts'
import { RecordingPage, Recordings } from './recordings'
import { Slow } from './slow'
import { TaskPage } from './task'
import './main.css'

const pages = [
  ['o', 'overview', 'Overview', Overview],
  ['f', 'fleet', 'Fleet', Fleet],
  ['j', 'jobs', 'Jobs', Jobs],
  ['s', 'slow', 'Slow', Slow],
  ['e', 'estimates', 'Estimates', Estimates],
  ['r', 'frontends', 'Frontends', Frontends],
  ['c', 'recordings', 'Recordings', Recordings],
] as const

function pathParts(): string[] {
  return location.hash.replace(/^#\/?/, '').split('/').filter((x) => x !== '').map((x) => {
    try {
      return decodeURIComponent(x)
    } catch {
      return x
    }
  })
}

function Page() {
  const [at, setAt] = useState(pathParts)
  const [help, setHelp] = useState(false)
  const main = useRef<HTMLElement>(null)
  const first = useRef(true)
  const name = at[0] ?? 'overview'
  const entry = pages.find(([, path]) => path === name)
  const titles = new Map([
    ['job', `Job ${at[1] ?? ''}`], ['task', `Task ${at[2] ?? ''}`], ['worker', `Worker ${at[1] ?? ''}`],
    ['recording', 'Recording'],
  ])
  const title = entry?.[2] ?? titles.get(name) ?? 'Not found'
  useEffect(() => {
    const f = () => setAt(pathParts())
    addEventListener('hashchange', f)
    return () => removeEventListener('hashchange', f)
  }, [])
  useLayoutEffect(() => { // at once: a later focus would undo the choice of the next key
    document.title = `${title} · phoebe`
    if (!first.current) {
      main.current?.focus()
      scrollTo(0, 0)
      announce(title)
    }
    first.current = false
  }, [at.join('/')])
  useEffect(() => handleKeys(() => setHelp((h) => !h)), [])

  let shown: ComponentChildren
  if (entry) {
    const P: FunctionComponent<{ rest: string[] }> = entry[3]
    shown = <P key={at.join('/')} rest={at.slice(1)} />
  } else if (name === 'job' && at[1]) shown = <JobPage key={at[1]} job={at[1]} />
  else if (name === 'task' && at[1] && at[2]) shown = <TaskPage key={`${at[1]}/${at[2]}`} job={at[1]}
    task={at[2]} />
  else if (name === 'worker' && at[1]) shown = <WorkerPage key={at[1]} name={at[1]} />
  else if (name === 'recording' && at[1] && at[2]) shown = <RecordingPage key={`${at[1]}/${at[2]}`}
    frontend={at[1]} name={at[2]} />
  else shown = <p>There is no page at this address. <a href={linkTo('overview')}>Overview</a></p>
  const active = entry ? name : name === 'job' || name === 'task' ? 'jobs' : name === 'recording'
    ? 'recordings' : 'fleet'
  return (
    <>
      <a class="skip" href="#main"
        onClick={(e) => { e.preventDefault(); main.current?.focus() }}>to the content</a>
      <header class="top">
        <a class="brand" href={linkTo('overview')}>
          <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 13h3V7H2zm4.5 0h3V3h-3zM11 13h3V9h-3z" />
          </svg>phoebe</a>
        <nav aria-label="pages">
          {pages.map(([key, path, text]) => <a key={path} href={linkTo(path)}
            aria-current={active === path ? 'page' : undefined} title={`g ${key}`}>{text}</a>)}
        </nav>
        <StatusButton />
        <ThemeButton />
        <button type="button" class="quiet" onClick={() => setHelp(true)} aria-label="show the keys"
          title="?">?</button>
      </header>
      <Alarms />
      <main id="main" ref={main} tabIndex={-1}>
        <h1>{title}</h1>
        {shown}
      </main>
      <div id="said" class="said" aria-live="polite" role="status" />
      {help && <Help close={() => setHelp(false)} />}
    </>
  )
}

const states = { connecting: 'connecting', live: 'live', polling: 'live, by polling', paused: 'paused',
  lost: 'no answer' }

function StatusButton() {
  const l = useLive()
  return (
    <button type="button" class={`state ${l.status}`} onClick={() => l.pause()} title="p: pause or resume">
      <i aria-hidden="true" />{states[l.status]} <span class="dim">{l.at ? clock(l.at) : ''}</span>
      <span class="said">: {l.paused ? 'resume' : 'pause'}</span>
    </button>
  )
}

function ThemeButton() {
  const dark = useDark()
  return <button type="button" class="quiet" onClick={switchTheme} title="t"
    aria-label={dark ? 'light colours' : 'dark colours'}>{dark ? '☀' : '☾'}</button>
}

// Alarms shows which frontends are missing from the page, and other losses.
function Alarms() {
  const l = useLive()
  const silent = l.frontends.filter((f) => f.Err)
  const cut = l.frontends.filter((f) => !f.Err && f.CutOff)
  const lost = l.frontends.reduce((n, f) => n + f.LostMeasurements, 0)
  if (!l.error && silent.length === 0 && cut.length === 0 && lost === 0) return null
  return (
    <div class="alarm" role="alert">
      {l.error && <p>Not up to date: {l.error}</p>}
      {silent.map((f) => (
        <p key={f.Name + f.Address}>
          Frontend <b>{f.Name || f.Address}</b> does not answer; its jobs and tasks are missing here: {f.Err}
        </p>
      ))}
      {cut.map((f) => <p key={f.Name}>Frontend <b>{f.Name}</b> is cut off from the gossip.</p>)}
      {lost > 0 && <p>{lost} measurements are missing: recorders had no room for them.</p>}
    </div>
  )
}

function Help(p: { close: () => void }) {
  const box = useRef<HTMLDialogElement>(null)
  useEffect(() => { box.current?.showModal() }, [])
  const rows: [string, string][] = [
    ...pages.map(([key, , text]): [string, string] => [`g ${key}`, text]),
    ['j, k', 'next and previous row, or task of a chart'], ['enter', 'open the row or task'], ['/', 'find'],
    ['t', 'dark or light'], ['p', 'pause, resume'],
    ['← → in a chart', 'read values; with shift: choose a window'], ['esc', 'show the whole time'],
    ['+ − 0, ] [ in tasks', 'zoom, taller lanes'], ['?', 'show the keys'],
  ]
  return (
    <dialog ref={box} onClose={p.close} aria-labelledby="help">
      <h2 id="help">Keys</h2>
      <table><tbody>{rows.map(([key, text]) => <tr key={key}><th scope="row"><kbd>{key}</kbd></th>
        <td>{text}</td></tr>)}</tbody></table>
      <form method="dialog"><button type="submit">close</button></form>
    </dialog>
  )
}

// handleKeys handles the page's keys. It returns a function to end that.
function handleKeys(help: () => void): () => void {
  let going = false
  const f = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return
    const target = e.target as HTMLElement
    if (target.closest('dialog') && e.key !== '?') return
    if (target.matches('input:not([type=checkbox]), select, textarea')) {
      if (e.key === 'Escape') target.blur()
      return
    }
    if (going) {
      going = false
      const to = pages.find(([key]) => key === e.key)
      if (to) {
        e.preventDefault()
        goTo(linkTo(to[1]))
        return
      }
    }
    switch (e.key) {
      case '?': if (!target.closest('dialog')) help(); break
      case 'g': going = true; break
      case 'j': moveRow(1); break
      case 'k': moveRow(-1); break
      case 't': switchTheme(); break
      case 'p': live.pause(); break
      case '/': {
        const at = document.getElementById('search')
          ?? document.querySelector<HTMLElement>('main select, main input')
        if (at) at.focus()
        break
      }
      default: return
    }
    e.preventDefault()
  }
  addEventListener('keydown', f)
  return () => removeEventListener('keydown', f)
}

loadTheme()
live.start()
render(<Page />, document.getElementById('page')!)
