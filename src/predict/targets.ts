// The targets of predictions. In: the data of a plan. Out: for each sample of a step its target, some rows at a time, the channels of a pixel side by
// side. Invariant: the numbers are those of the device's loss: files are read again, fed values are copied from the end of their step until they are
// dropped.
import * as E from 'fp-ts/Either'
import type { NativeSlots } from '../device/native'
import type { Bands } from '../data/bands'
import type { Feed, NativeBands, NativeFeed } from '../data/feed'
import type { DataSource } from '../data/source'
import { positionOf } from '../data/order'
import { ELEMENTS, elementsOf, type FedValue, type PlaceArray } from '../data/places'
import { orThrow } from '../errors/exceptions'
import type { ElementType, FileTensor } from '../files/samples'
import { readRange, withFile } from '../files/whole'
import { halfToNumber } from '../train/weights'

/** Rows [row, row + rows) of a sample's target. */
export type TargetRows = (row: number, rows: number) => ArrayLike<number>

export interface Targets {
  /** The data as they are to be run. */
  readonly data: DataSource
  readonly of: (step: number, b: number) => TargetRows
  /** Nobody asks for this step's any more. */
  readonly drop: (step: number) => void
}

/** Planes one after the other, of some rows, as pixels. */
const pixelwise = (planes: readonly ArrayLike<number>[]): ArrayLike<number> => {
  const [first] = planes
  if (planes.length === 1) return first!
  const out = new Float64Array(planes.length * first!.length)
  planes.forEach((plane, c) => {
    for (let p = 0, at = c; p < plane.length; p++, at += planes.length) out[at] = plane[p]!
  })
  return out
}

// ---------------------------------------------------------------- files

const BYTES: Readonly<Record<ElementType, number>> = { u8: 1, f16: 2, f32: 4, i32: 4, f64: 8, i64: 8 }
const NUMBERS: Readonly<Record<ElementType, (bytes: Uint8Array) => ArrayLike<number>>> = {
  u8: (b) => b,
  f16: (b) => Float32Array.from(new Uint16Array(b.buffer), halfToNumber),
  f32: (b) => new Float32Array(b.buffer),
  i32: (b) => new Int32Array(b.buffer),
  f64: (b) => new Float64Array(b.buffer),
  i64: (b) => Float64Array.from(new BigInt64Array(b.buffer), Number),
}

const numbersAt = (f: FileTensor, element: number, count: number): ArrayLike<number> => {
  const size = BYTES[f.type]
  const read = withFile('data', f.path, (fd) =>
    E.fromNullable('it ends before its last number')(readRange(fd, f.offset + element * size, count * size)),
  )
  return NUMBERS[f.type](orThrow(read))
}

const rowsIn = (f: FileTensor, sample: number, row: number, rows: number): ArrayLike<number> => {
  const [c, h, w] = f.shape
  const first = sample * c * h * w
  if (f.layout === 'NHWC') return numbersAt(f, first + row * w * c, rows * w * c)
  return pixelwise(Array.from({ length: c }, (_, channel) => numbersAt(f, first + (channel * h + row) * w, rows * w)))
}

const inFiles = (data: Extract<DataSource, { readonly kind: 'files' }>, { name, batch }: FedValue): Targets => {
  const list = data.files.get(name)!
  return {
    data,
    of: (step, b) => {
      const position = positionOf(step, batch, b)
      let [sample, i] = [data.order ? data.order.at(position).index : position, 0]
      while (sample >= list[i]!.samples) sample -= list[i++]!.samples
      return (row, rows) => rowsIn(list[i]!, sample, row, rows)
    },
    drop: () => {},
  }
}

// ---------------------------------------------------------------- what is fed

interface Kept {
  readonly numbers: PlaceArray
  readonly layout: NativeSlots['layout']
}

/** A feed whose targets are copied as they are read. */
const copyingBands = (feed: Feed, { name, batch, shape }: FedValue, keep: (step: number, kept: Kept) => void): Bands => {
  const bands = feed as Bands
  let made: NativeBands | undefined
  const [c, h, w] = shape
  const under = new Map<number, PlaceArray>()
  return {
    ...bands,
    places: async (step, last) => {
      made = await bands.places(step, last)
      return made
    },
    bring: async (requested) => {
      await bands.bring(requested)
      if (requested.name !== name) return
      const { data, shape: slots } = made!.arrays[name]!
      const most = slots[1]!
      const rows = Math.min(most, h - requested.band * most)
      const numbers = under.get(requested.step) ?? new ELEMENTS[made!.arrays[name]!.dtype](batch * c * h * w)
      under.set(requested.step, numbers)
      const from = requested.slot * most * w * c
      numbers.set(data.subarray(from, from + rows * w * c), (requested.b * h + requested.band * most) * w * c)
    },
    ended: (step) => {
      keep(step, { numbers: under.get(step)!, layout: 'NHWC' })
      under.delete(step)
      feed.ended(step)
    },
  }
}

/** A feed whose targets are copied when their step has ended, before their place is filled anew. */
const copying = (feed: Feed, value: FedValue, keep: (step: number, kept: Kept) => void): Feed => {
  if ('bring' in feed) return copyingBands(feed, value, keep)
  const whole = feed as Feed<NativeFeed>
  const { name } = value
  const each = value.batch * elementsOf(value)
  let made: NativeFeed | undefined
  return {
    ...whole,
    places: async (step, last) => {
      made = await whole.places(step, last)
      return made
    },
    ended: (step) => {
      const { slots, arrays } = made!
      const { data, layout } = arrays[name]!
      const from = (step % slots) * each
      keep(step, { numbers: data.slice(from, from + each), layout })
      feed.ended(step)
    },
  }
}

const inFeed = (data: Extract<DataSource, { readonly kind: 'fed' }>, value: FedValue): Targets => {
  const [c, h, w] = value.shape
  const each = elementsOf(value)
  const kept = new Map<number, Kept>()
  const open = (): Feed => copying(data.open(), value, (step, targets) => void kept.set(step, targets))
  return {
    data: { ...data, open },
    of: (step, b) => {
      const { numbers, layout } = kept.get(step)!
      const sample = numbers.subarray(b * each, (b + 1) * each)
      return (row, rows) =>
        layout === 'NHWC'
          ? sample.subarray(row * w * c, (row + rows) * w * c)
          : pixelwise(
              Array.from({ length: c }, (_, channel) => sample.subarray((channel * h + row) * w, (channel * h + row + rows) * w)),
            )
    },
    drop: (step) => void kept.delete(step),
  }
}

/** Targets of data whose samples have one. */
export const targetsOf = (data: DataSource, target: FedValue): Targets => {
  if (data.kind === 'synthetic') throw new Error('these data cannot be evaluated')
  return data.kind === 'files' ? inFiles(data, target) : inFeed(data, target)
}
