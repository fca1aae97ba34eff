// All jobs under way or kept. Pages are loaded as the viewer scrolls.
import { useEffect, useRef, useState } from 'preact/hooks'
import { get, type Job, type JobPage } from './api'
import { count, tenantName, time, when } from './format'
import { Blame, functionsOf, linkTo, announce } from './parts'

const rowHeight = 29

interface Asked { policy: string; tenant: string; id: string; slower: string; failed: boolean;
  running: boolean }

const nothing: Asked = { policy: '', tenant: '', id: '', slower: '', failed: false, running: false }

export function Jobs() {
  const [asked, setAsked] = useState<Asked>(nothing)
  const [jobs, setJobs] = useState<Job[]>([])
  const [next, setNext] = useState<string | null>('')
  const [silent, setSilent] = useState<string[]>([])
  const [error, setError] = useState('')
  const [top, setTop] = useState(0)
  const [again, setAgain] = useState(0)
  const asking = useRef(false)
  const box = useRef<HTMLDivElement>(null)
  const key = JSON.stringify(asked) + again

  const more = async (cursor: string, had: Job[], stop: AbortSignal) => {
    asking.current = true
    try {
      const page = await get<JobPage>('jobs', {
        cursor, policy: asked.policy || undefined,
          tenant: asked.tenant === '' ? undefined : asked.tenant === '(none)' ? '' : asked.tenant,
        id: asked.id || undefined, slower: asked.slower || undefined, failed: asked.failed ? 1 : undefined,
        running: asked.running ? 1 : undefined,
      }, stop)
      if (stop.aborted) return
      const known = new Set(had.map((j) => j.Handle.Job))
      setJobs([...had, ...page.Jobs.filter((j) => !known.has(j.Handle.Job))])
      setNext(page.Next || null)
      setSilent(page.Frontends.filter((f) => f.Err).map((f) => f.Name))
      setError('')
      if (!cursor) announce(`${page.Jobs.length}${page.Next ? ' or more' : ''} jobs`)
    } catch (e) {
      if (!stop.aborted) {
        setError((e as Error).message)
        setNext(null)
      }
    } finally {
      asking.current = false
    }
  }
  const stop = useRef(new AbortController())
  useEffect(() => {
    const mine = new AbortController()
    stop.current = mine
    const timer = setTimeout(() => {
      if (box.current) box.current.scrollTop = 0
      void more('', [], mine.signal)
    }, 150)
    return () => {
      clearTimeout(timer)
      mine.abort()
    }
  }, [key])

  const height = box.current?.clientHeight ?? 600
  const first = Math.max(0, Math.floor(top / rowHeight) - 20),
    end = Math.min(jobs.length, first + Math.ceil(height / rowHeight) + 40)
  const onScroll = () => {
    const e = box.current!
    setTop(e.scrollTop)
    if (next && !asking.current
      && e.scrollTop + e.clientHeight > jobs.length * rowHeight - 600) void more(next, jobs,
      stop.current.signal)
  }
  const text = (name: 'policy' | 'tenant' | 'id' | 'slower', label: string, more_: object = {}) => (
    <label class="choice">{label} <input type="text" value={asked[name]}
      onInput={(e) => setAsked({ ...asked, [name]: e.currentTarget.value })} {...more_} /></label>
  )
  return (
    <>
      <form class="bar" role="search" aria-label="filters of jobs" onSubmit={(e) => e.preventDefault()}>
        {text('id', 'id begins with', { id: 'search', spellcheck: false, autocomplete: 'off', size: 14 })}
        {text('policy', 'policy', { size: 10 })}
        {text('tenant', 'tenant',
          { size: 10, placeholder: 'any', title: '(none) stands for the tenant without a name' })}
        {text('slower', 'response from (ms)', { inputMode: 'numeric', pattern: '[0-9]*', size: 6 })}
        <label class="choice">
          <input type="checkbox" checked={asked.failed}
          onChange={(e) => setAsked({ ...asked, failed: e.currentTarget.checked })} /> failed</label>
        <label class="choice">
          <input type="checkbox" checked={asked.running}
          onChange={(e) => setAsked({ ...asked, running: e.currentTarget.checked })} /> running</label>
        <button type="button" onClick={() => setAgain(again + 1)}>refresh</button>
        <span class="dim">{count(jobs.length)}
          {next ? '+' : ''} jobs: all that run, failed or slow ones, and a sample</span>
      </form>
      {error && <p class="bad" role="alert">{error}</p>}
      {silent.length > 0 && <p class="bad"
        role="alert">No answer from {silent.join(', ')}: their jobs are missing.</p>}
      <section class="card fill">
        <div class="scroll tall" tabIndex={0} role="region" aria-label="jobs" ref={box} onScroll={onScroll}>
          <table class="jobs fixed" aria-rowcount={next ? -1 : jobs.length + 1}>
            <thead>
              <tr aria-rowindex={1}><th scope="col" class="w-id">job</th>
                <th scope="col" class="w-t">functions</th>
                <th scope="col" class="w-when">arrived</th><th scope="col" class="n w-n">response</th>
                <th scope="col" class="blame" title="the response, split along the critical path">blame</th>
                <th scope="col" class="n w-n">tasks</th>
                <th scope="col" class="n w-n">failed</th><th scope="col" class="w-t">policy</th>
                <th scope="col" class="w-t">tenant</th><th scope="col" class="w-n">class</th>
                <th scope="col" class="w-t">placed by</th><th scope="col" class="w-t">frontend</th></tr>
            </thead>
            <tbody>
              {first > 0 && <tr aria-hidden="true" style={{ height: `${first * rowHeight}px` }} />}
              {jobs.slice(first, end).map((j, i) => (
                <tr key={j.Handle.Job} aria-rowindex={first + i + 2}>
                  <td><a class="row id" href={linkTo('job', j.Handle.Job)}>{j.Handle.Job}</a></td>
                  <td title={functionsOf(j)}>{functionsOf(j)}</td>
                  <td>{when(j.Came)}</td><td class="n">{time(j.Response)}</td>
                  <td class="blame"><Blame job={j} /></td>
                  <td class="n">{j.Running ? `${count(j.Ended)} / ${count(j.Tasks)}` : count(j.Tasks)}</td>
                  <td class={j.Failed ? 'n bad' : 'n'}>{count(j.Failed)}</td><td>{j.Policy}</td>
                  <td>{tenantName(j.Tenant)}</td><td>{j.Class}</td><td>{j.Path}</td><td>{j.Frontend}</td>
                </tr>
              ))}
              {end < jobs.length
                && <tr aria-hidden="true" style={{ height: `${(jobs.length - end) * rowHeight}px` }} />}
              {jobs.length === 0
                && <tr><td colSpan={12} class="dim">{next === '' ? 'loading…'
                : 'no running or kept job matches'}</td></tr>}
            </tbody>
          </table>
        </div>
      </section>
    </>
  )
}
