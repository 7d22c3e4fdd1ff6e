// Cancellation between two runs: a session drops a `cancel` that comes while no run is active, so `inBatches` reads the signal itself.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Value } from '../../../staging/graph/graph'
import type { DataSource } from '../../../src/data/source'
import { inBatches } from '../../../src/predict/batches'
import type { DeviceSession, RunMetrics } from '../../../src/train/device'

const OUTPUT = { name: 'output', role: 'output', shape: [1, 1, 1, 1], dtype: 'f32' } as unknown as Value
const TOOK = { seconds: [0.001] } as unknown as RunMetrics

/** Each run ends at once, as a short batch does; `cancel` finds no active run. */
const quickSession = (began: number[]): DeviceSession =>
  ({
    run: ({ firstStep }: { readonly firstStep: number }) => {
      began.push(firstStep)
      return Promise.resolve(E.right(TOOK))
    },
    cancel: () => {},
  }) as unknown as DeviceSession

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** The batches that began and were taken, where the signal comes while batch `at` is taken. */
const interruptedAt = async (at: number, steps: number) => {
  const stop = new AbortController()
  const [began, taken]: [number[], number[]] = [[], []]
  const answer = await inBatches({
    session: quickSession(began),
    output: OUTPUT,
    data: {} as DataSource,
    steps,
    beside: undefined,
    signal: stop.signal,
    take: async (step) => {
      // The run of the next batch is over by now: the ranks meet.
      await nextTurn()
      if (step === at) stop.abort()
      taken.push(step)
      return E.right(true)
    },
  })()
  return { answer, began, taken }
}

test('a signal between two runs ends the batches', async () => {
  const { answer, began, taken } = await interruptedAt(3, 1000)
  assert.equal(answer, E.left({ tag: 'Cancelled', stepsDone: 0 }))
  assert.equal(
    [began, taken],
    [
      [1, 2, 3, 4],
      [1, 2, 3],
    ],
  )
})

test('a signal during the last batch ends them, too', async () => {
  const { answer, began } = await interruptedAt(2, 2)
  assert.equal([answer, began], [E.left({ tag: 'Cancelled', stepsDone: 0 }), [1, 2]])
})

test('without a signal all batches run', async () => {
  const { answer, began } = await interruptedAt(0, 3)
  assert.equal([answer, began], [E.right([TOOK, TOOK, TOOK]), [1, 2, 3]])
})

test.run()
