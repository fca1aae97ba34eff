// What happened when an objective was broken? Recordings of the frontends, and those that a viewer has saved.
import { useMemo, useState } from 'preact/hooks'
import { bytes, type Frontend, get, Wrong } from './api'
import { meaning, partColor, useDark } from './colors'
import { clock, count, time, when } from './format'
import { phases } from './histogram'
import { go, Later, link, Tile } from './parts'

interface Listed { Frontend: string; Name: string; Bytes: number; At: string; Broken: string; Observed: number; Slowest: string; Phase: string }

interface Suspect {
  name: string; address: string; state: string; problem?: string; queued: number; running: number; round_trip_ns: number; silence_ns: number; wait_ns: number
  tasks: number; median_ns: number; worst_ns: number; excess_ns: number; phases_ns: number[]
}

// Recording is a file of --record-dir: see the package record.
interface Recording {
  format: number; frontend: string; version: string; at: string; broken: string; observed_ns: number; slowest?: string; phase?: string
  lost: number; suspects: Suspect[]; names: string[] | null; attempts: string | null; profile: string | null
  windows: { at: string; Accepted: number; Tasks: number; Failed: number; Age: number; Pending: number; Running: number }[] | null
  gc: { end: string; took_ns: number }[] | null
}

const format = 1
const most = 256 << 20 // bytes of a recording, unpacked

// saved is the file that the viewer has opened last. It stays with the browser.
let saved: File | null = null

async function unpack(from: Blob): Promise<Recording> {
  const reader = from.stream().pipeThrough(new DecompressionStream('gzip')).getReader()
  const decoder = new TextDecoder()
  const parts: string[] = []
  try {
    for (let all = 0; ;) {
      const { done, value } = await reader.read()
      if (done) break
      if ((all += value.length) > most) throw new Error('it is too large')
      parts.push(decoder.decode(value, { stream: true }))
    }
    const text = parts.join('')
    const r = JSON.parse(text.slice(text.indexOf('\n'))) as Recording // the line before is a summary
    if (r.format === format && Array.isArray(r.suspects)) return r
    throw new Error(`its format is ${r.format}, and this page reads ${format}`)
  } catch (e) {
    throw new Error(`This is no recording: ${(e as Error).message}`)
  } finally {
    void reader.cancel().catch(() => {})
  }
}

const file = (frontend: string, name: string) => `api/recording/${encodeURIComponent(frontend)}/${encodeURIComponent(name)}`

async function load(frontend: string, name: string, signal: AbortSignal): Promise<Recording> {
  const said = await fetch(file(frontend, name), { signal })
  if (!said.ok) throw new Wrong(said.status, ((await said.json()) as { Error: string }).Error)
  return unpack(await said.blob())
}

export function Recordings() {
  return (
    <>
      <div class="bar">
        <label class="choice">open a file <input type="file" accept=".gz,application/gzip" onChange={(e) => {
          saved = e.currentTarget.files?.[0] ?? null
          if (saved) go(link('recording', 'file', saved.name))
        }} /></label>
        <span class="dim">which one saved here, or copied from --record-dir; it does not leave the browser</span>
      </div>
      <section class="card">
        <header><h2>Recordings</h2><span class="dim">of 5 s before and after an objective was broken</span></header>
        <Later key_="recordings" every={10_000} ask={(signal) => get<{ Recordings: Listed[]; Frontends: Frontend[] }>('recordings', {}, signal)}>
          {(said) => <List of={said.Recordings} />}
        </Later>
      </section>
    </>
  )
}

