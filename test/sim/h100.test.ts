// The roofline of the H100 beside its committed measurements: steps of ResNet-50, and the share of the peak that weight gradients reach.
import { isLeft } from 'fp-ts/Either'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { timeKey } from '../../src/machine/timing'
import { compile } from '../../staging/compile'
import type { Precision } from '../../staging/devices'
import { opDef } from '../../staging/ops/registry'
import { callShapes } from '../../staging/plan/callcosts'
import type { Plan } from '../../staging/plan/plan'
import { H100_SXM } from '../../staging/sim/accelerators'
import { simulated } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const committed = <A>(file: string): A => JSON.parse(readFileSync(join(__dirname, '../../bench/results', file), 'utf8')) as A
interface Case {
  readonly name: string
  readonly secondsPerStep: number
}
const { runs } = committed<{ readonly runs: readonly { readonly cases: readonly Case[] }[] }>('gpu-h100.json')
/** The last run of ResNet-50 in a precision. */
const measured = (precision: Precision): number =>
  runs
    .flatMap(({ cases }) => cases)
    .filter((c) => c.name === `resnet50 b128@224 ${precision}`)
    .at(-1)!.secondsPerStep

const inCore = (precision: Precision): Plan => {
  const machine = simulated['h100-sxm-80g']![precision]!
  const graph = trainingGraph('resnet50', [128, 3, 224, 224], machine)
  const plan = compile(graph, { strategy: 'in-core', machine, budgetBytes: machine.memoryBytes, algorithms: 'fixed' })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  return plan.right
}
const plans = { tf32: inCore('tf32'), bf16: inCore('bf16') }

for (const precision of ['tf32', 'bf16'] as const)
  test(`a step of ResNet-50 in ${precision}: within 10 % of the measured one`, () => {
    const { makespanSeconds } = simulate(plans[precision], simulated['h100-sxm-80g']![precision]!.link)
    const ratio = makespanSeconds / measured(precision)
    assert.ok(ratio > 0.9 && ratio < 1.1, `${(1e3 * makespanSeconds).toFixed(1)} ms of ${1e3 * measured(precision)}`)
  })

test('weight gradients bound by products reach 0.34 of the peak in tf32, by the committed profile', () => {
  const { seconds } = committed<{ readonly seconds: Readonly<Record<string, number>> }>('gpu-h100-profile-tf32.json')
  const [least, taken] = [[], []] as [number[], number[]]
  const { graph, calls } = plans.tf32
  for (const { kind, attrs, ins, outs } of calls) {
    const s = callShapes(graph, ins, outs)
    const key = timeKey(kind, attrs, s)
    const own = Object.entries(seconds).filter(([k]) => k === key || k.startsWith(`${key} way`))
    const byProducts = opDef(kind).flops(attrs, s) / H100_SXM.flopsPerSecond.tf32!
    const elements = [...s.ins, ...s.outs].reduce((n, shape) => n + shape.reduce((m, x) => m * x, 1), 0)
    if (kind !== 'conv2d_bwd_weights' || own.length === 0 || byProducts < (4 * elements) / H100_SXM.bytesPerSecond) continue
    least.push(byProducts)
    taken.push(Math.min(...own.map(([, t]) => t)))
  }
  const sum = (all: readonly number[]): number => all.reduce((n, x) => n + x, 0)
  const share = sum(least) / sum(taken)
  assert.ok(least.length >= 8 && Math.abs(share - 0.34) < 0.01, `${least.length} calls, ${share}`)
})

test.run()
