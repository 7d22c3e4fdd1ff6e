// `spillway setup cuda`: the search for libraries on machines that the test describes, and the fetching of wheels from a registry in this process.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as os from 'node:os'
import * as path from 'node:path'
import { deflateRawSync } from 'node:zlib'
import { isLeft, isRight, left, right } from 'fp-ts/Either'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { machineRefusal } from '../../src/cli/setup'
import { architectures, driverRefusal, generationText, gpusOf, refusalOf } from '../../src/cuda/gpus'
import {
  areComplete,
  cudaFolder,
  findLibraries,
  foldersOf,
  type Places,
  remember,
  rememberedFile,
} from '../../src/cuda/libraries'
import { pluginFile } from '../../src/cuda/plugin'
import { type Fetching, fetchWheels, missingWheels, needText, type Wheel } from '../../src/cuda/wheels'

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-setup-cuda-'))
const before = process.env['XDG_CACHE_HOME']
process.env['XDG_CACHE_HOME'] = scratch

const test = suite('spillway setup cuda')
test.after(() => {
  if (before === undefined) delete process.env['XDG_CACHE_HOME']
  else process.env['XDG_CACHE_HOME'] = before
  fs.rmSync(scratch, { recursive: true, force: true })
})

// ---------------------------------------------------------------- the search

/** A machine with these files and variables; `loaded` are the lines of the loader's cache. */
const machine = (files: readonly string[], env: Places['env'] = {}, loaded: readonly string[] = []): Places => ({
  read: (file) => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : undefined),
  list: (folder) => [
    ...new Set(files.filter((file) => file.startsWith(`${folder}/`)).map((file) => file.slice(folder.length + 1).split('/')[0]!)),
  ],
  run: (command) =>
    command.includes('ldconfig')
      ? right(loaded.map((file) => `\t${path.basename(file)} (libc6) => ${file}\n`).join(''))
      : left('none'),
  env,
  folder: '/project',
})

const WHEEL_13 = ['cudnn/lib/libcudnn.so.9', 'cu13/lib/libcublasLt.so.13', 'cu13/lib/libnvrtc.so.13']
const inVenv = (root: string, names = WHEEL_13): readonly string[] =>
  names.map((name) => `${root}/lib/python3.11/site-packages/nvidia/${name}`)

test('a machine without libraries has none', () => {
  assert.equal(findLibraries(machine([])), {})
  assert.not(areComplete(findLibraries(machine(['/usr/local/cuda-13.0/lib64/libcublasLt.so.13']))))
})

test("the system's libraries need no folder, those of an environment do", () => {
  const system = ['/usr/lib/libcudnn.so.9', '/usr/lib/libcublasLt.so.13']
  const ofSystem = findLibraries(machine(system, {}, system))
  assert.is(ofSystem.cuDNN?.file, system[0])
  assert.equal(foldersOf(ofSystem), [])
  for (const [env, root] of [
    [{ VIRTUAL_ENV: '/v' }, '/v'],
    [{ CONDA_PREFIX: '/c' }, '/c'],
    [{}, '/project/.venv'],
  ] as const) {
    const found = findLibraries(machine(inVenv(root), env))
    assert.ok(areComplete(found), root)
    assert.is(found.cuDNN?.origin, `the Python environment ${root}`)
    const nvidia = `${root}/lib/python3.11/site-packages/nvidia`
    assert.equal(foldersOf(found), [`${nvidia}/cudnn/lib`, `${nvidia}/cu13/lib`])
  }
})

test('libraries of one place are preferred to a mixture, and those of CUDA 12 do', () => {
  const cuda12 = inVenv('/v', ['cudnn/lib/libcudnn.so.9', 'cublas/lib/libcublasLt.so.12', 'cuda_nvrtc/lib/libnvrtc.so.12'])
  const toolkit = '/usr/local/cuda-13.0/lib64/libcublasLt.so.13'
  const found = findLibraries(machine([...cuda12, toolkit], { VIRTUAL_ENV: '/v' }, [toolkit]))
  assert.is(found.cuBLAS?.file, cuda12[1])
  const mixed = findLibraries(machine([cuda12[0]!, toolkit], { VIRTUAL_ENV: '/v' }))
  assert.equal([mixed.cuDNN?.file, mixed.cuBLAS?.file], [cuda12[0], toolkit])
})

test('SPILLWAY_CUDA_LIBRARIES is searched first, remembered folders next', () => {
  const files = [
    ...inVenv('/v'),
    '/named/libcudnn.so.9',
    '/named/libcublasLt.so.13',
    '/named/libnvrtc.so.13',
    '/kept/libcudnn.so.9',
    '/kept/libcublasLt.so.13',
    '/kept/libnvrtc.so.13',
  ]
  remember(['/kept'])
  const kept = findLibraries(machine(files, { VIRTUAL_ENV: '/v' }))
  assert.equal([kept.cuDNN?.file, kept.cuDNN?.by], ['/kept/libcudnn.so.9', 'memory'])
  assert.equal(foldersOf(kept), ['/kept'], 'a second set-up does not forget')
  const named = findLibraries(machine(files, { VIRTUAL_ENV: '/v', SPILLWAY_CUDA_LIBRARIES: ':/named' }))
  assert.is(named.cuDNN?.file, '/named/libcudnn.so.9')
  assert.equal(foldersOf(named), [])
  assert.is(fs.readFileSync(rememberedFile(), 'utf8'), '/kept\n')
  remember([])
})

