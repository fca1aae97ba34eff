// Why did this job take 900 ms?
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { change, type Job } from './api'
import { failedColor, partMeaning, partColor, useDark, vainColor, bindingMeaning } from './colors'
import { clock, count, tenantName, time, when } from './format'
import { taskAt, drawLanes, type Lane, layoutLanes, type Mode, type View } from './gantt'
import { phases } from './histogram'
import { Admin, Blame, Failure, fitText, functionsOf, goTo, keptMeaning, linkTo, announce, Tabs, Tile,
  useWidth } from './parts'
import { spansOf, type Tasks, loadTrace } from './trace'

export function JobPage(p: { job: string }) {
  const [tasks, setTasks] = useState<Tasks | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [progress, setProgress] = useState('')
  const [again, setAgain] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    setError(null)
    loadTrace(p.job, stop.signal, (n, of) => setProgress(`${count(n)} of ${count(of)} tasks`))
      .then((t) => setTasks(t), (e: unknown) => { if (!stop.signal.aborted) setError(e) })
    return () => stop.abort()
  }, [p.job, again])
  if (error) return <Failure error={error} />
  if (!tasks) return <p class="dim" role="status">loading… {progress}</p>
  const j = tasks.job
  return (
    <>
      <div class="bar"><h2 class="name">{functionsOf(j)}</h2> <span class="id dim">{j.Handle.Job}</span>
        <button type="button" onClick={() => setAgain(again + 1)}>refresh</button>
        {j.Running && <Cancel job={j} />}</div>
      <dl class="tiles">
        <Tile label={j.Running ? 'so far' : 'response'} value={time(j.Response)} />
        <Tile label="tasks" value={j.Running ? `${count(j.Ended)} / ${count(j.Tasks)}` : count(j.Tasks)} />
        <Tile label="failed" value={count(j.Failed)} bad={j.Failed > 0} />
        {j.Stages > 0 && <Tile label="stages" value={count(j.Stages)} />}
        {countCopies(tasks) > 0
          && <Tile label="copies" value={count(countCopies(tasks))} title="second attempts at late tasks" />}
        <Tile label="class" value={j.Class}
          title="auto: the frontend decides; spare: starts only where no regular task can" />
        <Tile label="arrived" value={clock(Date.parse(j.Came))} title={when(j.Came)} />
        <Tile label="policy" value={j.Policy || '–'} />
        <Tile label="placed by" value={j.Path || '–'} />
        <Tile label="tenant" value={tenantName(j.Tenant)} />
        <Tile label="frontend" value={tasks.frontend || j.Frontend} />
        <Tile label="kept as" title={`why the frontend still keeps the job: ${keptMeaning}`}
          value={(j.Kept ?? []).join(', ') || (j.Running ? 'open' : '–')} />
      </dl>
      <section class="card">
        <header><h2>Blame</h2><span class="dim">the response, split along the critical path (the tasks that
          ended last, one after the other)</span></header><Blame job={j} wide />
        {timeInVain(tasks) > 0
          && <p>{time(timeInVain(tasks) * 1000)} of the queue were attempts in vain at tasks of the critical
          path.</p>}</section>
      <Gantt tasks={tasks} />
      {tasks.n < j.Tasks && (
        <p class="dim">
          {count(tasks.n)} of {count(j.Tasks)} tasks are shown.
          {j.Running ? ' The rest has not ended.' : ' The rest is not known any more.'}
        </p>
      )}
      {tasks.underWay.length > 0 && <UnderWayTable tasks={tasks} />}
      <TaskTable tasks={tasks} />
    </>
  )
}

// countCopies counts the second attempts at late tasks.
function countCopies(t: Tasks): number {
  let n = t.earlier.filter((e) => e.Bound === 'copy').length
  for (let i = 0; i < t.n; i++) if (t.word('bound', i) === 'copy') n++
  return n
}

// timeInVain sums the time of attempts in vain at tasks of the critical path, before the attempt with the
// outcome started.
function timeInVain(t: Tasks): number {
  let all = 0
  for (const i of t.critical) {
    let from = t.released[i]!
    for (const k of [...t.earlierOf(i)].sort((a, b) => t.started(a) - t.started(b))) {
      const until = Math.min(t.ended(k), t.started(i))
      all += Math.max(0, until - Math.max(from, t.started(k)))
      from = Math.max(from, until)
    }
  }
  return all
}

