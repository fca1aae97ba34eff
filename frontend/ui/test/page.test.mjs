// The page in a real browser, of a real cluster that works, fails and is refused. Run by make ui-test, which sets the environment.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { after, afterEach, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { chromium } from 'playwright-core'

const phoebe = process.env.PHOEBE ?? '../../bin/phoebe'
const shots = process.env.SHOTS ?? 'shots'
const hostile = '<img src=x onerror=alert(1)>'
// Of the slowest jobs of a minute those of each policy are kept. On a busy machine those of the load are slower than the jobs that are
// looked at, and so these have a policy of their own.
const long = '{tenant: batch, policy: late-binding, mode: estimate, tasks: [{function: sleep, payload: 1200ms, estimate: 1s, count: 12}, {function: sleep, payload: 400ms, estimate: 500ms, count: 20}]}'
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const browserAt = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'].find((p) => existsSync(p))

const patience = 120_000 // in ms, for what is a matter of moments where nobody else keeps the machine busy

const children = []
let browser, page, frontend, base

// start runs phoebe, and resolves with the first of its lines of each kind that are waited for.
function start(args, ...kinds) {
  const p = spawn(phoebe, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  children.push(p)
  const found = {}
  let text = ''
  return new Promise((done, fail) => {
    p.once('exit', (code) => fail(new Error(`phoebe ${args.join(' ')} ends with ${code}: ${text}`)))
    const check = () => {
      const lines = text.split('\n').slice(0, -1)
      for (const line of lines) {
        const [kind, value] = line.split(' ')
        if (kinds.includes(kind)) found[kind] ??= value
      }
      if (kinds.every((k) => k in found)) done({ ...found, lines, child: p })
    }
    p.stdout.on('data', (some) => {
      text += some
      check()
    })
    p.stderr.on('data', (some) => {
      process.stderr.write(some)
      const admin = /msg="admin port serves" address=(\S+)/.exec(some)
      if (admin) found.admin ??= admin[1] // of who does not print where its page is
      check()
    })
  })
}

// run runs a command to its end; its failure is no error.
function run(...args) {
  return new Promise((done) => {
    const p = spawn(phoebe, args, { stdio: 'ignore' })
    children.push(p)
    p.on('exit', done)
  })
}

// job runs a job that must succeed.
async function job(name, text, at = frontend) {
  writeFileSync(`${shots}/${name}.yaml`, text)
  const p = spawn(phoebe, ['run', '--connect', at, '--job', `${shots}/${name}.yaml`], { stdio: ['ignore', 'ignore', 'pipe'] })
  children.push(p)
  let said = ''
  p.stderr.on('data', (some) => { said += some })
  const code = await new Promise((done) => p.on('close', done))
  assert.equal(code, 0, `the job ${name} fails: ${said}`)
}

before(async () => {
  assert.ok(browserAt, 'no browser is found: install one (on Debian: apt-get install chromium), or name it in CHROMIUM')
  mkdirSync(shots, { recursive: true })
  const cluster = await start(['dev', '--frontend-port', '0', '--frontends', '2', '--workers', '8', '--max-pending', '150000', '--drain-timeout', '1s'], 'frontend', 'page')
  frontend = cluster.frontend
  base = cluster.page
  await job('stages', `{tenant: reports, policy: late-binding, stages: [{name: scan}, {name: map, after: [scan]}, {name: reduce, after: [map]}], tasks: [
    {stage: scan, function: sleep, payload: 300ms, count: 24}, {stage: map, function: sleep, payload: 600ms, estimate: 500ms, count: 60}, {stage: reduce, function: sleep, payload: 800ms, count: 4}]}`)
  await job('long', long)
  await run('run', '--connect', frontend, '--task-duration', 'task-exp:1ms', '--tasks', '100000', '--tenant', 'big')
  await run('run', '--connect', frontend, '--function', 'fail', '--payload', hostile, '--tasks', '3', '--tenant', hostile)
  await run('run', '--connect', frontend, '--function', 'nosuch', '--retry-for', '100ms')
  await run('run', '--connect', frontend, '--function', 'sleep', '--payload', '10s', '--tasks', '2', '--deadline', '50ms')
  void run('bench', '--connect', frontend, '--tasks-per-job', '10', '--task-duration', 'mix:90%5ms,10%200ms', '--load', '0.5', '--policy', 'phoebe', '--warmup', '1s', '--for', '600s', '--seed', '1')
  browser = await chromium.launch({ executablePath: browserAt, args: ['--no-sandbox'] })
})

after(async () => {
  await browser?.close()
  await Promise.all(children.reverse().map((p) => p.exitCode === null && p.signalCode === null && new Promise((done) => {
    p.removeAllListeners('exit')
    p.on('exit', done)
    p.kill('SIGINT')
  })))
})

afterEach(async (t) => {
  if (!t.passed && page && !page.isClosed()) t.diagnostic(`${page.url()}: ${await page.locator('body').innerText()}`)
  for (const c of browser?.contexts() ?? []) await c.close()
})

// open opens the page, and keeps account of what must not be.
async function open(path = '', how = {}, at = base) {
  page = await browser.newPage({ viewport: { width: 1440, height: 900 }, ...how })
  page.setDefaultTimeout(patience)
  page.wrong = []
  page.on('console', (m) => { if (m.type() === 'error' || m.type() === 'warning') page.wrong.push(m.text()) })
  page.on('pageerror', (e) => page.wrong.push(e.message))
  page.on('dialog', (d) => { page.wrong.push(`dialog: ${d.message()}`); void d.dismiss() })
  page.on('request', (r) => { if (!r.url().startsWith(at)) page.wrong.push(`request to ${r.url()}`) })
  await page.goto(`${at}#/${path}`)
  await page.getByRole('heading', { level: 1 }).waitFor({ state: 'attached' })
  return page
}

async function fine(name) {
  const { violations } = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ['violations'] })`)
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' ')}`), [], `axe on ${name}`)
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`)
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true })
  assert.deepEqual(page.wrong, [], `on ${name}`)
}

async function api(what) {
  const r = await fetch(`${base}api/${what}`)
  return r.json()
}

async function jobOf(tenant) {
  let said
  for (const end = Date.now() + patience; Date.now() < end;) {
    said = await api(`jobs?tenant=${encodeURIComponent(tenant)}`)
    const kept = said.Jobs?.find((j) => !j.Running)
    if (kept) return kept.Handle.Job
    await new Promise((done) => setTimeout(done, 250))
  }
  throw new Error(`no job of ${tenant} is kept: ${JSON.stringify(said)}`)
}

// tables shows all charts as tables, or takes that back. A chart may come or go with what there is to show.
async function tables(shown) {
  const next = page.getByRole('button', { name: 'as a table', pressed: shown }).first()
  while (await next.count() > 0) await next.click()
}

const phone = { width: 390, height: 844 }
const tablet = { width: 1024, height: 900 }
const kinds = [['dark', { colorScheme: 'dark' }], ['light', { colorScheme: 'light', viewport: tablet }], ['390', { colorScheme: 'dark', viewport: phone }]]
if (process.env.ALL_KINDS) {
  kinds.push(['1440-light', { colorScheme: 'light' }], ['1024-dark', { colorScheme: 'dark', viewport: tablet }],
    ['390-light', { colorScheme: 'light', viewport: phone }])
}

for (const [kind, how] of kinds) {
  test(`all pages, ${kind}`, async () => {
    await job('long', long)
    const stages = await jobOf('reports'), fresh = await jobOf('batch'), failed = await jobOf(hostile)
    const worker = (await api('fleet')).Names[0]
    const all = [
      ['overview', '', '.tile dd'], ['fleet', 'fleet', 'main .row'], ['jobs', 'jobs', 'main .row'], ['slow', 'slow', 'main .row'], ['estimates', 'estimates', 'tbody th'],
      ['frontends', 'frontends', 'tbody th'], ['nothing-recorded', 'recordings', 'main code'], ['job', `job/${stages}`, '.gantt canvas[data-frames]'], ['failed', `job/${failed}`, '.gantt canvas[data-frames]'],
      ['task', `task/${fresh}/1`, 'tr.chosen'], ['sampled', `task/${stages}/1`, '.card .tiles'], ['worker', `worker/${worker}`, 'tbody th'], ['nothing', 'nothing', 'main p a'],
      ['gone', 'job/01M81K713PWJ9S24J35M5RPG02', 'main p[role=status].dim'],
    ]
    for (const [name, path, until] of all) {
      await open(path, how)
      await page.locator(until).first().waitFor()
      if (name === 'overview' || name === 'fleet') await page.waitForTimeout(2500) // some frames
      await tables(false)
      await fine(`${name}-${kind}`)
      if (!kind.startsWith('390') && name === 'overview') {
        await tables(true)
        await page.screenshot({ path: `${shots}/${name}-${kind}.png`, fullPage: true })
      }
      await page.close()
    }
  })
}

const token = 'open sesame'

// Attempts in vain and copies are told beside those that gave outcomes: a worker is frozen while a job runs, and another one killed.
test('attempts in vain and copies', async () => {
  const workers = await Promise.all(['w0', 'w1', 'w2', 'w3'].map((n) => start(['worker', '--listen', '127.0.0.1:0', '--slots', '3', '--name', n, '--drain-timeout', '1s'], 'worker')))
  const { frontend: addr } = await start(['frontend', '--listen', '127.0.0.1:0', '--workers', workers.map((w) => w.worker).join(','), '--copies', '0.5', '--lease', '30s', '--drain-timeout', '1s'], 'frontend')
  const { page: at } = await start(['ui', '--admin', '127.0.0.1:0', '--connect', addr], 'page')
  const ask = async (what) => (await fetch(`${at}api/${what}`)).json()
  const ended = job('vain', '{tenant: vain, stages: [{name: scan}, {name: merge, after: [scan]}], tasks: [{stage: scan, function: sleep, payload: 600ms, estimate: 600ms, count: 24}, {stage: merge, function: sleep, payload: 300ms, estimate: 300ms, count: 2}]}', addr)
  const [frozen, killed] = workers
  const countEnded = async () => (await ask('jobs?running=1')).Jobs[0]?.Ended ?? 0
  for (const end = Date.now() + patience; await countEnded() < 12 && Date.now() < end;) await new Promise((done) => setTimeout(done, 20))
  killed.child.kill('SIGKILL')
  frozen.child.kill('SIGSTOP')
  const thaw = setTimeout(() => frozen.child.kill('SIGCONT'), 2500)
  try {
    await ended
  } finally {
    clearTimeout(thaw)
    frozen.child.kill('SIGCONT')
  }
  const [{ Handle: { Job: id } }] = (await ask('jobs?tenant=vain')).Jobs
  const { Earlier: earlier, Columns: columns, Tasks: tasks } = await ask(`trace?job=${id}`)
  for (const end of ['lost', 'beaten']) assert.ok(earlier.some((e) => e.End === end), `no attempt is ${end}: ${JSON.stringify(earlier)}`)
  for (const [kind, how] of kinds) {
    await open(`job/${id}`, how, at)
    await page.locator('.gantt canvas[data-frames]').waitFor()
    await fine(`vain-${kind}`)
    await page.getByRole('button', { name: 'by worker' }).click()
    await page.waitForTimeout(300)
    await page.screenshot({ path: `${shots}/vain-by-worker-${kind}.png`, fullPage: true })
    await page.goto(`${at}#/task/${id}/${tasks[columns.indexOf('task')][earlier[0].At]}`)
    await page.getByRole('region', { name: 'attempts in vain' }).waitFor()
    await fine(`vain-task-${kind}`)
    await page.close()
  }
})