test('the plugin is beside the addon, in the cache of an addon that was built, or in the platform package', () => {
  const having = (file: string): string | undefined =>
    pluginFile({ env: {}, addon: () => '/p/x86-64-v4/spillway.node', exists: (f) => f === file }, '/clone')
  for (const file of [
    '/p/x86-64-v4/spillway_cuda.so',
    '/p/cuda/spillway_cuda.so',
    '/cuda/spillway_cuda.so',
    '/clone/build/cuda/spillway_cuda.so',
  ])
    assert.is(having(file), file)
  assert.is(having('/elsewhere/spillway_cuda.so'), undefined)
})

// ---------------------------------------------------------------- GPUs

const smi = (line: string): Pick<Places, 'run'> => ({
  run: (command) => (command === 'nvidia-smi' ? right(`${line}\n`) : left('none')),
})
const DEBIAN = { platform: 'linux', arch: 'x64', glibc: '2.36' }

test('a GPU or driver that is too old is refused before anything is fetched', () => {
  const [v100] = gpusOf(smi('Tesla V100, 16160, 580.1, 3, 16, 7.0'))
  assert.is(generationText(v100!), 'Volta, sm_70')
  assert.is(refusalOf(v100!), 'Tesla V100 (Volta, sm_70) is too old: Turing (sm_75) or newer is needed')
  assert.match(machineRefusal(smi('Tesla V100, 16160, 580.1, 3, 16, 7.0'), DEBIAN) ?? '', 'is too old')
  assert.match(
    machineRefusal(smi('NVIDIA L4, 23034, 570.86, 4, 16, 8.9'), DEBIAN) ?? '',
    'the driver 570.86 is too old: CUDA 13 needs 580 or newer',
  )
  assert.is(machineRefusal(smi('NVIDIA L4, 23034, 580.1, 4, 16, 8.9'), DEBIAN), undefined)
  assert.is(machineRefusal({ run: () => left('none') }, DEBIAN), undefined, 'images are made on machines without a GPU')
  assert.is(driverRefusal('580.65.06'), undefined)
  assert.equal(architectures().slice(0, 2), [75, 80])
})

test('another system is refused with its facts', () => {
  const none = { run: () => left('none') }
  assert.match(machineRefusal(none, { ...DEBIAN, arch: 'arm64' }) ?? '', 'needs Linux on x64; this is linux on arm64')
  assert.match(machineRefusal(none, { ...DEBIAN, glibc: '2.31' }) ?? '', 'this system has glibc 2.31')
  assert.match(machineRefusal(none, { ...DEBIAN, glibc: undefined }) ?? '', 'this system has another C library')
})

// ---------------------------------------------------------------- fetching

/** A zip archive with one deflated file for each name. */
const zipOf = (files: Readonly<Record<string, Buffer>>): Buffer => {
  const crc = (bytes: Buffer): number => {
    let c = ~0
    for (const byte of bytes) {
      c ^= byte
      for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1
    }
    return ~c >>> 0
  }
  const locals: Buffer[] = []
  const centrals: Buffer[] = []
  let at = 0
  for (const [name, bytes] of Object.entries(files)) {
    const packed = deflateRawSync(bytes)
    const fields = Buffer.alloc(26)
    fields.writeUInt16LE(20, 0)
    fields.writeUInt16LE(8, 4)
    fields.writeUInt32LE(crc(bytes), 10)
    fields.writeUInt32LE(packed.length, 14)
    fields.writeUInt32LE(bytes.length, 18)
    fields.writeUInt16LE(name.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), fields, Buffer.from(name), packed])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(at, 10)
    centrals.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x00'), fields, rest, Buffer.from(name)]))
    locals.push(local)
    at += local.length
  }
  const central = Buffer.concat(centrals)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(locals.length, 4)
  end.writeUInt16LE(locals.length, 6)
  end.writeUInt32LE(central.length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...locals, central, Buffer.from('PK\x05\x06'), end])
}

const CONTENTS = Buffer.from('a library '.repeat(20_000))
const bytes = zipOf({
  'nvidia/cudnn/lib/libcudnn.so.9': CONTENTS,
  'nvidia/cudnn/include/cudnn.h': Buffer.from('a header'),
})
const sha256 = createHash('sha256').update(bytes).digest('hex')
const wheelNamed = (name: string): Wheel => ({
  name,
  version: '9.1',
  bytes: bytes.length,
  sha256,
  unpackedBytes: CONTENTS.length,
})

