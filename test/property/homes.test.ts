// timeout 300
// Random networks with wide convolutions, whole, tiled and made again, in less memory than their parameters and momenta: each plan is
// verified where it is compiled. Feasible exactly from the smallest budget on, never over it; nothing has a home where all fits.
import { isLeft } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compileSegments } from '../../staging/compile'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import { toTape } from '../../staging/plan/tape'
import { opCosts } from '../../staging/schedule/chain'
import { jointOf, jointSegments } from '../../staging/schedule/joint'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import type { Ref } from '../../staging/ops/op'
import { Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const machine = machines['v100-pcie-16g']!
const layers = fc.array(
  fc.record({
    kind: fc.constantFrom('conv', 'conv', 'relu', 'norm', 'add'),
    with: fc.nat({ max: 4 }),
    channels: fc.constantFrom(256, 320),
  }),
  { minLength: 2, maxLength: 7 },
)
type Layers = typeof layers extends fc.Arbitrary<infer L> ? L : never

/** Weights of one to four pages, values of less than one. */
const networkOf = (list: Layers): Graph => {
  const s = new Sketch([2, 256, 8, 8])
  const made: (readonly [Ref, number])[] = [[s.image, 256]]
  list.forEach((l, i) => {
    const [x, channels] = made[made.length - 1]!
    const [other, width] = made[Math.max(0, made.length - 1 - l.with)]!
    if (l.kind === 'relu') made.push([s.relu(x, `r${i}`), channels])
    else if (l.kind === 'norm') made.push([s.norm(x, `n${i}`), channels])
    else if (l.kind === 'add' && width === channels && made.length > 1)
      made.push([s.op('add', {}, [x, other], `a${i}`), channels])
    else made.push([s.conv(x, `c${i}`, l.channels, 3, undefined, false), l.channels])
  })
  return trained(s, s.conv(made[made.length - 1]![0], 'last', 256, 3, undefined, false))
}

test('plans are feasible exactly from the smallest budget on, and keep values at home only if needed', () => {
  let homes = 0
  fc.assert(
    fc.property(
      layers,
      fc.array(fc.boolean(), { minLength: 1, maxLength: 4 }),
      fc.constantFrom(1000, 1e9),
      fc.nat(),
      (list, goes, limit, more) => {
        const graph = networkOf(list)
        const joint = jointOf(graph, opCosts(graph, machine), 0)
        const gone = new Set(joint.droppable.filter((_, i) => goes[i % goes.length]))
        const segments = jointSegments(joint, gone, { forward: limit, backward: limit })
        if (isLeft(segments)) return
        const planned = (pages: number) =>
          compileSegments(graph, segments.right, { strategy: 'by hand', budgetBytes: bytesOf(pages), machine })
        const refused = planned(1)
        if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page cannot be enough')
        const least = pagesIn(refused.left.smallestBytes)
        assert.ok(isLeft(planned(least - 1)))
        for (const pages of [least, least + (more % 12), 1000]) {
          const plan = planned(pages)
          if (isLeft(plan)) throw new Error(`${pages} of ${least}: ${renderError(plan.left)}`)
          const there = plan.right.storages.filter((s) => s.home !== undefined).length
          assert.ok(plan.right.peakPages <= pages)
          assert.ok(simulate(plan.right, machine.link).makespanSeconds > 0 && toTape(plan.right).length > 0)
          if (pages === 1000) assert.is(there, 0)
          homes += there
        }
      },
    ),
    { numRuns: process.env['SPILLWAY_FULL'] === '1' ? 200 : 12, seed: 22 },
  )
  assert.ok(homes > 20, `only ${homes} had a home`)
})

test.run()