// The token is asked for, and without it nothing is done; without one of the server's the page only shows.
test('workers drain and announce maintenance', async () => {
  writeFileSync(`${shots}/token`, token)
  const { heartbeat, frontend: addr } = await start(['frontend', '--listen', '127.0.0.1:0', '--gossip', '127.0.0.1:0', '--heartbeat', '127.0.0.1:0', '--drain-timeout', '1s'], 'frontend', 'heartbeat')
  const names = ['w0', hostile]
  const workers = await Promise.all(names.map((name) => start(['worker', '--listen', '127.0.0.1:0', '--name', name, '--join', heartbeat, '--drain-timeout', '1s'], 'worker')))
  const { page: at } = await start(['ui', '--admin', '127.0.0.1:0', '--connect', addr, '--admin-token-file', `${shots}/token`], 'page')
  const { page: shows } = await start(['ui', '--admin', '127.0.0.1:0', '--connect', addr], 'page')
  await open(`worker/${encodeURIComponent(hostile)}`, {}, at)
  await page.getByText('up', { exact: true }).first().waitFor()
  await page.getByRole('button', { name: 'leave…' }).click()
  const said = page.locator('form [role=status]')
  const asks = async (button, text) => {
    await page.getByRole('button', { name: button }).click()
    await said.getByText(text).waitFor()
  }
  await asks('drain', '--admin-token-file')
  page.wrong = page.wrong.filter((text) => !text.includes('401')) // the browser tells of it
  await page.getByLabel('admin token').fill(token)
  await asks('announce maintenance', 'away in 10 min')
  await page.getByText(/^away in /).first().waitFor()
  await fine('maintenance')
  await asks('withdraw', 'withdraw')
  await page.getByText(/^away in /).first().waitFor({ state: 'detached' })
  await asks('drain', 'told to take no new tasks')
  if (workers[1].child.exitCode === null) await new Promise((done) => workers[1].child.on('exit', done))
  assert.equal(workers[1].child.exitCode, 0)
  assert.equal(workers[0].child.exitCode, null)
  await page.close()
  const ask = (of, header) => fetch(`${of}api/drain?worker=w0`, { method: 'POST', headers: header })
  const foreign = await ask(at, { Authorization: `Bearer ${token}`, Origin: 'http://elsewhere.example' })
  assert.equal(foreign.status, 403)
  const closed = await ask(shows, { Authorization: `Bearer ${token}` })
  assert.equal(closed.status, 403)
  assert.match(await closed.text(), /--admin-token-file/)
  assert.equal(workers[0].child.exitCode, null)
})

