// Files that are deep, huge or odd, in place of data, weights, plans, checkpoints and models. In: the number of sizes. Out: the seconds of the
// longest. Invariant: each is refused in words, by a second of work for every 100 MB and one more; a path without a file is never awaited.
import { spawnSync } from 'node:child_process'
import {
  closeSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import * as assert from 'uvu/assert'
import { modelNamed } from '../../src/cli/model'
import { errorText, type SpillwayError, SpillwayException } from '../../src/errors/errors'
import { labelsOf, sizeOf } from '../../src/data/decode'
import { openModel } from '../../src/exchange/import'
import { npyHead, openNpy } from '../../src/files/npy'
import { openWeights } from '../../src/files/pytorch'
import { openTensors } from '../../src/files/safetensors'
import { writeWholeText } from '../../src/files/whole'
import { tryLoadPlan } from '../../src/stage/planfile'
import { findCheckpoint } from '../../src/train/checkpoint'
import { png } from '../src/data/png'
import { FULL } from '../full'
import type { Counts, Family } from './family'
import { archive, type Part } from './archive'

const MB = 1e6
/** Work takes longer where others use the caches, too. */
const BESIDE_OTHERS = 2
const headed = (header: string, bytes = Buffer.byteLength(header)): Buffer => {
  const head = Buffer.alloc(8)
  head.writeBigUInt64LE(BigInt(bytes))
  return Buffer.concat([head, Buffer.from(header)])
}
const keys = (n: number): string =>
  `{${Array.from({ length: n }, (_, i) => `"k${i}":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`).join(',')},"x":1}`
const nested = (n: number, open: string, close: string): string => open.repeat(n) + close.repeat(n)

/** Texts that no JSON should be, each of a number of megabytes. */
const texts = (megabytes: number): Readonly<Record<string, string>> => ({
  'lists in lists': nested((megabytes * MB) / 2, '[', ']'),
  'objects in objects': `${'{"a":'.repeat((megabytes * MB) / 6)}1${'}'.repeat((megabytes * MB) / 6)}`,
  'empty lists': `[${'[],'.repeat((megabytes * MB) / 3)}[]]`,
  'one long number': '9'.repeat(megabytes * MB),
  'one long word': `"${'x'.repeat(megabytes * MB)}"`,
  spaces: ' '.repeat(megabytes * MB),
  'many keys': keys(megabytes * 16_000),
})

const READERS: Readonly<Record<string, (path: string) => Either<SpillwayError, unknown>>> = {
  data: (path) => openTensors('data', path),
  weights: (path) => openWeights('weights', path),
  program: (path) => openModel(path),
  array: openNpy,
  plan: tryLoadPlan,
  output: (path) => writeWholeText(path, 'new'),
}

// ---------------------------------------------------------------- sizes that are declared, and not there

const npy = (shape: string): Buffer => {
  const head = npyHead('f4', [1]).subarray(0, 10)
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': ${shape}, }\n`
  const made = Buffer.concat([head, Buffer.from(text)])
  made.writeUInt16LE(text.length, 8)
  return made
}
const sized = (shape: string, end: number): Buffer => headed(`{"a":{"dtype":"F32","shape":${shape},"data_offsets":[0,${end}]}}`)

const declaring = (): Readonly<Record<string, readonly [role: string, bytes: Buffer]>> => ({
  'an array of 2^80 numbers': ['array', npy('(1099511627776, 1099511627776)')],
  'an array of 2^40 numbers': ['array', npy('(1099511627776,)')],
  'an array of nothing, often': ['array', npy(`(${'1, '.repeat(2e4)})`)],
  'a tensor of 2^40 numbers': ['weights', sized('[1099511627776]', 2 ** 42)],
  'a tensor of 2^106 numbers': ['weights', sized('[9007199254740991,9007199254740991]', 16)],
  'a tensor of no end': ['weights', sized('[4]', 2 ** 53)],
})

/** Images, as pixels and as masks, whose files say that they have many pixels, or have many bytes. */
const refusedImages = async (root: string, mostPixels: number): Promise<number> => {
  const limits = { depth: 8, mostPixels } as const
  const refuses = async (what: string, decoded: () => Promise<unknown>): Promise<void> => {
    const began = process.cpuUsage()
    const words = await decoded().then(
      () => 'nothing',
      (e: unknown) => (e instanceof SpillwayException ? e.message : `an exception: ${(e as Error).message}`),
    )
    assert.match(words, /^data file .* is refused: it (declares|has) /, what)
    assert.ok(process.cpuUsage(began).user / 1e6 <= BESIDE_OTHERS, what)
  }
  const bomb = join(root, 'bomb.png')
  const grey = { width: 60_000, height: 60_000, bits: 8, colour: 'grey', pixels: new Uint8Array(60_000), rows: 1 } as const
  writeFileSync(bomb, png(grey))
  await refuses('pixels without end', () => sizeOf(bomb, limits))
  await refuses('a mask without end', () => labelsOf(bomb, limits))
  const sparse = join(root, 'sparse.png')
  writeFileSync(sparse, png({ ...grey, width: 4, height: 4 }))
  truncateSync(sparse, 2 ** 33)
  await refuses('a mask of 8 GiB', () => labelsOf(sparse, limits))
  return 3
}

// ---------------------------------------------------------------- archives of weights that mean harm

const long = (n: bigint): string => {
  const raw = Buffer.alloc(8)
  raw.writeBigUInt64LE(BigInt.asUintN(64, n))
  return `\x8a\x08${raw.toString('latin1')}`
}
const word = (text: string): string => `\x8c${String.fromCharCode(text.length)}${text}`
/** A tensor as torch.save pickles it: a part of a storage with a number of elements. */
const tensor = (elements: bigint, shape: readonly bigint[], strides: readonly bigint[], start = 0n): string => {
  const sizes = (list: readonly bigint[]): string => `(${list.map(long).join('')}t`
  const storage = `(${word('storage')}ctorch\nFloatStorage\n${word('0')}${word('cpu')}${long(elements)}tQ`
  return `ctorch._utils\n_rebuild_tensor_v2\n(${storage}${long(start)}${sizes(shape)}${sizes(strides)}\x89ccollections\nOrderedDict\n)RtR`
}
const dictionary = (items: string): string => `\x80\x02}(${items}u.`

const saved = (pickle: string, more: readonly Part[] = [{ name: 'w/data/0', bytes: Buffer.alloc(16) }]): readonly Part[] => [
  { name: 'w/data.pkl', bytes: Buffer.from(pickle, 'latin1') },
  ...more,
]
const of = (...args: Parameters<typeof tensor>): string => dictionary(`${word('a')}${tensor(...args)}`)

/** A program of torch.export whose graph is a text. */
const program = (graph: string): Buffer =>
  archive([
    { name: 'p/archive_format', bytes: Buffer.from('pt2') },
    { name: 'p/models/model.json', bytes: Buffer.from(graph) },
  ])

/** Archives that look like weights, by their error; `megabytes` bounds the repeated part. */
const archives = (megabytes: number): Readonly<Record<string, Buffer>> => {
  const whole = saved(of(4n, [4n], [1n]))
  const times = (megabytes * MB) / 100
  return {
    'a tensor of 2^60 numbers': archive(saved(of(4n, [1n << 30n, 1n << 30n], [1n << 30n, 1n]))),
    'a tensor of one number, 2^50 times': archive(saved(of(4n, [1n << 50n], [0n]))),
    'a tensor with strides of 2^52': archive(saved(of(4n, [2n, 2n], [1n << 52n, 1n]))),
    'a tensor behind its storage': archive(saved(of(4n, [4n], [1n], 1n))),
    'a tensor before its storage': archive(saved(of(4n, [4n], [1n], -1n))),
    'a storage of 2^50 numbers': archive(saved(of(1n << 50n, [4n], [1n]))),
    'a storage elsewhere': archive(saved(of(4n, [4n], [1n]), [{ name: 'w/data/1', bytes: Buffer.alloc(16) }])),
    'a storage that reaches beyond the file': archive(
      saved(of(4n, [4n], [1n]), [{ name: 'w/data/0', bytes: Buffer.alloc(16), says: { bytes: 2 ** 31 } }]),
    ),
    'a compressed storage': archive(
      saved(of(4n, [4n], [1n]), [{ name: 'w/data/0', bytes: Buffer.alloc(16), says: { method: 8 } }]),
    ),
    'a part far behind the file': archive([{ ...whole[0]!, says: { at: 2 ** 31 } }, whole[1]!]),
    'two parts of one name': archive([...whole, whole[1]!]),
    'a name that leads elsewhere': archive([...whole, { name: '../../etc/passwd', bytes: Buffer.alloc(1) }]),
    'more parts than there are': archive(whole, 65_000),
    'no pickle': archive([whole[1]!]),
    'a pickle that calls': archive(saved('\x80\x02cos\nsystem\n(\x8c\x02lstR.')),
    'a dictionary within itself': archive(saved(`\x80\x02}q\x00(${word('a')}h\x00u.`)),
    'a list of itself, many times': archive(saved(`\x80\x02]q\x00(${'h\x00'.repeat(times)}e.`)),
    'a list of lists of lists, each many times': archive(
      saved(`\x80\x02]q\x00(${'K\x01'.repeat(times)}e]q\x01(${'h\x00'.repeat(times)}e]q\x02(${'h\x01'.repeat(times)}e.`),
    ),
    'marks without end': archive(saved(`\x80\x02${'('.repeat(megabytes * MB)}`)),
    'tuples in tuples': archive(saved(`\x80\x02)${'\x85'.repeat(megabytes * MB)}.`)),
    'tuples in tuples as a key': archive(saved(`\x80\x02}(${')'}${'\x85'.repeat(megabytes * MB)}K\x01u.`)),
    'a pickle longer than any': archive([{ name: 'w/data.pkl', bytes: Buffer.alloc(2 ** 26 + 1) }]),
  }
}

const refusedInTime = (what: string, path: string, read: (path: string) => Either<SpillwayError, unknown>): number => {
  const before = process.cpuUsage()
  const answer = read(path)
  const { user, system } = process.cpuUsage(before)
  const seconds = (user + system) / 1e6
  assert.ok(isLeft(answer), `${what} is accepted`)
  const words = errorText(answer.left)
  assert.ok(words.includes(path) || words.startsWith('not a plan file: '), `${what}: ${words}`)
  const megabytes = lstatSync(path).size / MB
  assert.ok(seconds <= BESIDE_OTHERS * (1 + megabytes / 100), `${what}: ${seconds} s for ${megabytes} MB`)
  return seconds
}

/** Things in a folder that are no files, by their kind. */
const oddities = (root: string): Readonly<Record<string, string>> => {
  const at = (name: string): string => join(root, name)
  spawnSync('mkfifo', [at('fifo')])
  mkdirSync(at('folder'))
  symlinkSync(at('nowhere'), at('dangling'))
  symlinkSync(at('round'), at('round'))
  symlinkSync('/dev/zero', at('link-to-device'))
  return {
    FIFO: at('fifo'),
    folder: at('folder'),
    link: at('dangling'),
    circle: at('round'),
    device: '/dev/zero',
    'link to a device': at('link-to-device'),
  }
}

const run = async (cases: number): Promise<Counts> => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-odd-'))
  const megabytes = cases
  let tried = 0
  let slowest = 0
  const refused = (what: string, path: string, read: (path: string) => Either<SpillwayError, unknown>): void => {
    slowest = Math.max(slowest, refusedInTime(what, path, read))
    tried++
  }
  for (const [what, path] of Object.entries(oddities(root)))
    for (const [role, read] of Object.entries(READERS)) {
      // A link that leads nowhere is where a file may come.
      if (role === 'output' && ['link', 'circle', 'link to a device'].includes(what)) continue
      refused(`${what} as ${role}`, path, read)
    }
  const socket = join(root, 'socket')
  const server = createServer().listen(socket)
  await new Promise((resolve) => server.once('listening', resolve))
  for (const [role, read] of Object.entries(READERS)) refused(`socket as ${role}`, socket, read)
  server.close()
  for (const name of ['model.ts', 'model.js']) {
    const path = join(root, name)
    spawnSync('mkfifo', [path])
    refused(`a FIFO as ${name}`, path, (p) => modelNamed(p, {}))
  }
  const path = join(root, 'file.safetensors')
  const content = (what: string, bytes: Uint8Array, roles: readonly string[]): void => {
    writeFileSync(path, bytes)
    for (const role of roles) refused(`${what} as ${role}`, path, READERS[role]!)
  }
  for (const [what, bytes] of Object.entries({ nothing: '', 'one byte': '{', zeros: '\0'.repeat(64), 'a word': 'safetensors' }))
    content(what, Buffer.from(bytes), ['data', 'weights', 'array', 'plan'])
  for (const [what, text] of Object.entries(texts(megabytes))) {
    content(what, headed(text), ['data', 'weights'])
    content(what, Buffer.from(text), ['plan', 'array'])
    content(what, program(text), ['program'])
    writeFileSync(join(root, 'step-000000003.json'), text)
    const began = process.cpuUsage()
    assert.is(findCheckpoint(root).refused.length, 1, what)
    assert.ok(process.cpuUsage(began).user / 1e6 <= BESIDE_OTHERS * (1 + megabytes / 100), `${what} as a checkpoint`)
    tried++
  }
  for (const [what, [role, bytes]] of Object.entries(declaring())) content(what, bytes, [role])
  for (const most of [1e6, 2 ** 28]) {
    tried += await refusedImages(root, most)
  }
  for (const [what, bytes] of Object.entries(archives(megabytes))) content(what, bytes, ['weights', 'data'])
  for (const bytes of [2 ** 32, 2 ** 53, 1e8 + 1]) content(`a header of ${bytes} bytes`, headed('{}', bytes), ['data', 'weights'])
  // Sparse: nobody reads 8 GiB to find out.
  closeSync(openSync(path, 'w'))
  truncateSync(path, 2 ** 33)
  for (const role of ['data', 'weights', 'array', 'plan']) refused(`8 GiB of zeros as ${role}`, path, READERS[role]!)
  const fd = openSync(path, 'r+')
  writeSync(fd, headed('{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'))
  closeSync(fd)
  refused('8 GiB behind a tensor of 16 bytes', path, READERS['data']!)
  rmSync(root, { recursive: true })
  return { tried, megabytes, slowestSeconds: Math.round(slowest * 100) / 100 }
}

export const family: Family = {
  what: 'deep, huge and odd files are refused within a second for every 100 MB; what is no file is not waited for',
  few: FULL ? 4 : 2,
  all: 80,
  seconds: 900,
  run,
}
