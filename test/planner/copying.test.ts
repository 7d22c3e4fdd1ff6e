// Inputs copied once a step: the gain on a slow link, and steps without a gain.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import { copiesIn } from '../../staging/graph/copied'
import { fingerprint } from '../../staging/graph/fingerprint'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import { isForNext } from '../../staging/plan/ahead'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import { copying } from '../../staging/planner/copying'
import { inCore, inCoreLayout } from '../../staging/schedule/incore'
import { leastPages } from '../../staging/schedule/stays'
import { explained } from '../../staging/search/explain'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { gateTest } from '../full'
import { trainingGraph } from '../golden/golden'

const v100 = machines['v100-pcie-16g']!
const linkOf = (rate: number): Machine => ({ ...v100, link: { ...v100.link, inBytesPerSecond: rate, outBytesPerSecond: rate } })
const slow = linkOf(1e9)

/** More than the effort of other tests, which is too little to find such plans. */
const EFFORT = 2

const planOf = (graph: Graph, machine: Machine, share: number): Plan => {
  const layout = inCoreLayout(graph, machine)
  const pages = Math.floor(leastPages(layout.planned, layout.calls.length) / share)
  const plan = compile(graph, { strategy: 'auto', machine, budgetBytes: bytesOf(pages), effort: EFFORT })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.peakPages <= pages)
  return plan.right
}
/** The waits of compute over the seconds of the step. */
const waitOf = (plan: Plan, { link }: Machine): number => {
  const { computeSeconds, makespanSeconds } = simulate(plan, link)
  return 1 - computeSeconds / makespanSeconds
}
const pagesFedIn = ({ residencies }: Plan): number =>
  residencies.reduce((n, r) => n + (r.swapIn?.from === 'source' ? r.to - r.from : 0), 0)

const graph = trainingGraph('mobilenetv2', [32, 3, 224, 224])

test('on a link of 1 GB/s, a step with a copy feeds its input once and hardly waits', () => {
  const plan = planOf(graph, slow, 4)
  assert.is(copiesIn(plan.graph).size, 1)
  assert.is(fingerprint(plan.graph), fingerprint(graph))
  // Ten pages of images and one of labels. A step without a copy feeds 21 pages and waits for 29 % of its time.
  assert.is(pagesFedIn(plan), 11)
  assert.ok(waitOf(plan, slow) < 0.01, `${waitOf(plan, slow)}`)
  const calls = plan.calls.length
  assert.is(
    plan.residencies.reduce((n, r) => n + (isForNext(r, calls) ? r.to - r.from : 0), 0),
    11,
  )
  const read = decodePlan(encodePlan(plan))
  assert.ok(isRight(read), JSON.stringify(read))
  assert.equal(toTape(read.right), toTape(plan))
  const copy = explained(plan, slow)!.values.find((v) => v.name === 'input.copy')
  assert.match(copy!.decision, 'the next input')
})

gateTest('so do steps of EfficientNet-B0 in less memory', () => {
  const efficientnet = trainingGraph('efficientnet-b0', [32, 3, 224, 224])
  for (const share of [4, 8]) {
    const plan = planOf(efficientnet, slow, share)
    assert.is(copiesIn(plan.graph).size, 1)
    assert.ok(waitOf(plan, slow) < 0.05, `${waitOf(plan, slow)} at 1/${share}`)
  }
})

/** Returns true if `copying` searches for a step that takes twice its compute. */
const searches = (g: Graph, machine: Machine, pages: number): boolean => {
  const listed = inCore(graph, machine)
  if (isLeft(listed)) throw new Error(JSON.stringify(listed.left))
  const first = listed.right.next(false)
  if (first.done) throw new Error('in-core is one candidate at least')
  const compute = first.value.layout.calls.reduce((n, c) => n + c.seconds, 0)
  return copying(g, machine, pages, first.value, 2 * compute, 0.1).next(0).done !== true
}

test('it searches only if the input can be waited for, and if both inputs fit', () => {
  assert.ok(searches(graph, slow, 400))
  assert.not(searches(graph, linkOf(1e12), 400))
  assert.not(searches(graph, slow, 18))
  assert.not(searches({ ...graph, ranks: 2 }, slow, 400))
  assert.not(searches({ ...graph, inParts: { whole: graph, counts: {} } }, slow, 400))
})

test('a fast link needs no copy', () => {
  assert.is(copiesIn(planOf(graph, linkOf(1e11), 4).graph).size, 0)
})

test.run()
