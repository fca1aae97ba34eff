// What happened when an objective was broken? Recordings of frontends, and files saved by the viewer.
import { useMemo, useState } from 'preact/hooks'
import { bytes, type Frontend, get, AnswerError } from './api'
import { partMeaning, partColor, useDark } from './colors'
import { clock, count, time, when } from './format'
import { phases } from './histogram'
import { goTo, Loaded, linkTo, Tile } from './parts'

interface Listed { Frontend: string; Name: string; Bytes: number; At: string; Broken: string;
  Observed: number; Slowest: string; Phase: string }

interface Suspect {
  name: string; address: string; state: string; problem?: string; queued: number; running: number;
  round_trip_ns: number; silence_ns: number; wait_ns: number
  tasks: number; median_ns: number; worst_ns: number; excess_ns: number; phases_ns: number[]
}

// Recording is a file of --record-dir: see the package record.
interface Recording {
  format: number; frontend: string; version: string; at: string; broken: string; observed_ns: number;
  slowest?: string; phase?: string
  lost: number; suspects: Suspect[]; names: string[] | null; attempts: string | null; profile: string | null
  windows: { at: string; Accepted: number; Tasks: number; Failed: number; Age: number; Pending: number;
    Running: number }[] | null
  gc: { end: string; took_ns: number }[] | null
}

const format = 1
const maxBytes = 256 << 20 // of a recording, unpacked

// saved is the file that the viewer opened last. It stays in the browser.
let saved: File | null = null

async function unpack(from: Blob): Promise<Recording> {
  const reader = from.stream().pipeThrough(new DecompressionStream('gzip')).getReader()
  const decoder = new TextDecoder()
  const parts: string[] = []
  try {
    for (let all = 0; ;) {
      const { done, value } = await reader.read()
      if (done) break
      if ((all += value.length) > maxBytes) throw new Error('the file is too large')
      parts.push(decoder.decode(value, { stream: true }))
    }
    const text = parts.join('')
    const r = JSON.parse(text.slice(text.indexOf('\n'))) as Recording // the first line is a summary
    if (r.format === format && Array.isArray(r.suspects)) return r
    throw new Error(`the format is ${r.format}, the page reads ${format}`)
  } catch (e) {
    throw new Error(`This is no recording: ${(e as Error).message}`)
  } finally {
    void reader.cancel().catch(() => {})
  }
}

const file = (frontend: string, name: string) =>
  `api/recording/${encodeURIComponent(frontend)}/${encodeURIComponent(name)}`

async function load(frontend: string, name: string, signal: AbortSignal): Promise<Recording> {
  const said = await fetch(file(frontend, name), { signal })
  if (!said.ok) throw new AnswerError(said.status, ((await said.json()) as { Error: string }).Error)
  return unpack(await said.blob())
}

export function Recordings() {
  return (
    <>
      <div class="bar">
        <label class="choice">open a file <input type="file" accept=".gz,application/gzip" onChange={(e) => {
          saved = e.currentTarget.files?.[0] ?? null
          if (saved) goTo(linkTo('recording', 'file', saved.name))
        }} /></label>
        <span class="dim">a file saved here or copied from --record-dir; the file stays in the browser</span>
      </div>
      <section class="card">
        <header><h2>Recordings</h2><span class="dim">5 s before and after an objective was broken</span>
          </header>
        <Loaded key_="recordings" every={10_000}
          ask={(signal) => get<{ Recordings: Listed[]; Frontends: Frontend[] }>('recordings', {}, signal)}>
          {(said) => <RecordingTable recordings={said.Recordings} />}
        </Loaded>
      </section>
    </>
  )
}

