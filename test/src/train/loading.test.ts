// Weights of a file with names or shapes near the model's: absent ones, stripped prefixes, notes, and helpful flags.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText, exitCode } from '../../../src/errors/errors'
import { type NewTensor, writeTensors } from '../../../src/files/safetensors'
import {
  checkedLoading,
  type LoadingOptions,
  loadWeights,
  startText,
  tableText,
  type WeightsTable,
} from '../../../src/train/loading'
import { modelState } from '../../../src/train/weights'
import { MemoryStore, toyGraph } from '../toy'

const folder = mkdtempSync(join(tmpdir(), 'spillway-loading-'))
test.after(() => rmSync(folder, { recursive: true }))
const state = modelState(toyGraph)
const store = (): MemoryStore => new MemoryStore(toyGraph, () => 0)

const f32 = (name: string, shape: readonly number[]): NewTensor => ({
  name,
  type: 'F32',
  shape,
  read: () => right(new Uint8Array(Float32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, () => 2).buffer)),
})
const whole = state.weights.map((v) => f32(v.name, v.shape))
const counter: NewTensor = {
  name: 'bn.num_batches_tracked',
  type: 'I64',
  shape: [],
  read: () => right(new Uint8Array(BigInt64Array.of(7n).buffer)),
}
let files = 0
const file = (tensors: readonly NewTensor[]): string => {
  const path = join(folder, `${files++}.safetensors`)
  writeTensors(path, tensors)
  return path
}
const renamed = (prefix: string): readonly NewTensor[] => whole.map((t) => ({ ...t, name: `${prefix}${t.name}` }))

const loaded = (path: string, o: LoadingOptions, into = store()): WeightsTable => {
  const answer = loadWeights(path, state, into, o)
  if (isLeft(answer)) throw new Error(errorText(answer.left))
  return answer.right.table
}
const refused = (path: string, o: LoadingOptions = {}): string => {
  const into = store()
  const answer = loadWeights(path, state, into, o)
  assert.ok(isLeft(answer))
  assert.is(exitCode(answer.left), 2)
  for (const v of state.weights) assert.ok(into.numbers(v.name).every((x) => x === 0))
  return errorText(answer.left)
}

test('skipped weights keep their initial values, with any shape in the file or none', () => {
  const other = [...whole.filter((t) => t.name !== 'bn.weight' && t.name !== 'conv.weight'), f32('bn.weight', [3]), counter]
  const into = store()
  const table = loaded(file(other), { weightsSkip: ['bn.*', 'conv.*'] }, into)
  assert.equal(table.taken, ['frozen.running_mean'])
  assert.equal(table.left, [
    { name: 'bn.running_mean', shape: [8], inFile: [8] },
    { name: 'bn.running_var', shape: [8], inFile: [8] },
    { name: 'bn.weight', shape: [8], inFile: [3] },
    { name: 'conv.weight', shape: [8, 3, 3, 3] },
  ])
  assert.equal(table.unused, [])
  assert.ok(into.numbers('frozen.running_mean').every((x) => x === 2))
  for (const name of ['bn.running_mean', 'bn.weight', 'conv.weight']) assert.ok(into.numbers(name).every((x) => x === 0))
})

test('batches that a norm has seen count with its statistics alone', () => {
  const counted = (o: LoadingOptions): bigint | undefined => {
    const answer = loadWeights(file([...whole, counter]), state, store(), o)
    assert.ok(!isLeft(answer))
    return answer.right.origin.counted.get(counter.name)
  }
  assert.is(counted({}), 7n)
  assert.is(counted({ weightsSkip: 'bn.*' }), undefined)
})

