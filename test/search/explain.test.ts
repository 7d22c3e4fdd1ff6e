// The decisions of a finished plan are those that the search lowered, and the explanation prices changes of them.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isLeft, isRight } from 'fp-ts/Either'
import { explanationText } from '../../src/report/decisions'
import { compile } from '../../staging/compile'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import { decidedIn } from '../../staging/search/decided'
import { explained } from '../../staging/search/explain'
import { Lowering } from '../../staging/search/lower'
import { Model } from '../../staging/search/model'
import { problemOf } from '../../staging/search/problem'
import { refineAuto } from '../../staging/search/auto'
import { resident } from '../../staging/schedule/candidate'
import { inCoreLayout } from '../../staging/schedule/incore'
import { planners } from '../../staging/planner/strategies'
import { machines } from '../../staging/sim/machines'
import { outcomeOf } from '../../staging/sim/simulate'
import { conv2d, model, seq, stage } from '../../src/index'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const graph = trainingGraph('resnet18', [16, 3, 224, 224])
const budgetBytes = bytesOf(Math.floor(resident(inCoreLayout(graph, machine)).least / 3))

const planned = (o: Partial<Parameters<typeof compile>[1]>): Plan => {
  const made = compile({ ...graph }, { strategy: 'auto', machine, budgetBytes, effort: 0.4, ...o })
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return made.right
}
/** A plan of the search alone. At this effort all parts of a loop have the same tiles; one number a loop cannot hold others. */
const searched = planned({ method: { planner: planners['auto']!.planner, small: planners['auto']!.small!, refiner: refineAuto } })

test('the decisions of a searched plan lower to its segments', () => {
  const p = problemOf(graph, machine)
  const { decisions, tiles, loopOf } = decidedIn(p, searched)!
  const model = new Model(p, bytesOf(pagesIn(budgetBytes)))
  model.load(decisions)
  for (const i of model.heads) if (tiles[i]! > 1) model.setTileBytes(i, model.bytesFor(i, tiles[i]!))
  model.settle(p.atoms - 1)
  const lowered = new Lowering(model).segments()!
  // Updates run where their gradients are complete, and independent ops in any order.
  const bodies = (of: Plan['segments']): readonly string[] =>
    of
      .filter((segment) => segment.phase !== 'update')
      .map(({ grid, body }) => `${JSON.stringify(grid)} ${body.map((b) => b.op).sort((x, y) => x - y)}`)
      .sort()
  assert.equal(bodies(lowered.segments), bodies(searched.segments))
  assert.ok(loopOf.filter((i) => i >= 0).length > 20)
})

test('the price of the explained plan is near its simulation, and alternatives are sorted', () => {
  const e = explained(searched, machine)!
  const { makespanSeconds } = outcomeOf(searched, machine.link)
  assert.ok(Math.abs(e.seconds / makespanSeconds - 1) < 0.1, `${e.seconds} and ${makespanSeconds}`)
  assert.ok(e.values.some((v) => v.decision.includes('recomputed')) && e.values.some((v) => v.decision.startsWith('swapped out')))
  const all = [...e.values, ...e.loops]
  for (const { alternatives } of all)
    assert.ok(alternatives.length <= 2 && (alternatives.length < 2 || alternatives[0]!.seconds <= alternatives[1]!.seconds))
  // Every weight that lives in the lower tier could live on the device, and the link binds or memory does.
  const away = e.values.filter((v) => v.decision.startsWith('in the lower tier'))
  for (const v of away) assert.match(v.alternatives[0]?.change ?? 'hold it on the device', 'hold it on the device')
  assert.ok(all.some((x) => /^memory: full in loop|^the link: busy/.test(x.binding)))
})

test('each change is taken back: a second explanation is the same', () => {
  assert.equal(explained(searched, machine), explained(searched, machine))
})

test('a step with all memory recomputes nothing, and no memory binds', () => {
  const e = explained(planned({ budgetBytes: 2 ** 40 }), machine)!
  for (const v of e.values) {
    assert.match(v.decision, /^kept$|^on the device for the whole step$/)
    assert.not.match(v.binding, 'memory: full')
  }
})

test('a plan that is no training step has no explanation', () => {
  const { plan } = stage(model([1, 3, 32, 32], seq(conv2d('a', 4, 3))), { mode: 'predict', machine: 'v100-pcie-16g' })
  assert.is(explained(plan, machine), null)
})

test('the model reports its error for the plan of another strategy', () => {
  const e = explained(planned({ strategy: 'swap:vdnn-all', budgetBytes: 2 * budgetBytes }), machine)!
  assert.ok(e.seconds < 0.9 * e.simulatedSeconds)
  const text = explanationText(e)
  assert.ok(isRight(text) && /The simulation says .* so prices are rough/.test(text.right))
})

test('text names a value or a layer, and refuses others with the nearest names', () => {
  const e = explained(searched, machine)!
  const { layer } = e.values.find((v) => v.decision.includes('recomputed'))!
  const text = explanationText(e, layer)
  assert.ok(isRight(text) && text.right.includes('binding: ') && text.right.includes(layer))
  const refused = explanationText(e, 'layer1.0.conv7')
  assert.ok(isLeft(refused) && JSON.stringify(refused.left).includes('layer1.0.conv1'))
  const short = explanationText(e)
  assert.ok(isRight(short) && short.right.split('\n').length < 120)
})

test.run()
