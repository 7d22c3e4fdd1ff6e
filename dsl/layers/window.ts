// Arithmetic of sliding windows, twice over: as types and as functions, side by side so that they can be compared.
// In: input size, kernel, stride, padding, dilation. Out: output size, or 'misfit'.
// Worked example: 7 rows, kernel 3, stride 2, padding 1: room 7 + 2*1 - 3 = 6, and 6/2 + 1 = 4 rows.
import { type Extent, type Height, height, type Width, width } from '../net'
import { type SidePadding, type Sides, sidesOf } from './sides'
import type { Add, CeilDiv, Compare, Div, IsOdd, Mul, Sub } from '../numbers/naturals'

/**
 * Zero padding in pixels: of all sides, per side, or 'same', which keeps the size of the image at stride 1.
 *
 * @example
 * const pad: Padding = { top: 0, left: 1, bottom: 0, right: 1 }
 * conv2d('conv1', 64, 3, { pad })
 */
export type Padding = SidePadding | 'same'

type HeightPad<P extends Padding> = P extends 'same' ? 'same' : P extends Extent ? Height<P> : never
type WidthPad<P extends Padding> = P extends 'same' ? 'same' : P extends Extent ? Width<P> : never

// ---------------------------------------------------------------- output size, as types

/** Windows at every stride within `room`; a negative room holds none. */
type Positions<Room, S extends number> = Room extends number ? Add<Div<Room, S>, 1> : 'misfit'

type SameSize<H extends number, K extends number, S extends number, D extends number> = [IsOdd<K>, IsOdd<D>] extends [false, true]
  ? Positions<Sub<H, 2>, S>
  : CeilDiv<H, S>

type Room<H extends number, K extends number, P extends number, D extends number> = Sub<
  Add<H, Mul<2, P>>,
  Add<Mul<D, Sub<K, 1> & number>, 1>
>

type Slide<H extends number, K extends number, S extends number, P extends number | 'same', D extends number> = number extends
  | H
  | K
  | S
  | D
  | Exclude<P, 'same'>
  ? number
  : P extends number
    ? Positions<Room<H, K, P, D>, S>
    : SameSize<H, K, S, D>

/** The same for unequal sides: `Pads` is the sum of both. */
type SlideSides<H extends number, K extends number, S extends number, Pads extends number, D extends number> = number extends
  | H
  | K
  | S
  | D
  | Pads
  ? number
  : Positions<Sub<Add<H, Pads>, Add<Mul<D, Sub<K, 1> & number>, 1>>, S>

export type WindowHeight<
  H extends number,
  K extends Extent,
  S extends Extent,
  P extends Padding,
  D extends Extent = 1,
> = P extends Sides
  ? SlideSides<H, Height<K>, Height<S>, Add<P['top'], P['bottom']>, Height<D>>
  : Slide<H, Height<K>, Height<S>, HeightPad<P>, Height<D>>
export type WindowWidth<
  W extends number,
  K extends Extent,
  S extends Extent,
  P extends Padding,
  D extends Extent = 1,
> = P extends Sides
  ? SlideSides<W, Width<K>, Width<S>, Add<P['left'], P['right']>, Width<D>>
  : Slide<W, Width<K>, Width<S>, WidthPad<P>, Width<D>>

/** PyTorch's ceil mode: a last partial window counts when it starts inside the image or its left padding. */
type SlideCeil<H extends number, K extends number, S extends number, P extends number> = SlideCeilSides<H, K, S, P, P>
type SlideCeilSides<
  H extends number,
  K extends number,
  S extends number,
  Low extends number,
  High extends number,
> = number extends H | K | S | Low | High
  ? number
  : Sub<Add<H, Add<Low, High>>, K> extends infer R
    ? R extends number
      ? CeilDiv<R, S> extends infer N extends number
        ? Compare<Mul<N, S>, Add<H, Low>> extends 'less'
          ? Add<N, 1>
          : N
        : never
      : 'misfit'
    : never

export type PoolHeight<
  H extends number,
  K extends Extent,
  S extends Extent,
  P extends SidePadding,
  Ceil extends boolean,
> = Ceil extends true
  ? P extends Sides
    ? SlideCeilSides<H, Height<K>, Height<S>, P['top'], P['bottom']>
    : SlideCeil<H, Height<K>, Height<S>, HeightPad<P> & number>
  : WindowHeight<H, K, S, P>
export type PoolWidth<
  W extends number,
  K extends Extent,
  S extends Extent,
  P extends SidePadding,
  Ceil extends boolean,
> = Ceil extends true
  ? P extends Sides
    ? SlideCeilSides<W, Width<K>, Width<S>, P['left'], P['right']>
    : SlideCeil<W, Width<K>, Width<S>, WidthPad<P> & number>
  : WindowWidth<W, K, S, P>

// ---------------------------------------------------------------- the same, as functions

const samePad = (k: number, d: number): number => Math.floor((d * (k - 1)) / 2)

/** Padding in numbers. */
export const padOf = (pad: Padding, kernel: Extent, dilation: Extent = 1): Sides =>
  sidesOf(pad === 'same' ? [samePad(height(kernel), height(dilation)), samePad(width(kernel), width(dilation))] : pad)

export interface Window {
  readonly kernel: Extent
  readonly stride: Extent
  readonly pad: Padding
  readonly dilation?: Extent
}

/** Returns true if the padded image holds a window. */
export const windowFits = (w: Window, [, , h, wd]: readonly number[]): boolean => {
  const p = padOf(w.pad, w.kernel, w.dilation)
  const reach = (side: (e: Extent) => number): number => side(w.dilation ?? 1) * (side(w.kernel) - 1) + 1
  return h! + p.top + p.bottom >= reach(height) && wd! + p.left + p.right >= reach(width)
}

// ---------------------------------------------------------------- how a window is called in messages

export type ExtentText<E extends Extent> = `${Height<E>}x${Width<E>}`
export const extentText = <E extends Extent>(e: E): ExtentText<E> => `${height(e)}x${width(e)}` as ExtentText<E>
