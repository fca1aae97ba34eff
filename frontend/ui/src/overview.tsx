// Which phase made p99 rise, and for whom?
import { useMemo, useState } from 'preact/hooks'
import type { WindowOf } from './api'
import { Chart, type Range } from './chart'
import { partMeaning, partColor, useDark } from './colors'
import { clock, count, digits, rate, share, tenantName, time } from './format'
import { failure, noFilter, type Filter, type Histogram, seriesHistograms, windowHistograms, phases, response,
  run, slowdown, sumHistograms } from './histogram'
import { live, type Length, useWindows } from './live'
import { Choice, linkTo, Tabs, Tile } from './parts'
import { SlowTable } from './slow'

const lengths = [[1, 'minute'], [10, '10 min'], [300, '6 h']] as const
const quantiles = [[0.5, 'p50'], [0.9, 'p90'], [0.99, 'p99'], [0.999, 'p99.9']] as const
const ratio = (x: number | null) => (x === null ? '–' : `${digits(x / 1e6)}×`)
const dashed = [7, 4], dotted = [2, 3] // percentiles differ also without colours
const reasons: Record<string, string> = {
  1: 'invalid', 2: 'too large', 3: 'no worker', 4: 'overloaded', 5: 'draining', 6: 'unknown job',
  7: 'unauthorized', 8: 'owner lost',
}

