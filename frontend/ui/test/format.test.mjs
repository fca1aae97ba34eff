// The page writes times and rates like the command line. Run by make ui-test.
import { transformSync } from 'esbuild'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import assert from 'node:assert/strict'

const root = new URL('../../../', import.meta.url) // this file runs in out/ui/test
const source = readFileSync(new URL('frontend/ui/src/format.ts', root), 'utf8')
const code = transformSync(source, { loader: 'ts', format: 'esm' }).code
const { time, about, rate } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
const table = JSON.parse(readFileSync(new URL('probe/units/testdata/examples.json', root), 'utf8'))

for (const [name, write] of Object.entries({ times: time, about, rates: rate })) {
  test(name, () => {
    assert.ok(table[name].length > 0)
    for (const [value, text] of table[name]) assert.equal(write(value), text, `${value}`)
  })
}
