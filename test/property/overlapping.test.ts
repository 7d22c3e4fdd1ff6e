// timeout 300
// Steps that load the next step's input compute the bits of single steps: random networks, budgets and numbers of loaded parts. Each plan is verified
// and survives its file. Runs of several steps, short runs, and runs of the plan without overlap end with equal losses, weights and statistics.
import { isLeft, right } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isForNext } from '../../staging/plan/ahead'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import { swappingOnDemand } from '../../staging/schedule/candidate'
import { layOut } from '../../staging/schedule/layout'
import { assemble } from '../../staging/tile/segments'
import { verify } from '../../staging/verify/verify'
import { FULL, GATE } from '../full'
import { machine as machineFor } from './compare'
import { bitsOf, overlapsOf } from './overlaps'
import { cases, groupsOf, trainingOf } from './plans'

const RUNS = FULL ? 300 : GATE ? 24 : 10
const STEPS = 5

for (const device of ['ref', 'cpu'] as const)
  test(`steps that overlap have the bits of single steps on ${device}`, async () => {
    const machine = machineFor(device)
    let compared = 0
    await fc.assert(
      fc.asyncProperty(cases, fc.nat(20), fc.nat(6), async ({ recipe, tiling }, which, room) => {
        const graph = trainingOf(recipe, device === 'ref' ? 'f64' : 'f32')
        const segments = assemble(graph, groupsOf(graph, tiling))
        if (isLeft(segments)) return
        const candidate = swappingOnDemand(layOut(graph, segments.right, machine, { packing: 'rows' }), machine)
        const plans = overlapsOf(candidate, machine, candidate.least + room)
        if (!plans) return
        const overlapped = plans.overlapped[which % plans.overlapped.length]!
        for (const plan of [plans.plain, overlapped]) {
          const sound = verify(plan)
          if (isLeft(sound)) throw new Error(JSON.stringify(sound.left))
        }
        assert.ok(overlapped.residencies.some((r) => isForNext(r, overlapped.calls.length)))
        assert.equal(decodePlan(encodePlan(overlapped)), right(overlapped))
        compared++
        const expected = await bitsOf(device, plans.plain, [STEPS])
        assert.equal(await bitsOf(device, overlapped, [STEPS]), expected)
        assert.equal(await bitsOf(device, overlapped, [2, 1, STEPS - 3]), expected)
      }),
      { numRuns: RUNS, seed: 5 },
    )
    assert.ok(3 * compared > RUNS, `${compared} of ${RUNS} overlap`)
  })

test.run()