function Cancel(p: { job: Job }) {
  const { Job: job, Owner: owner } = p.job.Handle
  const cancel = async (token: string) => {
    const answer = await change<{ Cancelled: number }>('cancel', { job, owner }, token)
    return `${answer.Cancelled} tasks were cancelled`
  }
  return <Admin label="cancel…" acts={[['cancel the job', cancel]]} />
}

const maxHeight = 404 // of all lanes together, in pixels
const maxLane = 22 // height of a lane
const axis = 16

// gutterOf returns the width of the labels beside the lanes.
function gutterOf(width: number): number { return Math.min(130, Math.floor(width / 4)) }

export function Gantt(p: { tasks: Tasks }) {
  const t = p.tasks
  const dark = useDark()
  const [mode, setMode] = useState<Mode>(t.stages.length > 0 ? 'stage' : 'worker')
  const shape = useMemo(() => layoutLanes(t, mode), [t, mode])
  const height = Math.min(maxHeight, Math.max(4, shape.lanes.length) * maxLane)
  const whole = (): View =>
    ({ from: 0, to: shape.span * 1.02, top: 0,
    laneHeight: Math.min(maxLane, Math.max(1e-6, height / Math.max(1, shape.lanes.length))) })
  const view = useRef<View>(whole())
  const [selected, setSelected] = useState(-1)
  const [lanesPerLine, setLanesPerLine] = useState(1)
  const [box, wholeWidth] = useWidth<HTMLDivElement>()
  const gutter = gutterOf(wholeWidth), width = wholeWidth - gutter // width of the lanes
  const canvas = useRef<HTMLCanvasElement>(null)
  const image = useRef<{ data: ImageData; pixels: Uint32Array } | null>(null)
  const waiting = useRef(0)
  const frames = useRef(0)

  const palette = useMemo(() => ({
    phases: Uint32Array.from(phases.map((name) => pixel(partColor(name, dark)))),
    failed: pixel(failedColor(dark)), vain: pixel(vainColor(dark)), back: pixel(dark ? '#0e1318' : '#f6f7f8'),
    mark: pixel(dark ? '#ffffff' : '#000000'),
  }), [dark])

  const paint = () => {
    waiting.current = 0
    const c = canvas.current
    if (!c || width <= 0) return
    const g = c.getContext('2d')!
    if (image.current?.data.width !== width || image.current.data.height !== height) {
      const data = g.createImageData(width, height)
      image.current = { data, pixels: new Uint32Array(data.data.buffer) }
    }
    const v = view.current
    const step = drawLanes(image.current.pixels, width, height, t, shape, v, mode, palette, selected)
    g.clearRect(0, 0, wholeWidth, height + axis)
    g.putImageData(image.current.data, gutter, 0)
    drawLabels(g, gutter, width, height, shape.lanes, v, dark)
    c.dataset['frames'] = String(++frames.current)
    if (step !== lanesPerLine) setLanesPerLine(step)
  }
  const painter = useRef(paint)
  painter.current = paint
  const repaint = () => { waiting.current ||= requestAnimationFrame(() => painter.current()) }
  useEffect(() => { view.current = whole() }, [shape])
  useEffect(repaint)

  const move = (change: (v: View) => void) => {
    change(view.current)
    const v = view.current
    const shown = v.laneHeight >= 1 ? height / Math.floor(v.laneHeight) : height / v.laneHeight
    v.top = Math.max(0, Math.min(v.top, Math.max(0, shape.lanes.length - shown)))
    const wide = v.to - v.from
    v.from = Math.max(-wide * 0.1, Math.min(v.from, shape.span))
    v.to = v.from + wide
    repaint()
  }
  const zoom = (by: number, around: number) => move((v) => {
    const wide = Math.min(shape.span * 1.2, Math.max(10, (v.to - v.from) * by)),
      at_ = v.from + (v.to - v.from) * around
    v.from = at_ - wide * around
    v.to = v.from + wide
  })
  const tall = (by: number, around: number) => move((v) => {
    const under = v.top + (around * height) / v.laneHeight
    v.laneHeight = Math.min(24,
      Math.max(Math.min(maxLane, height / Math.max(1, shape.lanes.length)), v.laneHeight * by))
    v.top = under - (around * height) / v.laneHeight
  })
  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null)

  const choose = (i: number) => {
    setSelected(i)
    if (i >= 0) announce(describe(t, i))
  }
  const keys = (e: KeyboardEvent) => {
    const v = view.current
    const wide = v.to - v.from
    const order = shape.order
    const index = order.indexOf(selected)
    switch (e.key) {
      case 'ArrowLeft': move((v) => { v.from -= wide / 10; v.to -= wide / 10 }); break
      case 'ArrowRight': move((v) => { v.from += wide / 10; v.to += wide / 10 }); break
      case 'ArrowUp': move((v) => { v.top -= 40 / v.laneHeight }); break
      case 'ArrowDown': move((v) => { v.top += 40 / v.laneHeight }); break
      case '+': case '=': zoom(0.7, 0.5); break
      case '-': zoom(1.4, 0.5); break
      case ']': tall(1.5, 0.5); break
      case '[': tall(1 / 1.5, 0.5); break
      case '0': case 'Home': view.current = whole(); repaint(); break
      case 'j': choose(order[Math.min(order.length - 1, index + 1)] ?? -1); break
      case 'k': choose(order[Math.max(0, index - 1)] ?? -1); break
      case 'Enter': if (selected >= 0) goTo(linkTo('task', t.job.Handle.Job, t.task[t.taskOf(selected)]!));
        break
      default: return
    }
    e.preventDefault()
    e.stopPropagation()
  }
  const shown = selected
  return (
    <section class="card">
      <header>
        <h2>Tasks</h2>
        <Tabs label="lanes" value={mode}
          options={[['stage', 'by stage'], ['worker', 'by worker'], ['critical', 'critical path']] as const}
          on={(m) => { setMode(m); setSelected(-1) }} />
        <span class="buttons">
          <button type="button" onClick={() => zoom(0.5, 0.5)} aria-label="zoom in">+</button>
          <button type="button" onClick={() => zoom(2, 0.5)} aria-label="zoom out">−</button>
          <button type="button" onClick={() => { view.current = whole(); repaint() }}>all</button>
        </span>
      </header>
      <ul class="legend">
        {(mode === 'worker' ? ['run'] : [...phases])
          .map((name) => <li key={name} title={partMeaning[name]}>
          <i style={{ background: partColor(name, dark) }} />{name}</li>)}
        <li><i style={{ background: failedColor(dark) }} />no result</li>
        {t.earlier.length > 0
          && <li title="attempts without their task's outcome">
          <i style={{ background: vainColor(dark) }} />attempt in vain</li>}
        <li class="dim">{count(shape.lanes.length)} lanes{lanesPerLine > 1
          ? `, a line shows one of ${Math.ceil(lanesPerLine)}: zoom in with ] or shift and the wheel`
          : `, each a ${shape.what}`}</li>
      </ul>
      <div class="gantt" ref={box} tabIndex={0} role="application" aria-roledescription="chart"
        onKeyDown={keys}
        aria-label="Tasks over time: arrows move, + and − zoom, j and k choose, enter opens; table below">
        <canvas ref={canvas} data-gutter={gutter} width={Math.max(1, wholeWidth)} height={height + axis}
          aria-hidden="true"
          onWheel={(e) => {
            e.preventDefault()
            const r = e.currentTarget.getBoundingClientRect()
            if (e.shiftKey) tall(e.deltaY < 0 || e.deltaX < 0 ? 1.3 : 1 / 1.3, (e.clientY - r.top) / height)
            else if (e.deltaX) {
              move((v) => {
                const by = ((v.to - v.from) * e.deltaX) / width
                v.from += by
                v.to += by
              })
            }
            else zoom(e.deltaY < 0 ? 0.8 : 1.25, Math.max(0, e.clientX - r.left - gutter) / width)
          }}
          onPointerDown={(e) => {
            e.currentTarget.setPointerCapture(e.pointerId)
            drag.current = { x: e.clientX, y: e.clientY, moved: false }
          }}
          onPointerMove={(e) => {
            const d = drag.current
            if (!d) return
            const dx = e.clientX - d.x, dy = e.clientY - d.y
            if (!d.moved && Math.abs(dx) + Math.abs(dy) < 4) return
            drag.current = { x: e.clientX, y: e.clientY, moved: true }
            move((v) => {
              const by = ((v.to - v.from) * dx) / width
              v.from -= by
              v.to -= by
              v.top -= dy / v.laneHeight
            })
          }}
          onPointerUp={(e) => {
            if (drag.current && !drag.current.moved) {
              const r = e.currentTarget.getBoundingClientRect()
              choose(taskAt(e.clientX - r.left - gutter, e.clientY - r.top, width, t, shape, view.current,
                mode))
            }
            drag.current = null
          }} />
      </div>
      <p class="selected" role="status">
        {shown < 0 ? <span class="dim">choose a task: click, or j and k</span> : (
          <>
            <a href={linkTo('task', t.job.Handle.Job, t.task[t.taskOf(shown)]!)}>
              task {t.task[t.taskOf(shown)]}
            </a> {describe(t, shown)}
          </>
        )}
      </p>
    </section>
  )
}

