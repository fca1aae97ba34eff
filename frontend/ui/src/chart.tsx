// A chart over time, drawn by uPlot. It can be read by keyboard, by screen readers, and as a table.
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { css, useDark } from './colors'
import { clock } from './format'
import { announce } from './parts'

export interface Line { label: string; color: string; values: (number | null)[]; title?: string;
  dash?: number[] }

export interface Range { from: number; to: number }

interface Props {
  title: string
  note?: string
  at: number[] // milliseconds
  lines: Line[]
  format: (x: number | null) => string
  stacked?: boolean
  log?: boolean
  bars?: boolean
  height?: number
  range: Range | null
  onRange: (r: Range | null) => void
}

const sync = uPlot.sync('phoebe')

export function Chart(p: Props) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const latest = useRef(p)
  latest.current = p
  const dark = useDark()
  const [cursor, setCursor] = useState<number | null>(null)
  const [asTable, setTable] = useState(false)
  const anchor = useRef<number | null>(null)
  const shape = `${p.lines.map((l) => l.label + l.color).join()}|${dark}|${p.log}|${p.stacked}`

  useEffect(() => {
    const root = box.current!
    const text = css('--dim'), grid = css('--line')
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { show: false },
      font: '11px system-ui, sans-serif' }
    const u = new uPlot({
      width: Math.max(200, root.clientWidth), height: p.height ?? 150, legend: { show: false },
      padding: [8, 30, 0, 0], // room for the right half of the last tick's text
      cursor: {
        sync: { key: sync.key }, points: { size: 6 }, drag: { x: true, y: false, setScale: false },
      },
      select: { show: true, left: 0, top: 0, width: 0, height: 0 },
      scales: { x: { time: true, // for a single point, uPlot would show a day
        range: (u, min, max) => (u.data[0].length === 1 ? [min - 30, min + 30] : [min, max]) },
        y: p.log ? { distr: 3, range: (_u, min, max) => logRange(min, max) }
        : { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [
        { ...axis, size: 22, space: 70,
          values: (_u, ticks) => ticks.map((t) => clock(t * 1000, (ticks[1] ?? 0) - (ticks[0] ?? 0) < 60)) },
        { ...axis, size: 56, space: 28,
          values: (_u, ticks) => ticks.map((t) => (t === null ? '' : latest.current.format(t))) },
      ],
      series: [{}, ...drawOrder(p).map((l) => ({
        label: l.label, stroke: l.color, width: p.stacked ? 0 : l.dash ? 2 : 1.5, spanGaps: false,
        points: { show: false },
        ...(p.stacked ? { fill: l.color } : {}), ...(l.dash ? { dash: l.dash } : {}),
          ...(p.bars ? { paths: uPlot.paths.bars!({ size: [0.8, 20] }), fill: l.color } : {}),
      }))],
      hooks: {
        setCursor: [(v) => setCursor(v.cursor.idx ?? null)],
        setSelect: [(v) => {
          if (v.select.width < 4) return
          const from = v.posToVal(v.select.left, 'x') * 1000,
            to = v.posToVal(v.select.left + v.select.width, 'x') * 1000
          latest.current.onRange({ from, to })
        }],
      },
    }, data(p), root)
    plot.current = u
    const resized = new ResizeObserver(() =>
      u.setSize({ width: Math.max(200, root.clientWidth), height: p.height ?? 150 }))
    resized.observe(root)
    return () => {
      resized.disconnect()
      u.destroy()
      plot.current = null
    }
  }, [shape, p.height])

  useEffect(() => {
    const u = plot.current
    if (!u) return
    u.setData(data(p))
    if (p.range && p.at.length > 0) {
      const left = u.valToPos(p.range.from / 1000, 'x'), right = u.valToPos(p.range.to / 1000, 'x')
      u.setSelect({ left, top: 0, width: Math.max(1, right - left),
        height: u.bbox.height / devicePixelRatio }, false)
    } else {
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
    }
  })

  const shown = cursor !== null && cursor < p.at.length ? cursor : lastKnown(p)
  const keys = (e: KeyboardEvent) => {
    const n = p.at.length
    if (n === 0 || e.ctrlKey || e.metaKey || e.altKey) return
    let to = cursor ?? n - 1
    switch (e.key) {
      case 'ArrowLeft': to--; break
      case 'ArrowRight': to++; break
      case 'Home': to = 0; break
      case 'End': to = n - 1; break
      case 'Escape': anchor.current = null; p.onRange(null); announce('the whole time'); return
      default: return
    }
    e.preventDefault()
    to = Math.max(0, Math.min(n - 1, to))
    if (e.shiftKey) {
      anchor.current ??= cursor ?? n - 1
      const a = Math.min(anchor.current, to), b = Math.max(anchor.current, to)
      p.onRange({ from: p.at[a]!, to: p.at[b]! })
    } else {
      anchor.current = null
    }
    const u = plot.current
    u?.setCursor({ left: u.valToPos(p.at[to]! / 1000, 'x'), top: 10 })
    setCursor(to)
    const values = p.lines.map((l) => `${l.label} ${p.format(l.values[to] ?? null)}`)
    announce(`${clock(p.at[to]!)}: ${values.join(', ')}`)
  }

  return (
    <section class="card chart">
      <header>
        <h2>{p.title}</h2>
        <button class="quiet" type="button" aria-pressed={asTable} onClick={() => setTable(!asTable)}
          aria-label={`${p.title} as a table`}>table</button>
      </header>
      <ul class="legend">
        {p.lines.map((l) => (
          <li key={l.label} title={l.title}>
            {p.stacked ? <i style={{ background: l.color }} /> : (
              <svg width="22" height="9" aria-hidden="true">
                <line x1="0" y1="5" x2="22" y2="5" stroke={l.color} stroke-width="2"
                  stroke-dasharray={l.dash?.join(' ')} />
              </svg>
            )}{l.label} <b>{shown === null ? '–'
              : p.format(l.values[shown] ?? null)}</b>
          </li>
        ))}
        <li class="at">{cursor !== null && shown !== null ? clock(p.at[shown]!) : p.note ?? ''}</li>
      </ul>
      <div class="plot" ref={box} tabIndex={0} role="application" aria-roledescription="chart"
        onKeyDown={keys}
        aria-label={`${p.title}: arrow keys read, with shift they choose a window, escape shows all`} />
      {asTable && <ChartTable {...p} />}
    </section>
  )
}

