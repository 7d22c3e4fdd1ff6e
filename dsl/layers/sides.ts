// Padding that may differ from side to side: one number, [height, width], or each side by name.
// In: such a padding, as a type and as a value. Out: its four sides, and how messages call them.
import { type OptionRefused, optionRefused, optionsFor, unknownKey } from '../../staging/core/options'
import { type Extent, type Height, height, type Width, width } from '../net'

/**
 * Padding of each side, in pixels.
 *
 * @example
 * const sides: Sides = { top: 0, left: 0, bottom: 1, right: 1 }
 * conv2d('conv1', 64, 3, { pad: sides })
 */
export interface Sides {
  /** Rows above the image. @example conv2d('conv1', 64, 3, { pad: { top: 1, left: 0, bottom: 1, right: 0 } }) */
  readonly top: number
  /** Columns left of the image. @example conv2d('conv1', 64, 3, { pad: { top: 0, left: 1, bottom: 0, right: 1 } }) */
  readonly left: number
  /** Rows below the image. @example conv2d('conv1', 64, 3, { pad: { top: 1, left: 0, bottom: 1, right: 0 } }) */
  readonly bottom: number
  /** Columns right of the image. @example conv2d('conv1', 64, 3, { pad: { top: 0, left: 1, bottom: 0, right: 1 } }) */
  readonly right: number
}
const SIDES = optionsFor<Sides>()('padding', 'top', 'left', 'bottom', 'right')

/** Words for a side that there is not, or null. */
export type SidesFault<P> = P extends Sides
  ? [Exclude<keyof P, keyof Sides>] extends [never]
    ? null
    : OptionRefused<Exclude<keyof P, keyof Sides> & string, typeof SIDES>
  : null
export const sidesFault = (p: SidePadding | 'same'): string | null => {
  const key = typeof p === 'object' && !Array.isArray(p) ? unknownKey(p, SIDES) : null
  return key === null ? null : optionRefused(key, SIDES)
}

/**
 * Padding in pixels: one number, [height, width], or one number per side.
 *
 * @example
 * const pad: SidePadding = [1, 2]
 * reflectionPad2d(pad)
 */
export type SidePadding = Extent | Sides

export type SidesOf<P extends SidePadding> = P extends Sides
  ? P
  : P extends Extent
    ? { top: Height<P>; left: Width<P>; bottom: Height<P>; right: Width<P> }
    : never

export const sidesOf = (p: SidePadding): Sides =>
  typeof p === 'object' && 'top' in p ? p : { top: height(p), left: width(p), bottom: height(p), right: width(p) }

/** Height by width; '1+2' where the sides differ in name only. */
export type SidesText<S extends Sides> = `${S['top']}+${S['bottom']}x${S['left']}+${S['right']}`
export const sidesText = <S extends Sides>(s: S): SidesText<S> => `${s.top}+${s.bottom}x${s.left}+${s.right}` as SidesText<S>

/** The sides before the image, [top, left], and those behind it, [bottom, right]. */
export type Near<P extends SidePadding> = P extends Sides ? readonly [P['top'], P['left']] : P extends Extent ? P : never
export type Far<P extends SidePadding> = P extends Sides ? readonly [P['bottom'], P['right']] : P extends Extent ? P : never
export const near = (s: Sides): Extent => [s.top, s.left]
export const far = (s: Sides): Extent => [s.bottom, s.right]

/** How a message calls a padding: '1x2', or by its sides where they are given. */
export type PaddingText<P extends SidePadding> = P extends Sides
  ? SidesText<P>
  : P extends Extent
    ? `${Height<P>}x${Width<P>}`
    : never
export const paddingText = (p: SidePadding): string =>
  typeof p === 'object' && 'top' in p ? sidesText(p) : `${height(p)}x${width(p)}`