function describe(t: Tasks, i: number): string {
  const c = t.columns
  const us = (x: number) => time(x * 1000)
  if (i >= t.n) {
    const e = t.earlier[i - t.n]!
    const ran = e.Started ? `ran ${us(e.Ended - e.Started)}` : 'no known start'
    return `attempt in vain at ${t.workers[e.Worker] || 'no worker'}: ${e.End}, ${ran}`
  }
  const text = [`${t.word('outcome', i)} at ${t.workers[t.worker[i]!] || 'no worker'}`]
  if (t.known[i]) text.push(...spansOf(t, i).map((s) => `${s.name} ${us(s.us)}`))
  if (c.tries[i]! > 1) text.push(`one of ${c.tries[i]} attempts`)
  for (const k of t.earlierOf(i)) text.push(describe(t, k))
  if (c.expected[i]! > 0) text.push(`run expected ${us(c.expected[i]!)}`)
  if (c.promised[i]! > 0) text.push(`wait expected ${us(c.promised[i]!)}, was ${us(c.waited[i]!)}`)
  return text.join(', ')
}

// pixel converts a colour to its value in an image's memory.
function pixel(hex: string): number {
  const n = parseInt(hex.slice(1), 16)
  return (0xff000000 | ((n & 0xff) << 16) | (n & 0xff00) | (n >> 16)) >>> 0
}

