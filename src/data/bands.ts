// Images of a source of one's own for predictions, a band of rows at a time, when the device asks for it. In: the source, its images, the model's
// input. Out: a place that the device reads, and the filling of it. Invariant: the host holds one band and the next one, for images of any size; each
// band is requested at each read of the plan. Worked example: images of 100 x 50, bands of 40 rows: band 4 is rows 40 to 79 of the second image.
import type { NativeSlots, NativeSource } from '../device/native'
import { channelsLast } from './augmented'
import type { Numbers, Region, Sample, SampleValue } from './data'
import type { Size } from './decode'
import { arrayOn, dataRefused, ELEMENTS, type FedValue, type PlaceArray, type PlaceType, typeFor, valueProblem } from './places'
import { type Own, regionName } from './readers'

/** The most bytes of one band, with numbers of four bytes; it has at least one row. */
const BAND_BYTES = 16 * 2 ** 20

export type NativeBands = Extract<NativeSource, { readonly kind: 'bands' }>

export interface Bands {
  /** The device's feed. */
  readonly places: () => Promise<NativeBands>
  /** This band is in its place then. */
  readonly bring: (band: number) => Promise<void>
}

export interface BandsOf {
  readonly set: Own
  /** Which images, in their order. */
  readonly images: Uint32Array | readonly number[]
  readonly input: FedValue
  /** Size of the image of a place; the rest of the input is filled. */
  readonly sizeOf: (place: number) => Size
  /** Value of each channel of the filled pixels, as shares where the image has bytes. */
  readonly fill: readonly number[]
  /** How its numbers are meant. */
  readonly numbers: (value: FedValue, type: PlaceType) => Pick<NativeSlots, 'scale' | 'shift'>
}

/** The input of a sample that may have targets, too. */
const inputIn = (sample: Sample, { key }: FedValue, name: string): SampleValue => {
  if (typeof sample !== 'object' || sample === null || sample[key] === undefined)
    throw dataRefused(name, `a sample must be { ${key} }; '${key}' is missing`)
  return sample[key]
}

export const openBands = ({ set, images, input, numbers, sizeOf, fill }: BandsOf): Bands => {
  const [channels, height, width] = input.shape
  const rows = set.size === undefined ? height : Math.min(height, Math.max(1, Math.floor(BAND_BYTES / (4 * width * channels))))
  const each = Math.ceil(height / rows)
  const layout: NonNullable<Numbers['layout']> = set.layout ?? 'NCHW'
  let ahead: { readonly band: number; readonly given: Promise<SampleValue> } | undefined
  let made: { readonly array: PlaceArray; readonly type: PlaceType } | undefined

  /** The part of a band that the image has; of height 0, if the band is padding. */
  const regionOf = (band: number): Region => {
    const [top, image] = [(band % each) * rows, sizeOf(Math.floor(band / each))]
    return { top, left: 0, height: Math.max(0, Math.min(rows, image.height - top)), width: image.width }
  }
  const imageOf = (band: number): number => images[Math.floor(band / each)]!
  const read = async (band: number): Promise<SampleValue> => {
    const [image, region] = [imageOf(band), regionOf(band)]
    if (region.height === 0) return []
    const name = regionName(set, image, region)
    const given = inputIn(await set.read(image, region), input, name)
    const part: FedValue = { ...input, shape: [channels, region.height, region.width] }
    const problem = valueProblem(part, given)
    if (problem !== undefined) throw dataRefused(name, `${input.key}: ${problem}`)
    return channelsLast(typeof given === 'number' ? [given] : given, part, layout)
  }
  const taken = (band: number): Promise<SampleValue> => {
    const given = ahead?.band === band ? ahead.given : read(band)
    ahead = undefined
    return given
  }
  const begun = (band: number): void => {
    const given = read(band)
    // The receiver gets the error.
    given.catch(() => {})
    ahead = { band, given }
  }

  /** The rows of the image in their place, and the fill around them. */
  const paddedBand = (array: PlaceArray, given: ArrayLike<number>, region: Region): void => {
    const numbers = made!.type === 'u8' ? fill.map((f) => Math.round(255 * f)) : fill
    for (let i = 0; i < array.length; i++) array[i] = numbers[i % channels]!
    const row = region.width * channels
    for (let y = 0; y < region.height; y++) for (let i = 0; i < row; i++) array[y * width * channels + i] = given[y * row + i]!
  }

  return {
    places: async () => {
      begun(0)
      const type = made?.type ?? typeFor(input, await ahead!.given)
      const length = rows * width * channels
      const array = made?.array ?? arrayOn(type, new SharedArrayBuffer(length * ELEMENTS[type].BYTES_PER_ELEMENT))
      made = { array, type }
      const place: NativeSlots = {
        data: array,
        dtype: type,
        shape: [1, rows, width, channels],
        layout: 'NHWC',
        ...numbers(input, type),
      }
      return { kind: 'bands', samples: images.length, arrays: { [input.name]: place } }
    },
    bring: async (band) => {
      const given = await taken(band)
      const { array, type } = made!
      const region = regionOf(band)
      if (region.height > 0 && (typeFor(input, given) === 'u8') !== (type === 'u8'))
        throw dataRefused(
          regionName(set, imageOf(band), regionOf(band)),
          `${input.key}: the first region has ${type === 'u8' ? 'bytes' : 'numbers of another type than bytes'}, but this one does not: use one array type for all regions`,
        )
      const isWhole = region.width === width && region.top + region.height === Math.min(height, region.top + rows)
      if (isWhole) array.set(given as ArrayLike<number>)
      else paddedBand(array, given as ArrayLike<number>, region)
      if (band + 1 < images.length * each) begun(band + 1)
    },
  }
}
