// Samples in bands of rows, each read when the device asks for it. In: a source of regions, the fed values, the cut of each sample. Out: slots that
// the device reads, and the bands in them. Invariant: the host holds three bands of each value and one region, for images of any size; regions are
// read one after the other. Worked example: an input of 100 x 50, bands of 40 rows: band 2 is rows 80 to 99.
import { FEED_BAND_BYTES } from '../../staging/core/bytes'
import type { NativeProgress, NativeSlots } from '../device/native'
import { AUGMENTS } from './augment'
import { type Chance, channelsLast } from './augmented'
import type { Numbers, Region, Sample, SampleValue } from './data'
import type { Rectangle, Size } from './decode'
import type { Feed, NativeBands } from './feed'
import { sharesOf } from './mix'
import { type Part, partOf } from './parts'
import {
  arrayOn,
  dataRefused,
  ELEMENTS,
  elementsOf,
  type FedValue,
  type PlaceArray,
  type PlaceType,
  typeFor,
  valueProblem,
} from './places'
import { checked, type Own, regionName } from './readers'

/** Bands of each value in host memory: the one that the device reads, and the next two. */
const SLOTS = 3
/** Bands of a value in host memory, with the region that is read. */
export const BANDS_HELD = SLOTS + 1

export type AskedBand = Extract<NativeProgress, { readonly phase: 'ask' }>

/** A feed that reads bands on request. */
export interface Bands extends Feed {
  readonly places: (step: number, last: number) => Promise<NativeBands>
  /** The band is in its slot then. */
  readonly bring: (requested: AskedBand) => Promise<void>
  /** Reads a band of a later run, which asks for it again. */
  readonly expect: (asked: AskedBand) => void
}

/** A sample: an image, and its rectangle of the input's size, which may reach beyond the image. */
export interface Cut {
  readonly index: number
  readonly image: Size
  readonly rectangle: Rectangle
}

export interface BandsOf {
  readonly set: Own
  readonly values: readonly FedValue[]
  /** Sample b of a step. */
  readonly cutOf: (step: number, b: number) => Cut | Promise<Cut>
  /** For each channel of the input, the value of pixels outside the image: as shares where the image has bytes. */
  readonly fill: readonly number[]
  /** How a value's numbers are meant. */
  readonly numbers: (value: FedValue, type: PlaceType) => Pick<NativeSlots, 'scale' | 'shift'>
}

/** A value for the whole image, such as its class. */
const isOfImage = ({ isInput, shape: [, height, width] }: FedValue): boolean => !isInput && height * width === 1

/** Rows of a band: whole rows of the file's tiles, where these are known. */
export const bandRows = ({ tileRows = 1, bandBytes = FEED_BAND_BYTES, size }: Own, value: FedValue): number => {
  const [channels, height, width] = value.shape
  if (size === undefined || isOfImage(value)) return height
  const tiles = Math.max(1, Math.floor(bandBytes / (4 * tileRows * width * channels)))
  return Math.min(height, tileRows * tiles)
}

/** Returns true if samples are read in bands: they are larger than a band, and their pixels are those of the image. */
export const areBands = (set: Own, [input]: readonly FedValue[], { fit, augment }: Chance): boolean =>
  fit === 'crop' && AUGMENTS.every((a) => a === 'crop' || !augment[a]) && bandRows(set, input!) < input!.shape[1]

/** The label of pixels outside an image. */
const outsideOf = ({ labels }: FedValue): number => labels?.ignored ?? 0

const typeOf = (value: FedValue, given: SampleValue): PlaceType => {
  const type = typeFor(value, given)
  const outside = outsideOf(value)
  return type === 'u8' && value.labels && (outside < 0 || outside > 255) ? 'i32' : type
}

type Numbered = Exclude<SampleValue, number>

