// Data files against the model's shapes: the accepted layouts, and the words of refusals.
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { openData, sampleCount, samplesOf } from '../../../src/files/samples'
import { errorText, exitCode } from '../../../src/errors/errors'
import { writeTensors } from '../../../src/files/safetensors'
import { toyGraph, toyPixels } from '../toy'

const root = mkdtempSync(join(tmpdir(), 'spillway-data-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => {
  const path = join(root, String(made++))
  mkdirSync(path)
  return path
}

const WIDTH: Readonly<Record<string, number>> = { f4: 4, u1: 1, i8: 8 }
const npy = (path: string, type: string, shape: readonly number[]): void => {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`
  const header = `{'descr': '${type === 'u1' ? '|' : '<'}${type}', 'fortran_order': False, 'shape': ${tuple}, }\n`
  const head = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length, 0])
  writeFileSync(path, Buffer.concat([head, Buffer.from(header), Buffer.alloc(shape.reduce((n, d) => n * d, WIDTH[type]!))]))
}

const words = (path: string, graph = toyGraph): string => {
  const r = openData(path, graph)
  assert.ok(isLeft(r), 'it was accepted')
  return errorText(r.left)
}

test('one array of samples, labels without their dimensions of 1', () => {
  const at = folder()
  npy(join(at, 'input.npy'), 'f4', [7, 3, 4, 5])
  npy(join(at, 'target.npy'), 'i8', [7])
  const r = openData(at, toyGraph)
  assert.ok(!isLeft(r))
  const [x, y] = [r.right.get('image')!, r.right.get('labels')!]
  assert.equal([x.length, x[0]!.type, x[0]!.samples, x[0]!.shape], [1, 'f32', 7, [3, 4, 5]])
  assert.equal([y.length, y[0]!.type, y[0]!.samples, y[0]!.shape], [1, 'i64', 7, [1, 1, 1]])
  assert.is(x[0]!.offset + 7 * 3 * 4 * 5 * 4, statSync(join(at, 'input.npy')).size)
})

test('many pairs, beside each other or in two folders, in name order', () => {
  const beside = folder()
  for (const n of ['b', 'a']) {
    npy(join(beside, `${n}.input.npy`), 'u1', [3, 4, 5])
    npy(join(beside, `${n}.target.npy`), 'f4', [6, 2, 2])
  }
  const r = openData(beside, toyPixels)
  assert.ok(!isLeft(r))
  assert.equal(
    r.right.get('image')!.map((s) => s.path.slice(-11)),
    ['a.input.npy', 'b.input.npy'],
  )
  const apart = folder()
  for (const part of ['input', 'target']) mkdirSync(join(apart, part))
  npy(join(apart, 'input', 'x.npy'), 'f4', [2, 3, 4, 5])
  npy(join(apart, 'target', 'x.npy'), 'f4', [2, 6, 2, 2])
  const two = openData(apart, toyPixels)
  assert.ok(!isLeft(two) && sampleCount(two.right.get('image')!) === 2)
})

test('a safetensors file with input and target', () => {
  const path = join(folder(), 'pairs.safetensors')
  writeTensors(path, [
    { name: 'input', type: 'F32', shape: [2, 3, 4, 5], read: () => right(new Uint8Array(480)) },
    { name: 'target', type: 'U8', shape: [2, 1, 1, 1], read: () => right(new Uint8Array(2)) },
  ])
  const r = openData(path, toyGraph)
  assert.ok(!isLeft(r))
  assert.equal(
    r.right.get('labels')!.map((s) => [s.type, s.samples]),
    [['u8', 2]],
  )
  assert.match(words(path, toyPixels), /'target' .*is \[2,1,1,1\], but target of the model is \[N,6,2,2\] or \[6,2,2\]/)
})

test('shapes, types and counts that do not fit are refused with their names', () => {
  const at = folder()
  npy(join(at, 'input.npy'), 'f4', [7, 3, 5, 4])
  npy(join(at, 'target.npy'), 'i8', [7])
  assert.match(words(at), /input.npy is \[7,3,5,4\], but input of the model is \[N,3,4,5\] or \[3,4,5\]/)
  npy(join(at, 'input.npy'), 'f4', [7, 3, 4, 5])
  npy(join(at, 'target.npy'), 'f4', [7])
  assert.match(words(at), /class labels must be u8, i32 or i64/)
  npy(join(at, 'target.npy'), 'i8', [6])
  assert.match(words(at), /6 samples, but its input has 7/)
  rmSync(join(at, 'target.npy'))
  assert.match(words(at), /no such file/)
  npy(join(at, 'input.npy'), 'f4', [0, 3, 4, 5])
  npy(join(at, 'target.npy'), 'i8', [0])
  assert.match(words(at), /\[0,3,4,5\]/)
})

test('folders and files of no known layout name the legal ones', () => {
  assert.match(words(folder()), /it is empty; allowed: .*, or input\.npy and target\.npy/)
  const text = join(folder(), 'x.txt')
  writeFileSync(text, 'x')
  assert.match(words(text), /\.safetensors file .* or a folder/)
  const none = openData(join(root, 'nowhere'), toyGraph)
  assert.ok(isLeft(none) && exitCode(none.left) === 2)
})

test('how many samples an array holds', () => {
  assert.is(samplesOf([3, 4, 5], [3, 4, 5], false), 1)
  assert.is(samplesOf([9, 3, 4, 5], [3, 4, 5], false), 9)
  assert.is(samplesOf([9, 4, 5], [1, 4, 5], false), undefined)
  assert.is(samplesOf([9, 4, 5], [1, 4, 5], true), 9)
  assert.is(samplesOf([4, 5], [1, 4, 5], true), 1)
  assert.is(samplesOf([], [1, 1, 1], true), 1)
  assert.is(samplesOf([4], [1, 1, 1], true), 4)
})

test.run()
