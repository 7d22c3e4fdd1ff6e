// Fetches the published libraries of NVIDIA into the user's cache. In: the wheels below, pip or PyPI's JSON interface. Out: their shared libraries in
// cuda/nvidia of the cache. Invariant: every wheel has the digest below, by whichever way it came; an interrupted call is continued by the next one,
// and no library has its name before it is complete.
import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import * as path from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { spawn, spawnSync } from 'node:child_process'
import type { Either } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import * as t from 'io-ts'
import { type Entry, open, type ZipFile } from 'yauzl'
import { decodedOr } from '../../staging/core/codecs'
import type { SpillwayError } from '../errors/errors'
import { attempt } from '../errors/exceptions'
import { packageFolder } from '../files/version'
import { cudaFolder } from './libraries'

export interface Wheel {
  readonly name: string
  readonly version: string
  readonly bytes: number
  readonly sha256: string
  /** All shared libraries of it together. */
  readonly unpackedBytes: number
}

/** For Linux on x64. A release of Spillway fetches the same versions everywhere. */
export const WHEELS: readonly Wheel[] = [
  {
    name: 'nvidia-cudnn-cu13',
    version: '9.19.0.56',
    bytes: 366_066_321,
    sha256: 'd20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf',
    unpackedBytes: 493_410_224,
  },
  {
    name: 'nvidia-cublas',
    version: '13.1.0.3',
    bytes: 423_133_236,
    sha256: 'ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171',
    unpackedBytes: 596_511_080,
  },
  {
    name: 'nvidia-cuda-nvrtc',
    version: '13.0.88',
    bytes: 90_215_200,
    sha256: 'ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575',
    unpackedBytes: 227_912_592,
  },
]

export interface Fetching {
  readonly wheels: readonly Wheel[]
  /** The address of PyPI; tests give their own. */
  readonly registry: string
  /** The Python with pip; undefined without one. */
  readonly python: string | undefined
  readonly say: (text: string) => void
}

export const PYPI = 'https://pypi.org'
const STALL_SECONDS = 60

/** The first Python that has pip. */
export const pythonWithPip = (env: NodeJS.ProcessEnv = process.env): string | undefined =>
  [...(env.VIRTUAL_ENV ? [path.join(env.VIRTUAL_ENV, 'bin', 'python')] : []), 'python3', 'python'].find(
    (python) => spawnSync(python, ['-m', 'pip', '--version'], { stdio: 'ignore', env }).status === 0,
  )

const failed = (reason: string): SpillwayError => ({ tag: 'SetupFailed', reason })
const gb = (bytes: number): string => `${(bytes / 1e9).toFixed(2)} GB`
const titleOf = ({ name, version }: Wheel): string => `${name} ${version}`

const stampOf = ({ name, version }: Wheel): string => path.join(cudaFolder(), `${name}-${version}.fetched`)
const wheelFile = ({ name, version }: Wheel): string => path.join(cudaFolder(), `${name}-${version}.whl`)

/** The wheels that are not in the cache yet. */
export const missingWheels = (wheels: readonly Wheel[] = WHEELS): readonly Wheel[] =>
  wheels.filter((w) => !existsSync(stampOf(w)))

/** Bytes to fetch, and the largest number of bytes on the disk at one time. */
export const needOf = (wheels: readonly Wheel[]): { readonly bytes: number; readonly diskBytes: number } => ({
  bytes: wheels.reduce((sum, w) => sum + w.bytes, 0),
  diskBytes: wheels.reduce((sum, w) => sum + w.unpackedBytes, 0) + Math.max(0, ...wheels.map((w) => w.bytes)),
})

export const needText = (wheels: readonly Wheel[]): string => {
  const { bytes, diskBytes } = needOf(wheels)
  return `${wheels.map(titleOf).join(', ')}: ${gb(bytes)} to fetch, ${gb(diskBytes)} of disk in ${cudaFolder()}`
}

// ---------------------------------------------------------------- one wheel

const CAUSES: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EACCES: 'the folder cannot be written',
  EROFS: 'the file system is read-only',
  ENOTFOUND: 'there is no network, or its name server does not answer',
  EAI_AGAIN: 'there is no network, or its name server does not answer',
  ECONNREFUSED: 'the connection was refused: is there a network, or a proxy?',
  ENETUNREACH: 'there is no network',
}

/** The cause of an error in words; fetch() hides it in `cause`. */
const wordsOf = (e: unknown): string => {
  const error = E.toError(e)
  const inner = error.cause instanceof Error ? error.cause : error
  const code = (inner as NodeJS.ErrnoException).code
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return `no byte came within ${STALL_SECONDS} s`
  return (code === undefined ? undefined : CAUSES[code]) ?? inner.message
}

