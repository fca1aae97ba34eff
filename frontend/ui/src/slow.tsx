// The slowest jobs, and their common traits.
import { useState } from 'preact/hooks'
import type { Job } from './api'
import { partMeaning } from './colors'
import { count, tenantName, time, when } from './format'
import { live, type Length, useWindows } from './live'
import { Blame, BlameLegend, functionsOf, JobLink, Tabs, mainCause } from './parts'

export function SlowTable(p: { jobs: Job[] }) {
  return (
    <>
    <BlameLegend jobs={p.jobs} />
    <div class="scroll" tabIndex={0} role="region" aria-label="slowest jobs">
      <table class="jobs">
        <thead>
          <tr><th scope="col">job</th><th scope="col" class="only-wide">functions</th>
            <th scope="col" class="only-wide">arrived</th><th scope="col" class="n">response</th>
            <th scope="col" class="blame" title="the response, split along the critical path">blame</th>
            <th scope="col" class="only-wide" title="the largest part besides run">mostly</th>
            <th scope="col" class="only-wide">policy</th><th scope="col" class="only-wide">tenant</th>
            <th scope="col" class="n only-wide">tasks</th><th scope="col" class="n">failed</th></tr>
        </thead>
        <tbody>
          {p.jobs.map((j) => (
            <tr key={j.Handle.Job}>
              <td><JobLink job={j.Handle.Job} /></td>
              <td class="only-wide">{functionsOf(j)}</td><td class="only-wide">{when(j.Came)}</td>
              <td class="n">{time(j.Response)}</td>
              <td class="blame"><Blame job={j} /></td><td class="only-wide">{mainCause(j) || '–'}</td>
              <td class="only-wide">{j.Policy}</td><td class="only-wide">{tenantName(j.Tenant)}</td>
              <td class="n only-wide">{count(j.Tasks)}</td>
              <td class={j.Failed ? 'n bad' : 'n'}>{count(j.Failed)}</td>
            </tr>
          ))}
          {p.jobs.length === 0 && <tr><td colSpan={10} class="dim">no job is kept from this time</td></tr>}
        </tbody>
      </table>
    </div>
    </>
  )
}

// groupByCause groups jobs by the largest part of their time beside the run.
function groupByCause(jobs: Job[]): { part: string; n: number; traits: string }[] {
  // A trait of all jobs says nothing.
  const distinct = traits.filter(([, of]) => new Set(jobs.map(of)).size > 1)
  const by = new Map<string, Job[]>()
  for (const j of jobs) by.set(mainCause(j), [...(by.get(mainCause(j)) ?? []), j])
  return [...by.entries()]
    .map(([part, list]) => ({ part, n: list.length, traits: commonTraits(list, distinct) }))
    .sort((a, b) => b.n - a.n)
}

const traits: readonly (readonly [string, (j: Job) => string])[] = [
  ['function', functionsOf], ['policy', (j) => j.Policy], ['class', (j) => j.Class],
  ['tenant', (j) => tenantName(j.Tenant)],
  ['frontend', (j) => j.Frontend],
]

// commonTraits names the traits of most jobs in list.
function commonTraits(list: Job[], distinct: typeof traits): string {
  const words: string[] = []
  for (const [what, of] of distinct) {
    const n = new Map<string, number>()
    for (const j of list) n.set(of(j), (n.get(of(j)) ?? 0) + 1)
    const [name, times] = [...n.entries()].sort((a, b) => b[1] - a[1])[0]!
    const share = list.length === 1 ? '' : times === list.length ? 'all of ' : `${times} of `
    if (times > list.length * 0.6 && name) words.push(`${share}${what} ${name}`)
  }
  return words.join(', ')
}

export function Slow() {
  const [length, setLength] = useState<Length>(10)
  const [part, setPart] = useState('')
  useWindows(length)
  const jobs = live.slowest
  const groups = groupByCause(jobs)
  const shown = part ? jobs.filter((j) => mainCause(j) === part) : jobs
  return (
    <>
      <div class="bar">
        <Tabs label="time" value={length} options={[[1, 'minute'], [10, '10 min'], [300, '6 h']] as const}
          on={(l) => { setLength(l); setPart('') }} />
        <span class="dim">the slowest jobs that frontends keep, at most 64</span>
      </div>
      <section class="card">
        <header><h2>What they have in common</h2></header>
        <ul class="alike">
          {groups.map((g) => (
            <li key={g.part}>
              <button type="button" title={partMeaning[g.part]} aria-pressed={part === g.part}
                onClick={() => setPart(part === g.part ? '' : g.part)}>
                <b>{g.n} of {jobs.length}
                  </b> mostly {g.part || 'not known'}{g.traits && <span class="dim"> · {g.traits}</span>}
              </button>
            </li>
          ))}
          {groups.length === 0 && <li class="dim">no jobs yet</li>}
        </ul>
      </section>
      <section class="card"><header><h2>{part ? `Mostly ${part}` : 'Slowest'}</h2></header>
        <SlowTable jobs={shown} /></section>
    </>
  )
}
