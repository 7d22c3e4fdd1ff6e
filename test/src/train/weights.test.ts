// Weights by name: loaded ones, refusals with reasons, counts, and the contents of the digest.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText, exitCode } from '../../../src/errors/errors'
import { type NewTensor, openTensors, writeTensors } from '../../../src/files/safetensors'
import { loadWeights } from '../../../src/train/loading'
import { converted, modelState, NO_ORIGIN, saveWeights, weightsSha256 } from '../../../src/train/weights'
import { MemoryStore, toyGraph } from '../toy'

const folder = mkdtempSync(join(tmpdir(), 'spillway-weights-'))
test.after(() => rmSync(folder, { recursive: true }))
const state = modelState(toyGraph)
const counting = (): MemoryStore => new MemoryStore(toyGraph, (name, i) => name.length + i / 16)
const zeros = (): MemoryStore => new MemoryStore(toyGraph, () => 0)

test('a model keeps weights and statistics apart from the optimizer and knows its counters', () => {
  assert.equal(
    state.weights.map((v) => v.name),
    ['bn.running_mean', 'bn.running_var', 'bn.weight', 'conv.weight', 'frozen.running_mean'],
  )
  assert.equal(
    state.optimizer.map((v) => v.name),
    ['conv.weight.momentum'],
  )
  assert.equal(state.counters, [
    { name: 'bn.num_batches_tracked', moves: true },
    { name: 'frozen.num_batches_tracked', moves: false },
  ])
})

test('saved weights load again, and batch counters continue', () => {
  const path = join(folder, 'a.safetensors')
  saveWeights(path, state, counting(), NO_ORIGIN, 5)
  const store = zeros()
  const loaded = loadWeights(path, state, store)
  assert.ok(!isLeft(loaded))
  for (const v of state.weights) assert.equal(store.numbers(v.name), counting().numbers(v.name))
  assert.equal([...loaded.right.origin.counted].sort(), [
    ['bn.num_batches_tracked', 5n],
    ['frozen.num_batches_tracked', 0n],
  ])
  assert.ok(store.numbers('conv.weight.momentum').every((x) => x === 0))
  saveWeights(path, state, store, loaded.right.origin, 2)
  const again = loadWeights(path, state, store)
  assert.ok(!isLeft(again) && again.right.origin.counted.get('bn.num_batches_tracked') === 7n)
})

test('missing, extra and misshapen tensors are all named, and nothing is written', () => {
  const path = join(folder, 'bad.safetensors')
  const f32 = (name: string, shape: number[]): NewTensor => ({
    name,
    type: 'F32',
    shape,
    read: () => right(new Uint8Array(shape.reduce((n, d) => n * d, 4)).fill(1)),
  })
  writeTensors(path, [
    f32('bn.weight', [8]),
    f32('conv.weight', [8, 3, 1, 1]),
    f32('head.weight', [4]),
    f32('bn.running_mean', [8]),
    { name: 'bn.running_var', type: 'I32', shape: [8], read: () => right(new Uint8Array(32)) },
  ])
  const store = zeros()
  const loaded = loadWeights(path, state, store)
  assert.ok(isLeft(loaded))
  const words = errorText(loaded.left)
  for (const part of [
    "'conv.weight' is [8,3,1,1], but [8,3,3,3] in the model",
    "'frozen.running_mean' [8] is missing",
    "'head.weight' is not in the model",
    "'bn.running_var' is I32, not a float type",
  ])
    assert.ok(words.includes(part), words)
  assert.ok(store.numbers('bn.weight').every((x) => x === 0))
})

test("a file that is not there is the call's fault", () => {
  const loaded = loadWeights(join(folder, 'none.safetensors'), state, zeros())
  assert.ok(isLeft(loaded) && loaded.left.tag === 'FileMissing' && exitCode(loaded.left) === 2)
})

test('extra tensors beside a complete set are named and let pass', () => {
  const path = join(folder, 'extra.safetensors')
  const store = counting()
  writeTensors(path, [
    ...state.weights.map((v): NewTensor => ({ name: v.name, type: 'F32', shape: v.shape, read: () => store.read(v.name) })),
    { name: 'classifier.weight', type: 'F32', shape: [1], read: () => right(new Uint8Array(4)) },
  ])
  const loaded = loadWeights(path, state, zeros())
  assert.ok(!isLeft(loaded))
  assert.equal(loaded.right.table.unused, ['classifier.weight'])
})

test('halves, brain floats and doubles become floats exactly', () => {
  const half = Uint8Array.from([0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0xff, 0x7b, 0x00, 0x7c])
  assert.equal([...new Float32Array(converted(half, 'F16', 'F32').buffer)], [1, -2, 2 ** -24, 65504, Infinity])
  assert.equal([...new Float64Array(converted(Uint8Array.from([0x80, 0x3f, 0x49, 0xc0]), 'BF16', 'F64').buffer)], [1, -3.140625])
  const doubles = new Uint8Array(Float64Array.of(0.1, -3).buffer)
  assert.equal([...new Float32Array(converted(doubles, 'F64', 'F32').buffer)], [Math.fround(0.1), -3])
})

test('the digest is SHA-256 over name, shape and bytes of weights in name order, the optimizer left out', () => {
  const store = counting()
  const hash = createHash('sha256')
  for (const name of ['bn.running_mean', 'bn.running_var', 'bn.weight', 'conv.weight', 'frozen.running_mean'])
    hash.update(`${name}\0${name === 'conv.weight' ? '8,3,3,3' : '8'}\0`).update(store.bytesOf(name))
  const digest = weightsSha256(state, store)
  assert.equal(digest, right(hash.digest('hex')))
  store.write('conv.weight.momentum', new Uint8Array(8 * 27 * 4).fill(3))
  assert.equal(weightsSha256(state, store), digest)
  store.write('bn.weight', new Uint8Array(32).fill(3))
  assert.not.equal(weightsSha256(state, store), digest)
})

test('Python reads saved weights, if its safetensors package is installed', () => {
  const path = join(folder, 'python.safetensors')
  saveWeights(path, state, counting(), NO_ORIGIN, 3)
  const script =
    'import sys\ntry:\n from safetensors.numpy import load_file\nexcept ImportError:\n print("absent"); sys.exit()\n' +
    'd = load_file(sys.argv[1]); print(sorted(d), d["bn.num_batches_tracked"].shape, int(d["bn.num_batches_tracked"]), float(d["conv.weight"][7,2,2,2]))'
  let said = 'absent'
  try {
    said = execFileSync('python3', ['-c', script, path], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    /* no Python here */
  }
  if (said === 'absent') {
    const file = openTensors('weights', path)
    assert.ok(!isLeft(file) && file.right.tensors.size === 7)
    return
  }
  assert.ok(said.endsWith(`() 3 ${11 + 215 / 16}`), said)
})

test.run()
