// Why is a task at its worker, or not placed yet?
import { get, type Candidate, type Decision, type Explanation } from './api'
import { endMeaning, partMeaning, partColor, useDark, bindingMeaning } from './colors'
import { count, share, tenantName, time } from './format'
import { Loaded, linkTo, Tile } from './parts'
import { spansOf, type Tasks, loadTrace } from './trace'

export function TaskPage(p: { job: string; task: string }) {
  return (
    <>
      <div class="bar"><a href={linkTo('job', p.job)}>← {p.job}</a><h2 class="name">task {p.task}</h2></div>
      <Loaded key_={`${p.job}/${p.task}`} ask={(signal) => loadTrace(p.job, signal, () => {})}>
        {(t) => <AttemptCard t={t} i={t.task.indexOf(Number(p.task))} />}
      </Loaded>
      <Loaded key_={`${p.job}/${p.task}`}
        ask={(signal) => get<Explanation>('explain', { job: p.job, task: p.task }, signal)}>
        {(said) => <>{said.Decisions.map((d, i) => <DecisionCard key={i} d={d} n={i + 1}
          of={said.Decisions.length} frontend={said.Frontend} />)}</>}
      </Loaded>
    </>
  )
}

// AttemptCard shows the history of the attempt with the task's outcome.
function AttemptCard(p: { t: Tasks; i: number }) {
  const { t, i } = p
  const dark = useDark()
  if (i < 0) return <p class="dim">The task has not ended.</p>
  const c = t.columns
  const spans = spansOf(t, i)
  const all = Math.max(1, t.delivery[i]! - t.released[i]!)
  return (
    <section class="card">
      <header><h2>History</h2>
        <span class="dim">{t.released[i]
        ? `could start ${time(t.released[i]! * 1000)} after the job's arrival` : 'could start at once'}</span>
        </header>
      <dl class="tiles">
        <Tile label="outcome" value={t.word('outcome', i)} bad={t.failed(i)} />
        <Tile label="took" value={time(all * 1000)} />
        <Tile label="worker" value={t.workers[t.worker[i]!] || 'none'} />
        <Tile label="attempts" value={String(c.tries[i])} />
        <Tile label="bound" value={t.word('bound', i)} title={bindingMeaning[t.word('bound', i)] ?? ''} />
        <Tile label="tenant" value={tenantName(t.job.Tenant)} />
        <Tile label="class" value={t.job.Class} />
        <Tile label="run expected" value={c.expected[i] ? time(c.expected[i]! * 1000) : 'not known'} />
        <Tile label="wait expected" value={c.promised[i] ? time(c.promised[i]! * 1000) : '–'} />
        <Tile label="wait was" value={c.promised[i] || c.waited[i] ? time(c.waited[i]! * 1000) : '–'} />
      </dl>
      {t.known[i] ? (
        <>
          <div class="blame wide" role="img"
            aria-label={spans.map((s) => `${s.name} ${time(s.us * 1000)}`).join(', ')}>
            {spans.map((s) => <i key={s.name}
              style={{ width: `${(100 * s.us) / all}%`, background: partColor(s.name, dark) }} />)}
          </div>
          <ul class="legend">
            {spans.map((s) => <li key={s.name} title={partMeaning[s.name]}>
              <i style={{ background: partColor(s.name, dark) }} />{s.name} <b>{time(s.us * 1000)}</b></li>)}
            {([['ownTenant', 'own tenant'], ['otherTenants', 'other tenants'], ['longTasks', 'long tasks'],
              ['closedShare', 'closed share'], ['idleSlot', 'idle slot']] as const)
              .map(([column, name]) => c[column][i]! > 0
                && <li key={name} title={partMeaning[name]}>of the
                queue, {name} <b>{time(c[column][i]! * 1000)}</b></li>)}
          </ul>
        </>
      ) : <p class="dim">The ends of its phases are not known.</p>}
      {t.earlierOf(i).length > 0 && <EarlierTable t={t} i={i} />}
    </section>
  )
}