test('prefixes are stripped one after the other from the names that begin with them', () => {
  assert.equal(loaded(file(renamed('module.')), { weightsStrip: 'module.' }).taken.length, 5)
  assert.equal(loaded(file(renamed('model.module.')), { weightsStrip: ['model.', 'module.'] }).taken.length, 5)
  assert.equal(loaded(file([...renamed('module.'), f32('step', [1])]), { weightsStrip: 'module.' }).unused, ['step'])
  assert.equal(
    loaded(file(renamed('module.').map((t) => (t.name === 'module.bn.weight' ? { ...t, name: 'bn.weight' } : t))), {
      weightsStrip: 'module.',
    }).taken.length,
    5,
  )
})

test('the table lists exactly the weights that were not loaded unchanged', () => {
  assert.is(tableText(loaded(file(whole), {})), undefined)
  const path = file([...whole.filter((t) => t.name !== 'conv.weight'), f32('conv.weight', [9, 3, 3, 3]), f32('a.ema', [1])])
  assert.is(
    tableText(loaded(path, { weightsSkip: 'conv.*' })),
    `${path}: loaded 4 of 5 weights of the model
  loaded             4  bn.running_mean, bn.running_var, bn.weight, frozen.running_mean
  not loaded         1  conv.weight [8,3,3,3] ([9,3,3,3] in the file)
  not used           1  a.ema`,
  )
})

test('weights that do not fit are listed with the flag that helps', () => {
  const headless = whole.filter((t) => t.name !== 'conv.weight')
  assert.match(
    refused(file(headless)),
    /'conv\.weight' \[8,3,3,3\] is missing; --weights-skip 'conv\.\*' trains it from initial values$/,
  )
  assert.match(
    refused(file([...headless, f32('conv.weight', [8, 1, 3, 3])])),
    /'conv\.weight' is \[8,1,3,3\], but \[8,3,3,3\] in the model; --weights-skip 'conv\.\*' trains it from initial values$/,
  )
  // The scope has weights that fit.
  assert.match(
    refused(file(whole.filter((t) => t.name !== 'bn.weight'))),
    /; --weights-skip 'bn\.weight' trains it from initial values$/,
  )
  assert.match(
    refused(file(renamed('module.'))),
    /; 'module\.bn\.running_mean' is not in the model; .*; the names in the file begin with 'module\.': remove it with --weights-strip 'module\.'$/,
  )
  // Another network altogether.
  assert.not.match(refused(file([f32('features.0.weight', [4])])), /--weights-/)
})

test('patterns and prefixes that are of nothing are refused, with the nearest', () => {
  const path = file(whole)
  assert.is(
    refused(path, { weightsSkip: 'cnv.*' }),
    "weightsSkip: no weight of the model or the file matches 'cnv.*'; did you mean 'conv.*'?",
  )
  const prefixed = file(renamed('module.'))
  assert.is(
    refused(prefixed, { weightsStrip: 'modul.' }),
    `weightsStrip: no tensor name in ${prefixed} begins with 'modul.'; did you mean 'module.'?`,
  )
  assert.match(refused(prefixed, { weightsStrip: '' }), /begins with ''/)
  const twice = file([...whole, f32('module.bn.weight', [8])])
  assert.is(
    refused(twice, { weightsStrip: 'module.' }),
    `weightsStrip: 'bn.weight' and 'module.bn.weight' of ${twice} both become 'bn.weight'`,
  )
})

test('options that nothing can be done with are refused', () => {
  const words = (o: object): string => {
    const answer = checkedLoading(o)
    return isLeft(answer) ? errorText(answer.left) : 'nothing'
  }
  assert.is(words({ weightsStrip: 'module.' }), 'weightsStrip needs weights')
  assert.is(words({ weights: 'w', weightsSkip: ['a', 'b'] }), 'nothing')
  assert.is(words({ weightsSkip: [] }), 'nothing')
})

test('the identity of a run includes its skipped weights', () => {
  assert.is(startText('/w', {}), '/w')
  assert.is(startText('/w', { weightsSkip: 'fc.*', weightsStrip: 'module.' }), "/w, names without 'module.', 'fc.*' left out")
})

test.run()
