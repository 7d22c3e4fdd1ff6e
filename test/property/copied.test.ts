// timeout 300
// A step with a copied input computes the bits of the step without one: random networks in random tiles and budgets, with and without the next input
// loaded ahead, over several steps. Every plan is verified and survives its file.
import { isLeft, type Either, right } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { copiesIn, copyableIn, withCopies } from '../../staging/graph/copied'
import type { Graph } from '../../staging/graph/graph'
import { isForNext } from '../../staging/plan/ahead'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import { type Segment, UNTILED } from '../../staging/plan/plan'
import { swappingOnDemand } from '../../staging/schedule/candidate'
import { layOut } from '../../staging/schedule/layout'
import { assemble } from '../../staging/tile/segments'
import type { TileError } from '../../staging/tile/slices'
import { verify } from '../../staging/verify/verify'
import { FULL, GATE } from '../full'
import { machine as machineFor } from './compare'
import { bitsOf, overlapsOf } from './overlaps'
import { cases, groupsOf, type Tiling, trainingOf } from './plans'

const RUNS = FULL ? 300 : GATE ? 24 : 10
const STEPS = 4

/** The segments of the graph with copies: the same tiles, and the copies in a segment of their own at the start. */
const segmentsOf = (graph: Graph, copied: Graph, tiling: Tiling): Either<TileError, readonly Segment[]> => {
  const count = copiesIn(copied).size
  const groups = groupsOf(graph, tiling).map((g) => ({ ...g, ops: g.ops.map((op) => op + count) }))
  return assemble(copied, [{ ops: Array.from({ length: count }, (_, i) => i), grid: UNTILED }, ...groups])
}

for (const device of ['ref', 'cpu'] as const)
  test(`the same bits on ${device}`, async () => {
    const machine = machineFor(device)
    let compared = 0
    await fc.assert(
      fc.asyncProperty(cases, fc.nat(20), fc.nat(6), async ({ recipe, tiling }, which, room) => {
        const graph = trainingOf(recipe, device === 'ref' ? 'f64' : 'f32')
        const copied = withCopies(graph, copyableIn(graph, Infinity))
        const segments = assemble(graph, groupsOf(graph, tiling))
        const once = segmentsOf(graph, copied, tiling)
        if (copiesIn(copied).size === 0 || isLeft(segments) || isLeft(once)) return
        const candidateOf = (g: Graph, of: readonly Segment[]) =>
          swappingOnDemand(layOut(g, of, machine, { packing: 'rows' }), machine)
        const [without, candidate] = [candidateOf(graph, segments.right), candidateOf(copied, once.right)]
        const plain = overlapsOf(without, machine, without.least + room)?.plain
        const plans = overlapsOf(candidate, machine, candidate.least + room)
        if (!plain || !plans) return
        const overlapped = plans.overlapped[which % plans.overlapped.length]!
        for (const plan of [plans.plain, overlapped]) {
          const sound = verify(plan)
          if (isLeft(sound)) throw new Error(JSON.stringify(sound.left))
          assert.equal(decodePlan(encodePlan(plan)), right(plan))
        }
        assert.ok(overlapped.residencies.some((r) => isForNext(r, overlapped.calls.length)))
        compared++
        const expected = await bitsOf(device, plain, [STEPS])
        for (const plan of [plans.plain, overlapped]) assert.equal(await bitsOf(device, plan, [STEPS]), expected)
        assert.equal(await bitsOf(device, overlapped, [1, STEPS - 1]), expected)
      }),
      { numRuns: RUNS, seed: 11 },
    )
    assert.ok(3 * compared > RUNS, `${compared} of ${RUNS} copied`)
  })

test.run()
