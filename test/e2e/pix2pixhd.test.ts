// timeout 300
// Pix2PixHD's step against PyTorch (test/fixtures/make_pix2pixhd.py): the losses of three steps and the first gradients of
// both networks, from the same weights and images. After one step of Adam a parameter's first moment is half its gradient.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Shape, elaborate } from '../../dsl'
import family, { down, globalGenerator, multiScale, type Pix2PixHD, pix2pixHD, residualBlocks, up } from '../../models/pix2pixhd'
import { openDevice } from '../../src/train/device'
import { writeTensors } from '../../src/files/safetensors'
import type { Staged } from '../../src/stage/staged'
import { tryStage } from '../../src/stage/stage'
import { trainTask } from '../../src/train/trainer'
import { openData } from '../../src/files/samples'
import { startOf, uniform } from '../fixtures/formula'
import type { MachineName, StrategyName } from '../../staging/core/names'
import { FULL, fullTest } from '../full'

interface Fixture {
  readonly label: Shape
  readonly photo: Shape
  readonly parameters: { readonly generator: number; readonly discriminator: number }
  readonly losses: readonly number[]
  readonly gradientNorms: Readonly<Record<string, number>>
}
const fixture = JSON.parse(readFileSync(join(__dirname, '../fixtures/pix2pixhd.json'), 'utf8')) as Fixture

const done = <A>(result: Either<unknown, A>): A => {
  if (isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right
}
/** The fixture's: four channels, two downsamplings, two blocks. */
const small: Pix2PixHD = {
  generator: globalGenerator(4, 19, down(4, 8), down(7, 16), residualBlocks(10, 2, 16), up(12, 8), up(15, 4)),
  discriminator: multiScale(4, 8, 16, 32),
}
const own = pix2pixHD(fixture.label, small)
const bytes = (a: Float32Array): Uint8Array => new Uint8Array(a.buffer)

const inFolder = async (run: (at: { readonly weights: string; readonly data: string }) => Promise<void>): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'pix2pixhd-'))
  const [weights, data] = [join(folder, 'weights.safetensors'), join(folder, 'data.safetensors')]
  const params = done(elaborate(own)).graph.values.filter((v) => v.role === 'param')
  writeTensors(
    weights,
    params.map((v) => ({
      name: v.name,
      type: 'F32' as const,
      shape: v.shape,
      read: () => right(bytes(startOf(v.name, v.shape, false))),
    })),
  )
  writeTensors(
    data,
    (['label', 'photo'] as const).map((name) => ({
      name,
      type: 'F32' as const,
      shape: fixture[name],
      read: () => right(bytes(uniform(name, fixture[name], 1))),
    })),
  )
  try {
    await run({ weights, data })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test("the parameters are the reference's, by name", () => {
  const params = done(elaborate(own))
    .graph.values.filter((v) => v.role === 'param')
    .map((v) => v.name)
  assert.equal([...params].sort(), Object.keys(fixture.gradientNorms).sort())
  const real = done(elaborate(family.pix2pixhd.step([1, 36, 64, 64]))).graph.values.filter((v) => v.role === 'param')
  const count = (of: (name: string) => boolean): number =>
    real.filter((v) => of(v.name)).reduce((n, v) => n + v.shape.reduce((m, d) => m * d, 1), 0)
  assert.is(
    count((n) => n.startsWith('model.')),
    fixture.parameters.generator,
  )
  assert.is(
    count((n) => n.startsWith('scale')),
    fixture.parameters.discriminator,
  )
  assert.ok(real.some((v) => v.name === 'model.24.conv_block.5.weight') && real.some((v) => v.name === 'scale1_layer4.0.bias'))
})

const firstGradients = async (
  plan: Staged,
  at: { readonly weights: string; readonly data: string },
): Promise<ReadonlyMap<string, number>> => {
  const session = done(openDevice(plan, { tier: { kind: 'memory' }, threads: 1 }))
  try {
    session.initialise(0)
    const wide = plan.machine.device.dtype === 'f64'
    const params = plan.plan.graph.values.filter((v) => v.role === 'param')
    for (const v of params) {
      const start = startOf(v.name, v.shape, false)
      done(session.write(v.name, wide ? new Uint8Array(Float64Array.from(start).buffer) : bytes(start)))
    }
    const files = done(openData(at.data, plan.plan.graph))
    done(
      await session.run({
        firstStep: 1,
        steps: 1,
        last: 1,
        seed: 0,
        data: { kind: 'files', numbers: {}, files },
        onProgress: () => {},
      }),
    )
    return new Map(
      params.map((v) => {
        const raw = done(session.read(`${v.name}.exp_avg`)).slice().buffer
        return [v.name, 2 * Math.hypot(...(wide ? new Float64Array(raw) : new Float32Array(raw)))] as const
      }),
    )
  } finally {
    session.dispose()
  }
}

/** Before an instance norm a bias has no gradient in truth, and rounding in practice. */
const SMALLEST = 1e-9

for (const [device, tolerance] of [
  ['ref', 1e-7],
  ['cpu', 1e-4],
] as const)
  test(`three steps on ${device} have PyTorch's losses, the first one its gradients`, () =>
    inFolder(async (at) => {
      const plan = done(tryStage(own, { machine: device, strategy: 'in-core', algorithms: 'fixed' }))
      const ran = done(await trainTask(own, plan, { steps: 3, threads: 1, ...at })())
      ran.losses.forEach((l, i) =>
        assert.ok(
          Math.abs(l - fixture.losses[i]!) <= tolerance * fixture.losses[i]!,
          `step ${i + 1}: ${l}, PyTorch ${fixture.losses[i]}`,
        ),
      )
      const most = Math.max(...Object.values(fixture.gradientNorms))
      for (const [name, norm] of await firstGradients(plan, at)) {
        const expected = fixture.gradientNorms[name]!
        if (expected > SMALLEST)
          assert.ok(Math.abs(norm - expected) <= tolerance * expected, `${name}: ${norm}, PyTorch ${expected}`)
        else assert.ok(norm <= tolerance * most, `${name}: ${norm}, zero in truth`)
      }
    }))

const larger = pix2pixHD([1, 5, 320, 256], small)
const inLeast = (machine: MachineName, strategy: StrategyName): Staged => {
  const stageIn = (budget: number) => tryStage(larger, { machine, strategy, algorithms: 'fixed', budget })
  const refused = stageIn(0)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a budget of nothing works')
  return done(stageIn(refused.left.smallestBytes))
}
const run = async (plan: Staged) => done(await trainTask(larger, plan, { steps: 2, threads: 1, seed: 3 })())

fullTest('recomputed and swapped it trains to the bits of in-core', async () => {
  const inCore = await run(inLeast('cpu', 'in-core'))
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
    const ran = await run(inLeast('cpu', strategy))
    assert.ok(ran.bytesOut + ran.recomputeSeconds > 0, `${strategy} neither moves nor computes again`)
    assert.equal([ran.losses, ran.weightsSha256], [inCore.losses, inCore.weightsSha256], strategy)
  }
})

if (FULL)
  test('in tiles it has the losses of in-core', async () => {
    const tiles = inLeast('ref', 'tiled')
    assert.ok(
      tiles.plan.segments.some((s) => s.grid.H * s.grid.W > 1),
      'nothing is tiled',
    )
    const [ran, inCore] = [await run(tiles), await run(inLeast('ref', 'in-core'))]
    ran.losses.forEach((l, i) =>
      assert.ok(Math.abs(l - inCore.losses[i]!) <= 1e-7 * l, `step ${i + 1}: ${l}, in-core ${inCore.losses[i]}`),
    )
  })

test.run()
