// Weights laid out once a step: the gain if memory allows, and no change if it does not, or if calls have no time with it and without.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { elementsOf } from '../../staging/core/box'
import { renderError } from '../../staging/core/errors'
import { devices } from '../../staging/devices'
import { inHalf } from '../../staging/grad/rewrite/half'
import { fingerprint } from '../../staging/graph/fingerprint'
import type { Graph } from '../../staging/graph/graph'
import { asStaged } from '../../staging/graph/laid'
import type { Machine } from '../../staging/graph/machine'
import type { CallShapes } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import { inCore, inCoreLayout } from '../../staging/schedule/incore'
import { laying } from '../../staging/planner/laying'
import { leastPages } from '../../staging/schedule/stays'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { fewOrAll } from '../full'
import { trainingGraph } from '../golden/golden'

const v100 = machines['v100-pcie-16g']!
/** The seconds of a call that lays a weight out: a launch, and six bytes an element. */
const layingSeconds = (weight: readonly number[]): number => 6e-6 + (6 * elementsOf(weight)) / 720e9
const isTaken = (kind: string, s: CallShapes): boolean => !s.laid && opDef(kind).ins.some((o) => o.laid === 'may')

/** As if each call had been timed: those that do not find their weight laid out take longer, and have scratch for it. */
const timed: Machine = {
  ...v100,
  simulated: false,
  choices: (kind, attrs, s) => {
    const weight = s.ins[1] ?? []
    const lays = isTaken(kind, s)
    return [
      {
        way: 0,
        seconds:
          kind === 'lay_out' ? layingSeconds(s.ins[0]!) : v100.seconds(kind, attrs, s) + (lays ? layingSeconds(weight) : 0),
        workspace: lays ? 2 * elementsOf(weight) : 0,
      },
    ]
  },
}
const without: Machine = { ...timed, device: { ...devices.cuda, laysWeights: false } }

const graph = inHalf('bf16')(trainingGraph('resnet18', [16, 3, 224, 224]))
const pagesInCore = (machine: Machine): number => {
  const layout = inCoreLayout(graph, machine)
  return leastPages(layout.planned, layout.calls.length)
}
const planOf = (machine: Machine, pages: number, of: Graph = graph): Plan => {
  const plan = compile(of, { strategy: 'auto', machine, budgetBytes: bytesOf(pages) })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.peakPages <= pages)
  return plan.right
}
const secondsOf = (plan: Plan): number => simulate(plan, v100.link).makespanSeconds
const laysOut = (plan: Plan): number => plan.calls.filter((c) => c.kind === 'lay_out').length

test('with enough memory, each weight that is read twice is laid out once, at the start', () => {
  const pages = 2 * pagesInCore(without)
  const [plain, laid] = [planOf(without, pages), planOf(timed, pages)]
  const reads = plain.calls.filter((c) => /^conv2d(_relu|_bwd_data)?$/.test(c.kind)).map((c) => c.ins[1]!.value)
  const twice = new Set(reads.filter((w, i) => reads.indexOf(w) < i)).size
  assert.ok(twice > 0)
  assert.is(laysOut(laid), twice)
  assert.ok(laid.calls.slice(0, twice).every((c) => c.kind === 'lay_out'))
  assert.ok(secondsOf(laid) < secondsOf(plain), `${secondsOf(laid)} for ${secondsOf(plain)}`)
  assert.equal(asStaged(laid.graph), graph)
  assert.is(fingerprint(laid.graph), fingerprint(plain.graph))
  const read = decodePlan(encodePlan(laid))
  assert.ok(isRight(read), JSON.stringify(read))
  assert.equal(toTape(read.right), toTape(laid))
})

const inMemory = (share: number): readonly [plain: Plan, laid: Plan] => {
  const pages = Math.ceil(share * pagesInCore(without))
  return [planOf(without, pages), planOf(timed, pages)]
}

for (const share of fewOrAll([0.9], [0.9, 0.7]))
  test(`in ${share} of in-core memory, the weights that fit are laid out`, () => {
    const [plain, laid] = inMemory(share)
    assert.ok(laysOut(laid) > 0)
    assert.ok(secondsOf(laid) < secondsOf(plain), `${secondsOf(laid)} for ${secondsOf(plain)}`)
  })

for (const share of fewOrAll([0.5], [0.5, 0.3]))
  test(`in ${share} of in-core memory, which has a better use, the plan does not change`, () => {
    const [plain, laid] = inMemory(share)
    assert.equal(laid, plain)
  })

test('a machine that only exists in simulation lays nothing out', () => {
  const pages = 2 * pagesInCore(v100)
  assert.is(laysOut(planOf({ ...timed, simulated: true }, pages)), 0)
  assert.is(laysOut(planOf(v100, pages)), 0)
})

test('nor do ranks, which run one list of ops', () => {
  const listed = inCore(graph, timed)
  if (isLeft(listed)) throw new Error(JSON.stringify(listed.left))
  const best = listed.right.next(false)
  if (best.done) throw new Error('in-core is one candidate at least')
  assert.is(laying(graph, timed, Infinity, best.value, Infinity).next(0).done, false)
  assert.is(laying({ ...graph, ranks: 2 }, timed, Infinity, best.value, Infinity).next(0).done, true)
})

test.run()