const tried = async <A>(work: () => Promise<A>): Promise<Either<string, A>> => work().then(E.right, (e) => E.left(wordsOf(e)))

const sha256Of = async (file: string): Promise<string> => {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

const bytesAt = (file: string): number => attempt(() => statSync(file).size) ?? 0

/** Fetches by pip, which knows the user's mirrors and proxies. */
const byPip = async (wheel: Wheel, python: string): Promise<Either<string, void>> => {
  const folder = path.join(cudaFolder(), 'pip')
  mkdirSync(folder, { recursive: true })
  const options = ['--no-deps', '--only-binary=:all:', '--disable-pip-version-check', '--dest', folder]
  const child = spawn(python, ['-m', 'pip', 'download', ...options, `${wheel.name}==${wheel.version}`], {
    stdio: ['ignore', 2, 'pipe'],
  })
  let last = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    last = (last + text).slice(-2000)
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve).on('error', () => resolve(null)))
  if (code !== 0)
    return E.left(
      last
        .split('\n')
        .filter((line) => line.startsWith('ERROR'))
        .at(-1) ?? `pip ended with code ${code}`,
    )
  const fetched = `${wheel.name.replaceAll('-', '_')}-${wheel.version}-`
  const found = readdirSync(folder).find((name) => name.startsWith(fetched))
  if (found === undefined) return E.left('pip fetched no wheel')
  renameSync(path.join(folder, found), wheelFile(wheel))
  rmSync(folder, { recursive: true, force: true })
  return E.right(undefined)
}

/** The JSON form of PyPI's list of files (PEP 691), which its mirrors have, too. */
const LIST_TYPE = 'application/vnd.pypi.simple.v1+json'
const listCodec = t.type({
  files: t.readonlyArray(t.type({ url: t.string, hashes: t.partial({ sha256: t.string }) })),
})

/** Ends a download that stalls; a slow one continues. */
const watchdog = (): { readonly signal: AbortSignal; readonly touch: () => void; readonly stop: () => void } => {
  const controller = new AbortController()
  const stall = (): NodeJS.Timeout => setTimeout(() => controller.abort(), STALL_SECONDS * 1000)
  let timer = stall()
  const stop = (): void => clearTimeout(timer)
  const touch = (): void => {
    stop()
    timer = stall()
  }
  return { signal: controller.signal, touch, stop }
}

/** Fetches over HTTPS, from the last byte of an earlier call on. */
const byHttps = async (wheel: Wheel, { registry, say }: Fetching): Promise<Either<string, void>> => {
  const page = `${registry}/simple/${wheel.name}/`
  const partial = `${wheelFile(wheel)}.part`
  const { signal, touch, stop } = watchdog()
  const work = async (): Promise<Either<string, void>> => {
    const answer = await fetch(page, { signal, headers: { accept: LIST_TYPE } })
    if (!answer.ok) return E.left(`${page} answers ${answer.status}`)
    const list = decodedOr(listCodec, 'unexpected answer')(await answer.json())
    if (E.isLeft(list)) return E.left(`${page}: ${list.left}`)
    const file = list.right.files.find(({ hashes }) => hashes.sha256 === wheel.sha256)
    if (file === undefined) return E.left(`${page} has no file with the digest ${wheel.sha256}`)
    const from = bytesAt(partial) < wheel.bytes ? bytesAt(partial) : 0
    const body = await fetch(new URL(file.url, page), { signal, ...(from > 0 ? { headers: { range: `bytes=${from}-` } } : {}) })
    if (!body.ok || body.body === null) return E.left(`${file.url} answers ${body.status}`)
    const resumed = body.status === 206
    let done = resumed ? from : 0
    let saidTenths = Math.floor((10 * done) / wheel.bytes)
    const counted = new Transform({
      transform: (chunk: Uint8Array, _, give) => {
        touch()
        done += chunk.length
        const tenths = Math.floor((10 * done) / wheel.bytes)
        if (tenths > saidTenths) say(`  ${titleOf(wheel)}: ${10 * tenths} %`)
        saidTenths = Math.max(tenths, saidTenths)
        give(null, chunk)
      },
    })
    const into = createWriteStream(partial, { flags: resumed ? 'a' : 'w' })
    await pipeline(Readable.fromWeb(body.body as Parameters<typeof Readable.fromWeb>[0]), counted, into)
    renameSync(partial, wheelFile(wheel))
    return E.right(undefined)
  }
  const done = E.flatten(await tried(work))
  stop()
  return done
}

