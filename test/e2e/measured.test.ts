// own process
// timeout 300
// Runs that are measured between their steps: the bits of one that is not, the budget held, the best kept, the end when nothing gets better;
// and all of it after a kill as without one.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, isRight, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, dropout, globalAvgPool, linear, model, relu, seq, sgd } from '../../dsl'
import { bytesOf } from '../../staging/core/bytes'
import { split, source } from '../../src/data/data'
import { errorText } from '../../src/errors/errors'
import { openTensors, writeTensors } from '../../src/files/safetensors'
import { evaluate } from '../../src/predict/evaluator'
import { validation } from '../../src/predict/validation'
import { stage } from '../../src/stage/stage'
import { findCheckpoint } from '../../src/train/checkpoint'
import type { EvaluationDone, FitEvent } from '../../src/train/events'
import { fit } from '../../src/train/fit'
import { isEnough } from '../../src/train/measured'
import { type Measurement, standing } from '../../src/train/measurement'
import { checkedOptions, type TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { train, trainTask } from '../../src/train/trainer'
import { FULL, fullTest, gateTest } from '../full'
import { afterStep, type End, ended, training } from './processes'
import { DEVICE, halfway, staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-measured-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => join(root, String(made++))

const net = model(
  [4, 3, 32, 32],
  seq(
    conv2d('a', 16, 3),
    batchNorm('n'),
    relu(),
    conv2d('b', 16, 3),
    relu(),
    dropout(0.1),
    globalAvgPool('pool'),
    linear('head', 3),
  ),
)
const options = { loss: crossEntropy, optimizer: sgd({ lr: 0.05, momentum: 0.9 }) } as const
const plan = staged(net, { ...options, strategy: 'in-core' })
const all = source({
  length: 23,
  read: (i) => ({ input: Float32Array.from({ length: 3072 }, (_, k) => Math.sin(k * (1 + (i % 3)) + i)), target: i % 3 }),
})
/** Sixteen samples, four steps an epoch, and seven to measure by. */
const [data, held] = split(all, 0.7)
const evaluations = validation({ data: held, metrics: ['accuracy'] })

const events = async (o: Omit<TrainOptions, 'steps'> & { readonly epochs: number }): Promise<readonly FitEvent[]> => {
  const seen: FitEvent[] = []
  for await (const e of fit(net, plan, { data, shuffle: true, seed: 3, ...o })) seen.push(e)
  return seen
}
const evaluated = (seen: readonly FitEvent[]): readonly EvaluationDone[] =>
  seen.filter((e): e is EvaluationDone => e.kind === 'evaluation')

// ---------------------------------------------------------------- by hand

test('the best is the first that nothing beats; a number that is none is never it', () => {
  const of = (metric: string, ...values: number[]): readonly Measurement[] =>
    values.map((v, i) => ({ epoch: i + 1, step: i + 1, metrics: { [metric]: v } }))
  const at = (metric: string, ...values: number[]): readonly [number | undefined, number] => {
    const { best, since } = standing(of(metric, ...values), metric)
    return [best?.epoch, since]
  }
  assert.equal(at('loss', 0.5, 0.4, 0.45, 0.4), [2, 2])
  assert.equal(at('accuracy', 0.5, 0.4, 0.5, 0.6), [4, 0])
  assert.equal(at('mae', Number.NaN, 3, 2), [3, 0])
  assert.equal(at('f1', Number.NaN, Number.NaN), [undefined, 2])
  assert.equal(at('psnr', 20, Infinity, 30), [2, 1])
  const patient = { patience: 2 }
  assert.not.ok(isEnough(patient, of('loss', 1, 2)))
  assert.ok(isEnough(patient, of('loss', 1, 2, 1)))
  assert.ok(isEnough({ ...patient, keep: { best: 'f1' } }, of('f1', 3, 2, 1)))
})

// ---------------------------------------------------------------- evaluations

test('a run that is evaluated ends with the bits of one that is not, and evaluates as `evaluate` does', async () => {
  const alone = await train(net, plan, { epochs: 3, data, shuffle: true, seed: 3 })
  const save = join(root, 'last.safetensors')
  const seen = await events({ epochs: 3, evaluate: evaluations, save })
  const end = seen.at(-1)!
  assert.ok(end.kind === 'end')
  assert.equal([end.result.losses, end.result.weightsSha256], [alone.losses, alone.weightsSha256])
  const found = evaluated(seen)
  assert.equal(
    found.map((e) => [e.epoch, e.step, Object.keys(e.metrics)]),
    [1, 2, 3].map((n) => [n, 4 * n, ['loss', 'accuracy']]),
  )
  assert.equal(
    end.result.measured.map((m) => m.metrics),
    found.map((e) => e.metrics),
  )
  const evaluating = stage(net, { mode: 'evaluate', loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })
  const after = await evaluate(net, evaluating, { weights: save, data: held, metrics: ['accuracy'] })
  assert.equal({ loss: after.loss, ...after.metrics }, found[2]!.metrics)
  // An epoch is told before it is evaluated, and the next step comes after.
  const order = seen.filter((e) => e.kind !== 'step' || e.step > 3).map((e) => (e.kind === 'step' ? e.step : e.kind))
  assert.equal(order.slice(0, 5), ['start', 4, 'epoch', 'evaluation', 5])
})

test('every second epoch, in half of the memory, with a spill folder: the same bits, and neither holds more than the budget', async () => {
  const spill = folder()
  mkdirSync(spill)
  const large = model([2, 3, 128, 128], net.net)
  const budget = halfway(large, 'swap:greedy', options)
  const tight = staged(large, { ...options, strategy: 'swap:greedy', budget, spill })
  const [data, held] = split(
    source({ length: 6, read: (i) => ({ input: new Float32Array(49152).map((_, k) => Math.sin(k + i)), target: i % 3 }) }),
    0.7,
  )
  const o = { epochs: 4, data, seed: 3, spill } as const
  const alone = await train(large, tight, o)
  const found: EvaluationDone[] = []
  let result = alone
  for await (const e of fit(large, tight, { ...o, evaluate: validation({ data: held, every: 2 }) })) {
    if (e.kind === 'evaluation') found.push(e)
    if (e.kind === 'end') result = e.result
  }
  assert.equal(
    found.map((e) => e.epoch),
    [2, 4],
  )
  assert.ok(found.every((e) => e.arenaPeakBytes > 0 && e.arenaPeakBytes <= budget))
  assert.equal([result.losses, result.weightsSha256], [alone.losses, alone.weightsSha256])
  assert.is(result.arenaPeakBytes, bytesOf(tight.plan.peakPages))
  assert.equal(readdirSync(spill), [])
})

test('a signal during an evaluation ends the run, and the folder is free', async () => {
  const checkpointDir = folder()
  const controller = new AbortController()
  const slow = source({
    length: 40,
    read: async (i) => {
      if (i === 8) controller.abort(new Error('lunch'))
      return { input: new Float32Array(3072), target: i % 3 }
    },
  })
  const o = { epochs: 2, data, checkpointDir, signal: controller.signal, evaluate: validation({ data: slow }) }
  const answer = await trainTask(net, plan, o)()
  assert.ok(isLeft(answer) && answer.left.tag === 'Cancelled' && answer.left.stepsDone === 4)
  assert.is(existsSync(join(checkpointDir, 'lock.json')), false)
})

// ---------------------------------------------------------------- the best, and the end

test('without evaluations the mean loss of epochs counts: the best weights, the best checkpoint, the last ones', async () => {
  const [checkpointDir, saveBest] = [folder(), join(root, 'best.safetensors')]
  const keep = { best: 'loss', last: 1 } as const
  // The rate grows until epochs get worse.
  const schedule = (step: number): number => (step <= 8 ? 1 : 400)
  const seen = await events({ epochs: 5, checkpointDir, checkpointEvery: 4, keep, saveBest, schedule, onNonfinite: 'continue' })
  const end = seen.at(-1)!
  assert.ok(end.kind === 'end')
  const { best, measured } = end.result
  assert.is(measured.length, 5)
  assert.ok(best && best.epoch < 5, JSON.stringify(measured))
  const left = readdirSync(checkpointDir)
    .flatMap((n) => /^step-0*(\d+)\.json$/.exec(n)?.[1] ?? [])
    .map(Number)
  assert.equal(left, [best.step, 20])
  const file = openTensors('weights', saveBest)
  assert.ok(isRight(file))
  // The saved weights are the state after the best epoch.
  const until = await train(net, plan, {
    steps: best.step,
    data,
    shuffle: true,
    seed: 3,
    schedule,
    save: join(root, 'until.safetensors'),
  })
  const again = openTensors('weights', join(root, 'until.safetensors'))
  assert.ok(isRight(again) && until.steps === best.step)
  assert.equal(readFileSync(saveBest), readFileSync(join(root, 'until.safetensors')))
})

gateTest('patience ends the run after the epochs that brought nothing; a resume counts on, bit for bit', async () => {
  const schedule = (step: number): number => (step <= 8 ? 1 : 0)
  const o = { epochs: 40, seed: 3, data: held, schedule, evaluate: validation({ data: held }), patience: 3 } as const
  const alone = await train(net, plan, o)
  assert.ok(alone.endedEarly && alone.measured.length < 40)
  const last = alone.measured.length
  assert.is(alone.best!.epoch, last - 3)
  // Ended by hand after each checkpoint in turn, and begun again.
  const checkpointDir = folder()
  let rounds = 0
  for (let over = false; !over && rounds < 60; rounds++)
    for await (const e of fit(net, plan, { ...o, checkpointDir, checkpointEvery: FULL ? 3 : 24, resume: true })) {
      if (e.kind === 'end') {
        over = true
        assert.equal(
          [e.result.losses, e.result.measured, e.result.best, e.result.weightsSha256],
          [alone.losses, alone.measured, alone.best, alone.weightsSha256],
        )
      }
      if (e.kind === 'checkpoint') break
    }
  assert.ok(rounds > 2, `${rounds}`)
  assert.equal(findCheckpoint(checkpointDir).checkpoint?.measured, alone.measured)
  // It has ended, and stays so; with more patience it goes on.
  const again = await train(net, plan, { ...o, checkpointDir, resume: true })
  assert.equal([again.resumedFrom, again.endedEarly, again.weightsSha256], [alone.steps, true, alone.weightsSha256])
  const more = await train(net, plan, { ...o, checkpointDir, resume: true, patience: 4 })
  assert.ok(more.steps > alone.steps)
})

fullTest('killed within an epoch and in evaluations, the command resumes to the same bits, metrics and end', async () => {
  const pairs = join(root, 'pairs.safetensors')
  const tensor = (name: string, shape: readonly number[]) => ({
    name,
    type: 'F32' as const,
    shape,
    read: () =>
      right(new Uint8Array(Float32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, (_, i) => Math.sin(i)).buffer)),
  })
  writeTensors(pairs, [tensor('input', [7, 3, 32, 32]), tensor('target', [7, 4, 32, 32])])
  const flags = ['--epochs', '9', '--data', pairs, '--shuffle', '--evaluate', pairs, '--metrics', 'mae', '--keep-best', 'mae']
  const rate = ['--lr', '0.02', '--schedule', 'cosine:floor=0.5', '--warmup', '3', '--patience', '30', '--seed', '5']
  const resultOf = (e: End): object => {
    assert.is(e.code, 0, e.err)
    const { losses, measured, best, weightsSha256, endedEarly } = JSON.parse(e.out) as TrainResult
    return { losses, measured, best, weightsSha256, endedEarly }
  }
  const at = join(root, 'killed')
  const kept = [...flags, ...rate, '--checkpoint-dir', at, '--checkpoint-every', '3', '--resume']
  const alone = resultOf(await ended(training(...flags, ...rate, '--checkpoint-dir', join(root, 'whole'))))
  let killed = 0
  for (const [step, wait] of [
    [5, 0],
    [14, 3],
    [19, 9],
  ] as const) {
    const child = training(...kept)
    const end = await ended(
      child,
      afterStep(step, () => setTimeout(() => child.kill('SIGKILL'), wait)),
    )
    if (end.signal === 'SIGKILL') killed++
    assert.equal(findCheckpoint(at).refused, [])
  }
  assert.ok(killed >= 2, `${killed}`)
  assert.equal(resultOf(await ended(training(...kept))), alone)
})

test('impossible options are refused before the first step', async () => {
  const said = async (o: TrainOptions): Promise<string> => {
    const answer = await trainTask(net, plan, { steps: 4, data, ...o })()
    return isLeft(answer) ? errorText(answer.left) : 'nothing'
  }
  assert.match(
    await said({ patience: 1, keep: { best: 'accuracy' } }),
    /keep.best: metric 'accuracy' is not known; allowed: loss/,
  )
  const unknown = { patience: 1, keep: { best: 'meanIou' }, evaluate: evaluations }
  assert.match(await said(unknown), /metric 'meanIou' is not known; allowed: loss, accuracy/)
  const stream = source(function* () {
    yield { input: new Float32Array(3072), target: 0 }
  })
  assert.match(await said({ data: stream, patience: 1 }), /patience, keep\.best and the schedule plateau need epochs/)
  const early = (o: TrainOptions): string => {
    const checked = checkedOptions({ steps: 1, ...o })
    return isLeft(checked) ? errorText(checked.left) : 'nothing'
  }
  assert.is(early({ keep: { last: 3 } }), 'keep needs a checkpoint directory')
  assert.is(early({ checkpointDir: 'c', keep: { last: 0 } }), 'keep.last is 0; allowed: whole numbers of at least 1')
  assert.is(early({ evaluate: { data: 'x' } as never }), 'evaluate takes the result of validation({ data })')
  assert.throws(() => validation({ data: 'x', every: 0 }), /every is 0; allowed: whole numbers of at least 1/)
  writeFileSync(join(root, 'file'), '')
  assert.match(await said({ saveBest: join(root, 'file', 'below') }), /weights file/)
})

test.run()