// By TLS the page is for operators: whoever shows another certificate is told so, and who has none is not let in.
test('by certificates', async () => {
  const keys = `${shots}/keys`
  await run('tls', keys)
  const { worker } = await start(['worker', '--listen', '127.0.0.1:0', '--tls-dir', `${keys}/worker`, '--drain-timeout', '1s'], 'worker')
  const { admin } = await start(['--log-level', 'info', 'frontend', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--workers', worker, '--tls-dir', `${keys}/frontend`, '--drain-delay', '0s', '--drain-timeout', '1s'], 'admin')
  const at = `https://${admin}/ui/`
  const as = (role) => ({ ignoreHTTPSErrors: true, clientCertificates: [{ origin: new URL(at).origin, certPath: `${keys}/${role}/tls.crt`, keyPath: `${keys}/${role}/tls.key` }] })
  await open('frontends', as('operator'), at)
  await page.locator('tbody th').first().waitFor()
  await page.getByRole('button', { name: /^live/ }).waitFor()
  await fine('tls')
  await page.close()
  const client = await browser.newPage(as('client-default'))
  const said = await client.goto(at)
  assert.equal(said.status(), 403)
  assert.match(await said.text(), /role operator/)
  await client.close()
  const nobody = await browser.newPage({ ignoreHTTPSErrors: true })
  await assert.rejects(nobody.goto(at), /net::ERR/)
  await nobody.close()
})

test('names of others are text', async () => {
  await open('jobs')
  await page.getByRole('textbox', { name: 'tenant' }).fill(hostile)
  await page.getByText(hostile).first().waitFor()
  await open(`job/${await jobOf(hostile)}`)
  await page.getByText(hostile).first().waitFor()
  assert.equal(await page.locator('main img').count(), 0)
  assert.deepEqual(page.wrong, [])
  await page.close()
})

test('a task that was placed twice', async () => {
  await job('long', long)
  const id = await jobOf('batch')
  await open()
  await page.route('**/api/explain*', async (route) => {
    const response = await route.fetch(), said = await response.json()
    await route.fulfill({ response, json: { ...said, Decisions: [said.Decisions[0], said.Decisions[0]] } })
  })
  await page.goto(`${base}#/task/${id}/1`)
  await page.locator('tr.chosen').first().waitFor()
  await page.getByRole('heading', { name: 'Decision 2 of 2' }).waitFor()
  assert.match(await page.locator('.tile', { hasText: 'run expected' }).last().innerText(), / m?s/)
  await fine('twice')
  await page.close()
})

// Frontends remember the fleet. The page takes a single frame here, so that all other columns come from a frontend.
test('the fleet has its history after a reload', async () => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
  await context.addInitScript(() => {
    window.EventSource = class extends EventSource {
      set onmessage(take) {
        let frames = 0
        super.onmessage = (e) => { if (frames++ === 0) take(e) }
      }
    }
  })
  page = await context.newPage()
  page.setDefaultTimeout(patience)
  await page.goto(`${base}#/fleet`)
  for (let n = 0; n < 2; n++) {
    await page.waitForFunction(() => Number(document.querySelector('canvas.axis')?.dataset.columns) >= 5)
    for (const by of ['tenant', 'function']) {
      await page.getByRole('button', { name: `by ${by}` }).click()
      await page.getByRole('region', { name: `slots now by ${by}` }).locator('th[scope=row]').first().waitFor()
    }
    await page.getByText('slots, ').first().waitFor()
    await page.reload()
  }
  await context.close()
})

test('jobs are sorted, explained, and found by their failures', async () => {
  await run('run', '--connect', frontend, '--function', 'fail', '--tasks', '3')
  await open()
  const tile = page.locator('.tile').filter({ hasText: 'failed tasks' })
  await tile.getByText(/^[1-9][0-9,]*, [0-9.]+\/s$/).waitFor()
  const dashes = await page.locator('.chart').filter({ hasText: 'Response of jobs' }).locator('.legend line')
    .evaluateAll((lines) => lines.map((l) => l.getAttribute('stroke-dasharray')))
  assert.equal(new Set(dashes).size, 3, `p50, p99 and p99.9 have the dashes ${dashes}`)
  await page.getByRole('region', { name: 'by function' }).getByRole('button', { name: 'sleep' }).click()
  await page.getByRole('heading', { name: 'Time of tasks of sleep' }).waitFor()
  await tile.getByRole('link').click()
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor({ state: 'attached' })
  assert.ok(await page.getByRole('checkbox', { name: 'failed' }).isChecked())
  const table = page.getByRole('region', { name: 'jobs' })
  const column = async (name) => {
    const at = await table.locator('thead th').evaluateAll((cells, name) => cells.findIndex((c) => c.textContent.startsWith(name)), name)
    return table.locator('tbody tr:not([aria-hidden])').evaluateAll((rows, at) => rows.map((r) => r.children[at].textContent), at)
  }
  await table.locator('.row').first().waitFor()
  for (const n of await column('failed')) assert.ok(Number(n.replace(',', '')) > 0, `${n} failed`)
  await page.getByRole('checkbox', { name: 'failed' }).uncheck()
  await table.locator('tr.open').filter({ hasText: 'open' }).first().waitFor()
  await page.getByRole('list', { name: 'colours of blame' }).getByText('run', { exact: true }).waitFor()
  for (const order of ['descending', 'ascending']) {
    await table.getByRole('button', { name: 'tasks' }).click()
    await table.locator(`th[aria-sort=${order}]`).waitFor()
    const tasks = (await column('tasks')).map((n) => Number(n.split(' / ').pop().replace(',', '')))
    const sorted = [...tasks].sort((a, b) => (order === 'ascending' ? a - b : b - a))
    assert.deepEqual(tasks, sorted)
  }
  assert.ok((await column('functions')).every((f) => f.length > 0))
  assert.deepEqual(page.wrong, [])
  await page.close()
})

// The counts of the last minute are the same on the page, in the texts of commands, and in JSON.
test('the last minute is the same everywhere', async () => {
  const cluster = await start(['dev', '--frontend-port', '0', '--frontends', '2', '--workers', '2', '--drain-timeout', '1s'], 'frontend', 'page')
  const [first, second] = cluster.lines.filter((l) => l.startsWith('frontend ')).map((l) => l.split(' ')[1])
  const output = (...args) => new Promise((done) => {
    const p = spawn(phoebe, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    p.stdout.on('data', (some) => { text += some })
    p.on('close', () => done(text))
  })
  await open('', {}, cluster.page)
  // readTiles returns the shown figures, and the times of the first and the last second that the figures count. One call
  // reads all, since the page draws anew each second.
  const readTiles = () => page.locator('.tiles').evaluate((tiles) => ({ ...tiles.dataset,
    shown: Object.fromEntries([...tiles.querySelectorAll('.tile')].map((t) => [t.querySelector('dt').textContent, t.querySelector('dd').textContent])) }))
  const count = ({ shown, from, to }, label) => { // a number, and its rate
    const [, n, perSecond] = /^([0-9,]+), ([0-9.]+)\/s$/.exec(shown[label])
    const value = Number(n.replace(',', '')), exact = value / ((to - from) / 1000 + 1)
    assert.ok(Math.abs(Number(perSecond) - exact) <= 0.006 + 0.05 * exact, `${label}: ${n}, ${perSecond}/s from ${from} to ${to}`)
    return value
  }
  const sum = (list, name) => list.reduce((n, x) => n + (x.last_minute?.[name] ?? 0), 0)
  const texts = (text) => /last minute: (\d+) jobs ended \(\S+\/s, p99 (.+?)\), (\d+) tasks \(\S+\/s\), (\d+) of them/.exec(text)?.slice(1).join('; ')
  let all
  for (const end = Date.now() + patience; ;) { // again, if the machine is so busy that a minute passes meanwhile
    await Promise.all([[first, 'ads', 'sleep', 5], [second, 'web', 'sleep', 3], [second, 'ads', 'fail', 2]].map(([at, tenant, name, tasks]) =>
      run('run', '--connect', at, '--tenant', tenant, '--function', name, '--payload', '30ms', '--tasks', String(tasks))))
    for (let n = 0; n < 8; n++) {
      const ask = [output('status', '--connect', first), output('top', '--connect', first), output('status', '--json', '--connect', first), output('tenants', '--json', '--connect', first)]
      const [status, top, json, tenants] = await Promise.all(ask)
      const tiles = await readTiles()
      const each = JSON.parse(json), byTenant = tenants.split('\n').filter(Boolean).map((l) => JSON.parse(l))
      const asJSON = (list) => `${sum(list, 'jobs')}; ${sum(list, 'tasks')}; ${sum(list, 'failed')}`
      const inJSON = asJSON(each), inTenants = asJSON(byTenant)
      const onPage = tiles.from ? `${count(tiles, 'jobs')}; ${tiles.shown['response p99']}; ${count(tiles, 'tasks')}; ${count(tiles, 'failed tasks')}` : 'nothing'
      all = { status: texts(status), top: texts(top), page: onPage, json: inJSON, tenants: inTenants }
      const same = all.status === all.page && all.top === all.page && inJSON === inTenants && all.page.replace(/; .*?; /, '; ') === inJSON
      if (same && sum(each, 'jobs') >= 3 && sum(each, 'failed') >= 2) {
        console.log(`the last minute: ${JSON.stringify(all)}`)
        await page.close()
        return
      }
    }
    assert.ok(Date.now() < end, JSON.stringify(all))
  }
})

// A job for which a frontend has no room may be gone when the viewer opens it.
test('the list says which jobs are fleeting', async () => {
  await open()
  await page.route('**/api/jobs*', async (route) => {
    const response = await route.fetch(), said = await response.json()
    said.Jobs.forEach((j, i) => { if (i % 2 === 0) j.Fleeting = true })
    await route.fulfill({ response, json: said })
  })
  await page.goto(`${base}#/jobs`)
  await page.locator('main .row').nth(1).waitFor()
  const rows = page.getByRole('region', { name: 'jobs' }).locator('tbody tr:not([aria-hidden])')
  assert.match(await rows.nth(0).textContent(), /fleeting/)
  assert.doesNotMatch(await rows.nth(1).textContent(), /fleeting/)
  await page.getByRole('status').getByText(/Frontends may forget \d+ of the jobs within a minute/).waitFor()
  await fine('fleeting')
  await page.close()
})

test('on a phone', async () => {
  const stages = await jobOf('reports')
  await open('', { viewport: phone })
  await page.waitForFunction(() => document.querySelector('.tiles').dataset.to)
  const cut = () => page.locator('.tile dd').evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 1).map((e) => e.textContent))
  assert.deepEqual(await cut(), [], 'figures are cut')
  await page.goto(`${base}#/job/${await jobOf(hostile)}`)
  await page.locator('.gantt canvas[data-frames]').waitFor()
  assert.ok((await page.locator('.gantt').boundingBox()).height < 150, 'three lanes leave room empty')
  assert.deepEqual(await cut(), [], 'figures are cut')
  await page.close()
  await open('jobs', { viewport: phone })
  const inSight = async (what) => {
    await what.waitFor()
    const box = await what.boundingBox()
    assert.ok(box.x >= 0 && box.x + box.width <= phone.width && box.y + box.height <= phone.height, `${await what.textContent()} is at ${JSON.stringify(box)}`)
  }
  const row = page.locator('tbody tr').filter({ has: page.locator('.row') }).first()
  await inSight(row.locator('td.n').first()) // the response
  await inSight(page.getByRole('columnheader', { name: 'response' }))
  assert.match(await row.locator('.row').innerText(), /^…\w{6}$/)
  for (const link of await page.getByRole('navigation').getByRole('link').all()) await inSight(link)
  await page.getByRole('link', { name: 'Recordings' }).click()
  await page.getByRole('heading', { level: 1, name: 'Recordings' }).waitFor({ state: 'attached' })
  await page.goto(`${base}#/job/${stages}`)
  await page.getByRole('heading', { name: 'sleep', exact: true }).waitFor() // the function
  const canvas = page.locator('.gantt canvas[data-frames]')
  await canvas.waitFor()
  // Each lane has a bar, and all bars are beside the labels.
  const lanes = await canvas.evaluate((c) => {
    const g = c.getContext('2d'), gutter = Number(c.dataset.gutter), high = 404, each = Math.min(22, Math.floor(high / 88))
    const colored = (x) => x[0] + x[1] + x[2] > 0 && Math.max(x[0], x[1], x[2]) - Math.min(x[0], x[1], x[2]) > 30
    const { data } = g.getImageData(0, 0, c.width, high)
    let barsInGutter = 0, empty = 0
    for (let lane = 0; lane < 88; lane++) {
      const line = data.subarray(4 * c.width * (lane * each + 1))
      let bar = false
      for (let x = 0; x < c.width; x++) {
        if (!colored(line.subarray(4 * x, 4 * x + 3))) continue
        if (x < gutter) barsInGutter++
        else bar = true
      }
      if (!bar) empty++
    }
    return { gutter, barsInGutter, empty }
  })
  assert.ok(lanes.gutter > 60 && lanes.barsInGutter < 20 && lanes.empty === 0, // the edges of letters have colours
    JSON.stringify(lanes))
  assert.deepEqual(page.wrong, [])
  await page.close()
})

