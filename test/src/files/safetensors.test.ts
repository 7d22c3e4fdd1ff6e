// The safetensors reader and writer against files of the reference implementation, and against damage.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { isLeft, isRight, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { orThrow } from '../../../src/errors/exceptions'
import { type NewTensor, openTensors, readTensor, type TensorFile, writeTensors } from '../../../src/files/safetensors'

const FIXTURE = join(__dirname, 'fixtures', 'reference.safetensors')
const folder = mkdtempSync(join(tmpdir(), 'spillway-safetensors-'))
test.after(() => rmSync(folder, { recursive: true }))

const opened = (path: string): TensorFile => orThrow(openTensors('weights', path))
const bytesOf = (file: TensorFile, name: string): Uint8Array => orThrow(readTensor(file, file.tensors.get(name)!))

test('files of the reference implementation are read', () => {
  const file = opened(FIXTURE)
  assert.equal(file.metadata, { format: 'pt', note: 'made by safetensors' })
  assert.equal([...file.tensors.keys()].sort(), [
    'bn.num_batches_tracked',
    'conv.bias',
    'conv.weight',
    'empty',
    'half',
    'ünïcode "quoted"',
  ])
  const weight = file.tensors.get('conv.weight')!
  assert.equal([weight.type, weight.shape], ['F32', [2, 3, 4]])
  assert.equal(
    [...new Float32Array(bytesOf(file, 'conv.weight').buffer)],
    Array.from({ length: 24 }, (_, i) => i / 8 - 1),
  )
  assert.equal([...new Float64Array(bytesOf(file, 'conv.bias').buffer)], [0.5, -2])
  assert.equal([...new BigInt64Array(bytesOf(file, 'bn.num_batches_tracked').buffer)], [7n])
  assert.equal(file.tensors.get('empty')!.shape, [0, 3])
  assert.equal([...bytesOf(file, 'ünïcode "quoted"')], [1, 2, 3])
})

test('writes the layout that the reference implementation writes', () => {
  const file = opened(FIXTURE)
  const again: NewTensor[] = [...file.tensors.values()].map((s) => ({ ...s, read: () => right(bytesOf(file, s.name)) }))
  const path = join(folder, 'again.safetensors')
  const written = orThrow(writeTensors(path, again, file.metadata))
  const mine = readFileSync(path)
  const theirs = readFileSync(FIXTURE)
  assert.is(written.bytes, mine.length)
  // Header texts differ in the order of metadata keys only; the data area is equal.
  const dataOf = (b: Buffer): Buffer => b.subarray(8 + Number(b.readBigUInt64LE(0)))
  assert.is(mine.length, theirs.length)
  assert.ok(dataOf(mine).equals(dataOf(theirs)))
  assert.equal(
    [...opened(path).tensors.values()].map(({ name, type, shape }) => [name, type, shape]).sort(),
    [...file.tensors.values()].map(({ name, type, shape }) => [name, type, shape]).sort(),
  )
})

const tensorArbitrary = fc.record({
  name: fc.string({ minLength: 1, maxLength: 12 }).filter((n) => n !== '__metadata__'),
  shape: fc.array(fc.nat({ max: 4 }), { maxLength: 3 }),
  seed: fc.nat({ max: 255 }),
})

test('round trip of any tensors', () => {
  fc.assert(
    fc.property(fc.uniqueArray(tensorArbitrary, { selector: (x) => x.name, maxLength: 6 }), (tensors) => {
      const path = join(folder, 'round.safetensors')
      const content = (x: { shape: number[]; seed: number }): Uint8Array =>
        new Uint8Array(x.shape.reduce((n, d) => n * d, 4)).fill(x.seed)
      writeTensors(
        path,
        tensors.map((x) => ({ name: x.name, type: 'F32', shape: x.shape, read: () => right(content(x)) })),
      )
      const file = opened(path)
      assert.is(file.tensors.size, tensors.length)
      for (const x of tensors) assert.equal([...bytesOf(file, x.name)], [...content(x)])
    }),
    { seed: 7, numRuns: 150 },
  )
})