function RecordingTable(p: { recordings: Listed[] }) {
  if (p.recordings.length === 0) {
    const command = 'phoebe frontend --slo policy=phoebe,p99=50ms,window=10s --record-dir DIR'
    return (
      <p class="dim">
        There are no recordings. A frontend records when an objective is broken: <code>{command}</code>
      </p>
    )
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="recordings">
      <table>
        <thead><tr><th scope="col">at</th><th scope="col">objective</th>
          <th scope="col" class="n">observed</th><th scope="col">slowest worker</th>
          <th scope="col">mostly</th><th scope="col">frontend</th><th scope="col" class="n">size</th>
          <th scope="col">save</th></tr></thead>
        <tbody>
          {p.recordings.map((r) => (
            <tr key={r.Name}>
              <td><a class="row" href={linkTo('recording', r.Frontend, r.Name)}>{when(r.At)}</a></td>
              <td>{r.Broken}</td><td class="n">{time(r.Observed)}</td><td>{r.Slowest || 'none'}</td>
              <td title={partMeaning[r.Phase]}>{r.Phase || '–'}</td><td>{r.Frontend}</td>
              <td class="n">{count(Math.ceil(r.Bytes / 1024))} KiB</td>
              <td><a href={file(r.Frontend, r.Name)} download={r.Name} aria-label={`save ${r.Name}`}>save</a>
                </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

// RecordingPage shows a recording of a frontend. For frontend "file", it shows the file opened by the viewer.
export function RecordingPage(p: { frontend: string; name: string }) {
  const [at] = useState(saved)
  const ask = (signal: AbortSignal) => {
    if (p.frontend !== 'file') return load(p.frontend, p.name, signal)
    return at ? unpack(at)
      : Promise.reject(new Error('The file is no longer open: open it again on the recordings page.'))
  }
  return (
    <>
      <div class="bar"><a href={linkTo('recordings')}>← recordings</a><h2 class="name">{p.name}</h2></div>
      <Loaded key_={`${p.frontend}/${p.name}`} ask={ask}>{(r) => <RecordingView r={r} />}</Loaded>
    </>
  )
}

function RecordingView(p: { r: Recording }) {
  const r = p.r
  const dark = useDark()
  const pauses = r.gc ?? []
  const seconds = r.windows ?? []
  return (
    <>
      <dl class="tiles">
        <Tile label="objective" value={r.broken} title={r.broken} />
        <Tile label="observed" value={time(r.observed_ns)} bad />
        <Tile label="slowest worker" value={r.slowest || 'none'} title={r.slowest ?? ''} bad={!!r.slowest} />
        <Tile label="mostly" value={r.phase || '–'} title={partMeaning[r.phase ?? ''] ?? ''} />
        <Tile label="at" value={clock(Date.parse(r.at))} title={when(r.at)} />
        <Tile label="frontend" value={r.frontend} title={`version ${r.version}`} />
        <Tile label="attempts forgotten" value={count(r.lost)} bad={r.lost > 0} />
        <Tile label="GC pauses"
          value={`${pauses.length}, ${time(Math.max(0, ...pauses.map((g) => g.took_ns)))}`}
          title="number, and the longest" />
      </dl>
      <section class="card">
        <header><h2>Slow workers</h2>
          <span class="dim">excess: time of its tasks beyond twice the median of all tasks</span>
          {r.profile && <Profile profile={r.profile} />}</header>
        <ul class="legend">{phases.map((name) => <li key={name} title={partMeaning[name]}>
          <i style={{ background: partColor(name, dark) }} />{name}</li>)}</ul>
        <div class="scroll tall" tabIndex={0} role="region" aria-label="workers">
          <table>
            <thead><tr><th scope="col">worker</th><th scope="col">state</th>
              <th scope="col" class="n">tasks</th><th scope="col" class="n">median</th>
              <th scope="col" class="n">worst</th>
              <th scope="col" class="n" title="time of its tasks beyond twice the median of all tasks">excess</th>
              <th scope="col" class="blame">phases of its slow tasks</th>
              <th scope="col" class="n">round trip</th><th scope="col" class="n">last heard</th>
              <th scope="col" class="n">queued</th><th scope="col" class="n">running</th></tr></thead>
            <tbody>
              {r.suspects.slice(0, maxRows).map((s) => (
                <tr key={s.name} class={s.name === r.slowest ? 'chosen' : ''}>
                  <td><a class="row" href={linkTo('worker', s.name)}>{s.name}</a></td>
                  <td>{s.state}{s.problem ? `: ${s.problem}` : ''}</td><td class="n">{count(s.tasks)}</td>
                  <td class="n">{time(s.median_ns)}</td>
                  <td class="n">{time(s.worst_ns)}</td><td class="n">{time(s.excess_ns)}</td>
                  <td class="blame"><Phases durations={s.phases_ns} /></td>
                  <td class="n">{time(s.round_trip_ns)}</td>
                  <td class="n">{time(s.silence_ns)} ago</td><td class="n">{count(s.queued)}</td>
                  <td class="n">{count(s.running)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {r.suspects.length > maxRows
          && <p class="dim">and {count(r.suspects.length - maxRows)} more workers</p>}
      </section>
      <Attempts r={r} />
      <section class="card">
        <header><h2>Each second</h2></header>
        <div class="scroll" tabIndex={0} role="region" aria-label="seconds">
          <table>
            <thead><tr><th scope="col">from</th><th scope="col" class="n">jobs accepted</th>
              <th scope="col" class="n">tasks ended</th><th scope="col" class="n">failed</th>
              <th scope="col" class="n">pending</th><th scope="col" class="n">running</th>
              <th scope="col" class="n">queue age</th></tr></thead>
            <tbody>
              {seconds.map((w) => (
                <tr key={w.at}><th scope="row">{clock(Date.parse(w.at))}</th>
                  <td class="n">{count(w.Accepted)}</td><td class="n">{count(w.Tasks)}</td>
                  <td class={w.Failed ? 'n bad' : 'n'}>{count(w.Failed)}</td>
                  <td class="n">{count(w.Pending)}</td><td class="n">{count(w.Running)}</td>
                  <td class="n">{time(w.Age)}</td></tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  )
}

const maxRows = 100

function Phases(p: { durations: number[] }) {
  const dark = useDark()
  const all = p.durations.reduce((a, b) => a + b, 0)
  if (all === 0) return <span class="dim">none</span>
  return (
    <div class="blame" role="img"
      aria-label={phases.map((name, i) => `${name} ${time(p.durations[i])}`).join(', ')}>
      {phases.map((name, i) => p.durations[i]! > 0
        && <i key={name} title={`${name} ${time(p.durations[i])}`}
        style={{ width: `${(100 * p.durations[i]!) / all}%`, background: partColor(name, dark) }} />)}
    </div>
  )
}

// Profile saves the CPU profile for pprof.
function Profile(p: { profile: string }) {
  const save = () => {
    const to = URL.createObjectURL(new Blob([bytes(p.profile) as Uint8Array<ArrayBuffer>]))
    const a = Object.assign(document.createElement('a'), { href: to, download: 'profile.pb.gz' })
    a.click()
    URL.revokeObjectURL(to)
  }
  return <button type="button" class="quiet" onClick={save}>save the CPU profile</button>
}

const attemptFields = 26 // numbers of a packed attempt

interface Slow { task: number; worker: string; took: number; phases: number[] }

// slowest unpacks the attempts and returns the slowest.
function slowest(r: Recording): { all: number; list: Slow[] } {
  const b = bytes(r.attempts)
  const x = new Float64Array(attemptFields)
  const list: Slow[] = []
  let all = 0
  for (let at = 0; at < b.length; all++) {
    for (let i = 0; i < attemptFields; i++) {
      let n = 0
      for (let unit = 1; at < b.length; unit *= 128) {
        const part = b[at++]!
        n += (part & 127) * unit
        if (part < 128) break
      }
      x[i] = n
    }
    const took = x[16]! - x[10]!
    if (x[9] !== 1 || (list.length === maxRows && took <= list[maxRows - 1]!.took)) continue
    const ends = Array.from(x.subarray(10, 17))
    list.push({ task: x[0]!, worker: r.names?.[x[2]! - 1] ?? '–', took,
      phases: ends.map((end, i) => Math.max(0, end - (i === 0 ? x[8]! : Math.max(x[8]!, ends[i - 1]!)))) })
    list.sort((a, b) => b.took - a.took)
    list.length = Math.min(list.length, maxRows)
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
          <thead><tr><th scope="col">task</th><th scope="col">worker</th><th scope="col" class="n">took</th>
            <th scope="col" class="blame">phases</th>
            {phases.map((name) => <th scope="col" class="n" key={name} title={partMeaning[name]}>{name}</th>)}
            </tr></thead>
          <tbody>
            {list.map((a, i) => (
              <tr key={i}><td>{a.task}</td><td>{a.worker}</td><td class="n">{time(a.took)}</td>
                <td class="blame"><Phases durations={a.phases} /></td>
                {a.phases.map((d, m) => <td class="n" key={m}>{time(d)}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
