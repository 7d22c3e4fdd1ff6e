// The whole path: staged plans trained on the device. Bits equal among strategies, budgets kept, runs that go on.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adamw, conv2d, maxPool, model, relu, seq } from '../../dsl'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { savePlan, tryLoadPlan } from '../../src/stage/planfile'
import { openTensors, writeTensors } from '../../src/files/safetensors'
import { describePlan } from '../../src/stage/staged'
import { tryStage } from '../../src/stage/stage'
import { LOG_FILE } from '../../src/train/steplog'
import type { TrainResult } from '../../src/train/result'
import { chunkFrom } from '../../src/train/steps'
import { trainTask } from '../../src/train/trainer'
import { classifier, trunk } from './models'
import { DEVICE, halfway, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-e2e-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => join(root, String(made++))

/** The interpreter counts the peak that was planned, within the budget. */
const hasPlannedPeak = (r: TrainResult): void => {
  assert.is(r.arenaPeakBytes, r.peakBytes)
  assert.ok(r.arenaPeakBytes <= r.budgetBytes)
}

test('recompute and swap plans have the bits of in-core, in half the memory', async () => {
  const inCore = await trained(trunk, staged(trunk, { strategy: 'in-core' }))
  assert.is(inCore.losses.length, 3)
  assert.ok(inCore.losses.every(Number.isFinite))
  for (const strategy of ['checkpoint:sqrt', 'checkpoint:optimal', 'swap:greedy', 'hybrid:superneurons'] as const) {
    const plan = staged(trunk, { strategy, budget: halfway(trunk, strategy) })
    const r = await trained(trunk, plan)
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    const [swaps, recomputes] = [r.bytesOut > 0 && r.bytesIn > 0, r.recomputeSeconds > 0]
    const forced = strategy === 'swap:greedy' ? swaps : strategy.startsWith('hybrid:') ? swaps || recomputes : recomputes
    assert.ok(forced, `${strategy} was not forced`)
    assert.ok(r.peakBytes < inCore.peakBytes)
    hasPlannedPeak(r)
  }
  hasPlannedPeak(inCore)
})

test('tiles and auto, too, have the planned peak in the interpreter', async () => {
  for (const strategy of ['tiled', 'auto'] as const)
    hasPlannedPeak(await trained(trunk, staged(trunk, { strategy, budget: halfway(trunk, strategy) }), { steps: 1 }))
})

test('exactly the smallest budget trains; a page less is refused', async () => {
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy', 'tiled'] as const) {
    const least = smallestBudget(trunk, strategy)
    const r = await trained(trunk, staged(trunk, { strategy, budget: least }), { steps: 1 })
    assert.ok(r.arenaPeakBytes <= least, strategy)
    const less = tryStage(trunk, { machine: DEVICE, algorithms: 'fixed', strategy, budget: least - PAGE_BYTES })
    assert.ok(isLeft(less) && less.left.tag === 'BudgetInfeasible' && less.left.smallestBytes === least, strategy)
  }
})

/** A network of paper 3: no norms. */
const plain = model(
  [1, 3, 128, 128],
  seq(
    conv2d('a', 32, 3),
    relu(),
    conv2d('b', 32, 3),
    relu(),
    maxPool('p', 2),
    conv2d('c', 16, 3, { stride: 2 }),
    conv2d('head', 4, 1),
  ),
)

test('tiles agree with the whole within rounding', async () => {
  for (const [net, strategy] of [
    [trunk, 'tiled'],
    [plain, 'sft'],
  ] as const) {
    const whole = await trained(net, staged(net, { strategy: 'in-core' }))
    const plan = staged(net, { strategy, budget: smallestBudget(net, strategy) })
    assert.ok(plan.plan.segments.some((s) => s.grid.B * s.grid.H * s.grid.W > 1))
    const tiled = await trained(net, plan)
    whole.losses.forEach((l, i) =>
      assert.ok(Math.abs(tiled.losses[i]! - l) <= 1e-4 * Math.abs(l), `${strategy}: ${tiled.losses} against ${whole.losses}`),
    )
  }
})

