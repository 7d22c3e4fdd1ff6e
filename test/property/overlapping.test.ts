// timeout 300
// Steps that load the next step's input and parameters compute the bits of single steps: random networks, budgets and numbers of loaded parts. Each
// plan is verified and survives its file. Runs of several steps, short runs, and runs of the plan without overlap end with equal losses, weights and
// statistics.
import { isLeft, right } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isForNext } from '../../staging/plan/ahead'
import type { Plan } from '../../staging/plan/plan'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import { swappingOnDemand } from '../../staging/schedule/candidate'
import { layOut } from '../../staging/schedule/layout'
import { isPersistent } from '../../staging/graph/graph'
import { assemble } from '../../staging/tile/segments'
import { verify } from '../../staging/verify/verify'
import { FULL, GATE } from '../full'
import { machine as machineFor } from './compare'
import { bitsOf, overlapsOf } from './overlaps'
import { cases, groupsOf, trainingOf } from './plans'

const RUNS = FULL ? 300 : GATE ? 24 : 10
const STEPS = 5

/** Returns true if the plan loads parameters of the lower tier for the next step. */
const loadsHomes = ({ storages, residencies, calls }: Plan): boolean =>
  residencies.some((r) => storages[r.storage]!.home !== undefined && isForNext(r, calls.length))

for (const device of ['ref', 'cpu'] as const)
  test(`steps that overlap have the bits of single steps on ${device}`, async () => {
    const own = machineFor(device)
    // Parameters leave and return before the step ends.
    const machine = { ...own, link: { ...own.link, inBytesPerSecond: 1e12, outBytesPerSecond: 1e12, latencySeconds: 0 } }
    let compared = 0
    let homes = 0
    await fc.assert(
      fc.asyncProperty(cases, fc.nat(20), fc.nat(6), fc.boolean(), async ({ recipe, tiling }, which, room, isAway) => {
        const graph = trainingOf(recipe, device === 'ref' ? 'f64' : 'f32')
        const segments = assemble(graph, groupsOf(graph, tiling))
        if (isLeft(segments)) return
        const persistents = new Map(isAway ? graph.values.filter(isPersistent).map((v) => [v.id, v.id] as const) : [])
        const layout = layOut(graph, segments.right, machine, { packing: 'rows', persistents })
        const candidate = swappingOnDemand(layout, machine)
        const plans = overlapsOf(candidate, machine, candidate.least + (isAway ? persistents.size : room))
        if (!plans) return
        const crossing = plans.overlapped.filter(loadsHomes)
        const offered = crossing.length > 0 ? crossing : plans.overlapped
        const overlapped = offered[which % offered.length]!
        for (const plan of [plans.plain, overlapped]) {
          const sound = verify(plan)
          if (isLeft(sound)) throw new Error(JSON.stringify(sound.left))
        }
        assert.ok(overlapped.residencies.some((r) => isForNext(r, overlapped.calls.length)))
        assert.equal(decodePlan(encodePlan(overlapped)), right(overlapped))
        compared++
        homes += Number(loadsHomes(overlapped))
        const expected = await bitsOf(device, plans.plain, [STEPS])
        assert.equal(await bitsOf(device, overlapped, [STEPS]), expected)
        assert.equal(await bitsOf(device, overlapped, [2, 1, STEPS - 3]), expected)
      }),
      { numRuns: RUNS, seed: 5 },
    )
    assert.ok(3 * compared > RUNS, `${compared} of ${RUNS} overlap`)
    assert.ok(homes > 0, 'a plan loads parameters for the next step')
  })

test.run()
