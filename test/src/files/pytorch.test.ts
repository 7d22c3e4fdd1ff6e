// Weights that torch.save wrote (test/fixtures/make_pytorch.py): all types and views of tensors, names in nested dictionaries; refusals, with the
// line that makes safetensors of them; malicious pickles and archives.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { orThrow } from '../../../src/errors/exceptions'
import { unpickled } from '../../../src/files/pickle'
import { openWeights } from '../../../src/files/pytorch'
import { readTensor, type TensorFile, type TensorType, writeTensors } from '../../../src/files/safetensors'
import { zipParts } from '../../../src/files/zip'
import { withFile } from '../../../src/files/whole'
import { halfToNumber } from '../../../src/train/weights'

const fixtures = join(__dirname, '../../fixtures')
const at = (name: string): string => join(fixtures, 'pytorch', name)
const folder = mkdtempSync(join(tmpdir(), 'spillway-pytorch-'))
test.after(() => rmSync(folder, { recursive: true }))

const opened = (path: string): TensorFile => orThrow(openWeights('weights', path))
const refused = (path: string): string => {
  const answer = openWeights('weights', path)
  assert.ok(isLeft(answer), path)
  return errorText(answer.left)
}

interface Held {
  readonly shape: readonly number[]
  readonly numbers: readonly number[]
}
const { kinds } = JSON.parse(readFileSync(join(fixtures, 'pytorch.json'), 'utf8')) as {
  readonly kinds: Readonly<Record<string, Held>>
}

type Reading = (d: DataView, at: number) => number
const bfloat = (d: DataView, at: number): number =>
  new DataView(Uint8Array.of(0, 0, d.getUint8(at), d.getUint8(at + 1)).buffer).getFloat32(0, true)
const READ: Readonly<Record<TensorType, readonly [width: number, Reading]>> = {
  F64: [8, (d, at) => d.getFloat64(at, true)],
  F32: [4, (d, at) => d.getFloat32(at, true)],
  F16: [2, (d, at) => halfToNumber(d.getUint16(at, true))],
  BF16: [2, bfloat],
  I64: [8, (d, at) => Number(d.getBigInt64(at, true))],
  I32: [4, (d, at) => d.getInt32(at, true)],
  I16: [2, (d, at) => d.getInt16(at, true)],
  I8: [1, (d, at) => d.getInt8(at)],
  U8: [1, (d, at) => d.getUint8(at)],
  BOOL: [1, (d, at) => d.getUint8(at)],
}

test('tensors of all types, and views of storages, are those of PyTorch', () => {
  const file = opened(at('kinds.pth'))
  assert.equal([...file.tensors.keys()].sort(), Object.keys(kinds).sort())
  for (const [name, { shape, numbers }] of Object.entries(kinds)) {
    const stored = file.tensors.get(name)!
    const bytes = orThrow(readTensor(file, stored))
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const [width, read] = READ[stored.type]
    assert.equal([...stored.shape], shape, name)
    assert.equal(
      Array.from({ length: bytes.length / width }, (_, i) => read(view, i * width)),
      numbers,
      name,
    )
  }
})

test('one dictionary of tensors holds the weights; with several, names select it', () => {
  assert.ok(opened(at('pretrained.pth')).tensors.has('bn.num_batches_tracked'))
  assert.ok(opened(at('parallel.pt')).tensors.has('module.stem.weight'))
  const several = [...opened(at('checkpoint.pth')).tensors.keys()]
  assert.ok(several.includes('model.head.weight'))
  assert.ok(
    several.some((name) => /^optimizer\.state\.\d+\.momentum_buffer$/.test(name)),
    several.join(),
  )
})

test('a safetensors file is read as before', () => {
  const path = join(folder, 'a.safetensors')
  orThrow(writeTensors(path, []))
  assert.is(opened(path).tensors.size, 0)
})

const LINE = 'this line converts it to safetensors: python3 -c "import torch, safetensors.torch as s; d = '
test('an unsupported file is refused with the line of Python that writes safetensors', () => {
  const says = (name: string, why: string, load: string): void => {
    const words = refused(at(name))
    assert.ok(words.includes(`${why}; ${LINE}${load}`), words)
  }
  says(
    'old.pth',
    'the format of PyTorch before 1.6, or it is another pickle',
    `torch.load('${at('old.pth')}', map_location='cpu'); s.save_file(`,
  )
  says('script.pt', 'it is a TorchScript model', `torch.jit.load('${at('script.pt')}', map_location='cpu').state_dict()`)
  says(
    'model.pth',
    'it contains an object of torch.nn.modules.linear.Linear; foreign code is never run',
    `torch.load('${at('model.pth')}', map_location='cpu', weights_only=False).state_dict()`,
  )
  says(
    'namespace.pth',
    'it contains an object of argparse.Namespace; foreign code is never run',
    `(lambda c: c.get('state_dict', c))(torch.load('${at('namespace.pth')}', map_location='cpu', weights_only=False))`,
  )
  assert.match(refused(at('model.pth')), /it runs code in the file: only for files that you trust\)$/)
  says('complex.pth', 'it contains an object of torch.ComplexFloatStorage; foreign code is never run', '(lambda c')
  says('sparse.pth', 'it contains an object of torch._utils._rebuild_sparse_tensor; foreign code is never run', '(lambda c')
  says('big-endian.pth', 'its numbers have big-endian bytes', 'torch.load(')
})