test('by the keyboard alone', async () => {
  await open()
  const heading = (name) => page.getByRole('heading', { level: 1, name }).waitFor({ state: 'attached' })
  const goTo = async (key, name) => {
    await page.keyboard.press('g')
    await page.keyboard.press(key)
    await heading(name)
  }
  for (const [key, name] of [['f', 'Fleet'], ['j', 'Jobs'], ['s', 'Slow'], ['e', 'Estimates'], ['r', 'Frontends'], ['c', 'Recordings'], ['o', 'Overview']]) await goTo(key, name)
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keys' }).waitFor()
  await fine('help')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const was = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  await page.keyboard.press('t')
  await page.waitForFunction((was) => getComputedStyle(document.body).backgroundColor !== was, was)
  await page.keyboard.press('t')
  // A chart is read aloud, and gives a window.
  await page.waitForFunction(() => document.querySelector('.tiles').dataset.to)
  await page.getByRole('application', { name: /^Response of jobs/ }).focus()
  await page.keyboard.press('ArrowLeft')
  const said = page.locator('#said')
  await page.waitForFunction(() => document.getElementById('said').textContent.includes('p99'))
  assert.match(await said.textContent(), /p50 .*p99 .*p99\.9/)
  for (let n = 0; n < 5; n++) await page.keyboard.press('Shift+ArrowLeft')
  await page.getByRole('button', { name: 'show all' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'show all' }).waitFor({ state: 'detached' })
  // A job, by its row; a task, by the picture.
  await goTo('j', 'Jobs') // the overview has rows too
  await page.locator('main .row').first().waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type(await jobOf('reports'))
  await page.keyboard.press('Escape')
  await page.waitForFunction(() => document.querySelectorAll('main .row').length === 1)
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.getByRole('application', { name: /^Tasks over time/ }).focus()
  await page.keyboard.press('j')
  await page.keyboard.press('+')
  await page.keyboard.press('Enter')
  await heading(/^Task /)
  await page.locator('.card .tiles').first().waitFor()
  assert.deepEqual(page.wrong, [])
  await page.close()
})