/** The input of a sample that may have targets, too. */
const inputIn = (sample: Sample, { key }: FedValue, name: string): SampleValue | undefined => {
  if (typeof sample !== 'object' || sample === null || sample[key] === undefined)
    throw dataRefused(name, `a sample must be { ${key} }; '${key}' is missing`)
  return sample[key]
}

/** Numbers that stay when the source uses its memory again. A Buffer's own `slice` copies nothing. */
const copied = (numbers: Numbered): Numbered =>
  Array.isArray(numbers) ? [...numbers] : (Uint8Array.prototype.slice.call(numbers) as Numbered)

/** Rows of a band that an image has: their rectangle in the image, and their place in the band. */
interface Rows {
  readonly region: Region
  readonly row: number
  readonly column: number
}

const rowsOf = ({ from, to }: Part, top: number, rows: number): Rows | undefined => {
  const first = Math.max(top, to.top)
  const height = Math.min(top + rows, to.top + to.height) - first
  const region = { top: from.top + first - to.top, left: from.left, height, width: from.width }
  return height > 0 ? { region, row: first - top, column: to.left } : undefined
}

interface Place {
  readonly array: PlaceArray
  readonly type: PlaceType
  readonly rows: number
}

/** Numbers of a region, channels last, and their place in the band. */
interface Given {
  readonly numbers: Numbered
  readonly rows: Rows
  readonly name: string
}

