// Colours that remain apart for the colour-blind, after Okabe and Ito, and what they stand for. Where two meet that are like each
// other, the order and the labels tell them apart as well.
import { useEffect, useState } from 'preact/hooks'

const parts: Record<string, [dark: string, light: string]> = {
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
  'stage wait': ['#8b95a1', '#7a848f'],
  outside: ['#5c6670', '#a2abb5'],
}

// bad is the colour of what has no result, and vain that of attempts that did not give an outcome.
export function bad(dark: boolean): string { return dark ? '#ff5f5f' : '#c62828' }
export function vain(dark: boolean): string { return dark ? '#98a2ac' : '#68727c' }

export function partColor(part: string, dark: boolean): string {
  const pair = parts[part] ?? ['#999999', '#777777']
  return dark ? pair[0] : pair[1]
}

// What each kind of time means, for titles.
export const meaning: Record<string, string> = {
  sampling: 'until it was decided where places are asked for',
  link: 'until the worker had that',
  queue: 'at the worker, until its turn came; and attempts in vain before that',
  'own tenant': 'in the queue behind tasks of its own tenant',
  'other tenants': 'in the queue behind tasks of other tenants',
  'long tasks': 'in the queue behind long tasks',
  'closed share': 'in the queue beside room that is kept free',
  'idle slot': 'in the queue while a slot waited for a frontend to say what to run',
  binding: 'until the frontend had answered the turn',
  fetch: 'while its files were fetched',
  launch: 'until it started',
  excess: 'what it ran longer than expected',
  run: 'what it ran, as long as expected',
  delivery: 'until the frontend had the outcome',
  'stage wait': 'between the end of one stage and the start of the next',
  outside: 'of which it is not known where it went',
}

// What is meant by how a task came to its worker.
export const ways: Record<string, string> = {
  late: 'when its place in the worker\'s queue had its turn',
  ride: 'with the message that asked for its place',
  shared: 'when the place of another job had its turn',
  bundle: 'behind another task of its job',
  ahead: 'a little before the worker had room',
  early: 'when it was decided where it goes',
  copy: 'as a second attempt, as the first one was late',
}

// What is meant by why an attempt ended that did not give an outcome.
export const ends: Record<string, string> = {
  failed: 'it was tried again',
  'timed out': 'it ran for too long, and was tried again',
  panicked: 'it was tried again',
  'no input': 'a file could not be fetched, and it was tried again',
  killed: 'its worker drained, or had given the frontend up',
  preempted: 'it was spare, and in the way of what is regular',
  lost: 'its worker went away, or knew nothing of it',
  beaten: 'another attempt had ended the task before',
  stopped: 'the task was not wanted any more',
}

// heat is a scale from dark to light (cividis), for levels from 0 to 14; 15 is not known.
const cividis = [
  [0, 34, 78], [0, 45, 104], [28, 56, 112], [52, 68, 110], [71, 79, 108], [88, 91, 109], [104, 103, 113], [120, 115, 120],
  [137, 128, 120], [154, 141, 117], [172, 155, 110], [190, 169, 101], [209, 184, 87], [229, 200, 70], [254, 232, 56],
] as const

export function heat(level: number, dark: boolean): readonly [number, number, number] {
  if (level >= 15) return dark ? [60, 32, 40] : [232, 200, 206]
  return cividis[level]!
}

const wanted = 'phoebe-theme'
const prefers = matchMedia('(prefers-color-scheme: light)')

export function isDark(): boolean {
  const set = document.documentElement.dataset['theme']
  return set ? set === 'dark' : !prefers.matches
}

// loadTheme shows the page as was chosen last.
export function loadTheme(): void {
  try {
    const set = localStorage.getItem(wanted)
    if (set === 'dark' || set === 'light') document.documentElement.dataset['theme'] = set
  } catch { /* nothing is remembered then */ }
}

export function switchTheme(): void {
  const to = isDark() ? 'light' : 'dark'
  document.documentElement.dataset['theme'] = to
  try {
    localStorage.setItem(wanted, to)
  } catch { /* it holds until the page is left */ }
  for (const f of listeners) f()
}

const listeners = new Set<() => void>()

// useDark tells whether the page is dark, and draws again when that changes.
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

// css is a colour of the style sheet.
export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}