// A histogram as the API packs it, merged and read as the page must, written a second time.
function histograms(base64) {
  const b = Buffer.from(base64, 'base64')
  let at = 0
  const next = () => {
    let n = 0, unit = 1
    for (;;) {
      const x = b[at++]
      n += (x & 127) * unit
      if (x < 128) return n
      unit *= 128
    }
  }
  return Array.from({ length: 9 }, () => {
    const cells = new Map()
    const used = next()
    if (used > 0) next()
    for (let i = 0, cell = 0; i < used; i++) {
      cell += next()
      cells.set(cell, next())
    }
    return cells
  })
}

function quantile(cells, q) {
  const all = [...cells.values()].reduce((a, b) => a + b, 0)
  let rank = Math.max(1, Math.ceil(q * all))
  const floor = (i) => (16 + ((i - 1) % 16)) * 2 ** (Math.floor((i - 1) / 16) + 6)
  for (const [cell, n] of [...cells].sort((a, b) => a[0] - b[0])) {
    if (n >= rank) return [floor(cell), floor(cell + 1)]
    rank -= n
  }
  return [0, 0]
}

function nanoseconds(text) {
  const [n, unit] = text.split(' ')
  return Number(n.replace(',', '')) * { ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9, min: 60e9 }[unit]
}

test('figures are those of the API', async () => {
  const windows = new Map(), ask = async () => { for (const w of (await api('watch?window=1')).Windows) windows.set(Date.parse(w.At), w) }
  await ask() // the page remembers windows for longer than frontends do
  await open()
  await page.waitForFunction(() => document.querySelector('.tiles').dataset.to)
  await page.waitForTimeout(3000)
  await page.keyboard.press('p') // pause
  await page.waitForTimeout(300)
  const [from, to] = await page.evaluate(() => [Number(document.querySelector('.tiles').dataset.from), Number(document.querySelector('.tiles').dataset.to)])
  const shown = await page.locator('.tiles .tile').allTextContents()
  await ask()
  const inside = [...windows].filter(([at]) => at >= from && at <= to).map(([, w]) => w)
  assert.ok(inside.length > 20, `${inside.length} windows`)
  const sum = new Map()
  for (const w of inside) for (const s of w.Series) for (const [cell, n] of histograms(s.Histograms)[7]) sum.set(cell, (sum.get(cell) ?? 0) + n)
  for (const [i, q, name] of [[0, 0.5, 'response p50'], [1, 0.99, 'response p99'], [2, 0.999, 'response p99.9']]) {
    const [low, high] = quantile(sum, q), value = nanoseconds(shown[i].slice(name.length))
    assert.ok(shown[i].startsWith(name) && value >= low * 0.94 && value <= high * 1.06, `${shown[i]}: the API has ${low} to ${high} ns`)
  }
  await page.close()
})