const refusal = (bytes: Uint8Array): string => {
  const path = join(folder, 'bad.safetensors')
  writeFileSync(path, bytes)
  const f = openTensors('weights', path)
  assert.ok(isLeft(f), 'it was accepted')
  return errorText(f.left)
}
const withHeader = (header: string, data = 0): Uint8Array => {
  const h = Buffer.from(header)
  const head = Buffer.alloc(8)
  head.writeBigUInt64LE(BigInt(h.length))
  return Buffer.concat([head, h, Buffer.alloc(data)])
}

test('refuses each kind of damage with its reason', () => {
  const entry = (dtype: string, shape: string, offsets: string): string =>
    `{"a":{"dtype":"${dtype}","shape":${shape},"data_offsets":${offsets}}}`
  assert.match(refusal(new Uint8Array(5)), /too few/)
  assert.match(refusal(new Uint8Array(9).fill(255)), /exceeds the file|does not match/)
  assert.match(refusal(withHeader('{"a":')), /not JSON/)
  assert.match(refusal(withHeader('[1]')), /not a JSON object/)
  assert.match(refusal(withHeader(entry('F99', '[1]', '[0,4]'), 4)), /known type/)
  assert.match(refusal(withHeader(entry('toString', '[1]', '[0,4]'), 4)), /known type/)
  assert.match(refusal(withHeader(entry('F32', '[1.5]', '[0,6]'), 6)), /known type/)
  assert.match(refusal(withHeader(entry('F32', '[2]', '[0,4]'), 4)), /does not match its 4 bytes/)
  assert.match(refusal(withHeader(entry('F32', '[9007199254740991,2]', '[0,4]'), 4)), /does not match its 4 bytes/)
  assert.match(refusal(withHeader(entry('F32', '[1]', '[4,0]'), 4)), /is at bytes/)
  assert.match(refusal(withHeader(entry('F32', '[2]', '[0,8]'), 4)), /is at bytes/)
  assert.match(refusal(withHeader(entry('F32', '[1]', '[4,8]'), 8)), /hole/)
  assert.match(refusal(withHeader(entry('F32', '[1]', '[0,4]'), 8)), /belong to no tensor/)
  assert.match(
    refusal(
      withHeader(
        '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        4,
      ),
    ),
    /overlap/,
  )
  assert.match(refusal(withHeader('{"__metadata__":{"x":1}}')), /object of strings/)
  assert.match(refusal(Buffer.concat([withHeader('{"'), Buffer.from([0xff])])), /JSON|UTF-8/)
})

test('5000 damaged files: refused or consistent, never an exception', () => {
  const good = readFileSync(FIXTURE)
  const path = join(folder, 'fuzzed.safetensors')
  let refusedCount = 0
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat({ max: good.length - 1 }), fc.nat({ max: 255 })), { minLength: 1, maxLength: 4 }),
      fc.option(fc.nat({ max: good.length - 1 })),
      (edits, cut) => {
        const bytes = Buffer.from(good)
        for (const [at, value] of edits) bytes[at] = value
        writeFileSync(path, cut === null ? bytes : bytes.subarray(0, cut))
        const file = openTensors('weights', path)
        if (isLeft(file)) {
          assert.is(file.left.tag, 'FileRefused')
          refusedCount++
          return
        }
        for (const x of file.right.tensors.values()) assert.ok(isRight(readTensor(file.right, x)))
      },
    ),
    { seed: 11, numRuns: 5000 },
  )
  assert.ok(refusedCount > 2000, `${refusedCount} of 5000 were refused`)
})

test('a file that shrinks after it was opened is refused when read', () => {
  const path = join(folder, 'shrinks.safetensors')
  writeFileSync(path, readFileSync(FIXTURE))
  const file = opened(path)
  const last = [...file.tensors.values()].sort((a, b) => b.offset - a.offset)[0]!
  writeFileSync(path, readFileSync(FIXTURE).subarray(0, last.offset))
  const read = readTensor(file, last)
  assert.ok(isLeft(read) && errorText(read.left).includes(last.name))
})

test.run()
