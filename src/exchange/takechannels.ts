// Slices of channels, from ONNX nodes. In: Slice or Split, of an image. Out: a layer for each part. Invariant: parts keep all pixels.
// Worked example: Split of 64 channels in 32 and 32 is sliceChannels(0, 32) and sliceChannels(32, 32).
import * as E from 'fp-ts/Either'
import { channelShuffle, pixelShuffle, pixelUnshuffle, sliceChannels } from '../../dsl'
import { TENSOR_BYTES } from '../files/safetensors'
import { placesOf } from './folded'
import { positive, type Reading, refuse } from './reading'
import { sliceRows } from './takerolls'
import { sliceView, splitView } from './takeviews'
import { axesOfForm, isLast, sizeOf } from './views'

/** The axis of the channels, and the number of axes. */
const channelAxis = (r: Reading): readonly [number, number] => {
  const { step, form } = r.data(0)
  const rank = axesOfForm(form, r.shape(step)).length
  return [isLast(form) ? rank - 1 : 1, rank]
}

const taken = (r: Reading, from: number, count: number, output = 0): void => {
  const { step, form } = r.data(0)
  const whole = from === 0 && count === r.shape(step)[1]
  r.is({ tag: 'data', step: whole ? step : r.layer(sliceChannels(from, count), step), form }, output)
}

const numbersOf = (r: Reading, input: number, attribute: string): readonly number[] | undefined =>
  r.has(input) ? (r.numbers(input) ?? refuse(`its ${attribute} are computed`)).map(Number) : r.ints(attribute)

export const slice = (r: Reading): void => {
  if (sliceView(r) || sliceRows(r)) return
  const { step, form } = r.data(0)
  const [channels, rank] = channelAxis(r)
  const starts = numbersOf(r, 1, 'starts') ?? refuse('it has no starts')
  const ends = numbersOf(r, 2, 'ends') ?? refuse('it has no ends')
  const axes = numbersOf(r, 3, 'axes') ?? starts.map((_, i) => i)
  const steps = numbersOf(r, 4, 'steps') ?? starts.map(() => 1)
  const extents = axesOfForm(form, r.shape(step)).map((axis, i) => (i === 0 ? r.shape(step)[0] : sizeOf(axis)))
  let range: readonly [from: number, count: number] = [0, r.shape(step)[1]]
  for (const [i, a] of axes.entries()) {
    const axis = a < 0 ? a + rank : a
    const places = placesOf(starts[i]!, ends[i]!, steps[i] ?? 1, extents[axis] ?? 0)
    if (axis === channels && steps[i] === 1 && places.length > 0) range = [places[0]!, places.length]
    else if (steps[i] !== 1 || starts[i] !== 0 || places.length !== extents[axis])
      refuse(`it slices axis ${axis} in steps of ${steps[i]}; allowed: channels, in steps of 1`)
  }
  taken(r, ...range)
}

/** Parts of a weight along its last axis, each read when it is needed. */
const splitWeight = (r: Reading): boolean => {
  const s = r.symbol(0)
  if (s.tag !== 'weight' || s.weight.transposed) return false
  const { tensor, dims } = s.weight
  const last = dims.length - 1
  if (positive([r.int('axis', 0)], dims.length)[0] !== last) return refuse('it splits a weight; allowed: its last axis')
  const width = dims[last]! * TENSOR_BYTES[tensor.type]
  const sizes = numbersOf(r, 1, 'split') ?? Array<number>(r.outputs).fill(dims[last]! / r.outputs)
  let from = 0
  for (const [i, size] of sizes.entries()) {
    const [start, count] = [from * TENSOR_BYTES[tensor.type], size * TENSOR_BYTES[tensor.type]]
    const part = (bytes: Uint8Array): Uint8Array => {
      const rows = bytes.length / width
      const out = new Uint8Array(rows * count)
      for (let row = 0; row < rows; row++) out.set(bytes.subarray(row * width + start, row * width + start + count), row * count)
      return out
    }
    const own = [...dims.slice(0, last), size]
    r.is(
      {
        tag: 'weight',
        weight: { tensor: { ...tensor, dims: own, read: () => E.map(part)(tensor.read()) }, dims: own, transposed: false },
      },
      i,
    )
    from += size
  }
  return true
}

export const split = (r: Reading): void => {
  if (splitWeight(r) || splitView(r)) return
  const { step } = r.data(0)
  const [channels, rank] = channelAxis(r)
  if (positive([r.int('axis', 0)], rank)[0] !== channels) refuse(`it splits axis ${r.int('axis', 0)}; allowed: channels`)
  const all = r.shape(step)[1]
  const count = Math.ceil(all / r.outputs)
  const sizes =
    numbersOf(r, 1, 'split') ?? Array.from({ length: r.outputs }, (_, i) => Math.max(0, Math.min(count, all - i * count)))
  if (sizes.length !== r.outputs || sizes.reduce((n, s) => n + s, 0) !== all)
    refuse(`it splits ${all} channels into [${sizes.join(',')}] for ${r.outputs} outputs`)
  let from = 0
  for (const [i, size] of sizes.entries()) {
    taken(r, from, size, i)
    from += size
  }
}

/** Channels as blocks of pixels. In the mode DCR, the channels of a block are a block's distance apart: a shuffle joins them. */
export const depthToSpace = (r: Reading): void => {
  const size = r.int('blocksize', 1)
  const image = r.image(0)
  const mode = r.text('mode', 'DCR')
  const from = mode === 'CRD' ? image : r.layer(channelShuffle(size ** 2), image)
  r.is({ tag: 'data', step: r.layer(pixelShuffle(size), from), form: 'image' })
}

export const spaceToDepth = (r: Reading): void => {
  const image = r.image(0)
  const [, c] = r.shape(image)
  const step = r.layer(pixelUnshuffle(r.int('blocksize', 1)), image)
  r.is({ tag: 'data', step: r.layer(channelShuffle(c), step), form: 'image' })
}
