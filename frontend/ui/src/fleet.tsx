// Which worker is slow?
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { change, get, type Seen, type Worker } from './api'
import { heat, useDark } from './colors'
import { about, clock, count, share, time } from './format'
import { type Column, columnMillis, type Fleet as FleetState, rememberedColumns, useLive } from './live'
import { Admin, fitText, goTo, Loaded, linkTo, announce, Tabs, useWidth } from './parts'
import { Slots } from './slots'

type Metric = 'wait' | 'busy' | 'trip' | 'silence'

const metrics = [['wait', 'expected wait'], ['busy', 'busy'], ['trip', 'round trip'],
  ['silence', 'last heard']] as const

const unknown = 15
// The server's steps of levels: level 1 begins at from, and each further level at 2^step times the level
// before.
const steps = { wait: { from: 128e3, step: 1.5 }, trip: { from: 16e3, step: 1 },
  silence: { from: 8192e3, step: 1 } }

function levelOf(levels: Uint8Array, i: number, m: Metric): number {
  const b = levels[2 * i + (m === 'wait' || m === 'busy' ? 0 : 1)] ?? 255
  return m === 'wait' || m === 'trip' ? b >> 4 : b & 15
}

function isStale(c: Column, i: number): boolean {
  return ((c.stale[i >> 3] ?? 0) >> (i & 7) & 1) === 1
}

// levelText writes a level as the middle of its range.
function levelText(m: Metric, l: number): string {
  if (l >= unknown) return m === 'busy' ? 'not up' : 'not known'
  if (m === 'busy') return share(l / 14)
  const s = steps[m]
  return l === 0 ? `< ${time(s.from)}` : about(s.from * 2 ** (s.step * (l - 0.5)))
}

const binsFrom = 2000
const bins = 100

// rowsOf returns the workers ordered by rack, then by name.
function rowsOf(f: FleetState, n: number): number[] {
  const rows = Array.from({ length: n }, (_, i) => i)
  const names = f.names
  if (!names) return rows
  return rows.sort((a, b) => compare(names.Racks[a] ?? '', names.Racks[b] ?? '')
    || compare(names.Names[a] ?? '', names.Names[b] ?? ''))
}

const collator = new Intl.Collator('en', { numeric: true })
function compare(a: string, b: string): number { return collator.compare(a, b) }

export function Fleet() {
  const live = useLive()
  const f = live.fleet
  const [chosen, setMetric] = useState<Metric | null>(null)
  const last = f.columns[f.columns.length - 1]
  const n = last && !last.binned ? last.levels.length / 2 : 0
  const listed = useMemo(() => rowsOf(f, n), [f.names, n])
  const rows = useMemo(() => rowsOf(f, Math.max(n, f.names?.Names.length ?? 0)), [f.names, n])
  // Waits are known only if frontends gossip, or place long tasks.
  const metric = chosen ?? (last && listed.some((i) => levelOf(last.levels, i, 'wait') !== unknown) ? 'wait'
    : 'busy')
  const worst = useMemo(() => {
    const list = listed.map((i) => ({ i, l: last ? levelOf(last.levels, i, metric) : 0 }))
    return list.sort((a, b) => b.l - a.l)
  }, [listed, last, metric])
  const notUp = last ? listed.filter((i) => levelOf(last.levels, i, 'busy') === unknown).length : 0
  const stale = last && metric === 'wait' ? listed.filter((i) => isStale(last, i)).length : 0
  return (
    <>
      <div class="bar">
        <Tabs label="what" value={metric} options={metrics} on={setMetric} />
        <span class={notUp > 0 ? 'bad' : 'dim'}>{count(n)} workers{notUp > 0 ? `, ${count(notUp)} not up`
          : ', all up'}</span>
        {f.frontend && <span class="dim">as {f.frontend} sees them</span>}
        {stale > 0 && <span class="tag"
          title="too old for frontends to trust">{count(stale)} waits are stale</span>}
        <Scale metric={metric} />
      </div>
      <Slots />
      <Heatmap fleet={f} rows={rows} metric={metric} />
      <Racks fleet={f} rows={listed} metric={metric} />
      <div class="grid">
        <SlowWorkers fleet={f} rows={listed} />
        <GoneWorkers fleet={f} rows={listed} />
      </div>
      <WorkerTable fleet={f} worst={worst} />
    </>
  )
}

