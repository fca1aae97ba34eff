// Texts for numbers and times.

// Times and rates look as on the command line (package probe/units). format.test.mjs checks the texts against
// the examples of the package.

// time writes nanoseconds with three digits, from a minute on as in 1m40s, and from an hour on as in 2h3m.
export function time(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return '–'
  if (ns === 0) return '0'
  if (ns < 0) return `-${time(-ns)}`
  const d = roundDigits(ns, 1000)
  if (d < 1e3) return `${d} ns`
  if (d < 1e5) return `${d / 1e3} µs`
  if (d < 1e9) return `${d / 1e6} ms`
  if (d < 60e9) return `${d / 1e9} s`
  const seconds = Math.round(ns / 1e9), minutes = Math.round(ns / 60e9)
  if (seconds < 3600) return twoUnits(seconds, 60, 'm', 's')
  if (minutes < 24 * 60) return twoUnits(minutes, 60, 'h', 'm')
  return twoUnits(Math.round(ns / 3600e9), 24, 'd', 'h')
}

// about writes nanoseconds that are known roughly, with two digits.
export function about(ns: number): string { return ns === 0 ? time(0) : `about ${time(roundDigits(ns, 100))}` }

// roundDigits rounds to a whole number, and to as many digits as numbers below the limit have.
function roundDigits(ns: number, limit: number): number {
  let unit = 1
  while (Math.floor(ns / unit) >= limit) unit *= 10
  return Math.round(ns / unit) * unit
}

function twoUnits(n: number, many: number, large: string, small: string): string {
  return `${Math.floor(n / many)}${large}${n % many ? `${n % many}${small}` : ''}`
}

export function digits(x: number): string {
  if (x >= 100) return Math.round(x).toLocaleString('en')
  return x >= 10 ? x.toFixed(1).replace(/\.0$/, '') : x.toFixed(2).replace(/\.?0+$/, '')
}

export function count(n: number): string { return n.toLocaleString('en') }

// rate writes a number of events in a second.
export function rate(n: number): string {
  if (n === 0) return '0'
  if (n < 0.995) return n.toFixed(2)
  return n < 9.95 ? n.toFixed(1) : Math.round(n).toLocaleString('en')
}

export function share(x: number): string { return x > 0 && x < 0.01 ? '<1 %' : `${Math.round(x * 100)} %` }

export function clock(ms: number, withSeconds = true): string {
  return new Date(ms).toLocaleTimeString('en-GB', withSeconds ? {} : { hour: '2-digit', minute: '2-digit' })
}

export function when(text: string): string {
  const d = new Date(text)
  const today = new Date().toDateString() === d.toDateString()
  const at = `${d.toLocaleTimeString('en-GB')}.${String(d.getMilliseconds()).padStart(3, '0')}`
  return today ? at : `${d.toLocaleDateString('en-CA')} ${at}`
}

// tenantName returns the name of a tenant on the page. The default tenant has no name.
export function tenantName(name: string): string { return name === '' ? '(none)' : name }