/** Removes a wheel with another digest, so that the next call fetches it again. */
const checked = async (wheel: Wheel): Promise<Either<string, void>> => {
  if ((await sha256Of(wheelFile(wheel))) === wheel.sha256) return E.right(undefined)
  rmSync(wheelFile(wheel))
  return E.left('its digest is wrong; it was removed')
}

const fetched = async (wheel: Wheel, how: Fetching): Promise<Either<string, void>> => {
  if (existsSync(wheelFile(wheel))) {
    const kept = await checked(wheel)
    if (E.isRight(kept)) return kept
  }
  const reasons: string[] = []
  for (const [name, get] of [
    ['pip', how.python === undefined ? undefined : () => byPip(wheel, how.python!)],
    [how.registry, () => byHttps(wheel, how)],
  ] as const) {
    if (get === undefined) continue
    const got = E.flatten(await tried(get))
    const right = E.isRight(got) ? E.flatten(await tried(() => checked(wheel))) : got
    if (E.isRight(right)) return right
    reasons.push(`${name}: ${right.left}`)
  }
  return E.left(reasons.join('; '))
}

// ---------------------------------------------------------------- its libraries

const IS_LIBRARY = /^nvidia\/[\w-]+\/lib\/[\w.-]+\.so[\w.]*$/

const opened = (file: string): Promise<ZipFile> =>
  new Promise((resolve, reject) => open(file, { lazyEntries: true }, (e, zip) => (e ? reject(e) : resolve(zip))))

const streamOf = (zip: ZipFile, entry: Entry): Promise<Readable> =>
  new Promise((resolve, reject) => zip.openReadStream(entry, (e, stream) => (e ? reject(e) : resolve(stream as Readable))))

const unpackEntry = async (zip: ZipFile, entry: Entry): Promise<void> => {
  if (!IS_LIBRARY.test(entry.fileName)) return
  const file = path.join(cudaFolder(), entry.fileName)
  mkdirSync(path.dirname(file), { recursive: true })
  await pipeline(await streamOf(zip, entry), createWriteStream(`${file}.part`, { mode: 0o755 }))
  renameSync(`${file}.part`, file)
}

const unpack = async (wheel: Wheel): Promise<void> => {
  const zip = await opened(wheelFile(wheel))
  await new Promise<void>((resolve, reject) => {
    zip.on('end', resolve)
    zip.on('error', reject)
    zip.on('entry', (entry: Entry) => unpackEntry(zip, entry).then(() => zip.readEntry(), reject))
    zip.readEntry()
  })
  writeFileSync(stampOf(wheel), `${wheel.sha256}\n`)
  rmSync(wheelFile(wheel))
}

// ---------------------------------------------------------------- all of them

/** Set-up's lock, which a dead holder loses. */
const { lock } = require(path.join(packageFolder(), 'scripts', 'setup', 'lock.js')) as {
  readonly lock: (file: string, onWait: (pid: string) => void) => Promise<() => void>
}

const roomFor = (wheels: readonly Wheel[]): Either<SpillwayError, void> => {
  const { diskBytes } = needOf(wheels)
  const { bavail, bsize } = statfsSync(cudaFolder())
  return bavail * bsize >= diskBytes
    ? E.right(undefined)
    : E.left(
        failed(
          `${cudaFolder()} has ${gb(bavail * bsize)} of free disk, and the libraries need ${gb(diskBytes)}: free some, or set XDG_CACHE_HOME to a folder on another disk`,
        ),
      )
}

/** Fetches and unpacks the missing wheels. */
export const fetchWheels = async (how: Fetching): Promise<Either<SpillwayError, void>> => {
  const folder = E.tryCatch(() => mkdirSync(cudaFolder(), { recursive: true }), wordsOf)
  if (E.isLeft(folder)) return E.left(failed(`${cudaFolder()} cannot be made: ${folder.left}`))
  const release = await lock(path.join(cudaFolder(), 'lock'), (pid) => how.say(`waiting for another set-up (process ${pid})`))
  try {
    const wheels = missingWheels(how.wheels)
    const space = roomFor(wheels)
    if (E.isLeft(space)) return space
    for (const wheel of wheels) {
      how.say(`fetching ${titleOf(wheel)} (${gb(wheel.bytes)})`)
      const got = await fetched(wheel, how)
      if (E.isLeft(got)) return E.left(failed(`cannot fetch ${titleOf(wheel)}: ${got.left}. The next call continues`))
      const unpacked = await tried(() => unpack(wheel))
      if (E.isLeft(unpacked)) return E.left(failed(`cannot unpack ${titleOf(wheel)}: ${unpacked.left}. The next call continues`))
    }
    return E.right(undefined)
  } finally {
    release()
  }
}