function Scale(p: { metric: Metric }) {
  const dark = useDark()
  return (
    <span class="scale">
      {levelText(p.metric, 0)}
      {Array.from({ length: 15 },
        (_, l) => <i key={l} title={levelText(p.metric, l)}
        style={{ background: `rgb(${heat(l, dark).join()})` }} />)}
      {levelText(p.metric, 14)} <i
        style={{ background: `rgb(${heat(unknown, dark).join()})` }} /> {levelText(p.metric, unknown)}
    </span>
  )
}

function Heatmap(p: { fleet: FleetState; rows: number[]; metric: Metric }) {
  const { fleet, rows, metric } = p
  const dark = useDark()
  const canvas = useRef<HTMLCanvasElement>(null)
  const axis = useRef<HTMLCanvasElement>(null)
  const [box, width] = useWidth<HTMLDivElement>()
  const [at, setAt] = useState<{ row: number; column: number } | null>(null)
  const binned = rows.length > binsFrom
  const lanes = binned ? bins : rows.length
  const each = binned ? 4 : Math.max(1, Math.min(20, Math.floor(440 / Math.max(1, lanes))))
  const height = Math.max(each * lanes, 1)
  // Names stand beside the lines, if the lines are tall enough for them.
  const names = !binned && each >= 11 ? fleet.names : null
  const gutter = names ? Math.min(110, Math.floor(width / 4)) : 0
  const fit = Math.max(1, Math.min(rememberedColumns, width - gutter))
  const xOf = (column: number) => gutter + Math.floor(column * (width - gutter) / fit)
  // A column is at the place of its time, so that a gap in the history is a gap in the picture.
  const end = Math.floor((fleet.columns[fleet.columns.length - 1]?.at ?? 0) / columnMillis)
  const shown: (Column | undefined)[] = Array.from({ length: fit })
  for (const c of fleet.columns) {
    const k = Math.floor(c.at / columnMillis) - end + fit - 1
    if (k >= 0) shown[k] = c
  }

  // With many workers, a line stands for a share of the workers. The lowest line has the lowest level.
  const levelAt = (row: number, column: number): number => {
    const c = shown[column]
    if (!c || c.binned && !binned) return unknown
    return binned ? (sorted(c.levels, metric)[Math.min(c.levels.length / 2 - 1,
      Math.floor(((bins - 1 - row) + 0.5) / bins * (c.levels.length / 2)))] ?? unknown)
      : levelOf(c.levels, rows[row]!, metric)
  }
  useEffect(() => {
    const c = canvas.current
    if (!c || width === 0) return
    const g = c.getContext('2d')!
    const image = g.createImageData(width, height)
    const pixels = new Uint32Array(image.data.buffer)
    const colors = Array.from({ length: 16 }, (_, l) => {
      const [r, gr, b] = heat(l, dark)
      return (0xff000000 | (b << 16) | (gr << 8) | r) >>> 0
    })
    for (let row = 0; row < lanes; row++) {
      const line = row * each * width
      for (let k = 0; k < fit; k++) {
        if (shown[k]) pixels.fill(colors[levelAt(row, k)]!, line + xOf(k), line + xOf(k + 1))
      }
      const thick = each > 6 ? each - 1 : each
      for (let y = 1; y < thick; y++) pixels.copyWithin(line + y * width, line, line + width)
    }
    g.putImageData(image, 0, 0)
    g.font = '10px system-ui, sans-serif'
    let rack: string | null = null
    rows.forEach((i, row) => {
      if (binned || !fleet.names) return
      const r = fleet.names.Racks[i] ?? ''
      g.fillStyle = dark ? '#dfe6ec' : '#1c2630'
      if (r !== rack && rack !== null) g.fillRect(0, row * each - 1, width, 1)
      if (names) g.fillText(fitText(g, names.Names[i] ?? '', gutter - 8), 3, row * each + each - 6)
      rack = r
    })
    if (at) {
      g.strokeStyle = dark ? '#ffffff' : '#000000'
      const x = xOf(at.column)
      g.strokeRect(x - 0.5, at.row * each - 0.5, xOf(at.column + 1) - x + 1, each + 1)
    }
    drawTimes(axis.current, width, gutter, (end + 1) * columnMillis, fit * columnMillis, dark)
  })
  const describeCell = (row: number, column: number): string => {
    const c = shown[column]
    if (!c) return ''
    const what = levelText(metric, levelAt(row, column))
    if (binned) return `${clock(c.at)}: ${bins - row} % of the workers have ${what} or less`
    const i = rows[row]!
    const name = fleet.names?.Names[i] ?? `worker ${i}`, rack = fleet.names?.Racks[i]
    const metricName = metrics.find(([m]) => m === metric)![1]
    return `${clock(c.at)}: ${name}${rack ? ` in ${rack}` : ''}: ${metricName} ${what}`
  }
  const place = (e: PointerEvent): { row: number; column: number } => {
    const r = canvas.current!.getBoundingClientRect()
    return {
      row: Math.max(0, Math.min(lanes - 1, Math.floor((e.clientY - r.top) / each))),
      column: Math.max(0,
        Math.min(fit - 1, Math.floor((e.clientX - r.left - gutter) * fit / (width - gutter)))),
    }
  }
  const open = (row: number) => {
    const name = fleet.names?.Names[rows[row]!]
    if (!binned && name) goTo(linkTo('worker', name))
  }
  const keys = (e: KeyboardEvent) => {
    const a = at ?? { row: 0, column: fit - 1 }
    switch (e.key) {
      case 'ArrowUp': a.row--; break
      case 'ArrowDown': a.row++; break
      case 'ArrowLeft': a.column--; break
      case 'ArrowRight': a.column++; break
      case 'Enter': open(a.row); return
      case 'Escape': setAt(null); return
      default: return
    }
    e.preventDefault()
    const to = { row: Math.max(0, Math.min(lanes - 1, a.row)),
      column: Math.max(0, Math.min(fit - 1, a.column)) }
    setAt(to)
    announce(describeCell(to.row, to.column))
  }
  return (
    <section class="card">
      <header><h2>{binned ? 'Share of workers over time' : 'Workers over time'}</h2>
        <span class="dim">{binned ? 'each line is 1 % of the workers, the worst on top' : fleet.names
          ? 'by rack; a click opens a worker' : ''}; the last {time(fit * columnMillis * 1e6)}</span>
      </header>
      <div class="heat" ref={box} tabIndex={0} role="application" aria-roledescription="chart"
        onKeyDown={keys}
        aria-label="Workers over time: arrow keys read, enter opens a worker; the table below is the same">
        <canvas ref={canvas} width={Math.max(1, width)} height={height} aria-hidden="true"
          onPointerMove={(e) => setAt(place(e))} onPointerLeave={() => setAt(null)}
          onClick={(e) => open(place(e as unknown as PointerEvent).row)} />
      </div>
      <canvas ref={axis} class="axis" width={Math.max(1, width)} height={18} aria-hidden="true"
        data-columns={shown.filter((c) => c).length} />
      <p class="selected">{at ? describeCell(at.row, at.column) : ' '}</p>
    </section>
  )
}

