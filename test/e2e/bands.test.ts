// timeout 600
// Ranks that have bands of one image's rows have the bits of one process whose plan cuts the same bands op by op, whatever their own plans keep,
// compute again, move or cut further; and agree with one process that cuts nothing to rounding.
// Worked example, 2 bands of 21 rows: [0,10) and [10,21), which a stride of 2 makes [0,5) and [5,11).
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as O from 'fp-ts/Option'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  adam,
  atInputSize,
  identity,
  avgPool,
  batchNorm,
  conv2d,
  convTranspose2d,
  crossEntropy,
  type Trainable,
  globalAvgPool,
  linear,
  maxPool,
  model,
  mse,
  type Optimizer,
  residual,
  relu,
  seq,
  sgd,
  upsample,
} from '../../dsl'
import { compileSegments } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { loadNative } from '../../src/device/native'
import { bandOf } from '../../src/train/ranks/among'
import { errorText, SpillwayException, type SpillwayError } from '../../src/errors/errors'
import type { LocalMachine } from '../../src/machine/localmachine'
import { machineNamed } from '../../src/machine/machine'
import { type Rank, rankOf } from '../../src/ranks/rank'
import { plansText, untrustedPlans } from '../../src/stage/planfile'
import { headOf, moduleText, openModule, type PlanModule } from '../../src/stage/planmodule'
import { otherThanRecorded, recordedFor, recordPlan } from '../../src/stage/recorded'
import { prepare, type Prepared } from '../../src/stage/prepare'
import { describePlan, describePlans, machineOptionsIn, type Staged } from '../../src/stage/staged'
import { stagePrepared } from '../../src/stage/stage'
import type { StageAsked } from '../../src/stage/stageoptions'
import { listen } from '../../src/train/events'
import { followerTask } from '../../src/train/ranks/follower'
import type { TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { sessionTask } from '../../src/train/session'
import { train } from '../../src/train/trainer'
import { ranksOf } from '../../staging/graph/ranks'
import { encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import type { Shard } from '../../staging/graph/machine'
import { FULL, fewOrAll } from '../full'
import { alongRows } from './cutrows'

const root = mkdtempSync(join(tmpdir(), 'spillway-bands-'))
test.after(() => rmSync(root, { recursive: true }))

const got = <A>(e: E.Either<SpillwayError, A>): A =>
  E.getOrElseW((l: SpillwayError): never => {
    throw new SpillwayException(l)
  })(e)
const RUN = { steps: 2, seed: 1, threads: 1 } as const
const PLAIN = { algorithms: 'fixed' } as const
type Precision = 'fp32' | 'bf16'

/** The number of bands of each image, and of shares of the batch. */
interface Cuts {
  readonly bands: number
  readonly shares?: number
  readonly shard?: Shard
}
const ranksIn = ({ bands, shares = 1 }: Cuts): number => bands * shares

const machine = (device: string, cuts: Cuts, precision: Precision = 'fp32'): LocalMachine =>
  got(
    machineNamed(device, {
      ...PLAIN,
      threads: 1,
      precision,
      ...(ranksIn(cuts) > 1 ? { ranks: ranksIn(cuts), bands: cuts.bands, shard: cuts.shard } : {}),
    }),
  )

interface Case {
  readonly net: Trainable
  readonly loss: typeof mse | typeof crossEntropy
  readonly device?: string
  readonly precision?: Precision
  readonly optimizer?: Optimizer
}
const preparedFor = ({ net, loss, optimizer }: Case, on: LocalMachine): Prepared =>
  got(prepare(net, on, { loss, ...(optimizer ? { optimizer } : {}) }))

const session = (staged: Staged, o: Partial<TrainOptions> = {}): Promise<E.Either<SpillwayError, TrainResult>> =>
  sessionTask(
    undefined,
    staged,
    { ...RUN, ...o },
    listen(() => {}),
  )()

/** One process; in bands op by op, or as it is. */
const alone = async (c: Case, { bands, shares }: Cuts = { bands: 1 }, o: Partial<TrainOptions> = {}): Promise<TrainResult> => {
  const on = machine(c.device ?? 'cpu', { bands: 1 }, c.precision)
  const { graph } = preparedFor(c, on)
  const plan = pipe(
    alongRows(graph, bands, shares),
    E.mapLeft((e): SpillwayError => ({ tag: 'TilingIllegal', strategy: 'by-hand', ...e })),
    E.flatMap((segments) =>
      compileSegments(graph, segments, { strategy: 'by-hand', budgetBytes: 2 ** 40, machine: on, algorithms: 'fixed' }),
    ),
  )
  return got(await session(describePlan(got(plan), on), o))
}

const together = async (staged: Staged, o: Partial<TrainOptions> = {}): Promise<TrainResult> => {
  const all = loadNative().openThreadRanks(ranksOf(staged.plan.graph)).map(rankOf)
  const followers = all.slice(1).map((rank) => followerTask(bandOf(staged, rank), rank, { ...RUN, ...o })())
  const answer = await session({ ...staged, rank: all[0]! }, o)
  if (E.isLeft(answer)) all[0]!.communicator.abort(1)
  for (const f of await Promise.all(followers)) assert.ok(E.isRight(f), E.isLeft(f) ? errorText(f.left) : '')
  return got(answer)
}

/** In the smallest budget of a strategy that is not in-core. */
const stagedFor = (c: Case, cuts: Cuts, strategy: NonNullable<StageAsked['strategy']>): Staged => {
  const p = preparedFor(c, machine(c.device ?? 'cpu', cuts, c.precision))
  const least = stagePrepared(p, { ...PLAIN, strategy, budget: 2 ** 21 })
  const small = E.isLeft(least) && least.left.tag === 'BudgetInfeasible' ? least.left.smallestBytes : 2 ** 40
  return got(stagePrepared(p, { ...PLAIN, strategy, budget: strategy === 'in-core' ? 2 ** 40 : small + 2 ** 22 }))
}

const same = async (c: Case, cuts: Cuts, strategies: readonly NonNullable<StageAsked['strategy']>[]): Promise<void> => {
  const [cut, whole] = [await alone(c, cuts), await alone(c)]
  assert.ok(cut.losses.every(Number.isFinite), `${cut.losses}`)
  cut.losses.forEach((l, i) => assert.ok(Math.abs(l - whole.losses[i]!) < 1e-3 * Math.abs(l), `${l} ${whole.losses[i]}`))
  for (const strategy of strategies) {
    const staged = stagedFor(c, cuts, strategy)
    const r = await together(staged)
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, cut.weightsSha256, cut.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes, strategy)
    for (const plan of staged.family!) assert.ok(plan.peakPages * 2 ** 21 <= plan.budgetBytes)
  }
}

/** Strides, pools, dilations, live norms, a transposed convolution, a skip connection, bilinear upsampling, a loss of pixels. */
const pixels = <const H extends number, const W extends number>(h: H, w: W, images = 1): Trainable =>
  model(
    [images, 3, h, w] as never,
    seq(
      conv2d('first', 4, 3, { pad: 1, stride: 2 }),
      batchNorm('n1'),
      relu(),
      residual(seq(conv2d('wide', 4, 3, { pad: 2, dilation: 2 }), batchNorm('n2')), identity),
      relu(),
      maxPool('pool', 3, { stride: 2, pad: 1 }),
      conv2d('deep', 6, 3, { pad: 1 }),
      avgPool('mean', 2),
      convTranspose2d('up', 4, 4, { stride: 2, pad: 1 }),
      relu(),
      upsample({ size: [h, w], mode: 'bilinear' } as never),
      conv2d('head', 3, 1),
    ) as never,
  ) as unknown as Trainable

/** A head that has no rows to cut. */
const classes = (h: number, w: number, images = 2, wide = 4): Trainable =>
  model(
    [images, 3, h, w] as never,
    seq(conv2d('c', wide, 5, { pad: 2, stride: 2 }), batchNorm('n'), relu(), globalAvgPool('p'), linear('head', 3)) as never,
  ) as unknown as Trainable

test('bands of pixels: kept, computed again, swapped, cut further', async () => {
  await same({ net: pixels(45, 37), loss: mse }, { bands: 2 }, ['in-core', 'checkpoint:sqrt', 'swap:greedy'])
  if (FULL) await same({ net: pixels(45, 37), loss: mse }, { bands: 4 }, ['in-core', 'auto'])
})

/** The mean of the whole image beside it, at every place: its gradient is a sum over all bands. */
test('ops that each band computes whole, and spreads over its rows', () =>
  same(
    {
      net: model(
        [2, 3, 11, 7],
        seq(
          conv2d('c', 4, 3, { pad: 1 }),
          atInputSize(globalAvgPool('p'), conv2d('d', 5, 1), batchNorm('n'), relu()),
          conv2d('e', 2, 3),
        ),
      ) as unknown as Trainable,
      loss: mse,
    },
    { bands: 2 },
    ['in-core'],
  ))

test('a batch, a head that all ranks compute whole, labels', () =>
  same({ net: classes(23, 17), loss: crossEntropy }, { bands: 3 }, ['in-core']))

test('a grid: two shares of a batch, each in two bands; kept, computed again, swapped', async () => {
  await same({ net: pixels(45, 37, 4), loss: mse }, { bands: 2, shares: 2 }, ['in-core', 'checkpoint:sqrt', 'swap:greedy'])
  if (FULL) await same({ net: classes(23, 17, 6), loss: crossEntropy }, { bands: 2, shares: 3 }, ['in-core'])
})

test('updates shared out over a grid, and over bands alone', async () => {
  const c: Case = { net: classes(23, 17, 4, 48), loss: crossEntropy, optimizer: adam({ lr: 1e-3 }) }
  await same(c, { bands: 2, shares: 2, shard: 'gradients' }, ['in-core', 'swap:greedy'])
  if (FULL) await same(c, { bands: 2, shares: 2, shard: 'optimizer' }, ['in-core'])
  await same(c, { bands: 2, shard: 'gradients' }, ['in-core'])
})

test('one file holds the plans of all bands; missing or foreign ones are refused', async () => {
  const c: Case = { net: classes(23, 17, 4), loss: crossEntropy }
  const staged = stagedFor(c, { bands: 2, shares: 2 }, 'in-core')
  const read = got(untrustedPlans(plansText(staged.family!)))
  assert.equal(read.map(encodePlan), staged.family!.map(encodePlan))
  const again = describePlans(read, got(machineNamed('cpu', { ...PLAIN, threads: 1, ...machineOptionsIn(staged) })))
  assert.is((await together(again)).weightsSha256, (await together(staged)).weightsSha256)
  const refused = (plans: readonly Plan[]): string => {
    const e = untrustedPlans(plansText(plans))
    return E.isLeft(e) ? errorText(e.left) : ''
  }
  const [first, second] = staged.family!
  assert.match(refused([first!]), /there are 1 plans for 2 bands/)
  assert.match(refused([second!, first!]), /plan 1 does not belong to band 1|plan 0 does not/)
  const other = stagedFor(c, { bands: 2, shares: 4 }, 'in-core').family!
  assert.match(refused([first!, other[1]!]), /plan 1 does not belong to band 1 of the same step/)
})

test('a rank with another network, seed or length is refused before the first step, and one with other weights after the last', async () => {
  const c: Case = { net: classes(23, 17, 4), loss: crossEntropy }
  const cuts = { bands: 2, shares: 2 }
  const [staged, other] = [stagedFor(c, cuts, 'in-core'), stagedFor({ ...c, net: classes(23, 17, 4, 5) }, cuts, 'in-core')]
  /** The errors of ranks, if the last has these options: the first one ends the others. */
  const refusal = async (o: Partial<TrainOptions>, own = staged, spoil = (rank: Rank): Rank => rank): Promise<string> => {
    const all = loadNative().openThreadRanks(4).map(rankOf)
    const followers = all.slice(1).map(async (rank) => {
      const is = rank.rank === 3
      const answer = await followerTask(bandOf(is ? own : staged, rank), is ? spoil(rank) : rank, { ...RUN, ...(is ? o : {}) })()
      if (E.isLeft(answer)) rank.communicator.abort(1)
      return answer
    })
    const led = session({ ...staged, rank: all[0]! })
    const answers: readonly E.Either<SpillwayError, unknown>[] = await Promise.all([led, ...followers])
    return answers.map((e) => (E.isLeft(e) ? errorText(e.left) : '')).join('\n')
  }
  assert.match(await refusal({}, other), /rank 3 cannot take part: its network is '.*', but '.*' on rank 0/)
  assert.match(await refusal({ seed: 2 }), "rank 3 cannot take part: its seed is '2', but '1' on rank 0")
  assert.match(await refusal({ onNonfinite: 'continue' }), "its setting of onNonfinite is 'continue', but 'end' on rank 0")
  assert.match(await refusal({ steps: 3 }), "rank 3 cannot take part: its steps is '3', but '2' on rank 0")
  // One bit of one weight, on its way.
  let spoilt = false
  const spoiling = (rank: Rank): Rank => {
    const exchange = rank.communicator.exchange.bind(rank.communicator)
    const value = async (own: Uint8Array): Promise<readonly Uint8Array[]> => {
      const heard = await exchange(own)
      if (!spoilt && heard[0]!.length === 4 * 4 * 3 * 25) {
        heard[0]![0]! ^= 1
        spoilt = true
      }
      return heard
    }
    Object.defineProperty(rank.communicator, 'exchange', { value })
    return rank
  }
  assert.match(await refusal({}, staged, spoiling), 'rank 3: its weights differ from those of rank 0 after the last step')
  assert.ok(spoilt)
})

test('a plan module carries the plans of all bands, and trains on as many ranks', async () => {
  const c: Case = { net: classes(23, 17, 4), loss: crossEntropy }
  const staged = stagedFor(c, { bands: 2, shares: 2 }, 'in-core')
  const { step } = preparedFor(c, machine('cpu', { bands: 2, shares: 2 }))
  const plans = staged.family as readonly [Plan, ...(readonly Plan[])]
  const text = moduleText(plans, step!, { importing: '', type: 'typeof net', resized: false })
  assert.match(text, ', for cpu, 4 ranks with 2 bands of each image.')
  const packed = /'([^']+)'\)\n$/.exec(text)![1]!
  const module: PlanModule = { kind: 'plan-module', head: headOf(plans, step!), packed }
  assert.is(module.head.peak, Math.max(...plans.map((p) => bytesOf(p.peakPages))))
  const opened = got(openModule(c.net, module))
  assert.equal(opened.family!.map(encodePlan), plans.map(encodePlan))
  const result = await train(c.net, opened, { ...RUN, engine: 'threads' })
  assert.equal([result.weightsSha256, result.ranks], [(await together(staged)).weightsSha256, 4])
})

