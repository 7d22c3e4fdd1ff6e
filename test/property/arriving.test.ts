// timeout 300
// First ops in parts of the batch compute what whole ones do: random networks, each way that the planner looks at on a link so slow that there
// is much to gain. On `ref` (double) gradients agree to 1e-9; on `cpu` within 1e-4. Every plan is verified.
import { isLeft, right } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Segment } from '../../staging/plan/plan'
import { arriving } from '../../staging/planner/arriving'
import { inCore } from '../../staging/schedule/incore'
import { FULL } from '../full'
import { compareWith } from './compare'
import { recipes } from './networks'
import { planOfSegments } from './plans'

const RUNS = FULL ? 300 : 12

/** The segments of each way. */
const waysOf = (graph: Graph, machine: Machine): readonly (readonly Segment[])[] => {
  const slow = { ...machine, link: { ...machine.link, inBytesPerSecond: 1e3 } }
  const listed = inCore(graph, slow)
  if (isLeft(listed)) throw new Error(JSON.stringify(listed.left))
  const first = listed.right.next(false)
  if (first.done) throw new Error('in-core is one candidate at least')
  const ways: (readonly Segment[])[] = []
  const asked = arriving(graph, slow, Infinity, first.value, Infinity)
  for (let next = asked.next(0); !next.done; next = asked.next(0)) ways.push(next.value.layout.segments)
  return ways
}

for (const [device, tolerance] of [
  ['ref', 1e-9],
  ['cpu', 1e-4],
] as const)
  test(`in parts as in one on ${device}`, async () => {
    let compared = 0
    await fc.assert(
      fc.asyncProperty(recipes, fc.nat(), fc.constantFrom(0, 1), async (recipe, which, squeeze) => {
        const worst = await compareWith(device, recipe, tolerance, (graph, machine) => {
          const ways = waysOf(graph, machine)
          for (const [begun] of ways) assert.ok(begun!.grid.B > 1, 'it begins with a loop')
          return ways.length ? planOfSegments(graph, right(ways[which % ways.length]!), squeeze, machine) : undefined
        })
        if (worst !== undefined) compared++
        assert.ok(worst === undefined || worst <= 1, `${worst} of what is allowed`)
      }),
      { numRuns: RUNS, seed: 3 },
    )
    assert.ok(3 * compared > RUNS, `${compared} of ${RUNS} in parts`)
  })

test.run()