const timeSteps = [10, 30, 60, 120, 300] // seconds

// drawTimes draws an axis of clock times from left on: the span milliseconds before end.
function drawTimes(c: HTMLCanvasElement | null, width: number, left: number, end: number, span: number,
  dark: boolean): void {
  if (!c || width === 0) return
  const g = c.getContext('2d')!
  g.clearRect(0, 0, width, 18)
  g.font = '11px system-ui, sans-serif'
  g.fillStyle = dark ? '#aab4be' : '#404a54'
  const perPixel = span / (width - left), widest = g.measureText('00:00:00').width
  const step = 1000 * (timeSteps.find((s) => 1000 * s / perPixel >= (s < 60 ? widest : widest * 0.7) + 16)
    ?? 600)
  for (let at = Math.ceil((end - span) / step) * step; at <= end; at += step) {
    const x = left + (at - end + span) / perPixel
    const text = clock(at, step < 60_000), half = g.measureText(text).width / 2
    g.fillRect(x, 0, 1, 4)
    if (x - half >= 0 && x + half <= width) g.fillText(text, x - half, 15)
  }
}

// Racks shows the hosts of each rack, with a cell for each worker.
function Racks(p: { fleet: FleetState; rows: number[]; metric: Metric }) {
  const dark = useDark()
  const { fleet, rows, metric } = p
  const names = fleet.names, last = fleet.columns[fleet.columns.length - 1]
  if (!names || !last) return null
  const racks = new Map<string, Map<string, number[]>>()
  for (const i of rows) {
    const rack = names.Racks[i] ?? '', host = names.Hosts?.[i] || names.Names[i] || ''
    if (!racks.has(rack)) racks.set(rack, new Map())
    const hosts = racks.get(rack)!
    hosts.set(host, [...hosts.get(host) ?? [], i])
  }
  const describe = (i: number) => `${names.Names[i]}: ${metrics.map(([m, name]) =>
    `${name} ${levelText(m, levelOf(last.levels, i, m))}`).join(', ')}`
  const list = [...racks.entries()].map(([rack, hosts]) => {
    const all = [...hosts.values()].flat()
    const up = all.map((i) => levelOf(last.levels, i, 'busy')).filter((l) => l !== unknown)
    return { rack, hosts, all: all.length, up: up.length,
      busy: up.length ? up.reduce((a, b) => a + b, 0) / up.length / 14 : 0 }
  })
  // If there is no room for all racks, the worst ones must not be missing.
  if (list.length > maxRacks) list.sort((a, b) => (b.all - b.up) - (a.all - a.up) || b.busy - a.busy)
  return (
    <section class="card">
      <header><h2>Hosts by rack</h2>
        <span class="dim">{[
          rows.length <= binsFrom
            && `boxes are hosts, cells are workers, coloured by: ${metrics.find(([m]) => m === metric)![1]}`,
          list.length > maxRacks
            && `${maxRacks} of ${count(list.length)} racks: most workers not up, then busiest`,
        ].filter(Boolean).join('; ')}</span>
      </header>
      <ul class={rows.length <= binsFrom ? 'racks' : 'racks many'}>
        {list.slice(0, maxRacks).map(({ rack, hosts, all, up, busy }) => (
          <li key={rack}>
            <h3>{rack || 'no rack'}</h3> <span class={up < all ? 'bad' : 'dim'}>
              hosts: {count(hosts.size)}, workers up: {count(up)} of {count(all)},
            </span> <span class="dim">{share(busy)} busy</span>
            {rows.length <= binsFrom && (
              <div class="hosts" aria-hidden="true" onClick={(e) => {
                const cell = (e.target as HTMLElement).dataset['worker']
                if (cell) goTo(linkTo('worker', cell))
              }}>
                {[...hosts.entries()].map(([host, workers]) => (
                  <span key={host} title={host}>
                    {workers.map((i) => <i key={i} data-worker={names.Names[i]} title={describe(i)}
                      style={{ background: `rgb(${heat(levelOf(last.levels, i, metric), dark).join()})` }}
                      class={levelOf(last.levels, i, 'busy') === unknown ? 'down' : ''} />)}
                  </span>
                ))}
              </div>
            )}
          </li>
        ))}
      </ul>
    </section>
  )
}

