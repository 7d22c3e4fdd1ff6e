// Pixels of an evaluation's output inside of the mask of a masked net. In: rows of an image. Out: their pixels inside, side by side. Invariant: the graph
// marks the pixels outside (dsl/masks.ts), with class -1 or a number below all others. Worked example, classes 2 -1 0 for labels 1 1 0: classes 2 0 for
// labels 1 0, in one row of two pixels.
import type { Graph, Op, ValueId } from '../../staging/graph/graph'
import { castKind } from '../../staging/ops/cast'
import { maskFill, maskLabels } from '../../staging/ops/maskpixels'
import { outputOf } from './batches'

/** Rows of an image: numbers of the output and of the target for each pixel. */
interface Pixels {
  readonly rows: number
  readonly width: number
  readonly channels: number
  readonly output: ArrayLike<number>
  readonly target: ArrayLike<number>
}

const HALVES = ['bf16', 'f16'] as const
const MARKING: readonly string[] = [maskLabels.kind, maskFill.kind]
/** Below all numbers of layers; in fp16 the mark is minus infinity. */
const MOST_OUTSIDE = -1e38

const TO_FLOATS: readonly string[] = HALVES.map((half) => castKind(half, 'float', 'value'))

/** Returns true for a plan that marks the pixels outside of a mask. In 16 bits, the marked value is cast to floats. */
export const isMarked = (graph: Graph): boolean => {
  const makerOf = (id: ValueId | undefined): Op | undefined => graph.ops.find((o) => id !== undefined && o.outs.includes(id))
  const last = makerOf(outputOf(graph)?.id)
  const marking = last && TO_FLOATS.includes(last.kind) ? makerOf(last.ins[0]) : last
  return marking !== undefined && MARKING.includes(marking.kind)
}

const isOutside = ({ output, channels }: Pixels, pixel: number): boolean =>
  output instanceof Int32Array ? output[pixel]! < 0 : output[pixel * channels]! < MOST_OUTSIDE

/** The pixels of a part inside, as one row; the part itself if all are. */
export const insideOf = <P extends Pixels>(part: P): P => {
  const { rows, width, channels, output, target } = part
  const pixels = rows * width
  const kept = new Uint32Array(pixels)
  let count = 0
  for (let i = 0; i < pixels; i++) if (!isOutside(part, i)) kept[count++] = i
  if (count === pixels) return part
  const take = <A extends Int32Array | Float64Array>(from: ArrayLike<number>, each: number, into: A): A => {
    for (let k = 0; k < count; k++) for (let c = 0; c < each; c++) into[k * each + c] = from[kept[k]! * each + c]!
    return into
  }
  const perTarget = target.length / pixels
  return {
    ...part,
    ...{ rows: 1, width: count },
    output: take(output, channels, new (output instanceof Int32Array ? Int32Array : Float64Array)(count * channels)),
    target: take(target, perTarget, new Float64Array(count * perTarget)),
  }
}

/** The same part, with this number at the pixels outside. */
export const withOutside = <P extends Pixels>(part: P, number: number): P => {
  const { rows, width, channels, output } = part
  const numbers = output instanceof Int32Array ? Int32Array.from(output) : Float64Array.from(output)
  for (let i = 0; i < rows * width; i++) if (isOutside(part, i)) numbers.fill(number, i * channels, (i + 1) * channels)
  return { ...part, output: numbers }
}
