// Colours that colour-blind viewers can tell apart, after Okabe and Ito, and their meanings. If neighbours
// have similar colours, their order and labels differ as well.
import { useEffect, useState } from 'preact/hooks'

const partColors: Record<string, [dark: string, light: string]> = {
  sampling: ['#7cc4f0', '#3d93c9'],
  link: ['#c9a0dc', '#9a67b3'],
  queue: ['#e69f00', '#d18f00'],
  'own tenant': ['#cf9468', '#a8683a'],
  'other tenants': ['#b97f00', '#a36d00'],
  'long tasks': ['#f2c14e', '#e6ad1f'],
  'closed share': ['#8d6508', '#7d5800'],
  'idle slot': ['#ffe0a0', '#c7a24a'],
  binding: ['#f0e442', '#b8a900'],
  fetch: ['#56b4a0', '#2f8f7a'],
  launch: ['#00b486', '#008f6b'],
  excess: ['#ff7a45', '#d55e00'],
  run: ['#5b7fa6', '#7f9dbd'],
  delivery: ['#ee9ac6', '#c4699c'],
  'in vain': ['#c0504d', '#a33f3c'],
  maximum: ['#a58fd8', '#6f56b3'],
  'stage wait': ['#8b95a1', '#7a848f'],
  outside: ['#5c6670', '#a2abb5'],
}

const nameColors: [dark: string, light: string][] = [['#56b4e9', '#2b8cc4'], ['#e69f00', '#c98a00'],
  ['#00b486', '#008f6b'], ['#ee9ac6', '#c4699c'], ['#f0e442', '#b8a900'], ['#ff7a45', '#d55e00'],
  ['#a58fd8', '#6f56b3'], ['#8fb3d9', '#5b7fa6'], ['#8b95a1', '#7a848f']]

// nameColor returns the colour of the i-th name of a chart: a tenant, or a function.
export function nameColor(i: number, dark: boolean): string {
  return nameColors[Math.min(i, nameColors.length - 1)]![dark ? 0 : 1]
}

// failedColor marks tasks without a result. vainColor marks attempts without an outcome.
export function failedColor(dark: boolean): string { return dark ? '#ff5f5f' : '#c62828' }
export function vainColor(dark: boolean): string { return dark ? '#98a2ac' : '#68727c' }

export function partColor(part: string, dark: boolean): string {
  const pair = partColors[part] ?? ['#999999', '#777777']
  return dark ? pair[0] : pair[1]
}

// partMeaning explains each part of a job's time, for titles.
export const partMeaning: Record<string, string> = {
  sampling: 'until places were asked for, or a worker was chosen',
  link: 'until the request reached the worker',
  queue: 'at the worker, until the turn came',
  'own tenant': 'in the queue behind tasks of the same tenant',
  'other tenants': 'in the queue behind tasks of other tenants',
  'long tasks': 'in the queue behind long tasks',
  'closed share': 'in the queue while the free room was closed to it',
  'idle slot': 'in the queue while a slot waited for a frontend\'s answer',
  binding: 'until the frontend had answered the turn',
  fetch: 'while the task\'s files were fetched',
  launch: 'until the task started',
  excess: 'run time beyond the expected time',
  run: 'run time, up to the expected time',
  delivery: 'until the frontend had the outcome',
  'in vain': 'earlier attempts without an outcome, and the rests after them',
  maximum: 'while the tenant used its maximum',
  'stage wait': 'between the end of one stage and the start of the next',
  outside: 'time without a known cause',
}

// bindingMeaning explains how a task came to its worker.
export const bindingMeaning: Record<string, string> = {
  late: 'bound when its place in the worker\'s queue had its turn',
  ride: 'sent along with the request for its place',
  shared: 'bound when another job\'s place had its turn',
  bundle: 'bound together with another task of the job',
  ahead: 'bound a round trip before the worker had room',
  early: 'bound to a chosen worker at once',
  copy: 'a second attempt, because the first was late',
}

// endMeaning explains why an attempt ended without an outcome.
export const endMeaning: Record<string, string> = {
  failed: 'the task was retried',
  'timed out': 'the attempt ran for too long, and the task was retried',
  panicked: 'the task was retried',
  'no input': 'a file could not be fetched, and the task was retried',
  killed: 'the worker drained, or had given up the frontend',
  preempted: 'the attempt was spare work, stopped for regular work',
  lost: 'the worker went away, or did not know the attempt',
  beaten: 'another attempt had ended the task before',
  stopped: 'the task was no longer wanted',
  moved: 'the task left the queue, because another worker could start it sooner',
}

// cividis is a scale from dark to light, for levels from 0 to 14; level 15 stands for an unknown value.
const cividis = [
  [0, 34, 78], [0, 45, 104], [28, 56, 112], [52, 68, 110], [71, 79, 108], [88, 91, 109], [104, 103, 113],
  [120, 115, 120],
  [137, 128, 120], [154, 141, 117], [172, 155, 110], [190, 169, 101], [209, 184, 87], [229, 200, 70],
  [254, 232, 56],
] as const

export function heat(level: number, dark: boolean): readonly [number, number, number] {
  if (level >= 15) return dark ? [60, 32, 40] : [232, 200, 206]
  return cividis[level]!
}

const themeKey = 'phoebe-theme'
const prefers = matchMedia('(prefers-color-scheme: light)')

export function isDark(): boolean {
  const set = document.documentElement.dataset['theme']
  return set ? set === 'dark' : !prefers.matches
}

// loadTheme restores the viewer's last choice of theme.
export function loadTheme(): void {
  try {
    const set = localStorage.getItem(themeKey)
    if (set === 'dark' || set === 'light') document.documentElement.dataset['theme'] = set
  } catch { /* without storage, no choice is remembered */ }
}

export function switchTheme(): void {
  const to = isDark() ? 'light' : 'dark'
  document.documentElement.dataset['theme'] = to
  try {
    localStorage.setItem(themeKey, to)
  } catch { /* the choice lasts until the page is left */ }
  for (const f of listeners) f()
}

const listeners = new Set<() => void>()

// useDark returns whether the page is dark. A change draws the component again.
export function useDark(): boolean {
  const [dark, set] = useState(isDark)
  useEffect(() => {
    const f = () => set(isDark())
    listeners.add(f)
    prefers.addEventListener('change', f)
    return () => {
      listeners.delete(f)
      prefers.removeEventListener('change', f)
    }
  }, [])
  return dark
}

// css returns a colour of the style sheet.
export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}
