// Full mode, `npm test -- --full`: repetitions of a check, with more networks, seeds, ranks or cases. `npm test` runs one of each kind.

import { test } from 'uvu'

export const FULL = process.env['SPILLWAY_FULL'] === '1'

/** All in full mode, else the few that stand for them. */
export const fewOrAll = <A>(few: readonly A[], all: readonly A[]): readonly A[] => (FULL ? all : few)

/** A test that repeats another one; it runs in full mode only. */
export const fullTest = (name: string, body: () => void | Promise<void>): void => {
  if (FULL) test(name, body)
}