export const openBands = ({ set, values, cutOf, numbers, fill }: BandsOf): Bands => {
  const [input] = values as readonly [FedValue]
  const layout: NonNullable<Numbers['layout']> = set.layout ?? 'NCHW'
  const areAlone = values.every((v) => v.isInput)
  const early = new Map<string, Promise<Given | undefined>>()
  let places: ReadonlyMap<string, Place> | undefined
  let source: NativeBands | undefined
  let last: Promise<unknown> = Promise.resolve()
  let [regionBytes, isClosed] = [0, false]

  const regionIn = (value: FedValue, { image, rectangle }: Cut, band: number): Rows | undefined => {
    const [, height, width] = input.shape
    const part = partOf(rectangle, image, { height, width })!
    // One pixel is enough for a value of the whole image.
    if (isOfImage(value)) return { region: { top: part.from.top, left: part.from.left, height: 1, width: 1 }, row: 0, column: 0 }
    const rows = bandRows(set, value)
    return rowsOf(part, band * rows, Math.min(rows, height - band * rows))
  }

  const read = async (value: FedValue, step: number, b: number, band: number): Promise<Given | undefined> => {
    const cut = await cutOf(step, b)
    const rows = regionIn(value, cut, band)
    if (!rows) return undefined
    const name = regionName(set, cut.index, rows.region)
    const sample = await set.read(cut.index, { ...rows.region }, { key: value.key, outside: outsideOf(value) })
    const given = areAlone ? inputIn(sample, value, name) : checked(sample, { values, classes: set.classes }, name)[value.key]
    const { height, width } = rows.region
    const part: FedValue = isOfImage(value) ? value : { ...value, shape: [value.shape[0], height, width] }
    const list = typeof given === 'number' ? [given] : given
    if (part.shares && list && list.length * part.shares.classes === elementsOf(part))
      return { numbers: sharesOf(list, part.shares, name), rows, name }
    const problem = valueProblem(part, given)
    if (problem !== undefined) throw dataRefused(name, `${value.key}: ${problem}`)
    return { numbers: channelsLast(list!, part, layout), rows, name }
  }

  const readEarly = async (value: FedValue, step: number, b: number, band: number): Promise<Given | undefined> => {
    const given = await read(value, step, b, band)
    return given && { ...given, numbers: copied(given.numbers) }
  }

  /** Reads follow each other, so that one region is in memory, and a source may use its memory again. */
  const inTurn = <A>(next: () => Promise<A>): Promise<A> => {
    const mine = last.then(next)
    last = mine.catch(() => {})
    return mine
  }

  const keyOf = ({ name, step, b, band }: Pick<AskedBand, 'name' | 'step' | 'b' | 'band'>): string =>
    `${name} ${step} ${b} ${band}`
  const namedValue = (name: string): FedValue => values.find((v) => v.name === name)!

  const write = (
    value: FedValue,
    { array, type, rows: most }: Place,
    { slot, band }: AskedBand,
    given: Given | undefined,
  ): void => {
    const [channels, height, width] = value.shape
    const rows = Math.min(most, height - band * most)
    const first = slot * most * width * channels
    const into = array.subarray(first, first + rows * width * channels)
    if (given && (typeFor(value, given.numbers) === 'u8') !== (type === 'u8') && !(value.labels && type === 'i32'))
      throw dataRefused(
        given.name,
        `${value.key}: the first region has ${type === 'u8' ? 'bytes' : 'numbers of another type than bytes'}, but this one does not: use one array type for all regions`,
      )
    if (given && given.numbers.length === into.length) {
      into.set(given.numbers)
      return
    }
    const outside = value.isInput ? fill.map((f) => (type === 'u8' ? Math.round(255 * f) : f)) : [outsideOf(value)]
    for (let i = 0; i < into.length; i++) into[i] = outside[(i % channels) % outside.length]!
    if (!given) return
    const { region, row, column } = given.rows
    const length = region.width * channels
    for (let y = 0; y < region.height; y++) {
      const to = ((row + y) * width + column) * channels
      for (let i = 0; i < length; i++) into[to + i] = given.numbers[y * length + i]!
    }
  }

  /** The first band of a value with pixels of an image. */
  const firstOf = async (value: FedValue, step: number): Promise<Given> => {
    for (let band = 0; ; band++) {
      const given = await readEarly(value, step, 0, band)
      early.set(keyOf({ name: value.name, step, b: 0, band }), Promise.resolve(given))
      if (given) return given
    }
  }

  const placeOf = async (value: FedValue, step: number): Promise<Place> => {
    const type = typeOf(value, (await firstOf(value, step)).numbers)
    const rows = bandRows(set, value)
    const length = SLOTS * rows * value.shape[2] * value.shape[0]
    return { array: arrayOn(type, new SharedArrayBuffer(length * ELEMENTS[type].BYTES_PER_ELEMENT)), type, rows }
  }

  return {
    places: async (step, lastStep) => {
      if (source) return source
      const made = new Map<string, Place>()
      for (const value of values) made.set(value.name, await placeOf(value, step))
      places = made
      const arrays = values.map((value): readonly [string, NativeSlots] => {
        const { array, type, rows } = made.get(value.name)!
        const shape = [SLOTS, rows, value.shape[2], value.shape[0]]
        return [value.name, { data: array, dtype: type, shape, layout: 'NHWC', ...numbers(value, type) }]
      })
      source = { kind: 'bands', last: lastStep, arrays: Object.fromEntries(arrays) }
      return source
    },
    begin: () => {},
    ended: () => {},
    bring: (asked) =>
      inTurn(async () => {
        if (isClosed) return
        const { name, step, b, band } = asked
        const [value, key] = [namedValue(name), keyOf(asked)]
        const given = await (early.get(key) ?? read(value, step, b, band))
        early.delete(key)
        regionBytes = Math.max(regionBytes, (given?.numbers as { readonly byteLength?: number } | undefined)?.byteLength ?? 0)
        write(value, places!.get(name)!, asked, given)
      }),
    expect: (asked) => {
      const given = inTurn(() => readEarly(namedValue(asked.name), asked.step, asked.b, asked.band))
      // The receiver gets the error.
      given.catch(() => {})
      early.set(keyOf(asked), given)
    },
    bytes: () => [...(places?.values() ?? [])].reduce((n, { array }) => n + array.byteLength, regionBytes),
    close: () => {
      isClosed = true
      early.clear()
    },
  }
}
