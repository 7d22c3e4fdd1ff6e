// timeout 300
// Ranks that share a batch against PyTorch in one process on the whole of it (test/fixtures/make_ranks.py): the losses of three steps, from the
// same weights and images. All networks, with both optimizers, on 2 and 4 ranks where SPILLWAY_FULL is set.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Shape, Trainable } from '../../dsl'
import { down, globalGenerator, multiScale, pix2pixHD, residualBlocks, up } from '../../models/pix2pixhd'
import { writeTensors } from '../../src/files/safetensors'
import { prepare } from '../../src/stage/prepare'
import { stageGraph } from '../../src/stage/stage'
import { zooEntry } from '../../src/zoo'
import { optimizerWith } from '../../staging/ops/optimizer'
import { uniform } from '../fixtures/formula'
import { fewOrAll } from '../full'
import { withoutDropout, writeStart, writeWeights } from './networks'
import { got, machine, PLAIN, shared } from './rankruns'

interface Case {
  readonly input: Shape
  readonly output: readonly number[]
  /** The optimizer; absent: that of the step itself. */
  readonly optimizer?: { readonly kind: 'sgd' | 'adamw' }
  readonly losses: readonly number[]
}
const cases = JSON.parse(readFileSync(join(__dirname, '../fixtures/ranks.json'), 'utf8')) as Readonly<Record<string, Case>>
const root = mkdtempSync(join(tmpdir(), 'pytorch-ranks-'))
test.after(() => rmSync(root, { recursive: true }))

/** Pix2PixHD's step in the fixture's size: four channels, two downsamplings, two blocks. */
const stepOf = (label: Shape): Trainable =>
  pix2pixHD(label, {
    generator: globalGenerator(4, 19, down(4, 8), down(7, 16), residualBlocks(10, 2, 16), up(12, 8), up(15, 4)),
    discriminator: multiScale(4, 8, 16, 32),
  })

const modelOf = (name: string, { input }: Case): Trainable =>
  name === 'pix2pixhd' ? stepOf(input) : got(zooEntry(name)!.build(input as never, 'train', {}))

const bytes = (a: Float32Array): Uint8Array => new Uint8Array(a.buffer)
const images = (folder: string, { input, output }: Case): string => {
  const path = join(folder, 'images.safetensors')
  writeTensors(
    path,
    Object.entries({ label: input, photo: output }).map(([name, shape]) => ({
      name,
      type: 'F32' as const,
      shape,
      read: () => right(bytes(uniform(name, shape, 1))),
    })),
  )
  return path
}

const same = async (key: string, ranks: number): Promise<void> => {
  const c = cases[key]!
  const [name = ''] = key.split(', ')
  const { kind = undefined, ...how } = c.optimizer ?? {}
  const own = kind ? { name, loss: zooEntry(name)!.loss, optimizer: optimizerWith(kind, how) } : {}
  const graphs = [1, ranks].map((n) => got(prepare(modelOf(name, c), machine('cpu', n), own)).graph)
  const folder = mkdtempSync(join(root, 'start-'))
  const start = kind ? writeStart(folder, c, graphs[0]!) : { weights: writeWeights(folder, graphs[0]!), data: images(folder, c) }
  const staged = got(stageGraph(withoutDropout(graphs[1]!), machine('cpu', ranks), { strategy: 'in-core', ...PLAIN }))
  const { losses } = await shared(staged, ranks, { steps: 3, ...start })
  losses.forEach((l, i) => {
    const off = Math.abs(l - c.losses[i]!)
    assert.ok(off < 1e-4 * c.losses[i]!, `${key} on ${ranks} ranks, step ${i + 1}: ${l}, PyTorch ${c.losses[i]}`)
  })
}

for (const key of fewOrAll(['resnet18, sgd'], Object.keys(cases)))
  for (const ranks of fewOrAll([2], [2, 4])) test(`${key}, ${ranks} ranks`, () => same(key, ranks))

test.run()