test('a resumed run has the first plans of all bands', () => {
  const p = preparedFor({ net: classes(23, 17, 4), loss: crossEntropy }, machine('cpu', { bands: 2 }))
  const resumes = mkdtempSync(join(root, 'recorded-'))
  const { family } = got(stagePrepared(p, { strategy: 'in-core' }))
  got(recordPlan(resumes, family!))
  const began = recordedFor(p, { resumes })
  assert.ok(O.isSome(began))
  assert.equal(began.value.map(encodePlan), family!.map(encodePlan))
  assert.is(otherThanRecorded(resumes, family!), undefined)
  assert.equal(got(stagePrepared(p, { resumes })).family!.map(encodePlan), family!.map(encodePlan))
  const three = preparedFor({ net: classes(23, 17, 4), loss: crossEntropy }, machine('cpu', { bands: 3 }))
  assert.ok(O.isNone(recordedFor(three, { resumes })))
})

/** At a rate at which the losses of later steps are those of other weights: they agree where gradients do. */
const inDouble = async (h: number, w: number): Promise<void> => {
  const c: Case = { net: pixels(h, w), loss: mse, device: 'ref', optimizer: sgd({ lr: 0.05 }) }
  const whole = await alone(c)
  assert.ok(Math.abs(whole.losses[0]! - whole.losses[1]!) > 1e-3 * whole.losses[0]!, `${whole.losses}`)
  for (const bands of fewOrAll([4], [2, 4])) {
    const r = await together(stagedFor(c, { bands }, 'in-core'))
    r.losses.forEach((l, i) => assert.ok(Math.abs(l - whole.losses[i]!) < 1e-11 * l, `${bands} bands: ${l} ${whole.losses[i]}`))
  }
}