// Tasks take so long that the way to the client, which only the bench counts, is small beside them.
test('figures are those of the bench', async () => {
  const { frontend: addr, page: at } = await start(['dev', '--frontend-port', '0', '--frontends', '2', '--workers', '4', '--drain-timeout', '1s'], 'frontend', 'page')
  const json = `${shots}/bench.json`
  await run('bench', '--connect', addr, '--tasks-per-job', '4', '--task-duration', 'task-exp:500ms', '--load', '0.2', '--policy', 'phoebe', '--warmup', '0s', '--for', '20s', '--seed', '1', '--json', json)
  const { response_ms: response, jobs } = JSON.parse(readFileSync(json, 'utf8')).runs[0]
  await open('', {}, at)
  await page.waitForFunction(() => document.querySelector('.tiles').dataset.to)
  await page.waitForTimeout(2000)
  const shown = await page.locator('.tiles .tile').allTextContents()
  const cell = 1 / 16 // is how wide they are at most
  for (const [i, q, name] of [[0, 'p50', 'response p50'], [1, 'p99', 'response p99']]) {
    const value = nanoseconds(shown[i].slice(name.length)) / 1e6
    console.log(`${q} of ${jobs} jobs: ${value} ms on the page, ${response[q]} ms by the bench`)
    assert.ok(Math.abs(value / response[q] - 1) <= 1.5 * cell, `${shown[i]}: the bench has ${response[q]} ms`)
  }
  await page.close()
})

// The pictures of the chapter "From an alert to the cause".
test('pictures for the guide', async () => {
  const slow = (await api('jobs?tenant=reports')).Jobs[0].Handle.Job
  for (const [name, path, until, height] of [['overview', '', '.tile dd', 760], ['slow', 'slow', 'main .row', 420], ['job', `job/${slow}`, '.gantt canvas[data-frames]', 760], ['fleet', 'fleet', 'main .row', 640]]) {
    await open(path, { colorScheme: 'light', viewport: { width: 1000, height } })
    await page.locator(until).first().waitFor()
    if (name === 'overview' || name === 'fleet') await page.waitForTimeout(3000) // some frames
    const { length } = await page.screenshot({ path: `${shots}/guide-${name}.jpg`, type: 'jpeg', quality: 60 })
    assert.ok(length < 100_000, `${name} takes ${length} bytes`)
    await page.close()
  }
})

