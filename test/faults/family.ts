// A family of faults: cases of one kind by users, files and machines, counted. In: the number of cases. Out: the cases and their results; an
// assertion fails if the product answers otherwise than in words. Invariant: `npm test` runs few cases of each family, and `npm run acceptance --
// edges` all: the same code.
import { test } from 'uvu'
import * as assert from 'uvu/assert'

/** The cases and their results. */
export type Counts = Readonly<Record<string, number | string>>

export interface Family {
  /** The claim, in a line. */
  readonly what: string
  readonly few: number
  readonly all: number
  /** Longer than all cases take: afterwards something hangs. */
  readonly seconds: number
  readonly run: (cases: number) => Promise<Counts>
}

/** A family's few cases as a test. */
export const fewOf = ({ what, few, run }: Family): void => {
  test(what, async () => {
    const counts = await run(few)
    assert.ok(Object.keys(counts).length > 0)
  })
  test.run()
}

/** A family skips a missing feature of the system: it says so, and nothing else counts. */
export const skipped = (why: string): Counts => ({ skipped: why })