const maxRacks = 100
const maxListed = 8
// A worker is slow if its level is slowAbove levels above the median, and at least leastSlow: a wait of 23
// ms, a round trip of 1 ms, a silence of 1 s.
const slowAbove = 3
const leastSlow = { wait: 6, trip: 7, silence: 8 }

// SlowWorkers lists the workers that stand out from the median worker.
function SlowWorkers(p: { fleet: FleetState; rows: number[] }) {
  const { fleet: { names, columns }, rows } = p
  const last = columns[columns.length - 1]
  const found: { i: number; by: number; text: string }[] = []
  for (const [m, name] of metrics) {
    if (!last || m === 'busy') continue
    const known = rows.map((i) => ({ i, l: levelOf(last.levels, i, m) }))
      .filter((x) => x.l !== unknown && levelOf(last.levels, x.i, 'busy') !== unknown && !(m === 'wait'
        && isStale(last, x.i))).sort((a, b) => a.l - b.l)
    const median = known[known.length >> 1]?.l ?? 0
    for (const { i, l } of known) {
      if (l >= Math.max(median + slowAbove, leastSlow[m])) found.push({ i, by: l - median,
        text: `${name} ${levelText(m, l)}, the median is ${levelText(m, median)}` })
    }
  }
  found.sort((a, b) => b.by - a.by)
  return (
    <section class="card">
      <header><h2>Who is slow</h2><span class="dim">now, far above the median worker{found.length > maxListed
        ? `; ${maxListed} of ${count(found.length)}` : ''}</span></header>
      <ul class="list" aria-label="slow workers">
        {found.slice(0, maxListed).map((x) => <li key={x.i + x.text}>
          <a href={linkTo('worker', names?.Names[x.i] ?? '')}>{names?.Names[x.i] ?? `worker ${x.i}`}
          </a> {x.text}
        </li>)}
        {found.length === 0 && <li class="dim">no worker stands out</li>}
      </ul>
    </section>
  )
}