// drawLabels writes the labels of lanes, and times below. The lanes begin at gutter. Together they are width
// wide and height high.
function drawLabels(g: CanvasRenderingContext2D, gutter: number, width: number, height: number, lanes: Lane[],
  v: View, dark: boolean): void {
  g.font = '10px system-ui, sans-serif'
  g.textBaseline = 'middle'
  const write = (text: string, y: number, high: number) => {
    g.fillStyle = dark ? '#dfe6ec' : '#1c2630'
    g.fillText(fitText(g, text, gutter - 8), 4, y + high / 2)
  }
  // If lanes are too thin for labels, the first lane of each stage or worker gets a label, if there is room.
  const each = v.laneHeight >= 1 ? Math.floor(v.laneHeight) : v.laneHeight, high = Math.max(each, 13)
  let group: string | null = null, free = 0
  for (let y = 0; y < height; y += Math.max(1, each)) {
    const lane = lanes[Math.floor(v.top + y / each)]
    if (!lane) break
    if (each >= 11) write(lane.label, y, each)
    else if (lane.group !== group && y >= free) {
      group = lane.group
      if (group) write(group, y, high)
      free = y + high
    }
  }
  const step = roundStep((v.to - v.from) / Math.max(2, width / 110))
  let writtenTo = 0
  for (let us = Math.ceil(v.from / step) * step; us < v.to; us += step) {
    const x = gutter + ((us - v.from) / (v.to - v.from)) * width
    g.fillStyle = dark ? '#ffffff18' : '#00000014'
    g.fillRect(x, 0, 1, height + 4)
    g.fillStyle = dark ? '#aab4be' : '#404a54'
    // If there is no room behind a tick, its text stands before the tick.
    const text = time(us * 1000), wide = g.measureText(text).width
    const at = x + 3 + wide <= gutter + width ? x + 3 : x - 3 - wide
    if (at > writtenTo) g.fillText(text, at, height + axis / 2)
    writtenTo = at + wide + 6
  }
}

function roundStep(x: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, x)))
  return ([1, 2, 5, 10].find((f) => f * power >= x) ?? 10) * power
}

const maxRows = 200

// phaseOf returns the length of phase m of a task, in microseconds.
function phaseOf(t: Tasks, i: number, m: number): number {
  const from = m === 0 ? t.released[i]! : Math.max(t.released[i]!, t.ends[m - 1]![i]!)
  return Math.max(0, t.ends[m]![i]! - from)
}