/** All numbers of a weights file of doubles. */
const doublesIn = (file: string): Float64Array => {
  const bytes = readFileSync(file)
  const head = Number(bytes.readBigUInt64LE(0))
  assert.match(bytes.subarray(8, 8 + head).toString(), /"dtype":"F64"/)
  return new Float64Array(Uint8Array.from(bytes.subarray(8 + head)).buffer)
}

/** After one step without momentum weights have moved by the rate times their gradients. */
const gradients = async (h: number, w: number): Promise<void> => {
  const stepped = async (lr: number, bands = 1): Promise<Float64Array> => {
    const c: Case = { net: pixels(h, w), loss: mse, device: 'ref', optimizer: sgd({ lr }) }
    const o = { steps: 1, save: join(root, `${h}-${lr}-${bands}.safetensors`) }
    await (bands === 1 ? alone(c, undefined, o) : together(stagedFor(c, { bands }, 'in-core'), o))
    return doublesIn(o.save)
  }
  const [whole, further] = [await stepped(1), await stepped(2)]
  const largest = whole.reduce((most, x, i) => Math.max(most, Math.abs(x - further[i]!)), 0)
  assert.ok(largest > 1e-3)
  for (const bands of fewOrAll([4], [2, 4])) {
    const cut = await stepped(1, bands)
    const off = whole.reduce((most, x, i) => Math.max(most, Math.abs(x - cut[i]!)), 0)
    assert.ok(off < 1e-9 * largest, `${bands} bands: ${off} of ${largest}`)
  }
}

test('in double precision, bands agree with the whole image', () => inDouble(61, 45))
test('in double precision, gradients of bands are those of the whole image', () => gradients(509, 389))
/** It takes minutes. */
if (process.env['SPILLWAY_FULL']) {
  test('in double, larger', () => inDouble(509, 389))
  test('in double, gradients of larger ones', () => gradients(1021, 767))
}

if (E.isRight(machineNamed('cpu', { precision: 'bf16' })))
  test('bf16', () => same({ net: pixels(45, 37), loss: mse, precision: 'bf16' }, { bands: 2 }, ['in-core']))

test.run()
