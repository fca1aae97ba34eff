// Texts for numbers and times.

const units: [number, string][] = [[3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'],
  [1, 'ns']]

// time writes nanoseconds with three digits.
export function time(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return '–'
  if (ns === 0) return '0'
  const sign = ns < 0 ? '−' : '', abs = Math.abs(ns)
  for (const [unit, name] of units) {
    if (abs >= unit || unit === 1) return `${sign}${digits(abs / unit)} ${name}`
  }
  return '–'
}

export function digits(x: number): string {
  if (x >= 100) return Math.round(x).toLocaleString('en')
  return x >= 10 ? x.toFixed(1).replace(/\.0$/, '') : x.toFixed(2).replace(/\.?0+$/, '')
}

export function count(n: number): string { return n.toLocaleString('en') }

export function rate(n: number): string {
  return n >= 10 || n === 0 ? Math.round(n).toLocaleString('en') : n.toFixed(1)
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
