// All jobs under way or kept. Pages are loaded as the viewer scrolls.
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { get, type Job, type JobPage } from './api'
import { count, tenantName, time, when } from './format'
import { Blame, BlameLegend, functionsOf, JobLink, keptMeaning, announce } from './parts'

const rowHeight = 29

interface Asked { policy: string; tenant: string; id: string; slower: string; failed: boolean;
  running: boolean }

const nothing: Asked = { policy: '', tenant: '', id: '', slower: '', failed: false, running: false }

interface ColumnOf { name: string; style: string; title?: string; value: (j: Job) => string | number;
  cell: (j: Job) => ComponentChildren }

const columns: readonly ColumnOf[] = [
  { name: 'job', style: 'w-id', value: (j) => j.Handle.Job,
    cell: (j) => <JobLink job={j.Handle.Job} /> },
  { name: 'functions', style: 'w-t only-wide', value: functionsOf, cell: functionsOf },
  { name: 'arrived', style: 'w-when only-wide', value: (j) => Date.parse(j.Came), cell: (j) => when(j.Came) },
  { name: 'response', style: 'n w-n', title: 'from arrival to the last outcome; of an open job: so far',
    value: (j) => j.Response, cell: (j) => time(j.Response) },
  { name: 'blame', style: 'blame', title: 'the response, split along the critical path; of an open job: ' +
    'the part of its tasks that has ended', value: (j) => (j.Running ? j.Ended / Math.max(1, j.Tasks) : 2),
    cell: (j) => <Blame job={j} /> },
  { name: 'tasks', style: 'n w-n only-wide', value: (j) => j.Tasks,
    cell: (j) => (j.Running ? `${count(j.Ended)} / ${count(j.Tasks)}` : count(j.Tasks)) },
  { name: 'failed', style: 'n w-n', title: 'tasks without a result', value: (j) => j.Failed,
    cell: (j) => <span class={j.Failed ? 'bad' : ''}>{count(j.Failed)}</span> },
  { name: 'kept as', style: 'w-kept only-wide', title: `why frontends keep the job: ${keptMeaning}`,
    value: (j) => (j.Running ? '' : (j.Kept ?? []).join()), cell: keptCell },
  { name: 'policy', style: 'w-t only-wide', value: (j) => j.Policy, cell: (j) => j.Policy },
  { name: 'tenant', style: 'w-t only-wide', value: (j) => j.Tenant, cell: (j) => tenantName(j.Tenant) },
  { name: 'class', style: 'w-n only-wide', value: (j) => j.Class, cell: (j) => j.Class },
  { name: 'placed by', style: 'w-n only-wide', value: (j) => j.Path, cell: (j) => j.Path },
  { name: 'frontend', style: 'w-t only-wide', value: (j) => j.Frontend, cell: (j) => j.Frontend },
]

function keptCell(j: Job): ComponentChildren {
  const kept = j.Running ? <b>open</b> : (j.Kept ?? []).join(', ') || '–'
  return j.Fleeting ? <span title={fleetingMeaning}><span class="tag">fleeting</span> {kept}</span> : kept
}

const fleetingMeaning = 'the frontend may forget the job within a minute: too many jobs were listed lately'

interface Order { by: string; up: boolean }

const latestFirst: Order = { by: 'arrived', up: false }
const maxSorted = 2000 // jobs to load for sorting

// sortJobs sorts a list of jobs, the latest first. Jobs with equal values keep this order.
function sortJobs(jobs: Job[], order: Order): Job[] {
  const c = columns.find((c) => c.name === order.by)
  if (!c || (order.by === latestFirst.by && !order.up)) return jobs
  return jobs.map((job) => ({ job, value: c.value(job) })).sort((a, b) => (a.value < b.value ? -1
    : a.value > b.value ? 1 : 0) * (order.up ? 1 : -1)).map((x) => x.job)
}

export function Jobs(p: { rest: string[] }) {
  const [asked, setAsked] = useState<Asked>({ ...nothing, failed: p.rest[0] === 'failed',
    running: p.rest[0] === 'running' })
  const [order, setOrder] = useState(latestFirst)
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

  // Frontends list the latest jobs first. To sort in another order, the page loads jobs up to maxSorted.
  const isSorted = order.by !== latestFirst.by || order.up
  useEffect(() => {
    if (!isSorted || !next || asking.current || jobs.length >= maxSorted) return
    void more(next, jobs, stop.current.signal)
  }, [isSorted, next, jobs.length])
  const shown = useMemo(() => sortJobs(jobs, order), [jobs, order])
  const sortBy = (name: string) => {
    const to = { by: name, up: order.by === name ? !order.up : false }
    setOrder(to)
    if (box.current) box.current.scrollTop = 0
    announce(`sorted by ${name}, ${to.up ? 'lowest' : 'highest'} first`)
  }

  const fleeting = jobs.filter((j) => j.Fleeting).length
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
        <span class="dim">{isSorted && next ? `sorted: the ${count(jobs.length)} latest`
          : `${count(jobs.length)}${next ? '+' : ''}`} jobs: all open ones, failed or slow ones, and a
          sample</span>
      </form>
      {error && <p class="bad" role="alert">{error}</p>}
      {silent.length > 0 && <p class="bad"
        role="alert">No answer from {silent.join(', ')}: their jobs are missing.</p>}
      {fleeting > 0 && <p role="status">Frontends may forget {count(fleeting)} of the jobs within a minute:
        too many jobs were listed lately.</p>}
      <section class="card fill">
        <BlameLegend jobs={shown.slice(first, end)} />
        <div class="scroll tall" tabIndex={0} role="region" aria-label="jobs" ref={box} onScroll={onScroll}>
          <table class="jobs fixed" aria-rowcount={next ? -1 : jobs.length + 1}>
            <thead>
              <tr aria-rowindex={1}>
                {columns.map((c) => (
                  <th scope="col" key={c.name} class={c.style} title={c.title}
                    aria-sort={order.by !== c.name ? undefined : order.up ? 'ascending' : 'descending'}>
                    <button type="button" class="text" onClick={() => sortBy(c.name)}>{c.name}{
                      order.by !== c.name ? '' : order.up ? ' ▲' : ' ▼'}</button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {first > 0 && <tr aria-hidden="true" style={{ height: `${first * rowHeight}px` }} />}
              {shown.slice(first, end).map((j, i) => (
                <tr key={j.Handle.Job} aria-rowindex={first + i + 2} class={j.Running ? 'open' : ''}>
                  {columns.map((c) => {
                    const cell = c.cell(j)
                    const title = typeof cell === 'string' ? cell : undefined
                    return <td key={c.name} class={c.style} title={title}>{cell}</td>
                  })}
                </tr>
              ))}
              {end < jobs.length
                && <tr aria-hidden="true" style={{ height: `${(jobs.length - end) * rowHeight}px` }} />}
              {jobs.length === 0
                && <tr><td colSpan={columns.length} class="dim">{next === '' ? 'loading…'
                : 'no open or kept job matches'}</td></tr>}
            </tbody>
          </table>
        </div>
      </section>
    </>
  )
}
