// Runs whose loss is no longer finite name the source: the sample and its file, the weights, or the layer and the value; the same for any plan and
// device.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { isRight, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, model, mse, relu, seq, sgd } from '../../dsl'
import { addonFile, loadNative } from '../../src/device/native'
import { errorText, type NotFinitePlace, type SpillwayError } from '../../src/errors/errors'
import { openTensors, writeTensors } from '../../src/files/safetensors'
import type { StageOptions } from '../../src/stage/stageoptions'
import { stage } from '../../src/stage/stage'
import type { TrainOptions } from '../../src/train/options'
import { train, trainTask } from '../../src/train/trainer'
import { fewOrAll } from '../full'
import { halfway, smallestBudget } from './runs'
import type { MachineName } from '../../staging/core/names'

process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')
const root = mkdtempSync(join(tmpdir(), 'spillway-finite-'))
test.after(() => rmSync(root, { recursive: true }))

const net = model(
  [2, 3, 48, 32],
  seq(conv2d('stem', 64, 3), relu(), conv2d('mid', 64, 3, { groups: 64 }), batchNorm('bn'), relu(), conv2d('head', 4, 1)),
)
const DEVICES: readonly MachineName[] = [
  'ref',
  ...(loadNative().deviceInfo().devices.includes('cpu') ? ['cpu' as const] : []),
  'cuda',
]
type Options = Pick<StageOptions, 'machine' | 'strategy' | 'budget' | 'algorithms' | 'loss' | 'optimizer'>
const own = (lr: number): Options => ({ algorithms: 'fixed', loss: mse, optimizer: sgd({ lr }) })

const SAMPLES = 4
/** Zeros except one number; `flat` counts from the first sample on. */
const data = (of: 'input' | 'target', flat: number, value: number): string => {
  const path = join(root, `${of}-${flat}-${value}.safetensors`)
  const tensor = (name: string, channels: number) => {
    const numbers = new Float32Array(SAMPLES * channels * 48 * 32)
    if (name === of) numbers[flat] = value
    return { name, type: 'F32' as const, shape: [SAMPLES, channels, 48, 32], read: () => right(new Uint8Array(numbers.buffer)) }
  }
  const written = writeTensors(path, [tensor('input', 3), tensor('target', 4)])
  assert.ok(isRight(written))
  return path
}

const failed = async (o: Options, t: Partial<TrainOptions>): Promise<SpillwayError> => {
  const end = await trainTask(net, stage(net, o), { steps: 6, shuffle: false, ...t })()
  if (isRight(end)) throw new Error('all was finite')
  return end.left
}
const first = async (o: Options, t: Partial<TrainOptions> = {}): Promise<NotFinitePlace> => {
  const e = await failed(o, t)
  assert.ok(e.tag === 'Diverged' && e.first, errorText(e))
  return (e as Extract<SpillwayError, { tag: 'Diverged' }>).first!
}

/** Whole, in tiles, and swapped. */
const plans = (machine: MachineName): readonly Options[] => {
  const on = { ...own(0.01), machine }
  return [
    { ...on, strategy: 'in-core' },
    { ...on, strategy: 'tiled', budget: smallestBudget(net, 'tiled', on) },
    { ...on, strategy: 'swap:greedy', budget: halfway(net, 'swap:greedy', on) },
  ]
}

for (const machine of fewOrAll(DEVICES.slice(0, 2), DEVICES)) {
  test(`${machine}: a value of a sample that is not finite is reported with its file and place, for any plan`, async () => {
    const [at, to] = [
      data('input', ((3 * 3 + 1) * 48 + 40) * 32 + 5, NaN),
      data('target', ((2 * 4 + 3) * 48 + 7) * 32, -Infinity),
    ]
    for (const plan of plans(machine)) {
      assert.equal(await first(plan, { data: at }), {
        step: 2,
        number: 'NaN',
        at: [1, 40, 5],
        in: `'input' of sample 3 of ${at}`,
      })
      const target = { step: 2, number: '-Infinity', at: [3, 7, 0], in: `'target' of sample 2 of ${to}` }
      assert.equal(await first(plan, { data: to }), target)
    }
  })

  test(`${machine}: a step that is too long is reported with the first value that overflows`, async () => {
    const place = await first({ ...own(1e200), machine, strategy: 'in-core' })
    assert.ok(place.by && /^'.*'$/.test(place.in) && /Infinity|NaN/.test(place.number), JSON.stringify(place))
  })
}

test('weights that are not finite are reported by name, and saved files are not overwritten', async () => {
  const [whole, spoilt, kept] = ['whole', 'spoilt', 'kept'].map((n) => join(root, `${n}.safetensors`)) as [string, string, string]
  const on = { ...own(0.01), machine: 'ref', strategy: 'in-core' } as const
  await train(net, stage(net, on), { steps: 1, save: whole })
  const bytes = readFileSync(whole)
  writeFileSync(kept, bytes)
  const file = openTensors('weights', whole)
  assert.ok(isRight(file))
  const { offset } = (file as Extract<typeof file, { _tag: 'Right' }>).right.tensors.get('head.weight')!
  bytes.writeDoubleLE(NaN, offset + 8 * (2 * 64 + 9))
  writeFileSync(spoilt, bytes)
  const e = await failed(on, { weights: spoilt, save: kept })
  assert.match(errorText(e), "'head.weight' contains NaN at [2, 9, 0, 0], read by step 1")
  assert.equal(readFileSync(kept), readFileSync(whole))
})

test('after a checkpoint, only the later steps run again; the note states that', async () => {
  const notes: string[] = []
  const at = data('input', (3 * 3 * 48 + 1) * 32, NaN)
  const o = { data: at, checkpointDir: join(root, 'state'), checkpointEvery: 1, onNote: (n: string) => notes.push(n) }
  const e = await failed({ ...own(0.01), machine: 'ref', strategy: 'in-core' }, o)
  assert.match(
    errorText(e),
    /^step 2: its loss is not finite, so this step was not saved; 'input' of sample 3 of .* contains NaN at \[0, 1, 0\], read by/,
  )
  assert.match(errorText(e), /; the last checkpoint in .* is from an earlier step and finite$/)
  assert.ok(
    notes.some((n) => n.endsWith('searching for the cause: running this step again')),
    notes.join('\n'),
  )
})

test.run()
