// timeout 600
// Predictions in tiles are predictions of the whole: random networks, live norms included, under random grids and budgets. On `ref`
// (double) outputs agree to 1e-9 of the largest, on `cpu` within 1e-4; every plan verifies, and is refused without any one of
// the swaps that hand its output out.
import { isLeft } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { GraphBuilder } from '../../staging/graph/builder'
import { type Graph, valueBytes } from '../../staging/graph/graph'
import { type Plan, UNTILED } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import { forwardOps } from '../../staging/tile/segments'
import { verify } from '../../staging/verify/verify'
import { FULL } from '../full'
import { machine } from './compare'
import { networkOf, type Recipe } from './networks'
import { cases, groupsOf, planOf } from './plans'

const RUNS = FULL ? 300 : 7
const machines = { ref: machine('ref'), cpu: machine('cpu') }
const native = loadNative()

/** The forward graph of a random network, with the result of its end as its output. */
const predictionOf = (r: Recipe, dtype: 'f32' | 'f64'): Graph => {
  const { graph, output } = networkOf(r)
  const b = GraphBuilder.extending(graph, dtype)
  b.markOutput(b.ref(output), 'output')
  const read = new Set(graph.ops.flatMap((op) => op.ins))
  const fed = b.build(graph.ops.map((op) => op.id))
  assert.not(read.has(output), 'the end of a network is read by nothing')
  return fed
}

const outputOn = async (device: 'ref' | 'cpu', plan: Plan): Promise<ArrayLike<number>> => {
  const session = new native.Session(toTape(plan), { device, threads: 1 })
  try {
    for (const b of session.bindings()) if (b.role === 'param' || b.role === 'state') session.init(b.name, 7)
    const bytes = new Uint8Array(valueBytes(plan.graph.values.find((v) => v.role === 'output')!))
    const source = { kind: 'synthetic', seed: 7, samples: 2, classes: 3 } as const
    const ran = await session.run({ steps: 1, seed: 7, source, sink: { output: bytes } }, () => {})
    assert.is(ran.arenaPeakBytes, session.facts().peakBytes)
    assert.is(ran.steps[0]!.bytesHanded, bytes.length)
    return device === 'ref' ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer)
  } finally {
    session.dispose()
  }
}

const mustVerify = (plan: Plan): void => {
  const sound = verify(plan)
  if (isLeft(sound)) throw new Error(JSON.stringify(sound.left))
}

for (const [device, tolerance] of [
  ['ref', 1e-9],
  ['cpu', 1e-4],
] as const)
  test(`predictions in tiles are those of the whole on ${device}`, async () => {
    let tiled = 0
    await fc.assert(
      fc.asyncProperty(cases, async ({ recipe, tiling }) => {
        const graph = predictionOf(recipe, device === 'ref' ? 'f64' : 'f32')
        const whole = planOf(graph, [{ ops: forwardOps(graph).map((o) => o.id), grid: UNTILED }], 0, machines[device])
        const plan = planOf(graph, groupsOf(graph, tiling), tiling.squeeze, machines[device])
        if (!whole || !plan) return
        mustVerify(whole)
        mustVerify(plan)
        if (plan.calls.some((c) => c.tile > 0)) tiled++
        const [a, b] = [await outputOn(device, whole), await outputOn(device, plan)]
        const largest = Math.max(...Array.from(a, Math.abs))
        const apart = Math.max(...Array.from(a, (x, i) => Math.abs(x - b[i]!)))
        assert.ok(apart <= tolerance * largest, `${apart} apart, the largest is ${largest}`)
      }),
      { numRuns: RUNS * 2, seed: 20261122, interruptAfterTimeLimit: 250_000 },
    )
    assert.ok(tiled >= RUNS, `only ${tiled} cases had several tiles`)
  })

test('a plan that keeps a part of its output, or hands one out twice, is refused', () => {
  let refused = 0
  fc.assert(
    fc.property(cases, ({ recipe, tiling }) => {
      const graph = predictionOf(recipe, 'f32')
      const plan = planOf(graph, groupsOf(graph, tiling), tiling.squeeze, machines.cpu)
      fc.pre(plan !== undefined)
      plan!.residencies.forEach((r, i) => {
        if (r.swapOut?.to !== 'sink') return
        const { swapOut: _, ...kept } = r
        const cut = { ...plan!, residencies: plan!.residencies.map((x, k) => (k === i ? kept : x)) }
        const sound = verify(cut)
        assert.ok(isLeft(sound) && sound.left.rule === 'output', `residency ${i} that is not handed out was accepted`)
        const early = { ...r, swapOut: { ...r.swapOut, start: r.acquire + 1 } }
        const before = { ...plan!, residencies: plan!.residencies.map((x, k) => (k === i ? early : x)) }
        if (r.swapOut.start > r.acquire + 1)
          assert.ok(isLeft(verify(before)), `residency ${i} was handed out before it was complete`)
        refused++
      })
    }),
    { numRuns: 60, seed: 5 },
  )
  assert.ok(refused >= 40, `only ${refused} were tried`)
})

test.run()
