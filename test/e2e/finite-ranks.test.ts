// Ranks that stop being finite say which of them met it first, and where that stands: a sample with its place in the whole data, or the layer.
// Worked example, 8 images, 2 ranks: sample 13 is in step 2 the second of rank 1.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, model, mse, relu, seq, sgd } from '../../dsl'
import { source } from '../../src/data/data'
import { type NotFinitePlace, SpillwayException } from '../../src/errors/errors'
import type { StageOptions } from '../../src/stage/stageoptions'
import { stage } from '../../src/stage/stage'
import type { TrainOptions } from '../../src/train/options'
import { train } from '../../src/train/trainer'

const net = model([8, 3, 12, 10], seq(conv2d('stem', 8, 3), batchNorm('bn'), relu(), conv2d('head', 2, 1)))
/** Waves, except one number of one sample's second channel. */
const data = (sample: number, row: number) =>
  source({
    length: 24,
    read: (i) => ({
      input: Float32Array.from({ length: 360 }, (_, k) =>
        i === sample && k === 120 + row * 10 + 7 ? Number.NaN : Math.sin(i + k),
      ),
      target: new Float32Array(240),
    }),
  })

const first = async (ranks: number, how: Partial<StageOptions>, o: Partial<TrainOptions> = {}): Promise<NotFinitePlace> => {
  const plan = stage(net, { loss: mse, optimizer: sgd({ lr: 0.01 }), algorithms: 'fixed', strategy: 'in-core', ranks, ...how })
  try {
    await train(net, plan, { steps: 4, seed: 1, shuffle: false, threads: 1, engine: 'threads', ...o })
  } catch (e) {
    assert.ok(e instanceof SpillwayException && e.error.tag === 'Diverged' && e.error.first, String(e))
    return e.error.first
  }
  throw new Error('all was finite')
}

for (const [ranks, how, rank] of [
  [2, {}, 1],
  [4, {}, 2],
  [2, { bands: 2 }, 1],
  [4, { bands: 2, shard: 'gradients' }, 3],
  [2, { shard: 'optimizer', norms: 'local' }, 1],
] as const)
  test(`${ranks} ranks ${JSON.stringify(how)}: the sample and its rank are reported`, async () => {
    assert.equal(await first(ranks, how, { data: data(13, 9) }), {
      step: 2,
      number: 'NaN',
      rank,
      at: [1, 9, 7],
      in: "'input' of sample 13 (counted from 0)",
    })
  })

test('a step that is too long is reported with the first value that overflows', async () => {
  const place = await first(2, { optimizer: sgd({ lr: 1e30 }) })
  assert.ok(place.by && place.rank !== undefined && /Infinity|NaN/.test(place.number), JSON.stringify(place))
})

test.run()
