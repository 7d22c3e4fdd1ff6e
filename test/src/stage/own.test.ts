// Strategies and machines of a script's own: known while typing once they are declared, planned for once they are registered.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, globalAvgPool, linear, maxPool, model, relu, seq } from '../../../dsl'
import { machineNames } from '../../../src/machine/machine'
import { registerMachine } from '../../../src/machine/ownmachines'
import { stageAsync } from '../../../src/stage/async'
import { registerStrategy, type ToPlan } from '../../../src/stage/ownstrategies'
import { gib, mib } from '../../../src/stage/sizes'
import { stage, tryStage } from '../../../src/stage/stage'
import { encodePlan } from '../../../staging/plan/codec'
import { tilesOf } from '../../../staging/plan/plan'

declare module '../../../src' {
  interface Strategies {
    pools: true
    halves: true
    angry: true
    unregistered: true
  }
  interface Machines {
    'lab-24g': true
    'lab-slow': true
  }
}

const net = model(
  [2, 3, 96, 96],
  seq(conv2d('a', 16, 3), relu(), maxPool('p', 2), conv2d('b', 16, 3), relu(), globalAvgPool('g'), linear('h', 10)),
)
const RATES = { flopsPerSecond: 3e13, bytesPerSecond: 9e11, memoryBytes: gib(24), linkBytesPerSecond: 2.5e10 }
const machine = 'v100-pcie-16g'
const thrownBy = (act: () => unknown): string => {
  try {
    act()
  } catch (e) {
    return (e as Error).message
  }
  return 'nothing'
}

test("a user's strategy gets layers, budget and machine, and prescribes the plan", () => {
  const asked: ToPlan[] = []
  registerStrategy('halves', (toPlan) => {
    asked.push(toPlan)
    return { tiles: [{ from: 'a', to: 'p', H: 2 }] }
  })
  registerStrategy('pools', ({ layers }) => ({
    checkpoints: layers.filter((l) => l.named && l.kind === 'maxPool').map((l) => l.name),
  }))
  const halves = stage(net, { machine, strategy: 'halves', budget: mib(64) })
  const byHand = stage(net, { machine, tiles: [{ from: 'a', to: 'p', H: 2 }], budget: mib(64) })
  assert.equal([halves.plan.strategy, byHand.plan.strategy], ['halves', 'by-hand'])
  assert.is(encodePlan({ ...halves.plan, strategy: '' }), encodePlan({ ...byHand.plan, strategy: '' }))
  assert.ok(halves.plan.segments.some((s) => tilesOf(s.grid) === 2))
  assert.equal([asked[0]!.budgetBytes, asked[0]!.machine.name, asked[0]!.layers[0]!.name], [mib(64), machine, 'a'])
  const pools = stage(net, { machine, strategy: 'pools' })
  assert.is(
    encodePlan({ ...pools.plan, strategy: '' }),
    encodePlan({ ...stage(net, { machine, checkpoints: ['p'] }).plan, strategy: '' }),
  )
})

test('a prescribed plan is checked against its budget; an exception of the strategy is returned', () => {
  registerStrategy('halves', () => ({
    tiles: [
      { from: 'a', to: 'g', H: 2 },
      { from: 'nowhere', to: 'p' },
    ],
  }))
  assert.match(
    thrownBy(() => stage(net, { machine, strategy: 'halves' })),
    /nowhere/,
  )
  registerStrategy('halves', () => ({ tiles: [{ from: 'a', to: 'p', H: 2 }] }))
  const tight = tryStage(net, { machine, strategy: 'halves', budget: mib(2) as number })
  assert.is(isLeft(tight) && tight.left.tag, 'BudgetInfeasible')
  const error = new TypeError('not today')
  registerStrategy('angry', () => {
    throw error
  })
  let thrown: unknown
  try {
    stage(net, { machine, strategy: 'angry' })
  } catch (e) {
    thrown = e
  }
  assert.is(thrown, error)
})

test('names in use and names that are not registered are refused', () => {
  assert.is(
    thrownBy(() => registerStrategy('auto', () => ({}))),
    "strategy 'auto' cannot be registered: a planner has this name",
  )
  for (const name of ['cpu', 'v100-pcie-16g', ''])
    assert.is(
      thrownBy(() => registerMachine(name as never, RATES)),
      `machine '${name}' cannot be registered: another machine or device has this name`,
    )
  assert.match(
    thrownBy(() => stage(net, { machine, strategy: 'unregistered' })),
    /strategy 'unregistered'/,
  )
  assert.match(
    thrownBy(() => stage(net, { machine: 'lab-slow' })),
    /machine 'lab-slow' is not known/,
  )
})

test('a machine has the precisions of its rates', () => {
  registerMachine('lab-24g', { ...RATES, bf16FlopsPerSecond: 10 * RATES.flopsPerSecond })
  for (const precision of ['fp32', 'bf16'] as const)
    assert.is(stage(net, { machine: 'lab-24g', precision }).machine.precision, precision)
  assert.match(
    thrownBy(() => stage(net, { machine: 'lab-24g', precision: 'tf32' })),
    /precision 'tf32' is not allowed on machine 'lab-24g': this GPU has no tf32 products; allowed: fp32, bf16/,
  )
})

test('a machine is planned for by its rates', () => {
  registerMachine('lab-24g', RATES)
  registerMachine('lab-slow', { ...RATES, flopsPerSecond: 3e11, bytesPerSecond: 9e9 })
  assert.ok(machineNames().includes('lab-24g'))
  const [fast, slow] = [stage(net, { machine: 'lab-24g' }), stage(net, { machine: 'lab-slow' })]
  assert.equal([fast.plan.machine, fast.machine.simulated, fast.plan.budgetBytes], ['lab-24g', true, gib(24)])
  assert.ok(slow.timeline.makespanSeconds > 2 * fast.timeline.makespanSeconds)
  for (const [key, value] of Object.entries({
    flopsPerSecond: 0,
    linkBytesPerSecond: Number.NaN,
    memoryBytes: 1.5,
    launchSeconds: -1,
  }))
    assert.match(
      thrownBy(() => registerMachine('lab-24g', { ...RATES, [key]: value })),
      new RegExp(`machine 'lab-24g': ${key} is`),
    )
  assert.match(
    thrownBy(() => registerMachine('lab-24g', { ...RATES, memorybytes: 1 } as never)),
    /`memorybytes` is not an option of registerMachine; did you mean `memoryBytes`\?/,
  )
})

test('in a planning thread, registered machines are known and registered strategies are refused', async () => {
  const [there, here] = [await stageAsync(net, { machine: 'lab-24g' }), stage(net, { machine: 'lab-24g' })]
  assert.is(encodePlan(there.plan), encodePlan(here.plan))
  const words = await stageAsync(net, { machine, strategy: 'pools' }).catch((e: Error) => e.message)
  assert.is(words, "strategy 'pools' is a function, which cannot move to a worker thread: use stage")
})

test.run()
