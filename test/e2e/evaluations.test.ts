// timeout 300
// Evaluations between steps that ranks share: the numbers of one process that evaluates the same weights, bit for bit, whatever the number of
// ranks; a rank that fails, or is asked to end, ends all.
// Worked example, 21 samples, batches of 8, 2 ranks: rank 0 has samples 0 to 7 and the five that are left over, rank 1 has 8 to 15.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type * as TE from 'fp-ts/TaskEither'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, globalAvgPool, linear, type Model, model, mse, relu, seq, sgd } from '../../dsl'
import { type Data, source } from '../../src/data/data'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import { evaluate } from '../../src/predict/evaluator'
import { metric, type Metric } from '../../src/predict/ownmetric'
import type { MetricName } from '../../src/predict/metricnames'
import { ownBatches } from '../../src/predict/shares'
import { validation } from '../../src/predict/validation'
import { loadNative } from '../../src/device/native'
import { rankOf } from '../../src/ranks/rank'
import type { Staged } from '../../src/stage/staged'
import { stage } from '../../src/stage/stage'
import type { StageOptions } from '../../src/stage/stageoptions'
import { listen } from '../../src/train/events'
import { followerTask } from '../../src/train/ranks/follower'
import type { TrainOptions } from '../../src/train/options'
import { sessionTask } from '../../src/train/session'
import { train } from '../../src/train/trainer'