test('a spill file on disk gives the same bits and is removed', async () => {
  const budget = halfway(trunk, 'swap:greedy')
  const ram = await trained(trunk, staged(trunk, { strategy: 'swap:greedy', budget }))
  const spill = folder()
  const disk = await trained(trunk, staged(trunk, { strategy: 'swap:greedy', budget, spill }), { spill })
  assert.is(disk.weightsSha256, ram.weightsSha256)
  assert.ok(disk.diskBytes > 0 && ram.diskBytes === 0)
  assert.equal(readdirSync(spill), [])
})

test('a run that is resumed, under another strategy too, ends with the bits of one that was left alone', async () => {
  const checkpointDir = folder()
  const log = folder()
  const swapping = staged(trunk, {
    strategy: 'swap:greedy',
    budget: halfway(trunk, 'swap:greedy'),
    optimizer: adamw({ lr: 1e-3 }),
  })
  const inCore = staged(trunk, { strategy: 'in-core', optimizer: adamw({ lr: 1e-3 }) })
  const alone = await trained(trunk, inCore, { steps: 5 })
  const first = await trained(trunk, swapping, { steps: 2, checkpointDir, log })
  assert.equal(first.losses, alone.losses.slice(0, 2))
  const rest = await trained(trunk, inCore, { steps: 5, checkpointDir, resume: true, log })
  assert.equal([rest.resumedFrom, rest.losses, rest.weightsSha256], [2, alone.losses, alone.weightsSha256])
  assert.ok(rest.bytesOut === first.bytesOut && first.bytesOut > 0)
  const lines = readFileSync(join(log, LOG_FILE), 'utf8')
    .trim()
    .split('\n')
    .map((l) => JSON.parse(l) as { step: number; loss: number })
  assert.equal(
    lines.map((l) => [l.step, l.loss]),
    alone.losses.map((l, i) => [i + 1, l]),
  )
  const again = await trained(trunk, inCore, { steps: 5, checkpointDir, resume: true })
  assert.equal([again.resumedFrom, again.losses, again.weightsSha256], [5, alone.losses, alone.weightsSha256])
})

test('resume starts from step 1 in an empty directory, and refuses another run with the difference', async () => {
  const plan = staged(classifier)
  const checkpointDir = folder()
  const fresh = await trained(classifier, plan, { checkpointDir, resume: true })
  assert.equal([fresh.resumedFrom, fresh.weightsSha256], [0, (await trained(classifier, plan)).weightsSha256])
  const refusal = async (o: object): Promise<string> => {
    const r = await trainTask(classifier, plan, { steps: 4, seed: 1, checkpointDir, ...o })()
    assert.ok(isLeft(r))
    return `${r.left.tag}: ${'reason' in r.left ? r.left.reason : 'message' in r.left ? r.left.message : ''}`
  }
  assert.match(await refusal({ resume: true, seed: 2 }), /CheckpointMismatch: .*seed is '1' in the checkpoint and '2' now/)
  assert.match(await refusal({}), /Usage: .*already has a run/)
  assert.match(await refusal({ resume: true, steps: 2 }), /Usage: .*has 3 steps already/)
  const other = await trainTask(trunk, staged(trunk), { steps: 4, seed: 1, checkpointDir, resume: true })()
  assert.ok(isLeft(other) && other.left.tag === 'CheckpointMismatch')
})

test('a run that resumes on another machine has a note that bits may differ, with the difference', async () => {
  const plan = staged(classifier)
  const checkpointDir = folder()
  await trained(classifier, plan, { checkpointDir, threads: 1 })
  const notes: string[] = []
  const goOn = (threads: number, steps: number): Promise<TrainResult> =>
    trained(classifier, plan, { checkpointDir, resume: true, threads, steps, onNote: (note) => notes.push(note) })
  assert.is((await goOn(1, 4)).resumedFrom, 3)
  assert.equal(notes, [])
  assert.is((await goOn(2, 5)).resumedFrom, 4)
  assert.equal(notes, ['bits may differ from the earlier part of the run: threads are 1 before and 2 now'])
})

