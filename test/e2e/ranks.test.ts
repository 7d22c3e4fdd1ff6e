// timeout 300
// Ranks have the bits of one process whose plan takes as many tiles along the batch, whatever their own plan keeps, computes again or moves.
// Worked example, 8 images: 2 ranks of 4, 4 ranks of 2, each beside one process in 2 or 4 tiles.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  adam,
  avgPool,
  batchNorm,
  conv2d,
  convTranspose2d,
  crossEntropy,
  dropout,
  globalAvgPool,
  identity,
  linear,
  maxPool,
  model,
  relu,
  residual,
  seq,
  skip,
} from '../../dsl'
import { asOne } from '../../staging/graph/ranks'
import type { Op } from '../../staging/graph/graph'
import { fingerprint } from '../../staging/graph/fingerprint'
import { loadNative } from '../../src/device/native'
import { errorText } from '../../src/errors/errors'
import { machineNamed } from '../../src/machine/machine'
import { rankOf } from '../../src/ranks/rank'
import { prepare } from '../../src/stage/prepare'
import { stage, stagePrepared } from '../../src/stage/stage'
import type { StageAsked } from '../../src/stage/stageoptions'
import { listen } from '../../src/train/events'
import { followerTask } from '../../src/train/ranks/follower'
import { sessionTask } from '../../src/train/session'
import { train } from '../../src/train/trainer'
import { zooEntry } from '../../src/zoo'
import { FULL, fewOrAll } from '../full'
import { alone, type Case, got, inTiles, machine, PLAIN, preparedFor, RUN, shared, stagedFor } from './rankruns'

const root = mkdtempSync(join(tmpdir(), 'spillway-ranks-'))
test.after(() => rmSync(root, { recursive: true }))

const same = async (c: Case, ranks: number, strategies: readonly NonNullable<StageAsked['strategy']>[]): Promise<void> => {
  const tiled = await inTiles(c, ranks)
  assert.ok(tiled.losses.every(Number.isFinite), `${tiled.losses}`)
  for (const strategy of strategies) {
    const r = await shared(stagedFor(c, ranks, strategy), ranks)
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, tiled.weightsSha256, tiled.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes, strategy)
    assert.is(r.ranks, ranks)
  }
}

const conv = <N extends string, C extends number>(name: N, channels: C) => conv2d(name, channels, 3, { bias: false })
const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv(`${name}.conv`, channels), batchNorm(`${name}.bn`), relu())
const classes = <N extends string>(name: N) => seq(globalAvgPool(`${name}.pool`), linear(name, 5))

/** The features of the zoo's families: norms beside a shortcut, values with many readers, pixels with a loss each, dropout. */
const NETS = {
  residual: model(
    [8, 3, 12, 12],
    seq(unit('a', 8), residual(seq(unit('b', 8), unit('c', 8)), identity), maxPool('pool', 2), unit('d', 16), classes('head')),
  ),
  dense: model([8, 3, 12, 12], seq(conv('a', 8), skip(unit('b', 4)), skip(unit('c', 4)), avgPool('pool', 2), classes('head'))),
  pixels: model(
    [8, 3, 16, 16],
    seq(
      unit('a', 6),
      skip(maxPool('pool', 2), unit('b', 12), convTranspose2d('up', 6, 2, { stride: 2 })),
      unit('c', 6),
      conv2d('out', 2, 1),
    ),
  ),
  dropout: model([8, 3, 12, 12], seq(conv2d('a', 8, 3), relu(), dropout(0.5), conv2d('b', 8, 3), relu(), classes('head'))),
} as const

test('a shortcut and norms: kept, computed again, swapped', async () => {
  await same({ model: NETS.residual }, 2, ['in-core', 'checkpoint:sqrt', 'swap:greedy', 'hybrid:tflms'])
  if (FULL) await same({ model: NETS.residual }, 4, ['in-core', 'auto'])
})

test('values that many read, with AdamW', () =>
  same({ model: NETS.dense, optimizer: adam({ lr: 1e-3, weightDecay: 0.01 }) }, 2, ['in-core', 'checkpoint:sqrt']))

