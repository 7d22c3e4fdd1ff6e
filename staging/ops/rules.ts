// Building blocks of shape rules: the arithmetic of windows and the checks that many operators share. In: attributes and operand shapes. Out: shapes, or
// an error text with the allowed values.
import { chain, type Either, left, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { elementsOf, sameShape } from '../core/box'
import {
  type AnyAttrs,
  type CallShapes,
  type Fields,
  type GradContext,
  type OpDef,
  type Shapes,
  shapeText,
  type Sizes,
} from './op'

export const legal = (...shapes: readonly Sizes[]): Shapes => right(shapes)

/** Returns the first error of the checks, or the result. Checks are functions, so later ones may rely on earlier ones. */
export const checked = <A>(checks: readonly Check[], answer: () => Either<string, A>): Either<string, A> => {
  for (const check of checks) {
    const complaint = check()
    if (complaint !== undefined) return left(complaint)
  }
  return answer()
}
type Check = () => string | undefined

export const expectShape = (name: string, got: Sizes, want: Sizes) => (): string | undefined =>
  sameShape(got, want) ? undefined : `${name} has shape ${shapeText(got)}; allowed: ${shapeText(want)}`

export const expectRange =
  (name: string, got: number, lo: number, hi = Infinity) =>
  (): string | undefined =>
    got >= lo && got <= hi ? undefined : `${name} is ${got}; allowed: ${hi === Infinity ? `${lo} or more` : `${lo} to ${hi}`}`

export const expectRank = (name: string, got: Sizes, rank: number) => (): string | undefined =>
  got.length === rank ? undefined : `${name} has shape ${shapeText(got)}; allowed: shapes of ${rank} dimensions`

/** Checks that tensors [B,C,H,W] agree in all but one dimension. */
export const agreeBut = (dim: number | undefined, shapes: readonly Sizes[]) => (): string | undefined => {
  const odd = shapes.findIndex((s) => !s.every((d, i) => i === dim || d === shapes[0]![i]))
  if (odd < 0) return undefined
  const want = shapes[0]!.map((d, i) => (i === dim ? '*' : String(d)))
  return `input ${odd} has shape ${shapeText(shapes[odd]!)}, but input 0 has ${shapeText(shapes[0]!)}; allowed: [${want.join(',')}]`
}

/**
 * The shape rule of a backward op whose result shape does not follow from its inputs: the caller states the result's shape, and the
 * forward rule on it must return the shape of dy.
 */
export const invertsForward = (forward: () => Shapes, gradient: Sizes, given: readonly Sizes[]): Shapes =>
  pipe(
    forward(),
    chain(([y]) => checked([expectShape('the incoming gradient', gradient, y!)], () => legal(...given))),
  )

// ---------------------------------------------------------------- gradients

/** The common backward rule: one operator with the same attributes computes dx from dy, and from x or y if it reads one of them. */
export const gradientBy =
  (kind: string, reads?: 'x' | 'y') =>
  <F extends Fields>(g: GradContext<F>): void => {
    if (!g.needsGradient(0)) return
    const x = g.ins[0]!
    const read = reads === undefined ? [] : [reads === 'x' ? x : g.outs[0]!]
    g.addGradient(0, g.emit(kind, g.attrs, [...read, g.outputGradient(0)], [g.shape(x)])[0]!)
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
  const space = extent + w.padLow + w.padHigh - reachOf(w)
  if (!w.ceil) return Math.floor(space / w.stride) + 1
  const out = Math.ceil(space / w.stride) + 1
  return (out - 1) * w.stride >= extent + w.padLow ? out - 1 : out
}

/** The limits of strides and sizes of windows, with at most `mostPad` of padding on each side. */
export const windowChecks = (dim: string, w: Omit<Window, 'ceil'>, mostPad: number): readonly Check[] => [
  expectRange(`kernel${dim}`, w.kernel, 1),
  expectRange(`stride${dim}`, w.stride, 1),
  expectRange(`dilation${dim}`, w.dilation, 1),
  expectRange(`low padding in ${dim}`, w.padLow, 0, mostPad),
  expectRange(`high padding in ${dim}`, w.padHigh, 0, mostPad),
]

/** Returns the number of windows that fit in `dim` of this extent, or an error text if none fits. */
export const windowFits = (dim: string, extent: number, w: Window, mostPad: number): Either<string, number> =>
  checked([...windowChecks(dim, w, mostPad), holdsOne(dim, extent + w.padLow + w.padHigh, w)], () =>
    right(windowOutput(extent, w)),
  )

const holdsOne = (dim: string, padded: number, w: Window) => (): string | undefined =>
  padded >= reachOf(w)
    ? undefined
    : `a window of ${reachOf(w)} is larger than the padded ${dim} of ${padded}; allowed: kernels of 1 to ` +
      `${Math.floor((padded - 1) / w.dilation) + 1} or an image of ${reachOf(w) - w.padLow - w.padHigh} or more`

/** Returns the shape of a value with one pixel for each window along both axes, or an error text. */
export const windowsFit = (
  [b, , h, w]: Sizes,
  channels: number,
  [rows, columns]: readonly [Window, Window],
  mostPad: (w: Window) => number,
): Shapes =>
  pipe(
    windowFits('H', h!, rows, mostPad(rows)),
    chain((down) =>
      pipe(
        windowFits('W', w!, columns, mostPad(columns)),
        map((across) => [[b!, channels, down, across]]),
      ),
    ),
  )

// ---------------------------------------------------------------- cost

export const elements = (s: Sizes | undefined): number => (s ? elementsOf(s) : 0)
/** Returns the cost function of an op with a number of operations for each element of operand `pick`. */
export const perElement =
  (flops: number, pick: (s: CallShapes) => Sizes | undefined) =>
  (_: AnyAttrs, s: CallShapes): number =>
    flops * elements(pick(s))
export const firstIn = (s: CallShapes): Sizes | undefined => s.ins[0]
export const firstOut = (s: CallShapes): Sizes | undefined => s.outs[0]

/** The limit of threads in reducing kernels. Each thread has partial sums in scratch. */
const THREADS = 64
export const partialSums =
  (perChannel: number): NonNullable<OpDef['workspace']> =>
  (_, s) =>
    THREADS * perChannel * 8 * (s.ins[0]?.[1] ?? 1)
