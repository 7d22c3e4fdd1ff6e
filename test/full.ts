// How many repetitions of a check run. `npm test` runs one of each kind; the gate (SPILLWAY_GATE=1) adds its longest tests; full mode
// (SPILLWAY_FULL=1, `npm test -- --full`) runs all networks, seeds, ranks and cases.

import { test } from 'uvu'

export const FULL = process.env['SPILLWAY_FULL'] === '1'
export const GATE = FULL || process.env['SPILLWAY_GATE'] === '1'

/** All in full mode, else the few that stand for them. */
export const fewOrAll = <A>(few: readonly A[], all: readonly A[]): readonly A[] => (FULL ? all : few)

/** A test that repeats another one; it runs in full mode only. */
export const fullTest = (name: string, body: () => void | Promise<void>): void => {
  if (FULL) test(name, body)
}

/** A long test of rarely changed code; it runs in the gate and in full mode. */
export const gateTest = (name: string, body: () => void | Promise<void>): void => {
  if (GATE) test(name, body)
}