test('a loss of pixels', () => same({ model: NETS.pixels }, 2, ['in-core', 'swap:greedy']))

test('dropout counts in the whole batch', () => same({ model: NETS.dropout }, 4, ['in-core']))

/** Networks of the zoo take minutes. */
if (FULL) {
  test('resnet18', async () => {
    await same({ model: 'resnet18', image: 32 }, 2, ['in-core', 'checkpoint:sqrt', 'swap:greedy', 'hybrid:tflms'])
    await same({ model: 'resnet18', image: 32 }, 4, ['in-core', 'auto'])
  })
  test('densenet121', () =>
    same({ model: 'densenet121', image: 32, optimizer: adam({ lr: 1e-3, weightDecay: 0.01 }) }, 2, [
      'in-core',
      'checkpoint:sqrt',
    ]))
  test('unet', () => same({ model: 'unet', image: 48 }, 2, ['in-core', 'swap:greedy']))
  test('alexnet', () => same({ model: 'alexnet', image: 64 }, 4, ['in-core']))
  test('pix2pixhd: a step with several objectives', () => same({ model: 'pix2pixhd', image: 64 }, 2, ['in-core']))
}

test('the ref device, in double', () => same({ model: 'resnet20-cifar', image: 16, device: 'ref' }, 2, ['in-core']))

test('with local norms ranks that have the same images train as one of them does', async () => {
  const on = got(machineNamed('cpu', { ...PLAIN, threads: 1, ranks: 2, norms: 'local' }))
  const staged = got(stagePrepared(preparedFor({ model: 'resnet20-cifar', image: 16 }, on), { ...PLAIN, strategy: 'in-core' }))
  const { weightsSha256, losses } = await shared(staged, 2, { samples: 4 })
  const four = got(zooEntry('resnet20-cifar')!.build([4, 3, 16, 16], 'train', {}))
  const single = got(
    stagePrepared(got(prepare(four, machine('cpu', 1), { loss: crossEntropy })), { ...PLAIN, strategy: 'in-core' }),
  )
  const one = await alone(single, { samples: 4 })
  assert.equal([losses, weightsSha256], [one.losses, one.weightsSha256])
})

test('a script trains over threads with the plan that it has staged for them', async () => {
  const plan = stage(NETS.residual, { loss: crossEntropy, ranks: 2, algorithms: 'fixed', strategy: 'in-core' })
  const result = await train(NETS.residual, plan, { ...RUN, engine: 'threads' })
  const apart = await shared(stagedFor({ model: NETS.residual }, 2, 'in-core'), 2)
  assert.equal([result.weightsSha256, result.ranks], [apart.weightsSha256, 2])
  await train(NETS.residual, plan, RUN).then(
    () => assert.unreachable(),
    (e: Error) =>
      assert.match(
        e.message,
        /the plan is for 2 ranks: start them with mpirun -n 2 node script\.js, or train with engine: 'threads'/,
      ),
  )
})

test('a rank sends 2(R-1)/R of its sums per step, and R-1 times its moments and the sums of one round', async () => {
  const c = { model: 'resnet20-cifar', image: 16 }
  for (const ranks of fewOrAll([4], [2, 4])) {
    const staged = stagedFor(c, ranks, 'in-core')
    const { ops, values } = staged.plan.graph
    const elements = (op: Op): number => op.ins.reduce((n, v) => n + values[v]!.shape.reduce((all, d) => all * d, 1), 0)
    const expected = ops
      .filter((op) => op.kind.startsWith('all_'))
      .reduce((n, op) => {
        const toAll = op.kind === 'all_moments' || elements(op) * ranks <= 2 ** 15
        return n + 4 * (ranks - 1) * elements(op) * (toAll ? 1 : 2 / ranks)
      }, 0)
    const { commBytes = 0, commHiddenShare = -1, steps } = await shared(staged, ranks)
    assert.ok(commHiddenShare >= 0 && commHiddenShare < 1, `${commHiddenShare}`)
    // A sum of few numbers cannot be cut into equal parts.
    assert.ok(Math.abs(commBytes / steps - expected) < 0.01 * expected, `${commBytes / steps} for ${expected}`)
  }
})

