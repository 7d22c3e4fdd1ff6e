// `stageAsync`: the plan that `stage` gives, byte for byte, from a thread of its own; refusals, and signals that are aborted.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { apply, conv2d, fed, globalAvgPool, linear, loss, minimize, model, mse, relu, seq, sgd, step } from '../../../dsl'
import { SpillwayException } from '../../../src/errors/errors'
import { stageAsync } from '../../../src/stage/async'
import { stage } from '../../../src/stage/stage'
import { mib } from '../../../src/stage/sizes'
import { encodePlan } from '../../../staging/plan/codec'

const net = model([2, 3, 96, 96], seq(conv2d('a', 16, 3), relu(), conv2d('b', 16, 3), globalAvgPool('p'), linear('h', 10)))
const own = seq(conv2d('s', 4, 3), relu())
const objectives = step(
  minimize('a', {
    over: own,
    optimizer: sgd({ lr: 0.1 }),
    losses: { flat: loss(mse, apply(own, fed('image', [2, 4, 16, 16])), 0) },
  }),
)
const machine = 'v100-pcie-16g'

test('the same plan, byte for byte, of a model and of a step', async () => {
  const tiled = { machine, budget: mib(16), tiles: [{ from: 'a', to: 'b', H: 2 }] } as const
  const [there, here] = [await stageAsync(net, tiled), stage(net, tiled)]
  assert.is(encodePlan(there.plan), encodePlan(here.plan))
  assert.is(there.model, net)
  assert.equal(
    [there.timeline, there.staging.inCore, there.machine.name],
    [here.timeline, here.staging.inCore, here.machine.name],
  )
  const ofStep = await stageAsync(objectives, { machine })
  assert.is(encodePlan(ofStep.plan), encodePlan(stage(objectives, { machine }).plan))
})

test('stageAsync does not block this thread', async () => {
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  await stageAsync(net, { machine })
  clearInterval(timer)
  assert.ok(turns >= 3, `${turns} turns`)
})

const rejection = (p: Promise<unknown>): Promise<unknown> =>
  p.then(
    () => assert.unreachable('it resolved'),
    (e: unknown) => e,
  )

test('a refusal of stage is a rejection with the same message', async () => {
  const e = await rejection(stageAsync(net, { machine, budget: mib(1) as number }))
  assert.instance(e, SpillwayException)
  let said = ''
  try {
    stage(net, { machine, budget: mib(1) as number })
  } catch (thrown) {
    said = (thrown as Error).message
  }
  assert.is((e as SpillwayException).message, said)
  assert.is((e as SpillwayException).error.tag, 'BudgetInfeasible')
})

test('a signal that is aborted, before or meanwhile, rejects with its reason', async () => {
  const reason = new Error('no longer wanted')
  assert.is(await rejection(stageAsync(net, { machine, signal: AbortSignal.abort(reason) })), reason)
  const controller = new AbortController()
  const staging = rejection(stageAsync(net, { machine, signal: controller.signal }))
  controller.abort(reason)
  assert.is(await staging, reason)
})

test.run()
