// Bytes to numbers: every byte to PyTorch's bits in single precision (test/fixtures/make_bytes.py), in any layout of channels, whole or in tiles; an
// illegal mean or deviation is refused.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { loadNative, type NativeArray } from '../../src/device/native'
import { type AnyAttrs, attrNames, attrsCodec } from '../../staging/ops/op'
import { fromBytes } from '../../staging/ops/frombytes'

interface Case {
  readonly mean: number
  readonly std: number
  readonly bits: readonly number[]
}
const { cases } = JSON.parse(readFileSync(join(__dirname, '../fixtures/bytes.json'), 'utf8')) as {
  readonly cases: readonly Case[]
}

const native = loadNative()
const DEVICE = native.deviceInfo().devices.includes('cpu') ? 'cpu' : 'ref'
const bitsOf = (a: Float32Array): readonly number[] => [...new Int32Array(a.buffer, a.byteOffset, a.length)]

/** Attributes in wire order of some cases. */
const attrsOf = (of: readonly Case[]): readonly number[] => of.flatMap(({ mean, std }) => [mean, std])

/** The device's numbers for bytes [1, C, 1, W]. */
const run = (bytes: Uint8Array, of: readonly Case[], dims: readonly number[], where: Partial<NativeArray> = {}): Float32Array => {
  const y = new Float32Array(bytes.length)
  const [x, out] = [
    { ...where, dims, dtype: 'u8' as const, data: bytes },
    { ...where, dims, data: y },
  ]
  native.runKernel({ device: DEVICE, kind: 'from_bytes', attrs: attrsOf(of), ins: [x], outs: [out] })
  return y
}

const ALL = Uint8Array.from({ length: 256 }, (_, i) => i)

for (const c of cases)
  test(`all bytes with mean ${c.mean} and deviation ${c.std} have PyTorch's bits`, () => {
    if (DEVICE !== 'cpu') return
    assert.equal(bitsOf(run(ALL, [c], [1, 1, 1, 256])), c.bits)
    assert.equal(bitsOf(run(ALL, [c], [1, 256, 1, 1])), c.bits)
  })

test('each channel has its own, in any part of them', () => {
  if (DEVICE !== 'cpu') return
  const many = Array.from({ length: 300 }, (_, i) => cases[i % cases.length]!)
  for (const of of [cases.slice(1, 4), cases, many]) {
    const [channels, width] = [of.length, 37]
    const bytes = Uint8Array.from({ length: channels * width }, (_, i) => (i * 7) % 256)
    const expected = Array.from(bytes, (x, i) => of[i % channels]!.bits[x]!)
    assert.equal(bitsOf(run(bytes, of, [1, channels, 1, width])), expected)
    // The last two channels of the same pixels, where they lie among the others.
    const from = channels - 2
    const strides = [0, 1, channels * width, channels]
    const y = new Float32Array(bytes.length)
    const part = { dims: [1, 2, 1, width], origin: [0, from, 0, 0], extent: [1, channels, 1, width], strides, offset: from }
    native.runKernel({
      device: DEVICE,
      kind: 'from_bytes',
      attrs: attrsOf(of),
      ins: [{ ...part, dtype: 'u8', data: bytes }],
      outs: [{ ...part, data: y }],
    })
    assert.equal(
      bitsOf(y),
      expected.map((bits, i) => (i % channels >= from ? bits : 0)),
    )
  }
})

const attrs = (mean: readonly number[], std: readonly number[]): AnyAttrs => ({
  ...Object.fromEntries(std.map((s, i) => [`std${i}`, s])),
  ...Object.fromEntries(mean.map((m, i) => [`mean${i}`, m])),
})

test('mean and deviation alternate on the wire and have equal counts', () => {
  assert.equal(attrNames(fromBytes, attrs([1, 2], [3, 4])), ['mean0', 'std0', 'mean1', 'std1'])
  const codec = attrsCodec(fromBytes)
  assert.ok(codec.is(attrs([1, 2], [3, 4])))
  assert.not.ok(codec.is(attrs([1, 2], [3])))
  assert.not.ok(codec.is({ mean0: 1, std0: 1, mean2: 1, std2: 1 }))
})

const refusal = (a: AnyAttrs): string | undefined => {
  const shapes = fromBytes.shape(a, [[2, 3, 4, 5]], [])
  return isLeft(shapes) ? shapes.left : undefined
}

test('one of both for all channels, or one for each; deviations above 0', () => {
  assert.is(refusal(attrs([0], [1])), undefined)
  assert.is(refusal(attrs([0, 0, 0], [1, 1, 1])), undefined)
  assert.is(refusal({}), 'it has 0 means and deviations; allowed: 3 (one per channel), or one for all')
  assert.is(refusal(attrs([0, 0], [1, 1])), 'it has 2 means and deviations; allowed: 3 (one per channel), or one for all')
  assert.is(refusal(attrs([0, 0, 0], [1, 0, 1])), 'std1 is 0; allowed: more than 0')
})

test('a call with other numbers, or of other elements, is refused by the device', () => {
  assert.throws(() => run(ALL, cases.slice(0, 2), [1, 4, 8, 8]), /a mean and a deviation for each channel, or one for all/)
  assert.throws(() => run(ALL, [{ ...cases[0]!, std: 0 }], [1, 4, 8, 8]), /outside its limits/)
  const floats = { dims: [1, 1, 1, 4], data: new Float32Array(4) }
  assert.throws(
    () => native.runKernel({ device: DEVICE, kind: 'from_bytes', attrs: [0, 1], ins: [floats], outs: [floats] }),
    /wrong element type/,
  )
})

test.run()