// GoneWorkers lists the workers that were up in the last ten minutes, and are not up now.
function GoneWorkers(p: { fleet: FleetState; rows: number[] }) {
  const { fleet: { names, columns, gone, goneAt }, rows } = p
  const last = columns[columns.length - 1]
  const goneByAddress = new Map(gone.map((w) => [w.Address, w]))
  const list: { name: string; rack: string; at: number; off: boolean }[] = gone.filter((w) => w.Off)
    .map((w) => ({ name: w.Name, rack: w.Rack, at: goneAt - w.UpAgo / 1e6, off: true }))
  for (const i of rows) {
    if (!last || !names || levelOf(last.levels, i, 'busy') !== unknown) continue
    const seen = columns.findLast((c) => !c.binned && levelOf(c.levels, i, 'busy') !== unknown)
    const w = goneByAddress.get(names.Addresses[i] ?? '')
    const at = seen?.at ?? (w ? goneAt - w.UpAgo / 1e6 : 0)
    if (at > 0) list.push({ name: names.Names[i] ?? '', rack: names.Racks[i] ?? '', at, off: false })
  }
  list.sort((a, b) => b.at - a.at)
  return (
    <section class="card">
      <header><h2>Who left</h2><span class="dim">in the last 10 minutes{list.length > maxListed
        ? `; ${maxListed} of ${count(list.length)}` : ''}</span></header>
      <ul class="list" aria-label="workers that left">
        {list.slice(0, maxListed).map((w) => <li key={w.name + w.at}>
          <a href={linkTo('worker', w.name)}>{w.name}</a>{w.rack && ` in ${w.rack}`}: up until {
            clock(w.at)}, {w.off ? 'off the list' : 'not up'}</li>)}
        {list.length === 0 && <li class="dim">no worker left</li>}
      </ul>
    </section>
  )
}

const sortedLevels = new WeakMap<Uint8Array, Map<Metric, Uint8Array>>()

// sorted returns the levels of a metric, lowest first.
function sorted(levels: Uint8Array, m: Metric): Uint8Array {
  let by = sortedLevels.get(levels)
  if (!by) sortedLevels.set(levels, by = new Map())
  let list = by.get(m)
  if (!list) {
    list = new Uint8Array(levels.length / 2)
    for (let i = 0; i < list.length; i++) list[i] = levelOf(levels, i, m)
    list.sort()
    by.set(m, list)
  }
  return list
}

