// Batches ahead of the steps that take them. In: a reader of samples, their order, the fed values. Out: places that the device reads, and
// word of each step whose batch is there. Invariant: a place is written only once the step that it held has ended, so memory is bounded:
// of each value, one batch for the step at hand and `prefetch` more. Worked example, prefetch 2: steps 1, 2, 3 are filled; step 4's batch
// takes step 1's place when that has ended.
import type { NativeSlots, NativeSource } from '../device/native'
import { ALL, type Order, positionOf, type Share } from './order'
import { arrayFor, type FedValue, type PlaceArray, type PlaceType } from './places'
import type { Reader } from './readers'

export interface FeedOptions {
  readonly reader: Reader
  readonly order: Order
  readonly values: readonly FedValue[]
  /** The read part of each batch; default: all. */
  readonly share?: Share | undefined
  /** How many batches are made ahead. */
  readonly prefetch: number
  /** How a value's numbers are meant. */
  readonly numbers: (value: FedValue, type: PlaceType) => Pick<NativeSlots, 'layout' | 'scale' | 'shift'>
}

export interface NativeFeed {
  readonly kind: 'slots'
  readonly slots: number
  readonly arrays: Readonly<Record<string, NativeSlots>>
}

/** Slots of bands that the device asks for. */
export type NativeBands = Extract<NativeSource, { readonly kind: 'bands' }>

/** The receiver of batches and errors, for runs of steps. */
export interface Taker {
  readonly put: (step: number) => void
  readonly fail: (error: unknown) => void
}

export interface Feed<Native extends NativeFeed | NativeBands = NativeFeed | NativeBands> {
  /** The device's feed; batches are made from this step on, none after `last`. A second call continues. */
  readonly places: (step: number, last: number) => Promise<Native>
  readonly begin: (taker: Taker) => void
  /** The step's place is free. */
  readonly ended: (step: number) => void
  /** Bytes of all places, and of a region that is being read. */
  readonly bytes: () => number
  /** Nobody takes any more. */
  readonly close: () => void
}

const NOBODY: Taker = { put: () => {}, fail: () => {} }

export const openFeed = ({ reader, order, values, share = ALL, prefetch, numbers }: FeedOptions): Feed<NativeFeed> => {
  const slots = prefetch + 1
  const batch = values[0]!.batch
  let made: { readonly arrays: readonly PlaceArray[]; readonly native: NativeFeed } | undefined
  let taker = NOBODY
  let failure: { readonly error: unknown } | undefined
  let filled = 0
  let over = 0
  let isClosed = false
  let { inTurn } = reader
  let wake: () => void = () => {}

  const fill = async (step: number, arrays: readonly PlaceArray[]): Promise<void> => {
    const one = (b: number): Promise<void> => {
      const position = positionOf(step, batch, b, share)
      return reader.read(order.at(position), position, arrays, (step % slots) * batch + b)
    }
    if (!inTurn) await Promise.all(Array.from({ length: batch }, (_, b) => one(b)))
    // Samples of one memory are read again, one after the other, and so are all later ones.
    const isShared = reader.shared?.() ?? false
    if (!inTurn && !isShared) return
    inTurn = true
    for (let b = 0; b < batch; b++) await one(b)
  }

  const work = async (first: number, last: number, arrays: readonly PlaceArray[]): Promise<void> => {
    try {
      for (let step = first; step <= last; step++) {
        while (!isClosed && step - slots > over) await new Promise<void>((resolve) => (wake = resolve))
        if (isClosed) return
        await fill(step, arrays)
        filled = step
        if (!isClosed) taker.put(step)
      }
    } catch (error) {
      failure = { error }
      if (!isClosed) taker.fail(error)
    }
  }

  return {
    places: async (step, last) => {
      if (made) return made.native
      const position = positionOf(step, batch, 0, share)
      const types = await reader.types(order.at(position), position)
      const arrays = values.map((v, i) => arrayFor(v, types[i]!, slots))
      const one = (v: FedValue, i: number): NativeSlots => ({
        data: arrays[i]!,
        dtype: types[i]!,
        shape: [slots * batch, ...placeShape(v, numbers(v, types[i]!).layout)],
        ...numbers(v, types[i]!),
      })
      made = { arrays, native: { kind: 'slots', slots, arrays: Object.fromEntries(values.map((v, i) => [v.name, one(v, i)])) } }
      over = step - 1
      filled = step - 1
      void work(step, last, arrays)
      return made.native
    },
    begin: (to) => {
      taker = to
      if (failure) taker.fail(failure.error)
      else taker.put(filled)
    },
    ended: (step) => {
      over = Math.max(over, step)
      wake()
    },
    bytes: () => (made ? made.arrays.reduce((n, a) => n + a.byteLength, 0) : 0),
    close: () => {
      isClosed = true
      taker = NOBODY
      wake()
      reader.close()
    },
  }
}

const placeShape = ({ shape: [c, h, w] }: FedValue, layout: 'NCHW' | 'NHWC' = 'NCHW'): readonly number[] =>
  layout === 'NCHW' ? [c, h, w] : [h, w, c]
