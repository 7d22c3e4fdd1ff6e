// Programs that must compile, under `exactOptionalPropertyTypes` too, where an option that may be left out may not be `undefined` unless
// its type says so: fields are passed on as they came.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { FULL } from '../full'
import { check, type Programs } from './checker'
import { prelude } from './illegal'
import { legalPlans, planPrelude } from './illegalplans'
import { legal } from './legal'

/** Optional fields of a caller's own, passed on. */
const passedOn: readonly string[] = [
  "export const f = <S extends 1 | 2>(o: { readonly stride?: S; readonly bias?: boolean }) => s.conv2d('c', 8, 3, { stride: o.stride, bias: o.bias })",
  "export const f = (o: { readonly frozen?: boolean; readonly eps?: number }) => s.batchNorm('n', { frozen: o.frozen, eps: o.eps })",
  "export const f = (pad?: number, ceil?: boolean) => [s.maxPool(3, { pad, ceil }), s.avgPool('p', 3, { pad, countIncludePad: ceil })]",
  'export const f = (o: { readonly momentum?: number; readonly nesterov?: boolean }) => s.sgd({ lr: 0.1, momentum: o.momentum, nesterov: o.nesterov })',
  'export const f = (signal?: AbortSignal, budget?: number) => s.stageAsync(net, { signal, budget })',
  'export const f = (o: { readonly loss?: s.Loss; readonly optimizer?: s.Optimizer }) => s.stage(net, { loss: o.loss, optimizer: o.optimizer })',
  'export const f = (strategy?: s.StrategyName, machine?: s.MachineName) => s.tryStage(net, { strategy, machine })',
  'export const f = (signal?: AbortSignal, save?: string, weights?: string) => s.train(net, plan, { steps: 1, signal, save, weights })',
  'export const f = (data?: string, threads?: number) => s.run(net, plan, { steps: 1, data, threads })',
  'export const f = (o: Partial<s.TrainOptions>) => s.train(net, plan, { ...o, steps: 1 })',
  'export const f = (height?: number, batch?: number) => s.asTrainable(net, { height, batch })',
  "export const f = (as?: s.Form) => s.stage(net, { mode: 'predict', as })",
]
const PASSING = `import * as s from '../../src'
const net = s.model([1, 3, 8, 8], s.conv2d('c', 8, 3))
declare const plan: s.Staged<typeof net>
`

const programs: Programs = Object.fromEntries([
  ...(FULL ? legal.map((c, i) => [`legal${i}`, prelude + c]) : []),
  ...legalPlans.filter((_, i) => FULL || i % 4 === 0).map((c, i) => [`plan${i}`, planPrelude + c]),
  ...passedOn.map((c, i) => [`passed${i}`, PASSING + c]),
])
const checked = check(programs, { exactOptionalPropertyTypes: true })

for (const [name, program] of Object.entries(programs))
  test(`compiles with exact optional properties: ${program.split('\n').pop()}`, () => assert.equal(checked.errors(name), []))

test.run()