const maxRows = 100

function WorkerTable(p: { fleet: FleetState; worst: { i: number }[] }) {
  const [wanted, setWanted] = useState('')
  const names = p.fleet.names
  const last = p.fleet.columns[p.fleet.columns.length - 1]
  const fits = wanted && names
    ? p.worst.filter(({ i }) => `${names.Names[i]} ${names.Addresses[i]} ${names.Racks[i]}`.toLowerCase()
    .includes(wanted.toLowerCase())) : p.worst
  return (
    <section class="card">
      <header><h2>Workers, worst first</h2>
        <label class="choice">find <input type="search" id="search" value={wanted}
          onInput={(e) => setWanted(e.currentTarget.value)} /></label>
        <span class="dim">{fits.length > maxRows ? `${maxRows} of ${count(fits.length)}` : count(fits.length)}
          </span></header>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="workers">
        <table>
          <thead><tr><th scope="col">worker</th><th scope="col" class="only-wide">address</th>
            <th scope="col" class="only-wide">rack</th>
            {metrics.map(([m, name]) => <th scope="col" class="n" key={m}>{name}</th>)}</tr></thead>
          <tbody>
            {names && last && fits.slice(0, maxRows).map(({ i }) => (
              <tr key={i}>
                <td><a class="row" href={linkTo('worker', names.Names[i] ?? '')}>{names.Names[i]}</a></td>
                <td class="only-wide">{names.Addresses[i]}</td>
                <td class="only-wide">{names.Racks[i] || '–'}</td>
                {metrics.map(([m]) => {
                  const l = levelOf(last.levels, i, m)
                  return <td key={m} class={m === 'busy' && l === unknown ? 'n bad' : 'n'}>{levelText(m, l)}
                    {m === 'wait' && l !== unknown && isStale(last, i) && <span class="tag">stale</span>}</td>
                })}
              </tr>
            ))}
            {!names && <tr><td colSpan={7} class="dim">loading…</td></tr>}
          </tbody>
        </table>
      </div>
    </section>
  )
}

const shares = [1, 2, 4, 8, 12, 16, 24, 32]

export function WorkerPage(p: { name: string }) {
  return (
    <>
      <div class="bar"><a href={linkTo('fleet')}>← fleet</a><h2 class="name">{p.name}</h2>
        <Leave worker={p.name} /></div>
      <Loaded key_={p.name} every={2000} ask={(signal) => get<Seen[]>('worker', { name: p.name }, signal)}>
        {(seen) => (
          <>
            <section class="card">
              <header><h2>View of each frontend</h2></header>
              <div class="scroll" tabIndex={0} role="region" aria-label="view of each frontend">
                <table>
                  <thead><tr><th scope="col">frontend</th><th scope="col">state</th>
                    <th scope="col" class="n">free CPU</th><th scope="col" class="n">free memory</th>
                    <th scope="col" class="n">queued</th><th scope="col" class="n">running</th>
                    <th scope="col" class="n">round trip</th><th scope="col" class="n">last heard</th>
                    <th scope="col" class="n">row, age</th><th scope="col">row from</th>
                    <th scope="col" class="n">speed</th></tr></thead>
                  <tbody>{seen.map((s) => <SeenRow key={s.Frontend} s={s} />)}</tbody>
                </table>
              </div>
            </section>
            <div class="grid matrices">{seen.map((s) => s.Worker
              && <Matrix key={s.Frontend} frontend={s.Frontend} w={s.Worker} />)}</div>
          </>
        )}
      </Loaded>
    </>
  )
}