// ChartTable is the chart as a table.
function ChartTable(p: Props) {
  const rows = p.at.map((_, i) => i).reverse()
  return (
    <div class="scroll twin" tabIndex={0} role="region" aria-label={`${p.title}, table`}>
      <table>
        <thead><tr><th scope="col">time</th>
          {p.lines.map((l) => <th scope="col" class="n" key={l.label}>{l.label}</th>)}</tr></thead>
        <tbody>
          {rows.map((i) => (
            <tr key={p.at[i]}><th scope="row">{clock(p.at[i]!)}</th>
              {p.lines.map((l) => <td class="n" key={l.label}>{p.format(l.values[i] ?? null)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

// drawOrder returns the lines in the order of drawing. In a stack, the top line comes first, and lower lines
// cover it.
function drawOrder(p: Props): Line[] { return p.stacked ? [...p.lines].reverse() : p.lines }

function data(p: Props): uPlot.AlignedData {
  const at = p.at.map((ms) => ms / 1000)
  if (!p.stacked) return [at,
    ...p.lines.map((l) => (p.log ? l.values.map((v) => (v !== null && v > 0 ? v : null)) : l.values))]
  const sums: (number | null)[][] = []
  let below: (number | null)[] = at.map(() => 0)
  for (const l of p.lines) {
    below = below.map((b, i) => (l.values[i] === null || l.values[i] === undefined ? (b === 0 ? null : b)
      : (b ?? 0) + l.values[i]!))
    sums.push(below)
  }
  return [at, ...sums.reverse()]
}

function logRange(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null || max <= 0) return [1e5, 1e9]
  return [10 ** Math.floor(Math.log10(min)), 10 ** Math.ceil(Math.log10(max * 1.01))]
}

function lastKnown(p: Props): number | null {
  for (let i = p.at.length - 1; i >= 0; i--) {
    if (p.lines.some((l) => l.values[i] !== null && l.values[i] !== undefined)) return i
  }
  return null
}