export function Overview() {
  const [length, setLength] = useState<Length>(1)
  const [filter, setFilter] = useState<Filter>(noFilter)
  const [q, setQ] = useState(0.99)
  const [range, setRange] = useState<Range | null>(null)
  const dark = useDark()
  const windows = useWindows(length)
  const at = windows.map((x) => x.at)
  const parts = windows.map((x) => windowHistograms(x.w, filter))
  const chosen = range ? windows.filter((x) => x.at + x.w.Length / 1e6 > range.from && x.at <= range.to)
    : windows
  const sum = useMemo(() => sumHistograms(chosen.map((x) => windowHistograms(x.w, filter))),
    [windows.length, at[at.length - 1], range, filter, length, live.at])
  const seconds = chosen.reduce((n, x) => n + x.w.Length / 1e9, 0)
  const quantilesOf = (m: number, quantile: number) => parts.map((h) => h[m]!.quantile(quantile))
  const known = filterOptions(windows.map((x) => x.w))
  const refusedReasons = [...new Set(windows.flatMap((x) => Object.keys(x.w.Refused ?? {})))].sort()
  const refused = chosen.reduce((n, x) => n + Object.values(x.w.Refused ?? {}).reduce((a, b) => a + b, 0), 0)
  const failed = chosen.reduce((n, x) => n + x.w.Failed, 0)
  const tasks = chosen.reduce((n, x) => n + x.w.Tasks, 0)
  const age = Math.max(0, ...chosen.map((x) => x.w.QueueAge))
  const last = windows[windows.length - 1]?.w
  const ofFunction = filter.function !== null
  const all = !filter.path && !filter.policy && filter.tenant === null && !ofFunction
  const jobs = sum[response]!.count
  const secondsOf = (ranged: WindowOf) => ranged.Length / 1e9
  const colors = ['#56b4e9', '#e69f00', '#d55e00'] as const
  const lighter = ['#2b8cc4', '#c98a00', '#c2410c'] as const
  const c = dark ? colors : lighter
  const rated = (n: number) => `${count(n)}, ${rate(seconds ? n / seconds : 0)}/s`
  const common = { at, range, onRange: setRange }

  const timed = ofFunction ? 'task' : 'response'
  const timedMeaning = ofFunction ? 'of tasks of the function, from when they could start to their result'
    : 'of jobs, from their arrival to their last outcome'

  return (
    <>
      <div class="bar" role="group" aria-label="filters">
        <Tabs label="time" value={length} options={lengths} on={(v) => { setLength(v); setRange(null) }} />
        <Choice label="placed by" value={filter.path}
          options={[['', 'all'], ...known.paths.map((p) => [p, p] as const)]}
          on={(path) => setFilter({ ...filter, path, function: null })} />
        <Choice label="policy" value={filter.policy}
          options={[['', 'all'], ...known.policies.map((p) => [p, p] as const)]}
          on={(policy) => setFilter({ ...filter, policy, function: null })} />
        <Choice label="tenant" value={filter.tenant === null ? '' : `=${filter.tenant}`}
          options={[['', 'all'], ...known.tenants.map((t) => [`=${t}`, tenantName(t)] as const)]}
          on={(v) => setFilter({ ...filter, tenant: v === '' ? null : v.slice(1), function: null })} />
        <Choice label="function" value={filter.function === null ? '' : `=${filter.function}`}
          options={[['', 'all'], ...known.functions.map((f) => [`=${f}`, f] as const)]}
          on={(v) => setFilter({ ...noFilter, function: v === '' ? null : v.slice(1) })} />
        <Choice label="percentile" value={q} options={quantiles} on={setQ} />
        <span class="window">
          {range ? <>{clock(range.from)} – {clock(range.to)} <button type="button"
            onClick={() => setRange(null)}>show all</button></> : 'drag over a chart to choose a window'}
        </span>
      </div>
      {live.leftOut > 0 && (
        <p class="bad" role="alert">
          The {live.leftOut} oldest windows are left out, because an answer has a size limit.
        </p>
      )}
      <dl class="tiles" data-from={chosen[0]?.at}
        data-to={chosen.length ? chosen[chosen.length - 1]!.at : undefined}>
        <Tile label={`${timed} p50`} value={time(sum[response]!.quantile(0.5))} title={timedMeaning} />
        <Tile label={`${timed} p99`} value={time(sum[response]!.quantile(0.99))} title={timedMeaning} />
        <Tile label={`${timed} p99.9`} value={time(sum[response]!.quantile(0.999))} title={timedMeaning} />
        {!ofFunction && <Tile label="slowdown p99" value={ratio(sum[slowdown]!.quantile(0.99))}
          title="response over the longest chain of runs; 1 is ideal" />}
        {!ofFunction && <Tile label="jobs" value={rated(jobs)} title="ended jobs, and their rate" />}
        <Tile label="tasks" value={rated(all ? tasks : sum[run]!.count)}
          title="tasks with an outcome, and their rate" />
        <Tile label="failed tasks" bad={failed > 0} to={linkTo('jobs', 'failed')} value={rated(failed)}
          title="number and rate, of all policies and tenants; opens the jobs with failed tasks" />
        <Tile label="refused" value={count(refused)} bad={refused > 0}
          title="jobs, of all policies and tenants" />
        <Tile label="queue age" value={time(age)} bad={age > 1e9}
          title="longest wait of a job for the start of its first task" />
        <Tile label="pending" value={last ? count(last.TasksPending) : '–'}
          title="tasks without an outcome" />
        <Tile label="running" value={last ? count(last.TasksRunning) : '–'}
          title="attempts that run, without tasks in workers' queues" />
      </dl>
      <div class="grid">
        <Chart {...common} title={ofFunction ? `Time of tasks of ${filter.function}` : 'Response of jobs'} log
          format={time} lines={[
          { label: 'p50', color: c[0], values: quantilesOf(response, 0.5) },
          { label: 'p99', color: c[1], values: quantilesOf(response, 0.99), dash: dashed },
          { label: 'p99.9', color: c[2], values: quantilesOf(response, 0.999), dash: dotted },
        ]} />
        {!ofFunction && <Chart {...common} title="Slowdown of jobs" log format={ratio} lines={[
          { label: 'p50', color: c[0], values: quantilesOf(slowdown, 0.5) },
          { label: 'p99', color: c[1], values: quantilesOf(slowdown, 0.99), dash: dashed },
          { label: 'p99.9', color: c[2], values: quantilesOf(slowdown, 0.999), dash: dotted },
        ]} />}
        <Chart {...common} title={`Phases of tasks, ${quantiles.find(([v]) => v === q)![1]} of each`} stacked
          format={time} height={180}
          lines={phases.map((name, m) =>
            ({ label: name, color: partColor(name, dark), values: quantilesOf(m, q),
            title: partMeaning[name]! }))} />
        <Chart {...common} title="Queue age" format={time} height={180}
          note="longest wait of a job for its first task to start"
          lines={[{ label: 'oldest job', color: c[1], values: windows.map((x) => x.w.QueueAge) }]} />
        <Chart {...common} title="Jobs and refusals per second" format={(x) => (x === null ? '–' : rate(x))}
          lines={[
          { label: 'accepted', color: c[0], values: windows.map((x) => x.w.Accepted / secondsOf(x.w)) },
          ...refusedReasons.map((r, i) => ({
            label: `refused: ${reasons[r] ?? r}`, color: c[1 + (i % 2)]!,
            values: windows.map((x) => (x.w.Refused[r] ?? 0) / secondsOf(x.w)),
          })),
        ]} />
        <Chart {...common} title="Tasks" format={(x) => (x === null ? '–' : count(Math.round(x)))} lines={[
          { label: 'pending', color: c[1], values: windows.map((x) => x.w.TasksPending) },
          { label: 'running', color: c[0], values: windows.map((x) => x.w.TasksRunning) },
        ]} />
      </div>
      <ByFunction windows={chosen.map((x) => x.w)} seconds={seconds} on={setFilter} />
      <ForWhom windows={chosen.map((x) => x.w)} q={q} on={setFilter} />
      <section class="card">
        <header><h2>Slowest jobs {range ? 'of this window' : 'lately'}</h2><a href={linkTo('slow')}>all</a>
          </header>
        <SlowTable jobs={live.slowest.filter((j) => inRange(Date.parse(j.Came), range)).slice(0, 8)} />
      </section>
    </>
  )
}