function List(p: { of: Listed[] }) {
  if (p.of.length === 0) return <p class="dim">There is none. A frontend records when an objective is broken: <code>phoebe frontend --slo policy=phoebe,p99=50ms,window=10s --record-dir DIR</code></p>
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="recordings">
      <table>
        <thead><tr><th scope="col">at</th><th scope="col">objective</th><th scope="col" class="n">it was</th><th scope="col">slowest worker</th><th scope="col">mostly</th><th scope="col">frontend</th><th scope="col" class="n">size</th><th scope="col">save</th></tr></thead>
        <tbody>
          {p.of.map((r) => (
            <tr key={r.Name}>
              <td><a class="row" href={link('recording', r.Frontend, r.Name)}>{when(r.At)}</a></td><td>{r.Broken}</td><td class="n">{time(r.Observed)}</td><td>{r.Slowest || 'none'}</td>
              <td title={meaning[r.Phase]}>{r.Phase || '–'}</td><td>{r.Frontend}</td><td class="n">{count(Math.ceil(r.Bytes / 1024))} KiB</td>
              <td><a href={file(r.Frontend, r.Name)} download={r.Name} aria-label={`save ${r.Name}`}>save</a></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

// RecordingPage shows one of a frontend, or, for frontend "file", the one that the viewer has opened.
export function RecordingPage(p: { frontend: string; name: string }) {
  const [at] = useState(saved)
  const ask = (signal: AbortSignal) => {
    if (p.frontend !== 'file') return load(p.frontend, p.name, signal)
    return at ? unpack(at) : Promise.reject(new Error('This file is not open any more: open it again on the page of recordings.'))
  }
  return (
    <>
      <div class="bar"><a href={link('recordings')}>← recordings</a><h2 class="name">{p.name}</h2></div>
      <Later key_={`${p.frontend}/${p.name}`} ask={ask}>{(r) => <Recorded r={r} />}</Later>
    </>
  )
}

function Recorded(p: { r: Recording }) {
  const r = p.r
  const dark = useDark()
  const pauses = r.gc ?? []
  const seconds = r.windows ?? []
  return (
    <>
      <dl class="tiles">
        <Tile label="objective" value={r.broken} title={r.broken} />
        <Tile label="it was" value={time(r.observed_ns)} bad />
        <Tile label="slowest worker" value={r.slowest || 'none'} title={r.slowest ?? ''} bad={!!r.slowest} />
        <Tile label="mostly" value={r.phase || '–'} title={meaning[r.phase ?? ''] ?? ''} />
        <Tile label="at" value={clock(Date.parse(r.at))} title={when(r.at)} />
        <Tile label="frontend" value={r.frontend} title={`of version ${r.version}`} />
        <Tile label="attempts forgotten" value={count(r.lost)} bad={r.lost > 0} />
        <Tile label="GC pauses" value={`${pauses.length}, ${time(Math.max(0, ...pauses.map((g) => g.took_ns)))}`} title="how many, and the longest" />
      </dl>
      <section class="card">
        <header><h2>Who was slow</h2><span class="dim">excess: by how much their tasks took more than twice the median of all</span>{r.profile && <Profile of={r.profile} />}</header>
        <ul class="legend">{phases.map((name) => <li key={name} title={meaning[name]}><i style={{ background: partColor(name, dark) }} />{name}</li>)}</ul>
        <div class="scroll tall" tabIndex={0} role="region" aria-label="workers">
          <table>
            <thead><tr><th scope="col">worker</th><th scope="col">state</th><th scope="col" class="n">tasks</th><th scope="col" class="n">median</th><th scope="col" class="n">worst</th><th scope="col" class="n">excess</th>
              <th scope="col" class="blame">its slow tasks</th><th scope="col" class="n">round trip</th><th scope="col" class="n">heard</th><th scope="col" class="n">queued</th><th scope="col" class="n">running</th></tr></thead>
            <tbody>
              {r.suspects.slice(0, rows).map((s) => (
                <tr key={s.name} class={s.name === r.slowest ? 'chosen' : ''}>
                  <td><a class="row" href={link('worker', s.name)}>{s.name}</a></td><td>{s.state}{s.problem ? `: ${s.problem}` : ''}</td><td class="n">{count(s.tasks)}</td><td class="n">{time(s.median_ns)}</td>
                  <td class="n">{time(s.worst_ns)}</td><td class="n">{time(s.excess_ns)}</td><td class="blame"><Phases of={s.phases_ns} /></td><td class="n">{time(s.round_trip_ns)}</td>
                  <td class="n">{time(s.silence_ns)} ago</td><td class="n">{count(s.queued)}</td><td class="n">{count(s.running)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {r.suspects.length > rows && <p class="dim">and {count(r.suspects.length - rows)} more workers</p>}
      </section>
      <Attempts r={r} />
      <section class="card">
        <header><h2>Each second</h2></header>
        <div class="scroll" tabIndex={0} role="region" aria-label="seconds">
          <table>
            <thead><tr><th scope="col">from</th><th scope="col" class="n">jobs accepted</th><th scope="col" class="n">tasks ended</th><th scope="col" class="n">failed</th><th scope="col" class="n">pending</th><th scope="col" class="n">running</th>
              <th scope="col" class="n">queue age</th></tr></thead>
            <tbody>
              {seconds.map((w) => (
                <tr key={w.at}><th scope="row">{clock(Date.parse(w.at))}</th><td class="n">{count(w.Accepted)}</td><td class="n">{count(w.Tasks)}</td><td class={w.Failed ? 'n bad' : 'n'}>{count(w.Failed)}</td>
                  <td class="n">{count(w.Pending)}</td><td class="n">{count(w.Running)}</td><td class="n">{time(w.Age)}</td></tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  )
}

const rows = 100

function Phases(p: { of: number[] }) {
  const dark = useDark()
  const all = p.of.reduce((a, b) => a + b, 0)
  if (all === 0) return <span class="dim">none</span>
  return (
    <div class="blame" role="img" aria-label={phases.map((name, i) => `${name} ${time(p.of[i])}`).join(', ')}>
      {phases.map((name, i) => p.of[i]! > 0 && <i key={name} title={`${name} ${time(p.of[i])}`} style={{ width: `${(100 * p.of[i]!) / all}%`, background: partColor(name, dark) }} />)}
    </div>
  )
}

// Profile saves what pprof reads.
function Profile(p: { of: string }) {
  const save = () => {
    const to = URL.createObjectURL(new Blob([bytes(p.of) as Uint8Array<ArrayBuffer>]))
    const a = Object.assign(document.createElement('a'), { href: to, download: 'profile.pb.gz' })
    a.click()
    URL.revokeObjectURL(to)
  }
  return <button type="button" class="quiet" onClick={save}>save the CPU profile</button>
}

const fields = 26 // of an attempt, as the API has it

interface Slow { task: number; worker: string; took: number; phases: number[] }

// slowest unpacks attempts and finds those that took longest.
function slowest(r: Recording): { all: number; list: Slow[] } {
  const b = bytes(r.attempts)
  const x = new Float64Array(fields)
  const list: Slow[] = []
  let all = 0
  for (let at = 0; at < b.length; all++) {
    for (let i = 0; i < fields; i++) {
      let n = 0
      for (let unit = 1; at < b.length; unit *= 128) {
        const part = b[at++]!
        n += (part & 127) * unit
        if (part < 128) break
      }
      x[i] = n
    }
    const took = x[16]! - x[10]!
    if (x[9] !== 1 || (list.length === rows && took <= list[rows - 1]!.took)) continue
    const ends = Array.from(x.subarray(10, 17))
    list.push({ task: x[0]!, worker: r.names?.[x[2]! - 1] ?? '–', took, phases: ends.map((end, i) => Math.max(0, end - (i === 0 ? x[8]! : Math.max(x[8]!, ends[i - 1]!)))) })
    list.sort((a, b) => b.took - a.took)
    list.length = Math.min(list.length, rows)
  }
  return { all, list }
}

function Attempts(p: { r: Recording }) {
  const { all, list } = useMemo(() => slowest(p.r), [p.r])
  return (
    <section class="card">
      <header><h2>Slowest attempts</h2><span class="dim">{count(list.length)} of {count(all)}</span></header>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="slowest attempts">
        <table>
          <thead><tr><th scope="col">task</th><th scope="col">worker</th><th scope="col" class="n">took</th><th scope="col" class="blame">phases</th>{phases.map((name) => <th scope="col" class="n" key={name} title={meaning[name]}>{name}</th>)}</tr></thead>
          <tbody>
            {list.map((a, i) => (
              <tr key={i}><td>{a.task}</td><td>{a.worker}</td><td class="n">{time(a.took)}</td><td class="blame"><Phases of={a.phases} /></td>{a.phases.map((d, m) => <td class="n" key={m}>{time(d)}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