interface Served {
  /** Bytes after which the connection ends. */
  readonly upTo?: number
  readonly wheel?: Buffer
}
/** Serves PyPI's list of files for any name; the ranges that clients asked for are in `ranges`. */
const serving = async (
  how: Served,
  use: (how: Fetching, ranges: (string | undefined)[]) => Promise<void>,
  wheel: Wheel,
): Promise<void> => {
  const ranges: (string | undefined)[] = []
  const server = createServer((asked, answer) => {
    if (asked.url?.startsWith('/simple/')) {
      const files = [
        { url: 'other.whl', hashes: { sha256: 'a' } },
        { url: '../../files/w.whl', hashes: { sha256 } },
      ]
      answer.end(JSON.stringify({ files }))
      return
    }
    ranges.push(asked.headers.range)
    const from = Number(/bytes=(\d+)-/.exec(asked.headers.range ?? '')?.[1] ?? 0)
    const all = how.wheel ?? bytes
    answer.writeHead(from > 0 ? 206 : 200, { 'content-length': all.length - from })
    if (how.upTo === undefined) answer.end(all.subarray(from))
    else answer.write(all.subarray(from, how.upTo), () => setTimeout(() => answer.destroy(), 50))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  try {
    await use({ wheels: [wheel], registry: `http://127.0.0.1:${port}`, python: undefined, say: () => {} }, ranges)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const unpacked = (): string => path.join(cudaFolder(), 'nvidia', 'cudnn', 'lib', 'libcudnn.so.9')

test('a wheel is fetched once, checked, and only its libraries are unpacked', async () => {
  const wheel = wheelNamed('first')
  assert.match(needText([wheel]), 'first 9.1: 0.00 GB to fetch')
  await serving(
    {},
    async (how, ranges) => {
      assert.ok(isRight(await fetchWheels(how)))
      assert.ok(fs.readFileSync(unpacked()).equals(CONTENTS))
      assert.not(fs.existsSync(path.join(cudaFolder(), 'nvidia', 'cudnn', 'include')))
      assert.equal(missingWheels([wheel]), [])
      assert.ok(isRight(await fetchWheels(how)))
      assert.is(ranges.length, 1)
      assert.is(
        findLibraries({ ...machine([]), list: (folder) => (fs.existsSync(folder) ? fs.readdirSync(folder) : []) }).cuDNN?.file,
        unpacked(),
      )
    },
    wheel,
  )
  fs.rmSync(unpacked())
})

test('an interrupted download is an error, and the next call continues it', async () => {
  const wheel = wheelNamed('second')
  await serving(
    { upTo: 300 },
    async (how) => {
      const got = await fetchWheels(how)
      assert.ok(isLeft(got) && got.left.tag === 'SetupFailed')
      assert.match(got.left.reason, /cannot fetch second 9\.1: .*The next call continues/)
      assert.not(fs.existsSync(unpacked()))
    },
    wheel,
  )
  await serving(
    {},
    async (how, ranges) => {
      assert.ok(isRight(await fetchWheels(how)))
      assert.equal(ranges, ['bytes=300-'])
      assert.ok(fs.readFileSync(unpacked()).equals(CONTENTS))
    },
    wheel,
  )
})

test('a wheel with another digest is removed', async () => {
  const wrong = Buffer.from(bytes)
  wrong[60]! ^= 1
  await serving(
    { wheel: wrong },
    async (how) => {
      const got = await fetchWheels(how)
      assert.ok(isLeft(got) && got.left.tag === 'SetupFailed')
      assert.match(got.left.reason, 'its digest is wrong')
      assert.equal(
        fs.readdirSync(cudaFolder()).filter((name) => name.startsWith('third')),
        [],
      )
    },
    wheelNamed('third'),
  )
})

test('without a network, and on a full disk, the error has the reason', async () => {
  const wheel = wheelNamed('fourth')
  const offline = await fetchWheels({ wheels: [wheel], registry: 'http://127.0.0.1:9', python: undefined, say: () => {} })
  assert.ok(isLeft(offline) && offline.left.tag === 'SetupFailed')
  assert.match(offline.left.reason, /cannot fetch fourth 9\.1: http:\/\/127\.0\.0\.1:9: the connection was refused|bad port/)
  const full = await fetchWheels({
    wheels: [{ ...wheel, unpackedBytes: 2 ** 60 }],
    registry: 'http://127.0.0.1:9',
    python: undefined,
    say: () => {},
  })
  assert.ok(isLeft(full) && full.left.tag === 'SetupFailed')
  assert.match(full.left.reason, /free disk, and the libraries need .* set XDG_CACHE_HOME/)
})

test('without a usable pip, HTTPS is the way', async () => {
  await serving(
    {},
    async (how) => {
      assert.ok(isRight(await fetchWheels({ ...how, python: '/bin/false' })))
    },
    wheelNamed('fifth'),
  )
})

test.run()