test('a rank with tiles of its own repeats, and agrees to rounding', async () => {
  const c = { model: 'resnet20-cifar', image: 32 }
  const staged = stagedFor(c, 2, 'tiled')
  const [a, b] = [await shared(staged, 2), await shared(staged, 2)]
  assert.is(a.weightsSha256, b.weightsSha256)
  const tiled = await inTiles(c, 2)
  a.losses.forEach((l, i) => assert.ok(Math.abs(l - tiled.losses[i]!) < 1e-5 * Math.abs(l), `${l} ${tiled.losses[i]}`))
})

test('with the option, a run resumes with another count of ranks, like one process with that count of tiles', async () => {
  const c = { model: 'resnet20-cifar', image: 16 }
  const [apart, tiled] = [mkdtempSync(join(root, 'ranks-')), mkdtempSync(join(root, 'tiles-'))]
  const [two, four] = [stagedFor(c, 2, 'in-core'), stagedFor(c, 4, 'in-core')]
  await shared(two, 2, { checkpointDir: apart })
  const on = { steps: 4, checkpointDir: apart, resume: true }
  const refused = await sessionTask(
    undefined,
    four,
    { ...RUN, ...on },
    listen(() => {}),
  )()
  assert.ok(E.isLeft(refused))
  assert.match(errorText(refused.left), "'fixed, 2 ranks' in the checkpoint and 'fixed, 4 ranks' now; --resume-ranks")
  const notes: string[] = []
  const rest = await shared(four, 4, { ...on, resumeRanks: true, onNote: (n) => notes.push(n) })
  assert.match(notes.join(), 'the run had 2 ranks and continues with 4 ranks')
  await inTiles(c, 2, { checkpointDir: tiled })
  const beside = await inTiles(c, 4, { steps: 4, checkpointDir: tiled, resume: true })
  assert.equal([rest.resumedFrom, rest.losses, rest.weightsSha256], [2, beside.losses, beside.weightsSha256])
  const last = await alone(stagedFor(c, 1, 'in-core'), { steps: 5, checkpointDir: apart, resume: true, resumeRanks: true })
  assert.is(last.resumedFrom, 4)
})

test('the graph of one process is found again in that of a rank', () => {
  const c = { model: 'unet', image: 48 }
  const [whole, share] = [preparedFor(c, machine('cpu', 1)).graph, preparedFor(c, machine('cpu', 2)).graph]
  assert.is(fingerprint(asOne(share)), fingerprint(whole))
  assert.is.not(fingerprint(share), fingerprint(whole))
})

test('a rank whose data differ is refused before the first step, with the difference', async () => {
  const staged = stagedFor({ model: 'resnet20-cifar', image: 16 }, 2, 'in-core')
  const all = loadNative().openThreadRanks(2).map(rankOf)
  const other = followerTask(staged, all[1]!, { ...RUN, samples: 3 })()
  const answer = await sessionTask(
    undefined,
    { ...staged, rank: all[0]! },
    RUN,
    listen(() => {}),
  )()
  for (const e of [answer, await other]) {
    assert.ok(E.isLeft(e))
    assert.match(
      errorText(e.left),
      "rank 1 cannot take part: its data is 'synthetic, 3 samples', but 'synthetic, 8 samples' on rank 0",
    )
  }
})

test('ranks that wait for an ended rank get an error', async () => {
  const [a, b] = loadNative().openThreadRanks(2)
  const waiting = a!.exchange(new Uint8Array(3))
  b!.abort(1)
  await waiting.then(
    () => assert.unreachable(),
    (e: Error) => assert.match(e.message, 'another rank ended'),
  )
})

test('each rank gets the values of all ranks', async () => {
  const all = loadNative().openThreadRanks(3)
  const heard = await Promise.all(all.map((r) => r.exchange(new Uint8Array(r.rank).fill(7))))
  for (const each of heard)
    assert.equal(
      each.map((b) => [...b]),
      [[], [7], [7, 7]],
    )
  const accords = await Promise.all(all.map((r) => r.agree(r.rank === 1 ? 'stop' : 'goOn')))
  assert.equal(accords, ['stop', 'stop', 'stop'])
})

test.run()