function inRange(at: number, r: Range | null): boolean {
  return !r || (at >= r.from - 1000 && at <= r.to + 1000)
}

// ForWhom is a table of the counts by path, policy and tenant.
function ForWhom(p: { windows: WindowOf[]; q: number; on: (f: Filter) => void }) {
  const by = new Map<string, { path: string; policy: string; tenant: string; parts: Histogram[][] }>()
  for (const w of p.windows) {
    for (const s of w.Series) {
      const key = JSON.stringify([s.Path, s.Policy, s.Tenant])
      let row = by.get(key)
      if (!row) by.set(key, row = { path: s.Path, policy: s.Policy, tenant: s.Tenant, parts: [] })
      row.parts.push(seriesHistograms(s))
    }
  }
  const rows = [...by.entries()].map(([key, r]) => ({ key, ...r, h: sumHistograms(r.parts) }))
    .sort((a, b) => (b.h[response]!.quantile(p.q) ?? 0) - (a.h[response]!.quantile(p.q) ?? 0))
  return (
    <section class="card">
      <header><h2>For whom</h2>
        <span class="dim">slowest first; click a row's placement to filter the charts</span></header>
      <div class="scroll" tabIndex={0} role="region" aria-label="by placement, policy and tenant">
        <table>
          <thead>
            <tr><th scope="col">placed by</th><th scope="col">policy</th><th scope="col">tenant</th>
              <th scope="col" class="n">jobs</th><th scope="col" class="n">tasks</th>
              <th scope="col" class="n">response p50</th><th scope="col" class="n">p99</th>
              <th scope="col" class="n">p99.9</th><th scope="col" class="n">slowdown p99</th>
              <th scope="col">longest phase besides run</th></tr>
          </thead>
          <tbody>
            {rows.map((r) => {
              const worst = phases.map((name, m) => ({ name, m, t: r.h[m]!.quantile(p.q) ?? 0 }))
                .filter((x) => x.m !== run).sort((a, b) => b.t - a.t)[0]!
              const all = phases.reduce((n, _x, m) => n + (r.h[m]!.quantile(p.q) ?? 0), 0)
              return (
                <tr key={r.key}>
                  <td><button type="button" class="row text"
                    onClick={() => p.on({ ...noFilter, path: r.path, policy: r.policy, tenant: r.tenant })}>
                    {r.path}</button></td>
                  <td>{r.policy}</td><td>{tenantName(r.tenant)}</td>
                  <td class="n">{count(r.h[response]!.count)}</td><td class="n">{count(r.h[run]!.count)}</td>
                  <td class="n">{time(r.h[response]!.quantile(0.5))}</td>
                  <td class="n">{time(r.h[response]!.quantile(0.99))}</td>
                  <td class="n">{time(r.h[response]!.quantile(0.999))}</td>
                  <td class="n">{ratio(r.h[slowdown]!.quantile(0.99))}</td>
                  <td>{worst.t > 0 ? `${worst.name} ${time(worst.t)}, ${share(worst.t / all)}` : '–'}</td>
                </tr>
              )
            })}
            {rows.length === 0
              && <tr><td colSpan={10} class="dim">no job or task ended in this time</td></tr>}
          </tbody>
        </table>
      </div>
    </section>
  )
}

