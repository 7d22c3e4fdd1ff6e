// OME-Zarr images (0.4 and 0.5) as slides. In: a folder, from its metadata alone the pyramid; then a rectangle of a level. Out: the levels, finest first;
// the numbers of the rectangle, channels last. Invariant: metadata are untrusted: paths stay in the folder, sizes have limits; a rectangle decodes the
// chunks that it touches, and no others.
import { readFileSync } from 'node:fs'
import { type FileHandle, open as openFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { mapped } from '../../../staging/core/mapped'
import { SpillwayException, usage } from '../../errors/errors'
import { statAt } from '../../files/whole'
import type { Region } from '../data'
import type { Level, Pyramid, ZarrArray } from './tiff'

/** Returns true for a folder with the name of an OME-Zarr image. */
export const isZarr = (path: string): boolean => /\.zarr\/?$/i.test(path) && (statAt(path)?.isDirectory() ?? false)

const MOST_METADATA = 4 * 2 ** 20
const MOST_LEVELS = 64
const MOST_SIDE = 2 ** 30
const MOST_CHUNK_MIB = 256
const PER_MIB = 2 ** 20

/** A fault of the metadata, in words. */
class Fault extends Error {}
const refuse = (reason: string): never => {
  throw new Fault(reason)
}

type Json = Readonly<Record<string, unknown>>
const asObject = (u: unknown, what: string): Json =>
  typeof u === 'object' && u !== null && !Array.isArray(u) ? (u as Json) : refuse(`${what} is not an object`)
const asList = (u: unknown, what: string): readonly unknown[] => (Array.isArray(u) ? u : refuse(`${what} is not a list`))
const asSizes = (u: unknown, what: string): readonly number[] => {
  const sizes = asList(u, what)
  const isSize = (n: unknown): boolean => Number.isSafeInteger(n) && Number(n) >= 1 && Number(n) <= MOST_SIDE
  return sizes.every(isSize) ? (sizes as readonly number[]) : refuse(`${what} is [${sizes.join(', ')}]; allowed: whole numbers`)
}

const readJson = (folder: string, name: string): Json | undefined => {
  const file = join(folder, name)
  const bytes = statAt(file)?.size
  if (bytes === undefined) return undefined
  if (bytes > MOST_METADATA) return refuse(`${name} has ${bytes} bytes; allowed: ${MOST_METADATA}`)
  try {
    return asObject(JSON.parse(readFileSync(file, 'utf8')), name)
  } catch (e) {
    return e instanceof Fault ? refuse(e.message) : refuse(`${name} is not JSON`)
  }
}

interface ArrayFacts {
  readonly shape: readonly number[]
  readonly chunks: readonly number[]
  readonly bits: number
  readonly chunkBytes: number
  readonly compression: string
}

const BITS: Readonly<Record<string, number>> = { '|u1': 8, uint8: 8, '<u2': 16, '>u2': 16, uint16: 16, float32: 32 }

interface Chunks {
  readonly sizes: unknown
  readonly compression: string
}

/** Codecs that change the order of bytes only. */
const PLAIN: readonly unknown[] = ['bytes', 'transpose']

/** The chunks in a shard, or the whole chunks. */
const newerChunks = (facts: Json): Chunks => {
  const grid = asObject(asObject(facts['chunk_grid'], 'chunk_grid')['configuration'], 'the configuration of chunk_grid')
  const codecs = asList(facts['codecs'] ?? [], 'codecs').map((c) => asObject(c, 'a codec'))
  const shards = codecs.find((c) => c['name'] === 'sharding_indexed')
  if (shards)
    return { sizes: asObject(shards['configuration'], 'the configuration of the shards')['chunk_shape'], compression: 'shards' }
  const compressor = codecs.find((c) => !PLAIN.includes(c['name']))
  return { sizes: grid['chunk_shape'], compression: String(compressor?.['name'] ?? 'none') }
}
const olderChunks = (facts: Json): Chunks => {
  const { compressor } = facts
  const id = compressor === null || compressor === undefined ? 'none' : asObject(compressor, 'compressor')['id']
  return { sizes: facts['chunks'], compression: String(id) }
}

const factsOf = (folder: string): ArrayFacts => {
  const newer = readJson(folder, 'zarr.json')
  const facts = newer ?? readJson(folder, '.zarray') ?? refuse('it has neither zarr.json nor .zarray')
  const kind = String(newer ? facts['data_type'] : facts['dtype'])
  const shape = asSizes(facts['shape'], 'shape')
  const { sizes, compression } = newer ? newerChunks(facts) : olderChunks(facts)
  const chunks = asSizes(sizes, 'the size of a chunk')
  if (chunks.length !== shape.length) refuse(`a chunk has ${chunks.length} dimensions, the array ${shape.length}`)
  const bits = BITS[kind] ?? refuse(`its numbers are ${kind}; allowed: uint8, uint16 and float32`)
  const chunkBytes = chunks.reduce((n, side) => n * side, bits / 8)
  if (chunkBytes > MOST_CHUNK_MIB * PER_MIB)
    refuse(`a chunk has ${Math.round(chunkBytes / PER_MIB)} MiB; allowed: at most ${MOST_CHUNK_MIB}`)
  return { shape, chunks, bits, chunkBytes, compression }
}

const LENGTHS: Readonly<Record<string, number>> = { nanometer: 1e-3, micrometer: 1, millimeter: 1e3, centimeter: 1e4, meter: 1e6 }

/** Microns per pixel across, if the axis has a unit of length. */
const micronsOf = (dataset: Json, axes: readonly Json[]): number | undefined => {
  const at = axes.findIndex((a) => a['name'] === 'x')
  const transformations = asList(dataset['coordinateTransformations'] ?? [], 'coordinateTransformations')
  const scale = transformations.map((t) => asObject(t, 'a transformation')).find((t) => t['type'] === 'scale')?.['scale']
  const pixels = Array.isArray(scale) ? Number(scale[at]) : Number.NaN
  const microns = pixels * (LENGTHS[String(axes[at]?.['unit'])] ?? Number.NaN)
  return microns > 0 && microns < Infinity ? microns : undefined
}

const levelOf = (root: string, axes: readonly Json[], dataset: Json, page: number): Level => {
  const path = String(dataset['path'])
  if (path.split('/').some((part) => part === '' || part === '..' || part === '.'))
    return refuse(`the path of level ${page} is '${path}'; allowed: a folder inside it`)
  const names = axes.map((a) => String(a['name'])).join('')
  const folder = join(root, path)
  const { shape, chunks, bits, ...stored } = factsOf(folder)
  if (shape.length !== names.length) refuse(`level ${page} has ${shape.length} dimensions for the axes ${names}`)
  const side = (sizes: readonly number[], axis: string): number => (names.includes(axis) ? sizes[names.indexOf(axis)]! : 1)
  for (const [axis, what] of [
    ['t', 'times'],
    ['z', 'slices'],
  ] as const)
    if (side(shape, axis) !== 1) refuse(`it has ${side(shape, axis)} ${what}; allowed: one image`)
  const channels = side(shape, 'c')
  const microns = micronsOf(dataset, axes)
  return {
    page,
    array: { folder, axes: names, ...stored },
    ...{ width: side(shape, 'x'), height: side(shape, 'y'), channels, bits },
    ...{ hasOpacity: false, isColour: channels === 3, isTiled: true },
    tile: { width: side(chunks, 'x'), height: side(chunks, 'y') },
    ...(microns === undefined ? {} : { microns }),
  }
}

/** The levels of an image, from its metadata. */
export const zarrPyramid = (root: string): Either<string, Pyramid> => {
  try {
    const newer = readJson(root, 'zarr.json')
    const attributes = newer
      ? asObject(asObject(newer['attributes'] ?? {}, 'attributes')['ome'] ?? {}, 'ome')
      : (readJson(root, '.zattrs') ?? {})
    const [image] = asList(attributes['multiscales'] ?? [], 'multiscales')
    if (image === undefined) return E.left('it has no multiscales: it is not an OME-Zarr image')
    const facts = asObject(image, 'multiscales')
    const axes = asList(facts['axes'] ?? [], 'axes').map((a) => asObject(a, 'an axis'))
    const names = axes.map((a) => String(a['name'])).join('')
    if (!/^t?c?z?yx$/.test(names))
      return E.left(`its axes are '${names}'; allowed: y and x, after any of t, c and z in this order`)
    const datasets = asList(facts['datasets'] ?? [], 'datasets').map((d) => asObject(d, 'a dataset'))
    if (datasets.length < 1 || datasets.length > MOST_LEVELS)
      return E.left(`it has ${datasets.length} levels; allowed: 1 to ${MOST_LEVELS}`)
    return E.right({ levels: datasets.map((d, page) => levelOf(root, axes, d, page)), description: String(facts['name'] ?? '') })
  } catch (e) {
    if (e instanceof Fault) return E.left(e.message)
    throw e
  }
}

// ---------------------------------------------------------------- regions

/** The files of an array, for the package zarrita. */
interface Store {
  readonly get: (key: string) => Promise<Uint8Array | undefined>
  readonly getRange: (key: string, range: ByteRange) => Promise<Uint8Array | undefined>
}
type ByteRange = { readonly offset: number; readonly length: number } | { readonly suffixLength: number }

/** The used part of that package. */
interface Zarrita {
  readonly open: (store: Store, o: { readonly kind: 'array' }) => Promise<unknown>
  readonly get: (
    array: unknown,
    selection: readonly unknown[],
  ) => Promise<{ readonly data: Uint8Array | Uint16Array | Float32Array }>
  readonly slice: (from: number, to: number) => unknown
}
const PACKAGE: string = 'zarrita'

let loaded: Promise<Zarrita> | undefined
const zarrita = (): Promise<Zarrita> => {
  loaded ??= import(PACKAGE).catch(() => {
    throw new SpillwayException(usage('reading OME-Zarr images needs the package zarrita: npm install zarrita'))
  }) as Promise<Zarrita>
  return loaded
}

/** A file; undefined if there is none: its chunk holds the fill value. */
const fileOf = async <A>(folder: string, key: string, read: (file: FileHandle) => Promise<A>): Promise<A | undefined> => {
  try {
    const file = await openFile(join(folder, key))
    return await read(file).finally(() => file.close())
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw e
  }
}

/** Blosc's header: 16 bytes, with the decoded bytes from byte 4 on, and the bytes of all from byte 12 on. */
const BLOSC = { header: 16, decoded: 4, stored: 12 }

/** The decoders do not compare the sizes of a chunk. */
const checked = (bytes: Buffer, { compression, chunkBytes }: ZarrArray): Buffer => {
  const isBlosc = compression === 'blosc'
  if (isBlosc && bytes.length < BLOSC.header) throw new Error(`a chunk has ${bytes.length} bytes, less than its header`)
  const [stored, decoded] = isBlosc
    ? [bytes.readUInt32LE(BLOSC.stored), bytes.readUInt32LE(BLOSC.decoded)]
    : [bytes.length, compression === 'none' ? bytes.length : chunkBytes]
  if (stored !== bytes.length) throw new Error(`a chunk has ${bytes.length} bytes, its header states ${stored}`)
  if (decoded !== chunkBytes) throw new Error(`a chunk has ${decoded} decoded bytes, not ${chunkBytes}`)
  return bytes
}

const isMetadata = (key: string): boolean => /\/(zarr\.json|\.z\w+)$/.test(key)

const storeOf = (array: ZarrArray): Store => ({
  get: (key) =>
    fileOf(array.folder, key, async (file) => {
      const bytes = await file.readFile()
      return isMetadata(key) ? bytes : checked(bytes, array)
    }),
  getRange: (key, range) =>
    fileOf(array.folder, key, async (file) => {
      const { size } = await file.stat()
      const offset = 'offset' in range ? range.offset : Math.max(0, size - range.suffixLength)
      const length = 'offset' in range ? range.length : size - offset
      if (offset + length > size) throw new Error(`bytes ${offset} to ${offset + length} of ${size} are not there`)
      const { buffer } = await file.read(Buffer.alloc(length), 0, length, offset)
      return buffer
    }),
})

/** By level of an opened slide: a folder may be replaced by another image. */
const arrays = new WeakMap<ZarrArray, Promise<unknown>>()
const opened = ({ open }: Zarrita, array: ZarrArray): Promise<unknown> => {
  const there = arrays.get(array) ?? open(storeOf(array), { kind: 'array' })
  arrays.set(array, there)
  return there
}

/** The numbers of a rectangle of a level, channels last. */
export const zarrRegion = async (
  array: ZarrArray,
  channels: number,
  { top, left, height, width }: Region,
): Promise<Uint8Array | Uint16Array | Float32Array> => {
  const reader = await zarrita()
  const { get, slice } = reader
  // All channels; the first time and slice.
  const along: Readonly<Record<string, unknown>> = {
    t: 0,
    c: null,
    z: 0,
    y: slice(top, top + height),
    x: slice(left, left + width),
  }
  const { data } = await get(
    await opened(reader, array),
    mapped([...array.axes], (axis) => along[axis]),
  )
  if (data.length !== channels * height * width)
    throw new Error(`it has ${data.length} numbers, not ${channels} x ${height} x ${width}`)
  if (channels === 1) return data
  const out = data.slice()
  const plane = height * width
  for (let c = 0, from = 0; c < channels; c++) for (let i = 0; i < plane; i++) out[i * channels + c] = data[from++]!
  return out
}
