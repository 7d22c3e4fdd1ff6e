// Building blocks of shape rules: the arithmetic of windows and the checks that many operators share.
// In: attributes and operand shapes. Out: Right shapes, or Left words that say what would be legal.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { elementsOf, sameShape } from '../core/box'
import { type AnyAttrs, type CallShapes, type Fields, type GradContext, type OpDef, type Shapes, shapeText } from './op'

type Shape = readonly number[]

export const legal = (...shapes: readonly Shape[]): Shapes => right(shapes)

/** The first complaint, or the shapes. Checks are functions so that later ones may rely on earlier ones. */
export const checked = (checks: readonly (() => string | undefined)[], shapes: () => Shapes): Shapes => {
  for (const check of checks) {
    const complaint = check()
    if (complaint !== undefined) return left(complaint)
  }
  return shapes()
}

export const expectShape = (name: string, got: Shape, want: Shape) => (): string | undefined =>
  sameShape(got, want) ? undefined : `${name} has shape ${shapeText(got)}; legal is ${shapeText(want)}`

export const expectRange =
  (name: string, got: number, lo: number, hi = Infinity) =>
  (): string | undefined =>
    got >= lo && got <= hi ? undefined : `${name} is ${got}; legal is ${hi === Infinity ? `${lo} or more` : `${lo} to ${hi}`}`

export const expectRank = (name: string, got: Shape, rank: number) => (): string | undefined =>
  got.length === rank ? undefined : `${name} has shape ${shapeText(got)}; legal are shapes of ${rank} dimensions`

/** Tensors [B,C,H,W] that agree in all but some dimension. */
export const agreeBut = (dim: number | undefined, shapes: readonly Shape[]) => (): string | undefined => {
  const odd = shapes.findIndex((s) => !s.every((d, i) => i === dim || d === shapes[0]![i]))
  if (odd < 0) return undefined
  const want = shapes[0]!.map((d, i) => (i === dim ? '*' : String(d)))
  return `input ${odd} has shape ${shapeText(shapes[odd]!)} and input 0 has ${shapeText(shapes[0]!)}; legal is [${want.join(',')}]`
}

/**
 * For a backward op whose result shape does not follow from its inputs: the result is given, and the forward rule run
 * on it must come to the gradient that is at hand.
 */
export const invertsForward = (forward: () => Shapes, gradient: Shape, given: readonly Shape[]): Shapes => {
  const s = forward()
  if (isLeft(s)) return s
  return checked([expectShape('the incoming gradient', gradient, s.right[0]!)], () => legal(...given))
}

// ---------------------------------------------------------------- gradients

/** The usual backward: one operator with the same attributes makes dx from dy, behind x or y where it reads one of them. */
export const gradientBy =
  (kind: string, reads?: 'x' | 'y') =>
  <F extends Fields>(g: GradContext<F>): void => {
    if (!g.wants(0)) return
    const x = g.ins[0]!
    const read = reads === undefined ? [] : [reads === 'x' ? x : g.outs[0]!]
    g.give(0, g.emit(kind, g.attrs, [...read, g.dOut(0)], [g.shape(x)])[0]!)
  }

// ---------------------------------------------------------------- windows

export interface Window {
  readonly kernel: number
  readonly stride: number
  readonly padLow: number
  readonly padHigh: number
  readonly dilation: number
  readonly ceil: boolean
}

export const reachOf = (w: Window): number => w.dilation * (w.kernel - 1) + 1

/** PyTorch's output extent; in ceil mode the last window must start inside the image or its low padding. */
export const windowOutput = (extent: number, w: Window): number => {
  const room = extent + w.padLow + w.padHigh - reachOf(w)
  if (!w.ceil) return Math.floor(room / w.stride) + 1
  const out = Math.ceil(room / w.stride) + 1
  return (out - 1) * w.stride >= extent + w.padLow ? out - 1 : out
}

/** Whether a window fits `dim` of this extent, in words when not. */
export const windowFits = (dim: string, extent: number, w: Window, maxPad: number): Either<string, number> => {
  const complaints = [
    expectRange(`kernel${dim}`, w.kernel, 1),
    expectRange(`stride${dim}`, w.stride, 1),
    expectRange(`dilation${dim}`, w.dilation, 1),
    expectRange(`low padding in ${dim}`, w.padLow, 0, maxPad),
    expectRange(`high padding in ${dim}`, w.padHigh, 0, maxPad),
  ]
    .map((check) => check())
    .filter((c) => c !== undefined)
  if (complaints.length > 0) return left(complaints[0]!)
  const padded = extent + w.padLow + w.padHigh
  if (padded >= reachOf(w)) return right(windowOutput(extent, w))
  const longest = Math.floor((padded - 1) / w.dilation) + 1
  return left(
    `a window of ${reachOf(w)} is larger than the padded ${dim} of ${padded}; legal are kernels of 1 to ${longest}` +
      ` or an image of ${reachOf(w) - w.padLow - w.padHigh} or more`,
  )
}

// ---------------------------------------------------------------- cost

export const elements = (s: Shape | undefined): number => (s ? elementsOf(s) : 0)
/** Cost of so many operations for each element of operand `pick`. */
export const perElement =
  (flops: number, pick: (s: CallShapes) => Shape | undefined) =>
  (_: AnyAttrs, s: CallShapes): number =>
    flops * elements(pick(s))
export const firstIn = (s: CallShapes): Shape | undefined => s.ins[0]
export const firstOut = (s: CallShapes): Shape | undefined => s.outs[0]

/** Kernels that reduce give each thread partial sums; nothing here has more threads than this. */
const THREADS = 64
export const partialSums =
  (perChannel: number): NonNullable<OpDef['workspace']> =>
  (_, s) =>
    THREADS * perChannel * 8 * (s.ins[0]?.[1] ?? 1)
