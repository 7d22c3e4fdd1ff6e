// timeout 300
// Swapping planners on random networks with large values: chains, skips over any distance, shared inputs, in place and not.
// Each plan is verified where it is compiled; here: feasible exactly from the smallest budget on, never over the budget,
// and never faster than the bound that no plan beats.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Ref } from '../../staging/ops/op'
import { atLeastSeconds } from '../../staging/schedule/bound'
import { inCoreRows } from '../../staging/schedule/incore'
import { strategies } from '../../staging/planner/strategies'
import { leastPages } from '../../staging/schedule/stays'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { samePad, Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const swapping = strategies.filter((s) => s.startsWith('swap:'))
const CHANNELS = 4096

interface Layer {
  readonly kind: 'conv' | 'relu' | 'norm' | 'add'
  /** Which of the values so far: 0 the last. */
  readonly of: number
  readonly with: number
}
const layers: fc.Arbitrary<readonly Layer[]> = fc.array(
  fc.record({
    kind: fc.constantFrom('conv', 'conv', 'relu', 'norm', 'add'),
    of: fc.constantFrom(0, 0, 0, 1, 2),
    with: fc.nat({ max: 6 }),
  }),
  { minLength: 2, maxLength: 9 },
)

/** Values of one to four pages. */
const networkOf = (list: readonly Layer[], batch: number): Graph => {
  const s = new Sketch([batch, CHANNELS, 8, 16], 'random')
  const made: Ref[] = [s.image]
  const back = (k: number): Ref => made[Math.max(0, made.length - 1 - k)]!
  list.forEach((l, i) => {
    const x = back(l.of)
    if (l.kind === 'conv') made.push(s.conv(x, `c${i}`, CHANNELS, 3, { ...samePad(3), groups: CHANNELS }, false))
    else if (l.kind === 'relu') made.push(s.relu(x, `r${i}`))
    else if (l.kind === 'norm') made.push(s.norm(x, `n${i}`))
    else made.push(s.op('add', {}, [x, back(l.with)], `a${i}`))
  })
  return trained(s, s.conv(back(0), 'last', CHANNELS, 1, { groups: CHANNELS }, false))
}

const named = machines['v100-pcie-16g']!
const at = (graph: Graph, machine: Machine, strategy: string, pages: number) =>
  compile(graph, { strategy, machine, budgetBytes: bytesOf(pages), algorithms: 'fixed' })
const smallest = (graph: Graph, machine: Machine, strategy: string): number => {
  const refused = at(graph, machine, strategy, 1)
  if (isRight(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${strategy}: a page cannot be enough`)
  return pagesIn(refused.left.smallestBytes)
}

test('feasible exactly from the smallest budget on, within the budget, not faster than is possible', () => {
  let moved = 0
  fc.assert(
    fc.property(
      layers,
      fc.integer({ min: 1, max: 4 }),
      fc.boolean(),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (list, batch, fullDuplex, share) => {
        const machine = { ...named, link: { ...named.link, fullDuplex } }
        const graph = networkOf(list, batch)
        const l = inCoreRows(graph, machine)
        const most = leastPages(l.planned, l.calls.length)
        for (const strategy of swapping) {
          const least = smallest(graph, machine, strategy)
          assert.ok(least <= most, strategy)
          assert.ok(isLeft(at(graph, machine, strategy, least - 1)), `${strategy} below ${least}`)
          for (const pages of new Set([least, Math.round(least + share * (most - least)), most])) {
            const plan = at(graph, machine, strategy, pages)
            if (isLeft(plan)) throw new Error(`${strategy} at ${pages} of ${least} to ${most}: ${renderError(plan.left)}`)
            assert.ok(plan.right.peakPages <= pages)
            const { makespanSeconds } = simulate(plan.right, machine.link)
            assert.ok(makespanSeconds >= atLeastSeconds(l, pages, machine.link) * (1 - 1e-9), `${strategy} at ${pages} pages`)
            if (plan.right.tierBytes > 0) moved++
          }
        }
      },
    ),
    { numRuns: process.env['SPILLWAY_FULL'] === '1' ? 100 : 8, seed: 21 },
  )
  assert.ok(moved > 50, `only ${moved} plans moved anything`)
})

test.run()
