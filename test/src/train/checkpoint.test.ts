// own process
// Checkpoints: restored state, refusals, and a whole one after a kill at any moment.
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getOrElse, isLeft, isRight, map, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type Checkpoint,
  elsewhere,
  findCheckpoint,
  prepareDirectory,
  restore,
  type RunIdentity,
  sameRun,
  saveCheckpoint,
} from '../../../src/train/checkpoint'
import { NO_STEPS } from '../../../src/train/totals'
import { modelState, NO_ORIGIN, type Origin, originOf, shapeLike } from '../../../src/train/weights'
import { circumstances, identity, lossAt } from './checkpoint-writer'
import { MemoryStore, toyGraph } from '../toy'

const root = mkdtempSync(join(tmpdir(), 'spillway-checkpoint-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => join(root, String(made++))
const state = modelState(toyGraph)
const constant = (x: number): MemoryStore => new MemoryStore(toyGraph, () => x)

const save = (directory: string, step: number, origin: Partial<Origin> = {}): void =>
  void saveCheckpoint(
    directory,
    {
      step,
      identity,
      circumstances,
      settings: { strategy: 'in-core' },
      losses: Array.from({ length: step }, (_, i) => lossAt(i + 1)),
      measured: [{ epoch: 1, step, metrics: { loss: 0.1, f1: Number.NaN, psnr: Infinity } }],
      origin: { ...NO_ORIGIN, counted: new Map([['bn.num_batches_tracked', 40n]]), ...origin },
      totals: NO_STEPS,
    },
    state,
    constant(step),
  )

const whole = (directory: string): Checkpoint => {
  const c = findCheckpoint(directory).checkpoint
  assert.ok(c)
  return c
}
const numbersOf = (directory: string, c: Checkpoint): ReadonlySet<number> => {
  const store = constant(-1)
  const r = restore(directory, c, state, store)
  assert.not.ok(isLeft(r))
  return new Set([...state.weights, ...state.optimizer].flatMap((v) => store.numbers(v.name)))
}

test('an empty or absent directory has none', () => {
  const at = folder()
  assert.equal(findCheckpoint(at), { checkpoint: undefined, refused: [] })
  prepareDirectory(at)
  assert.equal(findCheckpoint(at), { checkpoint: undefined, refused: [] })
})

test('a checkpoint restores weights, optimizer, losses and counters; the newest two are kept', () => {
  const at = folder()
  prepareDirectory(at)
  for (const step of [3, 6, 9]) save(at, step)
  const c = whole(at)
  assert.is(c.step, 9)
  assert.equal(
    c.losses,
    Array.from({ length: 9 }, (_, i) => lossAt(i + 1)),
  )
  assert.is(c.counted.get('bn.num_batches_tracked'), 40n)
  assert.equal(numbersOf(at, c), new Set([9]))
  assert.equal(readdirSync(at).sort(), [
    'step-000000006.json',
    'step-000000006.safetensors',
    'step-000000009.json',
    'step-000000009.safetensors',
  ])
})

test('a checkpoint keeps sizes of 1 and unread tensors of the file that a run started from', () => {
  const at = folder()
  prepareDirectory(at)
  const [v] = state.weights as readonly [(typeof state.weights)[0]]
  const places = { name: 'attn.places', type: 'I64' as const, shape: [1], read: () => right(new Uint8Array(8).fill(1)) }
  save(at, 3, { shapes: new Map([[v.name, [1, ...v.shape]]]), unread: [places] })
  const c = whole(at)
  assert.equal(numbersOf(at, c), new Set([3]))
  const origin = originOf(c.file, state, c.counted)
  assert.ok(isRight(origin))
  assert.equal(origin.right.shapes.get(v.name), [1, ...v.shape])
  assert.equal(
    origin.right.unread.map((u) => [
      u.name,
      u.type,
      u.shape,
      isRight(u.read()) && [...getOrElse((): Uint8Array => new Uint8Array())(u.read())],
    ]),
    [['attn.places', 'I64', [1], Array<number>(8).fill(1)]],
  )
  // Only tensors that an import names are kept, and only sizes of 1 may differ.
  assert.equal(shapeLike([4, 2], [2, 4]), [4, 2])
  assert.equal(shapeLike([4, 2], [1, 4, 1, 2]), [1, 4, 1, 2])
})

const damages: Readonly<Record<string, (directory: string) => void>> = {
  'a flipped bit in the tensors': (d) => {
    const path = join(d, 'step-000000002.safetensors')
    const b = readFileSync(path)
    b[b.length - 5]! ^= 1
    writeFileSync(path, b)
  },
  'cut tensors': (d) =>
    writeFileSync(join(d, 'step-000000002.safetensors'), readFileSync(join(d, 'step-000000002.safetensors')).subarray(0, 900)),
  'no tensors': (d) => rmSync(join(d, 'step-000000002.safetensors')),
  'a JSON that is none': (d) => writeFileSync(join(d, 'step-000000002.json'), '{"format":'),
  'a JSON of another kind': (d) => writeFileSync(join(d, 'step-000000002.json'), '{"format":"spillway-checkpoint","version":99}'),
  'a JSON that names a file elsewhere': (d) =>
    writeFileSync(
      join(d, 'step-000000002.json'),
      readFileSync(join(d, 'step-000000002.json'), 'utf8').replace('step-000000002.safetensors', '../x'),
    ),
}
for (const [what, damage] of Object.entries(damages))
  test(`${what}: refused, and the checkpoint before it is used`, () => {
    const at = folder()
    prepareDirectory(at)
    save(at, 1)
    save(at, 2)
    damage(at)
    const found = findCheckpoint(at)
    assert.is(found.checkpoint?.step, 1)
    assert.is(found.refused.length, 1)
    assert.match(found.refused[0]!, /^step-000000002\.json is refused: ./)
    assert.equal(numbersOf(at, found.checkpoint!), new Set([1]))
  })

test('a difference on which bits depend is named', () => {
  const there = { processor: 'Xeon', threads: 8, libraries: 'oneDNN 3.2' }
  assert.is(elsewhere(there, there), '')
  assert.is(
    elsewhere(there, { processor: 'EPYC', threads: 4, libraries: 'oneDNN 3.7' }),
    'the processor is Xeon before and EPYC now; threads are 8 before and 4 now; libraries are oneDNN 3.2 before and oneDNN 3.7 now',
  )
})

test('a checkpoint of another run is refused with the difference', () => {
  const words = (wanted: RunIdentity): string =>
    getOrElse((reason: string) => reason)(map(() => 'the same')(sameRun(identity, wanted)))
  assert.is(words(identity), 'the same')
  assert.match(words({ ...identity, seed: 2 }), /seed is '1' in the checkpoint and '2' now/)
  assert.match(words({ ...identity, fingerprint: 'g' }), /training graph .* differs/)
})

/** Runs the writer for a while and kills it; true when it was saving by then. */
const killed = (directory: string, afterMs: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn(
      process.execPath,
      ['-r', require.resolve('../../../scripts/testing/typescript'), join(__dirname, 'checkpoint-writer.ts'), directory],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    child.stdout.once('data', () => setTimeout(() => child.kill('SIGKILL'), afterMs))
    child.once('exit', (code, signal) =>
      signal === 'SIGKILL' ? resolve() : reject(new Error(`the writer ended by itself: ${code}`)),
    )
  })

test('after kills at random moments, the directory holds a whole checkpoint, and the run resumes from it', async () => {
  const at = folder()
  let random = 12345
  let last = 0
  for (let i = 0; i < 12; i++) {
    random = (random * 1103515245 + 12345) % 2 ** 31
    await killed(at, 5 + ((random >> 16) % 60))
    const found = findCheckpoint(at)
    assert.equal(found.refused, [])
    const c = found.checkpoint
    if (!c) continue
    assert.ok(c.step >= last, `step ${c.step} after ${last}`)
    assert.equal(numbersOf(at, c), new Set([c.step]))
    assert.equal(
      c.losses,
      Array.from({ length: c.step }, (_, k) => lossAt(k + 1)),
    )
    last = c.step
  }
  assert.ok(last > 0, 'nothing was ever saved')
  prepareDirectory(at)
  assert.equal(
    readdirSync(at).filter((n) => n.startsWith('.')),
    [],
  )
})

test.run()
