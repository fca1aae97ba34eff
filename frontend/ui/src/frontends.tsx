// Is a frontend missing or cut off?
import { bytes, type Frontend } from './api'
import { count, time, when } from './format'
import { Histogram, unpack } from './histogram'
import { useLive } from './live'

export function roundTrips(f: Frontend): Histogram {
  const h = new Histogram()
  unpack(bytes(f.RoundTrips), [h])
  return h
}

export function Frontends() {
  const live = useLive()
  return (
    <section class="card">
      <header><h2>Frontends</h2><span class="dim">as they report to each other</span></header>
      <div class="scroll" tabIndex={0} role="region" aria-label="frontends">
        <table>
          <thead>
            <tr><th scope="col">name</th><th scope="col">state</th>
              <th scope="col" class="n">up</th><th scope="col" class="n">workers</th>
              <th scope="col" class="n">jobs</th>
              <th scope="col" class="n">pending</th><th scope="col" class="n">running</th>
              <th scope="col" class="n">round trip p50</th><th scope="col" class="n">p99</th>
              <th scope="col" class="n" title="time since the frontend last heard gossip">gossip heard</th>
              <th scope="col" class="n">clock</th><th scope="col" class="n">jobs kept</th>
              <th scope="col" class="n"
                title="measurements missing in windows, and jobs that could not be kept">not recorded</th>
              <th scope="col">version</th></tr>
          </thead>
          <tbody>
            {live.frontends.map((f) => {
              const trips = roundTrips(f)
              const off = Date.parse(f.Clock) - Date.now() - live.clockAhead
              return (
                <tr key={f.Name + f.Address}>
                  <th scope="row" title={f.Address}>{f.Name || f.Address}</th>
                  <td class={f.Err || f.CutOff ? 'bad long' : 'long'}>{f.Err ? `no answer: ${f.Err}`
                    : f.CutOff ? 'cut off from the gossip' : f.Draining ? 'draining' : f.Warning || 'serving'}
                    </td>
                  {f.Err ? <td colSpan={12} /> : (
                    <>
                      <td class="n">{time(f.Uptime)}</td>
                      <td class="n">{count(f.Workers)}</td><td class="n">{count(f.Jobs)}</td>
                      <td class="n">{count(f.TasksPending)}</td><td class="n">{count(f.TasksRunning)}</td>
                      <td class="n">{time(trips.quantile(0.5))}</td>
                      <td class="n">{time(trips.quantile(0.99))}</td>
                      <td class="n">{f.Silence < 0 ? 'no gossip' : time(f.Silence)}</td>
                      <td class="n" title={when(f.Clock)}>{Math.abs(off) < 2000 ? 'in step' : time(off * 1e6)}
                        </td><td class="n">{count(f.KeptJobs)}</td>
                      <td class={f.LostJobs + f.LostMeasurements > 0 ? 'n bad' : 'n'}>{f.LostJobs
                        + f.LostMeasurements === 0 ? '0'
                        : `${count(f.LostMeasurements)} measurements, ${count(f.LostJobs)} jobs`}</td>
                      <td>{f.Version}</td>
                    </>
                  )}
                </tr>
              )
            })}
            {live.frontends.length === 0 && <tr><td colSpan={14} class="dim">no answer yet</td></tr>}
          </tbody>
        </table>
      </div>
    </section>
  )
}