// UnderWayTable is a table of the attempts that have not ended.
function UnderWayTable(p: { tasks: Tasks }) {
  const t = p.tasks
  return (
    <section class="card">
      <header><h2>Under way</h2>
        <span class="dim">attempts that have not ended, as far as the frontend
          knows{t.underWay.length > maxRows ? `: ${maxRows} of ${count(t.underWay.length)}` : ''}</span>
      </header>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="attempts under way">
        <table>
          <thead>
            <tr><th scope="col">task</th><th scope="col">stage</th><th scope="col">worker</th>
              <th scope="col" title="sent: on the way to the worker; queued: in its queue; cut off: no link"
              >state</th>
              <th scope="col" title="how the task came to its worker">bound</th>
              <th scope="col" class="n">attempts</th>
              <th scope="col" class="n" title="after the job's arrival">sent</th>
              <th scope="col" class="n" title="after the job's arrival">started</th>
              <th scope="col" class="n" title="of a process that has run for a second, with its children"
              >CPU</th>
              <th scope="col" class="n" title="in use by the process">memory</th></tr>
          </thead>
          <tbody>
            {t.underWay.slice(0, maxRows).map((a, i) => (
              <tr key={i}>
                <td><a class="row" href={linkTo('task', t.job.Handle.Job, a.Task)}>{a.Task}</a></td>
                <td>{t.stages[a.Stage]?.Name ?? '–'}</td><td>{a.Worker || '–'}</td><td>{a.State}</td>
                <td title={bindingMeaning[a.Bound]}>{a.Bound}</td><td class="n">{a.Tries}</td>
                <td class="n">{a.Sent ? time(a.Sent * 1000) : '–'}</td>
                <td class="n">{a.Started ? time(a.Started * 1000) : '–'}</td>
                <td class="n">{a.Sampled
                  ? `${time((a.CPU ?? 0) * 1000)} of ${time(a.Sampled * 1000)}` : '–'}</td>
                <td class="n">{a.Sampled ? `${a.MemoryMiB ?? 0} MiB` : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

// TaskTable is a table of the slowest tasks.
function TaskTable(p: { tasks: Tasks }) {
  const t = p.tasks
  const list = useMemo(() => Array.from({ length: t.n }, (_, i) => i)
    .sort((a, b) => (t.delivery[b]! - t.released[b]!) - (t.delivery[a]! - t.released[a]!)).slice(0, maxRows),
    [t])
  const critical = new Set(t.critical)
  return (
    <section class="card">
      <header><h2>Slowest tasks</h2>
        <span class="dim">{t.n > maxRows ? `${maxRows} of ${count(t.n)}` : ''}</span></header>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="slowest tasks">
        <table>
          <thead>
            <tr><th scope="col">task</th><th scope="col">stage</th><th scope="col">worker</th>
              <th scope="col">outcome</th><th scope="col" title="how the task came to its worker">bound</th>
              <th scope="col" class="n">attempts</th>
              <th scope="col" class="n" title="when the task could start, after the job's arrival">released</th>
              <th scope="col" class="n">took</th>
              {phases.map((name) => <th scope="col" class="n" key={name} title={partMeaning[name]}>{name}
                </th>)}<th scope="col" class="n">expected run</th></tr>
          </thead>
          <tbody>
            {list.map((i) => (
              <tr key={i}>
                <td><a class="row" href={linkTo('task', t.job.Handle.Job, t.task[i]!)}>{t.task[i]}</a>
                  {critical.has(i) && <span class="tag" title="on the critical path">critical</span>}</td>
                <td>{t.stages[t.stage[i]!]?.Name ?? '–'}</td><td>{t.workers[t.worker[i]!] || '–'}</td>
                <td class={t.failed(i) ? 'bad' : ''}>{t.word('outcome', i)}</td>
                <td title={bindingMeaning[t.word('bound', i)]}>{t.word('bound', i)}</td>
                <td class="n">{t.columns.tries[i]}</td><td class="n">{time(t.released[i]! * 1000)}</td>
                <td class="n">{time((t.delivery[i]! - t.released[i]!) * 1000)}</td>
                {phases.map((name, m) => <td class="n"
                  key={name}>{t.known[i] ? time(phaseOf(t, i, m) * 1000) : '–'}</td>)}
                <td class="n">{t.columns.expected[i] ? time(t.columns.expected[i]! * 1000) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