test('an aborted run ends within a step, keeps its last checkpoint and resumes from it', async () => {
  const plan = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy') })
  const alone = await trained(trunk, plan, { steps: 4 })
  const checkpointDir = folder()
  const controller = new AbortController()
  const aborted = await trainTask(trunk, plan, {
    steps: 4,
    seed: 1,
    checkpointDir,
    checkpointEvery: 1,
    signal: controller.signal,
    onProgress: (p) => {
      if (p.step === 3) controller.abort()
    },
  })()
  assert.ok(isLeft(aborted) && aborted.left.tag === 'Cancelled')
  assert.ok(aborted.left.stepsDone >= 2 && aborted.left.stepsDone <= 3)
  assert.match(aborted.left.resume ?? '', /--resume/)
  const rest = await trained(trunk, plan, { steps: 4, checkpointDir, resume: true })
  assert.ok(rest.resumedFrom >= 2 && rest.resumedFrom < 4)
  assert.is(rest.weightsSha256, alone.weightsSha256)
})

const rejection = (p: Promise<unknown>): Promise<unknown> =>
  p.then(
    () => assert.unreachable('it went on'),
    (e: unknown) => e,
  )

test("scripts get an aborted signal's reason, and a note of where the run stands", async () => {
  const plan = staged(trunk, { strategy: 'in-core' })
  for (const reason of [undefined, new Error('lunch')]) {
    const [controller, notes] = [new AbortController(), [] as string[]]
    const thrown = await rejection(
      trained(trunk, plan, {
        checkpointDir: folder(),
        checkpointEvery: 1,
        signal: controller.signal,
        onNote: (n) => notes.push(n),
        onProgress: (p) => {
          if (p.kind === 'step' && p.step === 1) controller.abort(reason)
        },
      }),
    )
    assert.is(thrown, controller.signal.reason)
    assert.is((thrown as Error).name, reason ? 'Error' : 'AbortError')
    assert.match(notes.join(), /^cancelled after \d complete steps?; .*(--resume|--checkpoint-every)/)
  }
})

test('an exception of a callback is rethrown unchanged, and the folder is unlocked', async () => {
  const plan = staged(trunk, { strategy: 'in-core' })
  const checkpointDir = folder()
  for (const kind of ['step', 'tile'] as const) {
    const own = new RangeError(`at a ${kind}`)
    const onProgress = (p: { readonly kind: string }): void => {
      if (p.kind === kind) throw own
    }
    assert.is(await rejection(trained(trunk, plan, { checkpointDir, resume: true, onProgress })), own)
  }
  assert.is((await trained(trunk, plan, { checkpointDir, resume: true })).losses.length, 3)
})

test('checkpoints are written at the given interval, ten times a run by default, and at the end', () => {
  const due = (o: { steps: number; checkpointDir?: string; checkpointEvery?: number }): number[] => {
    const at: number[] = []
    for (let done = 0; done < o.steps; at.push(done)) done += chunkFrom(done, o.steps, o)
    return at
  }
  assert.equal(due({ steps: 7 }), [7])
  assert.equal(due({ steps: 7, checkpointDir: 'x', checkpointEvery: 3 }), [3, 6, 7])
  assert.equal(due({ steps: 3, checkpointDir: 'x' }), [1, 2, 3])
  assert.equal(due({ steps: 25, checkpointDir: 'x' }), [3, 6, 9, 12, 15, 18, 21, 24, 25])
  assert.equal(due({ steps: 2, checkpointDir: 'x', checkpointEvery: 100 }), [2])
})

test('weights that were saved start another run where the first one ended', async () => {
  const save = join(root, 'weights.safetensors')
  const plan = staged(classifier)
  const one = await trained(classifier, plan, { steps: 2, save })
  const file = openTensors('weights', save)
  assert.ok(!isLeft(file))
  assert.equal([...file.right.tensors.keys()].sort(), [
    'bn.bias',
    'bn.num_batches_tracked',
    'bn.running_mean',
    'bn.running_var',
    'bn.weight',
    'head.bias',
    'head.weight',
    'stem.bias',
    'stem.weight',
  ])
  assert.is.not((await trained(classifier, plan, { steps: 1, weights: save })).losses[0], one.losses[0])
  const checkpointDir = folder()
  await trained(classifier, plan, { steps: 1, weights: save, checkpointDir })
  const moved = await trained(classifier, plan, { steps: 2, checkpointDir, resume: true })
  assert.is(moved.weightsSha256, (await trained(classifier, plan, { steps: 2, weights: save })).weightsSha256)
})