// The first paint waits for three files: the page, its style and its program. The test prints the time, and leaves its length to the
// reader: the machine has other things to do.
test('the first paint needs three small files', async () => {
  const times = []
  for (let n = 0; n < 3; n++) {
    await open()
    await page.locator('.tile dd').first().waitFor()
    const { paint, files } = await page.evaluate(() => ({ paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
      files: performance.getEntries().filter((e) => e.entryType === 'navigation' || ['link', 'script', 'css'].includes(e.initiatorType))
        .map((e) => ({ name: e.name.split('/').pop(), bytes: e.encodedBodySize })) }))
    times.push(paint)
    const bytes = files.reduce((sum, f) => sum + f.bytes, 0), told = JSON.stringify(files)
    assert.deepEqual(files.map((f) => f.name.replace(/#.*/, '')).sort(), ['', 'main.css', 'main.js'], told)
    assert.ok(bytes > 10_000 && bytes < 100_000, told)
    await page.close()
  }
  console.log(`first contentful paint: ${times.map((t) => Math.round(t)).join(', ')} ms`)
})

// rateOf is how many frames a second there are while something is done in each, for 3 s.
function rateOf(each) {
  return page.evaluate(async (text) => {
    const each = (0, eval)(text)
    const began = performance.now()
    let n = 0
    for (; performance.now() - began < 3000; n++) {
      each(n)
      await new Promise((done) => requestAnimationFrame(done))
    }
    return n / ((performance.now() - began) / 1000)
  }, `(${each})`)
}

// A frame paints some ranges for each line of the picture, and not a range for each task. The test prints the frames a second, and leaves
// their number to the reader: the machine has other things to do.
test('a hundred thousand tasks move', async () => {
  await open(`job/${await jobOf('big')}`)
  await page.locator('.gantt canvas[data-frames]').waitFor({ timeout: patience })
  const idle = await rateOf(() => {})
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('Performance.enable')
  const cpu = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ThreadTime').value
  await page.evaluate(() => {
    const paint = Uint32Array.prototype.fill
    window.ranges = 0
    Uint32Array.prototype.fill = function (...range) {
      window.ranges++
      return paint.apply(this, range)
    }
  })
  const ranges = () => page.evaluate(() => window.ranges)
  for (const mode of ['by worker', 'by stage']) {
    await page.getByRole('button', { name: mode }).click()
    await page.waitForTimeout(1500)
    const frames = () => page.locator('.gantt canvas').getAttribute('data-frames').then(Number)
    const before = await frames(), cpuBefore = await cpu(), rangesBefore = await ranges()
    const rate = await rateOf((n) => {
      const canvas = document.querySelector('.gantt canvas')
      const r = canvas.getBoundingClientRect()
      HTMLElement.prototype.setPointerCapture = () => {}
      canvas.dispatchEvent(new PointerEvent(n === 0 ? 'pointerdown' : 'pointermove', { clientX: r.left + 500 + 200 * Math.sin(n / 20), clientY: r.top + 200, pointerId: 1, bubbles: true }))
    })
    const drawn = await frames() - before, each = (await cpu() - cpuBefore) / drawn, painted = (await ranges() - rangesBefore) / drawn
    console.log(`${mode}: ${rate.toFixed(1)} frames a second, of ${idle.toFixed(1)} when nothing moves, ${(1000 * each).toFixed(1)} ms of CPU and ${painted.toFixed(0)} ranges each`)
    assert.ok(drawn > 3 * rate * 0.8, 'not each of them was drawn')
    assert.ok(painted > 10 && painted < 20_000, `a frame paints ${painted} ranges`)
    await page.screenshot({ path: `${shots}/hundred-thousand-${mode.replace(' ', '-')}.png` })
  }
  assert.deepEqual(page.wrong, [])
  await page.close()
})

// serveLargeFleet serves the page with n workers that do not exist: 200 racks, two workers on a host, a tenth of them not up. All else
// comes from the cluster. It returns the address, the number of frames and the bytes of each answer, and a function to end.
async function serveLargeFleet(n) {
  let seed = 1
  const random = (most) => (seed = (seed * 48271) % 2147483647) % most
  const workers = Array.from({ length: n }, (_, i) => i)
  const levels = () => Buffer.from(workers.flatMap((i) => [random(8) << 4 | (i % 10 === 3 ? 15 : random(15)), random(7) << 4 | random(9)]))
  const names = { List: '1', Names: workers.map((i) => `worker-${i}`), Addresses: workers.map((i) => `10.1.${i >> 8}.${i & 255}:7411`),
    Racks: workers.map((i) => `rack-${i % 200}`), Hosts: workers.map((i) => `host-${i >> 1}`), Levels: levels().toString('base64') }
  const history = () => ({ At: Array.from({ length: 300 }, (_, i) => Date.now() - 2000 * (300 - i)), Addresses: null, Gone: null,
    Levels: Buffer.from(Array.from({ length: 300 * 100 }, (_, i) => [(i % 100 >> 3) << 4 | i % 15, 0x22]).flat()).toString('base64') })
  const frame = async () => ({ ...await api('frame'), Fleet: { List: '1', Frontend: 'frontend-0', Levels: levels().toString('base64'),
    Stale: Buffer.alloc(n + 7 >> 3).toString('base64') } })
  const sent = { frames: 0 }
  const server = createServer(async (request, answer) => {
    const question = request.url.replace(/^.*\/ui\//, '').replace(/\?.*/, '')
    const pack = (body) => {
      const packed = gzipSync(body, { level: 1 })
      sent[question] = packed.length
      return packed
    }
    if (question === 'api/live') {
      answer.writeHead(200, { 'Content-Type': 'text/event-stream' })
      while (!answer.destroyed) {
        const text = `data: ${JSON.stringify(await frame())}\n\n`
        pack(text)
        answer.write(text)
        sent.frames++
        await new Promise((done) => setTimeout(done, 1000))
      }
      return
    }
    const own = { 'api/fleet': names, 'api/history': question === 'api/history' && history() }[question]
    if (own) {
      answer.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' })
      answer.end(pack(JSON.stringify(own)))
      return
    }
    const from = await fetch(base + request.url.replace(/^\/ui\//, ''))
    answer.writeHead(from.status, { 'Content-Type': from.headers.get('content-type') })
    answer.end(Buffer.from(await from.arrayBuffer()))
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  return { at: `http://127.0.0.1:${server.address().port}/ui/`, sent, end: () => { server.closeAllConnections(); server.close() } }
}

test('twenty thousand workers', async () => {
  const { at, sent, end } = await serveLargeFleet(20_000)
  try {
    await open('fleet', {}, at)
    const cdp = await page.context().newCDPSession(page)
    await cdp.send('Performance.enable')
    const measure = async () => {
      const { metrics } = await cdp.send('Performance.getMetrics')
      const of = (name) => metrics.find((m) => m.name === name).value
      return { cpu: of('ThreadTime'), heap: of('JSHeapUsedSize') / 2 ** 20 }
    }
    const before = await measure(), began = Date.now()
    await page.reload()
    await page.getByText('20,000 workers, 2,000 not up').waitFor()
    await page.locator('main .row').first().waitFor()
    await page.waitForFunction(() => Number(document.querySelector('canvas.axis')?.dataset.columns) >= 290)
    const took = Date.now() - began, drawn = await measure()
    // Of more racks than the page lists, those with workers that are not up come first.
    await page.getByRole('listitem').filter({ hasText: 'rack-193 hosts: 100, workers up: 0 of 100' }).waitFor()
    for (const from = sent.frames; sent.frames < from + 3;) await page.waitForTimeout(100)
    const later = await measure()
    await page.getByRole('searchbox', { name: 'find' }).fill('worker-19999')
    await page.locator('tbody tr').filter({ hasText: 'worker-19999' }).waitFor()
    const found = await measure()
    const heat = await page.locator('.heat canvas').boundingBox()
    for (let n = 0; n < 30; n++) await page.mouse.move(heat.x + 300 + 10 * n, heat.y + 100 + n)
    const moved = await measure()
    await cdp.send('HeapProfiler.collectGarbage')
    const { heap } = await measure()
    const ms = (a, b) => Math.round(1000 * (b.cpu - a.cpu))
    console.log(`20,000 workers: drawn after ${took} ms, with ${ms(before, drawn)} ms of CPU; 3 frames take ${ms(drawn, later)} ms of CPU, a search ${ms(later, found)} ms, ${
      ''}30 moves of the pointer ${ms(found, moved)} ms; heap ${Math.round(heap)} MiB; bytes ${JSON.stringify(sent)}`)
    assert.ok(ms(before, drawn) < 5000 && ms(drawn, later) < 1500 && ms(found, moved) < 3000 && heap < 100, 'more than ten times what is usual')
    assert.ok(sent['api/live'] < 100_000 && sent['api/fleet'] < 400_000 && sent['api/history'] < 100_000)
    await page.mouse.move(0, 0)
    await page.evaluate(() => scrollTo(0, 0))
    await fine('fleet-20000')
  } finally {
    await page.close()
    end()
  }
})

test('without events it asks', async () => {
  await open('', {}, base)
  await page.close()
  const context = await browser.newContext()
  await context.addInitScript(() => { delete window.EventSource })
  page = await context.newPage()
  page.setDefaultTimeout(patience)
  await page.goto(base)
  await page.getByRole('button', { name: /^live, by polling/ }).waitFor()
  await page.waitForFunction(() => document.querySelector('.tiles')?.dataset.to)
  await context.close()
})

test('many viewers: those beyond 64 ask', async () => {
  const stop = new AbortController()
  const watching = await Promise.all(Array.from({ length: 64 }, () => fetch(`${base}api/live`, { signal: stop.signal })))
  assert.ok(watching.every((r) => r.ok))
  const context = await browser.newContext()
  page = await context.newPage()
  page.setDefaultTimeout(patience)
  await page.goto(base)
  await page.getByRole('button', { name: /^live, by polling/ }).waitFor()
  const answers = await Promise.all(Array.from({ length: 200 }, () => fetch(`${base}api/frame`)))
  assert.ok(answers.every((r) => r.ok))
  assert.ok(watching.every((r) => !r.bodyUsed)) // they are slow, and hold nobody up
  stop.abort()
  await context.close()
})

// When a worker is slow, the view of recordings says so; a file that is saved there opens again.
test('recordings name the slow worker', async () => {
  const name = `<i>${hostile}`
  const workers = await Promise.all(['w0', 'w1', name].map((n) => start(['worker', '--listen', '127.0.0.1:0', '--slots', '2', '--name', n, '--drain-timeout', '1s'], 'worker')))
  const dir = mkdtempSync(`${shots}/recordings-`)
  const { frontend: addr } = await start(['frontend', '--listen', '127.0.0.1:0', '--workers', workers.map((w) => w.worker).join(','),
    '--name', hostile, '--slo', 'policy=phoebe,p99=100ms,window=2s', '--record-dir', dir, '--drain-timeout', '1s'], 'frontend')
  const { page: at } = await start(['ui', '--admin', '127.0.0.1:0', '--connect', addr], 'page')
  await open('recordings', {}, at)
  await page.getByText('There are no recordings.').waitFor()
  await fine('recordings-none')
  await page.close()
  // So little that also a busy machine's other workers have no queues.
  void run('bench', '--connect', addr, '--tasks-per-job', '6', '--task-duration', 'fixed:5ms', '--load', '0.1', '--policy', 'phoebe', '--warmup', '1s', '--for', '600s', '--seed', '1')
  const { child } = workers[2]
  let n = 0
  const stall = setInterval(() => child.kill(n++ % 4 === 3 ? 'SIGCONT' : 'SIGSTOP'), 100)
  try {
    await open('recordings', {}, at)
    await page.getByRole('row').filter({ hasText: name }).first().waitFor() // before that another worker may have had less of a busy machine
  } finally {
    clearInterval(stall)
    child.kill('SIGCONT')
  }
  const row = page.getByRole('row').filter({ hasText: name }).first()
  assert.ok((await row.textContent()).includes(name), await row.textContent())
  await fine('recordings')
  const [saved] = await Promise.all([page.waitForEvent('download'), row.getByRole('link', { name: 'save' }).click()])
  await row.locator('a.row').click()
  await page.locator('tr.chosen').getByText(name).waitFor()
  const shown = await page.locator('main').innerText()
  await fine('recording')
  await page.goto(`${at}#/recordings`)
  await page.getByLabel('open a file').setInputFiles(await saved.path())
  await page.locator('tr.chosen').getByText(name).waitFor()
  const tiles = (text) => text.slice(text.indexOf('objective'))
  assert.equal(tiles(await page.locator('main').innerText()), tiles(shown))
  for (const how of kinds) {
    await page.setViewportSize(how[1].viewport ?? { width: 1440, height: 900 })
    await page.emulateMedia({ colorScheme: how[1].colorScheme })
    await fine(`recording-${how[0]}`)
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize({ width: 1000, height: 420 })
  await page.screenshot({ path: `${shots}/guide-recording.jpg`, type: 'jpeg', quality: 60 })
  writeFileSync(`${shots}/none.gz`, 'nothing')
  await page.goto(`${at}#/recordings`)
  await page.getByLabel('open a file').setInputFiles(`${shots}/none.gz`)
  await page.getByRole('alert').getByText('This is no recording').waitFor()
  await page.close()
})

test('phoebe ui names a frontend that does not answer', async () => {
  const fleet = await start(['dev', '--fleet', '--balancer', 'none', '--frontends', '3', '--workers', '4', '--frontend-port', '0', '--drain-timeout', '1s'], 'ready')
  const frontends = fleet.lines.filter((l) => l.startsWith('frontend ')).map((l) => l.split(' '))
  const { page: at } = await start(['ui', '--admin', '127.0.0.1:0', '--connect', frontends.map(([, addr]) => addr).join(',')], 'page')
  const [, addr, , pid] = frontends[1]
  await open('frontends', {}, at)
  await page.waitForFunction(() => document.querySelectorAll('tbody th').length === 3)
  process.kill(Number(pid), 'SIGSTOP')
  const began = Date.now()
  try {
    await page.getByRole('alert').getByText(/does not answer/).waitFor({ timeout: patience })
    const took = Date.now() - began
    console.log(`a frontend that is frozen is named after ${took} ms`)
    const text = await page.getByRole('alert').textContent()
    assert.ok(text.includes(addr) || /frontend-\d/.test(text), text)
    await page.screenshot({ path: `${shots}/frozen.png`, fullPage: true })
  } finally {
    process.kill(Number(pid), 'SIGCONT')
  }
  await page.getByRole('alert').waitFor({ state: 'detached', timeout: patience })
  await page.goto(`${at}#/fleet`)
  await page.locator('main .row').first().waitFor()
  await page.waitForTimeout(2500)
  await fine('fleet-gossip')
  await page.close()
})
