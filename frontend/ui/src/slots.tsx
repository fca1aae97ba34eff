// What uses the slots of the fleet?
import { useState } from 'preact/hooks'
import type { SlotUse, WindowOf } from './api'
import { Chart } from './chart'
import { nameColor, useDark } from './colors'
import { digits, share, tenantName } from './format'
import { useLive, useWindows } from './live'
import { Tabs } from './parts'

type Dimension = 'tenant' | 'function'

// hasAllFrontends reports whether a window counts as many frontends as its neighbours. A busy frontend may
// send a longer window. A window without this frontend has lower sums, and would look like a pause.
function hasAllFrontends(x: { w: WindowOf }, i: number, list: { w: WindowOf }[]): boolean {
  const before = list[i - 1]?.w.Frontends ?? 0, after = list[i + 1]?.w.Frontends ?? 0
  return x.w.Frontends >= Math.min(before, after)
}

const maxLines = 8
const rest = 'all others'

// Slots shows the slots in use over ten minutes, and now, by tenant or by function.
export function Slots() {
  const live = useLive()
  const dark = useDark()
  const [by, setBy] = useState<Dimension>('tenant')
  const counted = useWindows(10).filter((x) => x.w.Capacity > 0).filter(hasAllFrontends)
  const now = live.windowsOf(1).findLast((x) => x.w.Capacity > 0)?.w ?? counted[counted.length - 1]?.w
  const usesOf = (w: { TenantSlots: SlotUse[] | null; FunctionSlots: SlotUse[] | null }) =>
    (by === 'tenant' ? w.TenantSlots : w.FunctionSlots) ?? []
  const nameOf = by === 'tenant' ? tenantName : (name: string) => name
  const sums = new Map<string, number>()
  for (const { w } of counted) for (const u of usesOf(w)) sums.set(u.Name, (sums.get(u.Name) ?? 0) + u.Slots)
  const names = [...sums.entries()].sort((a, b) => b[1] - a[1]).map(([name]) => name)
  const lines = names.slice(0, maxLines).map((name, i) => ({ label: nameOf(name), color: nameColor(i, dark),
    values: counted.map((x) => usesOf(x.w).find((u) => u.Name === name)?.Slots ?? 0) }))
  if (names.length > maxLines) {
    lines.push({ label: rest, color: nameColor(maxLines, dark), values: counted.map((x) => usesOf(x.w)
      .filter((u) => !names.slice(0, maxLines).includes(u.Name)).reduce((n, u) => n + u.Slots, 0)) })
  }
  if (lines.length === 0) {
    lines.push({ label: 'no task', color: nameColor(0, dark), values: counted.map(() => 0) })
  }
  const used = now ? usesOf(now).reduce((n, u) => n + u.Slots, 0) : 0
  return (
    <div class="grid slots">
      <Chart title="Slots in use" stacked format={(x) => (x === null ? '–' : digits(x))} height={180}
        note="the last 10 minutes" at={counted.map((x) => x.at)} lines={lines} range={null}
        onRange={() => {}} />
      <section class="card">
        <header><h2>Now</h2>
          <Tabs label="slots by" value={by}
            options={[['tenant', 'by tenant'], ['function', 'by function']] as const} on={setBy} />
          <span class="dim">{now ? `${digits(used)} of ${digits(now.Capacity)} slots, ${share(now.Capacity
            ? used / now.Capacity : 0)}` : 'no count yet'}</span></header>
        <div class="scroll twin" tabIndex={0} role="region" aria-label={`slots now by ${by}`}>
          <table>
            <thead><tr><th scope="col">{by}</th><th scope="col" class="n">slots</th>
              <th scope="col" class="n">share of the fleet</th></tr></thead>
            <tbody>
              {now && usesOf(now).map((u) => <tr key={u.Name}><th scope="row">{nameOf(u.Name)}</th>
                <td class="n">{digits(u.Slots)}</td>
                <td class="n">{now.Capacity ? share(u.Slots / now.Capacity) : '–'}</td></tr>)}
              {used === 0 && <tr><td colSpan={3} class="dim">no task is at a worker</td></tr>}
            </tbody>
          </table>
        </div>
      </section>
    </div>
  )
}
