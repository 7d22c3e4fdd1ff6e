// The .npy header parser against files that NumPy wrote, and against damage.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { openNpy, parseNpy } from '../../../src/files/npy'

const fixture = (name: string): string => join(__dirname, 'fixtures', name)
interface Expected {
  readonly type: string
  readonly shape: number[]
  readonly first: number
  readonly bytes: number
}
const expected = JSON.parse(readFileSync(fixture('npy.json'), 'utf8')) as Record<string, Expected>

const firstOf = (b: Buffer, type: string, at: number): number => {
  switch (type) {
    case 'f4':
      return b.readFloatLE(at)
    case 'f8':
      return b.readDoubleLE(at)
    case 'u1':
      return b[at]!
    case 'i4':
      return b.readInt32LE(at)
    case 'i8':
      return Number(b.readBigInt64LE(at))
    default:
      return b.readUInt16LE(at) === 0x3c00 ? 1 : NaN
  }
}

for (const [name, want] of Object.entries(expected))
  test(`reads ${name}.npy as NumPy wrote it`, () => {
    const header = openNpy(fixture(`${name}.npy`))
    assert.ok(!isLeft(header), isLeft(header) ? errorText(header.left) : '')
    const file = readFileSync(fixture(`${name}.npy`))
    assert.equal([header.right.type, header.right.shape], [want.type, want.shape])
    assert.is(file.length - header.right.offset, want.bytes)
    assert.is(firstOf(file, want.type, header.right.offset), want.first)
  })

const refusal = (header: string, data: number, version = 1): string => {
  const text = Buffer.from(header)
  const head = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, version, 0, text.length & 255, text.length >> 8])
  const r = parseNpy(Buffer.concat([head, text]), head.length + text.length + data)
  assert.ok(isLeft(r), 'it was accepted')
  return r.left
}

test('Fortran order and big-endian numbers are refused with a clear error', () => {
  for (const [name, why] of [
    ['fortran.npy', /Fortran/],
    ['big-endian.npy', /'>f4'.*allowed/],
  ] as const) {
    const r = openNpy(fixture(name))
    assert.ok(isLeft(r))
    assert.match(errorText(r.left), why)
  }
})

test('refuses each kind of damage with its reason', () => {
  const dict = (descr: string, shape: string): string => `{'descr': ${descr}, 'fortran_order': False, 'shape': ${shape}, }`
  assert.match(refusal(dict("'<f4'", '(2,)'), 12), /needs 8 bytes .* has 12/)
  assert.match(refusal(dict("'<f4'", '(2,)'), 4), /needs 8 bytes/)
  assert.match(refusal(dict("'<c8'", '(2,)'), 16), /allowed: /)
  assert.match(refusal(dict("'toString'", '(2,)'), 16), /allowed: /)
  assert.match(refusal(dict("'<f4'", '(2)'), 8), /tuple/)
  assert.match(refusal(dict('True', '(2,)'), 8), /descr/)
  assert.match(refusal(dict("'<f4'", 'False'), 8), /tuple/)
  assert.match(refusal(dict("'<f4'", '(999999999999999, 999999999999999)'), 8), /needs/)
  assert.match(refusal("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", 8), /dictionary/)
  assert.match(refusal("{'descr': '<f4', 'shape': (2,)}", 8), /dictionary/)
  assert.match(refusal(`${dict("'<f4'", '(2,)')} junk`, 8), /dictionary/)
  assert.match(refusal(dict("'<f4'", '(2,)'), 8, 9), /version 9/)
  const nothing = parseNpy(new Uint8Array(3), 3)
  assert.ok(isLeft(nothing) && /does not begin like/.test(nothing.left))
})

test('10000 damaged headers: no exception, and an accepted header describes its file', () => {
  const good = readFileSync(fixture('v1-f4.npy'))
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat({ max: good.length - 1 }), fc.nat({ max: 255 })), { maxLength: 4 }),
      fc.nat({ max: good.length }),
      (edits, length) => {
        const bytes = Buffer.from(good)
        for (const [at, value] of edits) bytes[at] = value
        const cut = bytes.subarray(0, length)
        const r = parseNpy(cut, cut.length)
        if (isLeft(r)) return
        const width = Number(r.right.type[1])
        assert.is(r.right.offset + r.right.shape.reduce((n, d) => n * d, width), cut.length)
      },
    ),
    { seed: 3, numRuns: 10000 },
  )
})

test.run()