// ByFunction is a table of the counts by function.
function ByFunction(p: { windows: WindowOf[]; seconds: number; on: (f: Filter) => void }) {
  const by = new Map<string, { parts: Histogram[][]; slots: number }>()
  const find = (name: string) => {
    let row = by.get(name)
    if (!row) by.set(name, row = { parts: [], slots: 0 })
    return row
  }
  let counts = 0
  for (const w of p.windows) {
    for (const f of w.Functions ?? []) find(f.Function).parts.push(seriesHistograms(f))
    if (w.Capacity > 0) counts++
    for (const u of w.FunctionSlots ?? []) find(u.Name).slots += u.Slots
  }
  const rows = [...by.entries()].map(([name, r]) => ({ name, slots: counts ? r.slots / counts : 0,
    h: sumHistograms(r.parts) })).sort((a, b) => b.h[response]!.count - a.h[response]!.count)
  return (
    <section class="card">
      <header><h2>By function</h2>
        <span class="dim">most tasks first; click a function to see its tasks in the charts. The 16 largest
          have a row, and the rest together: other</span></header>
      <div class="scroll" tabIndex={0} role="region" aria-label="by function">
        <table>
          <thead>
            <tr><th scope="col">function</th><th scope="col" class="n">tasks/s</th>
              <th scope="col" class="n" title="tasks without a result">failed</th>
              <th scope="col" class="n" title="mean, of tasks at workers">slots</th>
              <th scope="col" class="n" title="from when the task could start to its result">task p50</th>
              <th scope="col" class="n">p99</th><th scope="col" class="n">p99.9</th>
              <th scope="col" class="n">run p50</th><th scope="col" class="n">p99</th></tr>
          </thead>
          <tbody>
            {rows.map((r) => (
              <tr key={r.name}>
                <td><button type="button" class="row text"
                  onClick={() => p.on({ ...noFilter, function: r.name })}>{r.name}</button></td>
                <td class="n">{rate(p.seconds ? r.h[response]!.count / p.seconds : 0)}</td>
                <td class={r.h[failure]!.count ? 'n bad' : 'n'}>{count(r.h[failure]!.count)}</td>
                <td class="n">{digits(r.slots)}</td>
                <td class="n">{time(r.h[response]!.quantile(0.5))}</td>
                <td class="n">{time(r.h[response]!.quantile(0.99))}</td>
                <td class="n">{time(r.h[response]!.quantile(0.999))}</td>
                <td class="n">{time(r.h[run]!.quantile(0.5))}</td>
                <td class="n">{time(r.h[run]!.quantile(0.99))}</td>
              </tr>
            ))}
            {rows.length === 0 && <tr><td colSpan={9} class="dim">no task ended in this time</td></tr>}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function filterOptions(list: WindowOf[]): { paths: string[]; policies: string[]; tenants: string[];
  functions: string[] } {
  const series = list.flatMap((w) => w.Series)
  const some = (f: (s: { Path: string; Policy: string; Tenant: string }) => string) =>
    [...new Set(series.map(f))].sort()
  return { paths: some((s) => s.Path), policies: some((s) => s.Policy), tenants: some((s) => s.Tenant),
    functions: [...new Set(list.flatMap((w) => (w.Functions ?? []).map((f) => f.Function)))].sort() }
}
