// Arrays in files as a source of regions: random changes of image files apply to them, too. In: the files with the samples. Out: a source of one's
// own. Invariant: only the rows and columns of a region are read; numbers equal those of the device's runtime for the same file. Worked example: of
// [N,H,W,C] bytes, a region over all columns is one range of the file; of [N,C,H,W] one for each channel.
import * as E from 'fp-ts/Either'
import { orThrow } from '../errors/exceptions'
import { type DataFiles, ELEMENT_BYTES, type ElementType, type FileTensor } from '../files/samples'
import { readRange, withFile } from '../files/whole'
import type { Region, Sample, SampleValue } from './data'

/** IEEE half precision. */
const halfOf = (bits: number): number => {
  const [sign, exponent, mantissa] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023]
  if (exponent === 31) return mantissa ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (mantissa + 1024) * 2 ** (exponent - 25))
}

export const numbersOf = (type: ElementType, bytes: Uint8Array<ArrayBuffer>): Exclude<SampleValue, number> => {
  const { buffer } = bytes
  switch (type) {
    case 'u8':
      return bytes
    case 'f16':
      return Float32Array.from(new Uint16Array(buffer), halfOf)
    case 'f32':
      return new Float32Array(buffer)
    case 'f64':
      return new Float64Array(buffer)
    case 'i32':
      return new Int32Array(buffer)
    case 'i64':
      return Float64Array.from(new BigInt64Array(buffer), Number)
  }
}

/** A piece of the file, and its place in the result. */
type Piece = readonly [from: number, elements: number]

/** The pieces of a sample's region, in its file's order: planes of rows, or rows of pixels. */
const piecesOf = ({ shape: [c, h, w], layout }: FileTensor, { top, left, height, width }: Region): readonly Piece[] => {
  const [planes, depth] = layout === 'NCHW' ? [c, 1] : [1, c]
  const isWide = width === w
  const rows = isWide ? 1 : height
  return Array.from({ length: planes * rows }, (_, i): Piece => {
    const row = Math.floor(i / rows) * h + top + (i % rows)
    return [(row * w + left) * depth, (isWide ? height : 1) * width * depth]
  })
}

const regionIn = (f: FileTensor, sample: number, region: Region): Exclude<SampleValue, number> => {
  const element = ELEMENT_BYTES[f.type]
  const [c, h, w] = f.shape
  const out = new Uint8Array(c * region.height * region.width * element)
  orThrow(
    withFile('data', f.path, (fd) => {
      let at = 0
      for (const [from, elements] of piecesOf(f, region)) {
        const piece = readRange(fd, f.offset + (sample * c * h * w + from) * element, elements * element)
        if (!piece) return E.left('it ends before its last sample')
        out.set(piece, at)
        at += piece.length
      }
      return E.right(undefined)
    }),
  )
  return numbersOf(f.type, out)
}

/** The place of sample i: its file, and its number there. */
const placesIn = (list: readonly FileTensor[]): ((i: number) => readonly [FileTensor, number]) => {
  const ends: number[] = []
  for (const { samples } of list) ends.push((ends.at(-1) ?? 0) + samples)
  return (i) => {
    let [low, high] = [0, ends.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (ends[middle]! > i) high = middle
      else low = middle + 1
    }
    return [list[low]!, i - (low === 0 ? 0 : ends[low - 1]!)]
  }
}

/** The arguments of `source`: `keys` are names of samples' values for those of the model, the input first. */
export const arraysAsSource = (
  found: DataFiles,
  keys: readonly (readonly [name: string, key: string])[],
): {
  readonly length: number
  readonly size: (i: number) => readonly [number, number]
  readonly read: (i: number, region: Region) => Sample
  readonly nameOf: (i: number) => string
} => {
  const [input, ...targets] = keys.map(([name, key]) => [key, placesIn(found.get(name)!)] as const)
  const [key, imageAt] = input!
  const length = found.get(keys[0]![0])!.reduce((n, f) => n + f.samples, 0)
  const sizeOf = (i: number): readonly [number, number] => {
    const [, h, w] = imageAt(i)[0].shape
    return [h, w]
  }
  const read = (i: number, region: Region): Sample => {
    const [file, at] = imageAt(i)
    const [height, width] = sizeOf(i)
    const targetOf = ([f, sample]: readonly [FileTensor, number]): SampleValue => {
      const [, h, w] = f.shape
      return regionIn(f, sample, h === height && w === width ? region : { top: 0, left: 0, height: h, width: w })
    }
    return {
      [key]: regionIn(file, at, region),
      ...Object.fromEntries(targets.map(([name, placeOf]) => [name, targetOf(placeOf(i))])),
    }
  }
  const nameOf = (i: number): string => {
    const [{ path, samples }, at] = imageAt(i)
    return samples === 1 ? path : `sample ${at} of ${path}`
  }
  return { length, size: sizeOf, read, nameOf }
}