test('data from a file: each strategy reads the same samples, and labels affect the loss', async () => {
  const floats = (n: number, of: (i: number) => number): Uint8Array =>
    new Uint8Array(Float32Array.from({ length: n }, (_, i) => of(i)).buffer)
  const write = (name: string, label: (i: number) => number): string => {
    const path = join(root, name)
    writeTensors(path, [
      {
        name: 'input',
        type: 'F32',
        shape: [6, 3, 32, 32],
        read: () => right(floats(6 * 3 * 32 * 32, (i) => Math.sin(i * 0.37) + (i % 7) / 7)),
      },
      {
        name: 'target',
        type: 'I64',
        shape: [6],
        read: () => right(new Uint8Array(BigInt64Array.from({ length: 6 }, (_, i) => BigInt(label(i))).buffer)),
      },
    ])
    return path
  }
  const data = write('pairs.safetensors', (i) => i)
  const inCore = await trained(classifier, staged(classifier, { strategy: 'in-core' }), { data })
  assert.is(
    (await trained(classifier, staged(classifier, { strategy: 'swap:greedy' }), { data })).weightsSha256,
    inCore.weightsSha256,
  )
  const others = await trained(classifier, staged(classifier, { strategy: 'in-core' }), {
    data: write('others.safetensors', (i) => 9 - i),
  })
  assert.is.not(others.losses[0], inCore.losses[0])
  assert.ok(inCore.losses.every((l) => l > 0.1 && l < 20))
})

test('equal samples in one file and in several give the same bits', async () => {
  const [one, many] = [folder(), folder()]
  const pixels = (s: number): Float32Array => Float32Array.from({ length: 3 * 32 * 32 }, (_, i) => Math.cos(i * 0.11 * (s + 1)))
  const put = (path: string, samples: readonly number[]): void => {
    mkdirSync(join(path, '..'), { recursive: true })
    writeTensors(path, [
      {
        name: 'input',
        type: 'F32',
        shape: [samples.length, 3, 32, 32],
        read: () => right(Buffer.concat(samples.map((s) => new Uint8Array(pixels(s).buffer)))),
      },
      { name: 'target', type: 'U8', shape: [samples.length], read: () => right(Uint8Array.from(samples)) },
    ])
  }
  put(join(one, 'all.safetensors'), [0, 1, 2, 3, 4, 5, 6])
  for (const [name, samples] of [
    ['a', [0, 1]],
    ['b', [2]],
    ['c', [3, 4, 5, 6]],
  ] as const)
    put(join(many, `${name}.safetensors`), samples)
  const [a, b] = [
    await trained(classifier, staged(classifier), { data: one }),
    await trained(classifier, staged(classifier), { data: many }),
  ]
  assert.equal([b.losses, b.weightsSha256], [a.losses, a.weightsSha256])
})

test('a plan from its file trains to the bits of the plan that was saved', async () => {
  const path = join(root, 'plan.json')
  const plan = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy') })
  savePlan(path, plan.plan)
  const loaded = tryLoadPlan(path)
  assert.ok(!isLeft(loaded), isLeft(loaded) ? JSON.stringify(loaded.left) : '')
  const again = await trained(trunk, describePlan(loaded.right, plan.machine))
  assert.is(again.weightsSha256, (await trained(trunk, plan)).weightsSha256)
  const stale = await trainTask(classifier, plan, { steps: 1 })()
  assert.ok(isLeft(stale) && stale.left.tag === 'Usage' && /stage it again/.test(stale.left.message))
})

test('a spill folder that cannot be written ends the run with an error', async () => {
  const blocked = join(root, 'a-file')
  writeFileSync(blocked, '')
  const plan = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy') })
  const r = await trainTask(trunk, plan, { steps: 1, spill: join(blocked, 'below') })()
  assert.ok(isLeft(r) && r.left.tag === 'DeviceFailed')
  assert.ok(existsSync(blocked))
})

test.run()