// EarlierTable is a table of the attempts in vain.
function EarlierTable(p: { t: Tasks; i: number }) {
  const list = p.t.earlierOf(p.i).map((k) => p.t.earlier[k - p.t.n]!)
  const at = (us: number) => (us ? time(us * 1000) : '–')
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="attempts in vain">
      <table>
        <caption>attempts in vain, moments since the job's arrival</caption>
        <thead><tr><th scope="col">worker</th><th scope="col">why it ended</th><th scope="col">bound</th>
          <th scope="col" class="n">sent</th><th scope="col" class="n">started</th>
          <th scope="col" class="n">ended</th></tr></thead>
        <tbody>
          {list.map((e, k) => (
            <tr key={k}><td>{p.t.workers[e.Worker] || 'none'}</td>
              <td>{e.End}<span class="dim">: {endMeaning[e.End] ?? ''}</span></td>
              <td title={bindingMeaning[e.Bound]}>{e.Bound}</td>
              <td class="n">{at(e.Sent)}</td><td class="n">{at(e.Started)}</td>
              <td class="n">{at(e.Ended)}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function sinceArrival(ns: number): string {
  return ns > 0 ? `${time(ns)} after the job's arrival` : 'at the job\'s arrival'
}

function DecisionCard(p: { d: Decision; n: number; of: number; frontend: string }) {
  const d = p.d
  const known = d.Work.Source !== 'nothing' && d.Work.Run > 0
  return (
    <section class="card">
      <header><h2>Decision {p.of > 1 ? `${p.n} of ${p.of}` : ''}</h2>
        <span class="dim">by {p.frontend}, {sinceArrival(d.At)}</span></header>
      <dl class="tiles">
        <Tile label="placed by" value={d.Path} title={d.Why} />
        <Tile label="run expected" value={known ? time(d.Work.Run) : 'not known'}
          title={known ? `by ${d.Work.Source}, ${d.Work.Samples} samples` : ''} />
        {d.Path === 'estimation' && (
          <>
            <Tile label="ran" value={d.Ran ? time(d.Ran) : '–'} />
            <Tile label="waited there" value={d.Waited ? time(d.Waited) : '–'} />
            <Tile label="worker" value={d.Worker || 'none'} />
            <Tile label="outcome" value={d.Outcome || '–'} />
          </>
        )}
      </dl>
      <p>placed by {d.Path}, because {d.Why}</p>
      {d.Reason && <p>{(d.Candidates ?? [])[d.Chosen]
        ? `${d.Candidates![d.Chosen]!.Worker} was chosen` : 'no candidate was chosen'}: {d.Reason}</p>}
      {d.Far && <p>{d.Far}</p>}
      {(d.Candidates ?? []).length > 0 && <Candidates d={d} n={p.n} />}
      {(d.Samples ?? []).length > 0 && <Samples d={d} n={p.n} />}
      <details><summary>the whole explanation, as phoebe explain prints it</summary>
        <pre tabIndex={0}>{d.Text}</pre></details>
    </section>
  )
}

const terms = [['I', 'fetch', 'fetching missing files'], ['W', 'queue', 'waiting for room'],
  ['R', 'run', 'running']] as const

function staleTitle(steps: number): string {
  return `W is old, so it is read for a task ${steps} eighths of the worker larger`
}

function Candidates(p: { d: Decision; n: number }) {
  const dark = useDark()
  const list = p.d.Candidates ?? []
  const longest = Math.max(1, ...list.map((c) => c.E))
  const part = (c: Candidate, term: 'I' | 'W' | 'R') => Math.max(0, c[term])
  return (
    <>
      <ul class="legend">
        {terms.map(([term, color, what]) => <li key={term}>
          <i style={{ background: partColor(color, dark) }} />{term}: {what}</li>)}
        <li class="dim">{list.length} of {p.d.Seen} candidates; E = I + W + R; C adds the
          expected cost of a failure</li>
      </ul>
      <div class="scroll" tabIndex={0} role="region" aria-label={`candidates of decision ${p.n}`}>
        <table>
          <thead>
            <tr><th scope="col">worker</th><th scope="col">why a candidate</th>
              <th scope="col" class="blame">E = I + W + R</th><th scope="col" class="n">I</th>
              <th scope="col" class="n">W</th><th scope="col" class="n">R</th>
              <th scope="col" class="n">E</th><th scope="col" class="n">C</th>
              <th scope="col" class="n" title="chance that the worker stays up until the end">success</th>
              <th scope="col" class="n">age of W</th></tr>
          </thead>
          <tbody>
            {list.map((c, i) => (
              <tr key={i} class={i === p.d.Chosen ? 'chosen' : ''}>
                <td>{c.Worker}{i === p.d.Chosen && <span class="tag">chosen</span>}</td><td>{c.Kind}</td>
                <td class="blame">
                  <div class="blame" role="img" aria-label={`I ${time(c.I)}, W ${time(c.W)}, R ${time(c.R)}`}>
                  {terms.map(([term, color]) => <i key={term}
                    style={{ width: `${(100 * part(c, term)) / longest}%`,
                    background: partColor(color, dark) }} />)}
                </div></td>
                <td class="n">{time(c.I)}</td><td class="n">{time(c.W)}</td><td class="n">{time(c.R)}</td>
                <td class="n">{time(c.E)}</td><td class="n">{time(c.C)}</td>
                <td class="n">{share(c.Success)}</td><td class="n">{time(c.Age)}
                  {c.Steps > 0 && <span class="tag" title={staleTitle(c.Steps)}>stale</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

function Samples(p: { d: Decision; n: number }) {
  return (
    <>
      {(p.d.Samples ?? []).map((s, i) => (
        <details key={i} open={i === 0}>
          <summary>{sinceArrival(s.At)}: {count(s.Tasks)} {s.Tasks === 1 ? 'task' : 'tasks'} waited; {s.Tactic}</summary>
          <div class="scroll" tabIndex={0} role="region" aria-label={`sample ${i + 1} of decision ${p.n}`}>
            <table>
              <thead><tr><th scope="col">worker</th><th scope="col">why it was chosen</th>
                <th scope="col" class="n">tasks sent along</th><th scope="col" class="n">places</th>
                <th scope="col">outcome of the places</th></tr></thead>
              <tbody>
                {(s.Chosen ?? []).map((c, k) => (
                  <tr key={k}><td>{c.Worker}</td><td>{c.Why}</td>
                    <td class="n">{c.Bound ? 'one, at once' : c.Rides}</td><td class="n">{c.Places}</td>
                    <td>{(c.Fates ?? []).map((f) => (f.Times > 1 ? `${f.Times} × ${f.What}` : f.What))
                      .join(', ') || '–'}</td></tr>
                ))}
              </tbody>
            </table>
          </div>
          {s.More > 0 && <p class="dim">and {count(s.More)} more, not remembered</p>}
        </details>
      ))}
    </>
  )
}