test('nothing that a file names is run', () => {
  assert.match(refused(at('runs.pth')), /it contains an object of posix\.system; foreign code is never run/)
  assert.not.ok(existsSync('/tmp/spillway-was-here'))
})

test('declared sizes are checked against the file before anything is allocated', () => {
  assert.match(refused(at('packed.pth')), /its data\.pkl is compressed; torch\.save does not compress/)
  assert.match(refused(at('bomb.pth')), /its data\.pkl is compressed/)
  assert.match(refused(at('short.pth')), /the storage of its tensor 'head\.\w+' has 8 bytes instead of \d+/)
  const whole = readFileSync(at('pretrained.pth'))
  for (const length of [4, 22, 100, 1000, whole.length - 1]) {
    const path = join(folder, `${length}.pth`)
    writeFileSync(path, whole.subarray(0, length))
    assert.match(refused(path), /it is not a complete zip archive: /)
  }
})

test('parts of an archive are found by their names', () => {
  const path = at('pretrained.pth')
  const parts = orThrow(withFile('weights', path, zipParts))
  const version = parts.get('pretrained/version')!
  assert.ok(version.isStored)
  assert.is(readFileSync(path).toString('latin1', version.offset, version.offset + version.bytes), '3\n')
})

// ---------------------------------------------------------------- pickles by hand

const NOTHING = { known: () => undefined, outside: () => null }
const pickle = (text: string): Uint8Array => Buffer.from(text, 'latin1')
const words = (text: string): string => {
  const answer = unpickled(pickle(text), NOTHING)
  return isLeft(answer) ? answer.left.message : `a value: ${JSON.stringify(answer.right)}`
}

test('plain values of several protocols', () => {
  assert.is(words('\x80\x02]q\x00(K\x01M\x00\x01J\xff\xff\xff\xffNe.'), 'a value: {"list":[1,256,-1,null]}')
  assert.is(words('\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94\x88\x89\x87.'), 'a value: ["a",true,false]')
  assert.is(words('\x80\x02\x8a\x02\x00\x81.'), 'a value: -32512')
  assert.is(words('\x80\x02G\x3f\xf0\x00\x00\x00\x00\x00\x00.'), 'a value: 1')
})

test('invalid pickles are refused, each with its fault', () => {
  for (const [text, says] of [
    ['', /is truncated/],
    ['\x80\x02', /is truncated/],
    ['X\xff\xff\xff\xff', /is truncated/],
    ['\x8d\xff\xff\xff\xff\xff\xff\xff\x7f', /is truncated/],
    ['cos\nsystem\n(X\x01\x00\x00\x00atR.', /an object of os\.system/],
    ['\x8c\x02os\x8c\x06system\x93.', /an object of os\.system/],
    ['\x80\x02.', /pops from an empty stack/],
    ['(.', /uses a mark as a value/],
    ['t.', /a mark that is not set/],
    ['h\x07.', /loads value 7/],
    ['K\x01K\x02a.', /appends to a value that is not a list/],
    ['}(K\x01u.', /sets items of a value that is not a dictionary/],
    ['K\x01)R.', /calls a value that is not a function/],
    ['K\x01}b.', /changes an object/],
    ['\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01.', /an integer of 9 bytes/],
    ['i', /the instruction 0x69/],
    ['c'.repeat(9), /is truncated/],
    ['\x93.', /pops from an empty stack/],
    ['K\x01K\x01\x93.', /it refers to an empty name/],
  ] as const)
    assert.match(words(text), says, JSON.stringify(text))
})

test('a million marks, tuples in tuples and lists of themselves cost no more than their bytes', () => {
  const began = process.cpuUsage().user
  assert.match(words('('.repeat(1e6)), /is truncated/)
  assert.match(words(`)${'\x85'.repeat(1e6)}`), /is truncated/)
  assert.ok(!isLeft(unpickled(pickle(`]q\x00${'h\x00a'.repeat(1e5)}.`), NOTHING)))
  assert.ok(process.cpuUsage().user - began < 5e6)
})

test.run()