// Leave drains a worker, or has it announce maintenance.
function Leave(p: { worker: string }) {
  const [at, setAt] = useState('10')
  const [lasts, setLasts] = useState('60')
  const away = (minutes: string) => (token: string) =>
    change('maintenance',
      { worker: p.worker, in: String(Math.round(Number(at) * 60)),
      for: String(Math.round(Number(minutes) * 60)) }, token)
      .then(() => (minutes === '0' ? 'told to withdraw the announcement'
        : `told to announce: away in ${at} min, for ${minutes} min`))
  return (
    <Admin label="leave…" acts={[
      ['drain', (token) => change('drain', { worker: p.worker }, token)
        .then(() => 'told to take no new tasks, finish the running ones, and end')],
      ['announce maintenance', away(lasts)], ['withdraw', away('0')],
    ]}>
      <label class="choice">in <input type="number" min="0" value={at}
        onInput={(e) => setAt(e.currentTarget.value)} /> min</label>
      <label class="choice">for <input type="number" min="1" value={lasts}
        onInput={(e) => setLasts(e.currentTarget.value)} /> min</label>
    </Admin>
  )
}

function SeenRow(p: { s: Seen }) {
  const w = p.s.Worker
  if (!w) return <tr><th scope="row">{p.s.Frontend}</th>
    <td colSpan={10} class={p.s.Error ? 'bad' : 'dim'}>{p.s.Error || 'does not know the worker'}</td></tr>
  return (
    <tr>
      <th scope="row">{p.s.Frontend}</th>
      <td class={w.State === 'up' ? '' : 'bad'}>{w.State}{w.Error ? `: ${w.Error}` : ''}
        {w.View.Maintenance >= 0 && <span class="tag">away in {time(w.View.Maintenance)}</span>}</td>
      <td class="n">{count(w.Free.CPU)} of {count(w.Capacity.CPU)} m</td>
      <td class="n">{count(w.Free.Memory)} of {count(w.Capacity.Memory)} MiB</td>
      <td class="n">{count(w.Queued)}</td><td class="n">{count(w.Running)}</td>
      <td class="n">{time(w.RTT)}</td><td class="n">{time(w.HeardAgo)} ago</td>
      <td class="n">{w.Row ? time(w.Row.Age) : '–'}</td>
      <td class={w.Row?.Flaws?.length ? 'bad' : ''}>{w.Row
        ? w.Row.From + (w.Row.Flaws?.length ? `, absurd values: ${w.Row.Flaws.join(', ')}` : '') : '–'}</td>
      <td class="n">{w.View.Speed > 0 ? w.View.Speed.toFixed(2) : '–'}</td>
    </tr>
  )
}

const trustedFor = 2e9 // ns; frontends trust a wait matrix up to this age

// Matrix shows the waits that a frontend expects for long tasks, by size of the task.
function Matrix(p: { frontend: string; w: Worker }) {
  const dark = useDark()
  const waits = p.w.View.Waits ?? []
  const color = (ns: number) => {
    const l = ns < 0 ? unknown : ns < steps.wait.from ? 0
      : Math.min(14, 1 + Math.floor(Math.log2(ns / steps.wait.from) / steps.wait.step))
    const [r, g, b] = heat(l, dark)
    return { background: `rgb(${r} ${g} ${b})`, color: r * 0.3 + g * 0.6 + b * 0.1 > 115 ? '#000' : '#fff' }
  }
  return (
    <section class="card">
      <header><h2>{p.frontend}</h2>
        <span class="dim">{waits.length ? `expected wait, ${time(p.w.View.Age)} old`
        : 'no wait matrix is known'}</span>
        {waits.length > 0 && p.w.View.Age > trustedFor && <span class="tag">stale</span>}</header>
      {waits.length > 0 && (
        <div class="scroll" tabIndex={0} role="region"
          aria-label={`expected waits at ${p.w.Name}, as ${p.frontend} sees it`}>
          <table class="matrix">
            <thead><tr><td>CPU \ MiB</td>
              {shares.map((m) => <th scope="col" key={m}>{count(Math.round((p.w.Capacity.Memory * m) / 32))}
              </th>)}</tr></thead>
            <tbody>
              {waits.map((line, i) => (
                <tr key={i}>
                  <th scope="row">{count(Math.round((p.w.Capacity.CPU * (shares[i] ?? 32)) / 32))} m</th>
                  {line.map((ns, k) => <td key={k} style={color(ns)}>{ns < 0 ? 'never' : time(ns)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
