// timeout 300
// each of models
// One way from network to plan: every network of the zoo as a model, and as a step of one objective written by hand, for the
// declarations of cpu, ref and a named machine: plan files equal byte for byte, and fused where the device has it fused.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type Loss,
  apply,
  elaborate,
  fed,
  loss,
  minimize,
  type Model,
  type Shape,
  sgd,
  step,
  type Trainable,
  type TrainingStep,
} from '../../dsl'
import { errorText } from '../../src/errors/errors'
import { type Own, stepOf } from '../../src/stage/prepare'
import { zoo } from '../../src/zoo'
import { compile, trainingGraph } from '../../staging/compile'
import { type DeviceName, devices } from '../../staging/devices'
import { lossEntry, targetOf } from '../../staging/ops/losscalls'
import type { Machine } from '../../staging/graph/machine'
import { encodePlan } from '../../staging/plan/codec'
import { machines } from '../../staging/sim/machines'
import { mustModel } from '../dsl/forward'
import { FULL } from '../full'

/** Calls take their time in one profile, on any declared device. */
const profile = machines['v100-pcie-16g']!
const declared = (name: DeviceName): Machine => ({ ...profile, name, device: devices[name] })
const MACHINES = [declared('cpu'), declared('ref'), profile]

const optimizer = sgd({ lr: 0.01, momentum: 0.9 })
const ROOM = 2 ** 40

const byHand = (m: Model, kind: Loss): TrainingStep => {
  const entry = lossEntry(kind)
  if (E.isLeft(entry)) throw new Error('no loss')
  const target = fed('target', targetOf(entry.right, m.output) as unknown as Shape)
  const output = apply(m.net, fed('input', m.input))
  return step(minimize('mine', { over: m.net, optimizer, losses: { loss: loss(kind, output, target) } }))
}

const planned = (t: Trainable, name: string, own: Own, machine: Machine): string => {
  const plan = pipe(
    stepOf(t, own),
    E.chainW((s) => elaborate(s, name)),
    E.chainW((s) => trainingGraph(s, machine)),
    E.chainW((graph) => compile(graph, { strategy: 'in-core', budgetBytes: ROOM, machine, algorithms: 'fixed' })),
  )
  if (E.isLeft(plan)) throw new Error(errorText(plan.left))
  return encodePlan(plan.right)
}

/** Every network on one of the machines in turn, and in full on each. */
const machinesFor = (i: number): readonly Machine[] =>
  process.env['SPILLWAY_FULL'] ? MACHINES : [MACHINES[i % MACHINES.length]!]

/** `npm test` takes one network in nine. */
const isTaken = (i: number): boolean => FULL || i % 9 === 0

for (const [i, { name, loss: kind }] of zoo.entries())
  if (kind !== undefined && isTaken(i))
    test(`${name}: a model and a step with one objective have one plan on each machine`, () => {
      const m = mustModel(name)
      for (const machine of machinesFor(i)) {
        const [model, own] = [planned(m, name, { loss: kind, optimizer }, machine), planned(byHand(m, kind), name, {}, machine)]
        assert.ok(model === own, `${name} on ${machine.name}`)
      }
    })

test('a device with fused operators gets them, for a step and for a model', () => {
  const own = byHand(mustModel('resnet18'), 'cross-entropy')
  const fused = (machine: Machine): boolean => planned(own, 'resnet18', {}, machine).includes('"bn_add_relu_apply"')
  assert.equal(MACHINES.map(fused), [true, true, true])
  assert.not(fused({ ...profile, device: { ...devices.cpu, fused: false } }))
})

test('options that a step has itself are refused with the reason', () => {
  const own = byHand(mustModel('resnet18'), 'cross-entropy')
  const words = (given: Own): string =>
    pipe(
      stepOf(own, given),
      E.match(errorText, () => 'nothing'),
    )
  assert.is(words({ loss: 'mse' }), 'loss cannot be set for a step: it has its own losses and optimizers')
  assert.is(words({ optimizer }), 'optimizer cannot be set for a step: it has its own losses and optimizers')
  assert.is(words({}), 'nothing')
})

test.run()