const root = mkdtempSync(join(tmpdir(), 'spillway-evaluations-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const weightsFile = (): string => join(root, `${made++}.safetensors`)

const unit = <N extends string>(name: N) => seq(conv2d(name, 8, 3, { bias: false }), batchNorm(`${name}.n`), relu())
const classes = model([8, 3, 12, 12], seq(unit('a'), unit('b'), globalAvgPool('pool'), linear('head', 5)))
const pixels = model([8, 3, 12, 12], seq(unit('a'), conv2d('out', 2, 1)))

const image = (i: number): Float32Array => Float32Array.from({ length: 432 }, (_, k) => Math.sin(k * (1 + (i % 5)) + i))
const labelled = (length: number): Data => source({ length, read: (i) => ({ input: image(i), target: i % 5 }) })
const numbers = (length: number): Data =>
  source({ length, read: (i) => ({ input: image(i), target: image(i + 1).subarray(0, 288) }) })

const bias = metric({
  name: 'bias',
  start: () => new Map([['sum', 0]]),
  add: (known, { output, target }) => {
    let sum = known.get('sum')!
    for (let i = 0; i < output.length; i++) sum += output[i]! / 3 - target[0]!
    return new Map([['sum', sum]])
  },
  merge: (a, b) => new Map([['sum', a.get('sum')! + b.get('sum')!]]),
  value: (known) => known.get('sum')!,
})

interface Case {
  readonly net: Model
  readonly held: Data
  readonly data: Data
  readonly metrics: readonly (MetricName | Metric)[]
  readonly how?: Partial<StageOptions>
}
const OF_CLASSES: Case = { net: classes, data: labelled(16), held: labelled(21), metrics: ['accuracy', 'f1', 'top2', bias] }
const OF_NUMBERS: Case = { net: pixels, data: numbers(16), held: numbers(21), metrics: ['mae', 'psnr'] }

const RUN = { epochs: 2, seed: 1, threads: 1 } as const
const stagedFor = ({ net, how }: Case, ranks: number): Staged => {
  const loss = net === pixels ? mse : crossEntropy
  const optimizer = sgd({ lr: 0.05, momentum: 0.9 })
  const own = { loss, optimizer, algorithms: 'fixed', strategy: 'in-core', ...how } as const
  return stage(net, ranks > 1 ? { ...own, ranks } : own)
}

/** The result of the last of its evaluations, and one process's result for the weights that it left. */
const same = async (c: Case, ranks: number, judged: 'latest' | 'average' = 'latest'): Promise<readonly string[]> => {
  const { net, data, held, metrics } = c
  const plan = stagedFor(c, ranks)
  const save = weightsFile()
  const notes: string[] = []
  const { measured } = await train(net, plan, {
    ...RUN,
    ...(ranks > 1 ? { engine: 'threads' } : {}),
    data,
    save,
    evaluate: validation({ data: held, metrics, weights: judged }),
    onNote: (text) => notes.push(text),
  })
  const { loss, algorithms } = { loss: net === pixels ? mse : crossEntropy, algorithms: 'fixed' } as const
  const as = metrics.some((m) => m !== 'accuracy' && m !== 'f1') ? 'values' : undefined
  const alone = stage(net, { mode: 'evaluate', loss, algorithms, ...(as ? { as } : {}) })
  const weights = judged === 'average' ? save.replace('.safetensors', '.average.safetensors') : save
  const { loss: value, metrics: found } = await evaluate(net, alone, { weights, data: held, metrics, threads: 1 })
  assert.equal(measured.at(-1)!.metrics, { loss: value, ...found }, `${ranks} ranks`)
  return notes
}

test('the batches of ranks are all batches, once', () => {
  assert.equal(ownBatches(21, 8, { rank: 0, ranks: 2 }), { full: [0], left: 5, rounds: 2 })
  for (const [samples, ranks] of [
    [21, 4],
    [16, 2],
    [3, 4],
    [40, 3],
    [7, 1],
  ] as const) {
    const all = Array.from({ length: ranks }, (_, rank) => ownBatches(samples, 8, { rank, ranks }))
    assert.equal(
      all.flatMap((o) => o.full).sort((a, b) => a - b),
      Array.from({ length: Math.floor(samples / 8) }, (_, i) => i),
    )
    assert.is(
      all.reduce((n, o) => n + o.left, 0),
      samples % 8,
    )
    assert.ok(all.every((o) => o.rounds === all[0]!.rounds && o.rounds - o.full.length - (o.left ? 1 : 0) <= 1))
  }
})

for (const ranks of [1, 2, 4])
  test(`${ranks} ranks have the metrics of one process: of classes, and of the user`, async () => {
    await same(OF_CLASSES, ranks)
  })
test('metrics of numbers, whose sums are rounded, with 2 and 4 ranks', async () => {
  await same(OF_NUMBERS, 2)
  await same(OF_NUMBERS, 4)
})
test('ranks that have bands of rows evaluate whole images', async () => {
  await same({ ...OF_NUMBERS, how: { bands: 2 } }, 2)
})
test('with local norms the statistics are those of rank 0', async () => {
  await same({ ...OF_CLASSES, how: { norms: 'local' } }, 2)
})
test('an average of which each rank has a part', async () => {
  const wide = model(
    [8, 3, 12, 12],
    seq(unit('a'), conv2d('wide', 64, 3), conv2d('less', 8, 3), globalAvgPool('p'), linear('head', 5)),
  )
  await same({ ...OF_CLASSES, net: wide, how: { shard: 'gradients', average: 0.5 } }, 2, 'average')
})

test('rank 0 runs an evaluation that cannot be shared alone, with a note', async () => {
  const { merge: _, ...rest } = {
    name: 'rows',
    start: () => 0,
    add: (n: number) => n + 1,
    value: (n: number) => n,
    merge: undefined,
  }
  const notes = await same({ ...OF_CLASSES, metrics: [metric(rest)] }, 2)
  assert.match(notes.join(), "rank 0 evaluates alone while the other ranks wait: metric 'rows' has no merge function")
  const held = source({
    async *[Symbol.asyncIterator]() {
      for (let i = 0; i < 11; i++) yield { input: image(i), target: i % 5 }
    },
  })
  const streamed = await same({ ...OF_CLASSES, held }, 2)
  assert.match(streamed.join(), 'rank 0 evaluates alone while the other ranks wait: the samples are a stream')
})

/** Ranks with options of their own. */
const ranked = async (o: readonly TrainOptions[]) => {
  const all = loadNative().openThreadRanks(o.length).map(rankOf)
  const staged = { ...stagedFor(OF_CLASSES, o.length) }
  const ending = async <A>(work: TE.TaskEither<SpillwayError, A>): Promise<E.Either<SpillwayError, A>> => {
    const answer = await work()
    if (E.isLeft(answer) && answer.left.tag !== 'Cancelled') all[0]!.communicator.abort(1)
    return answer
  }
  const others = all.slice(1).map((rank, i) => ending(followerTask(staged, rank, o[i + 1]!)))
  const led = await ending(
    sessionTask(
      classes,
      { ...staged, rank: all[0]! },
      o[0]!,
      listen(() => {}),
    ),
  )
  return { led, others: await Promise.all(others) }
}
const own = (held: Data, more: Partial<TrainOptions> = {}): TrainOptions => ({
  ...RUN,
  data: OF_CLASSES.data,
  evaluate: validation({ data: held, metrics: ['accuracy'] }),
  ...more,
})

test('a rank that gets a signal in an evaluation ends all ranks, with the completed steps', async () => {
  const asked = new AbortController()
  const held = source({
    length: 200,
    read: (i) => {
      if (i > 100) asked.abort()
      return { input: image(i), target: i % 5 }
    },
  })
  const { led, others } = await ranked([own(labelled(200)), own(held, { signal: asked.signal })])
  assert.ok(E.isLeft(led) && led.left.tag === 'Cancelled' && led.left.stepsDone === 2, JSON.stringify(led))
  assert.ok(E.isRight(others[0]!) && others[0].right.code === 130)
})

test('data that fail at one rank end all ranks with an error', async () => {
  const held = source({
    length: 40,
    read: (i) => {
      if (i === 12) throw new Error('sample 12 is not there')
      return { input: image(i), target: i % 5 }
    },
  })
  const { led, others } = await ranked([own(held), own(held)])
  assert.ok(E.isLeft(led) && E.isLeft(others[0]!))
  assert.match(errorText(others[0].left), 'sample 12 is not there')
})

test('a rank that evaluates something else is refused before the first step', async () => {
  const { led, others } = await ranked([own(labelled(21)), own(labelled(22))])
  assert.ok(E.isLeft(led) && E.isLeft(others[0]!))
  // Each rank finds the difference. The end of the faster one may interrupt the other.
  const words = [led.left, others[0].left].map(errorText).join('\n')
  assert.match(words, /rank 1 cannot take part: its data of evaluations is '.*22 samples.*', but '.*' on rank 0/)
  const without = await ranked([own(labelled(21)), { ...RUN, data: OF_CLASSES.data }])
  assert.ok(E.isLeft(without.others[0]!))
  assert.match(errorText(without.others[0].left), 'rank 1 cannot take part: it has no evaluations')
})

test.run()
