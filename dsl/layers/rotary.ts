// Rotary positions: the op `rotate`. In, out: [B,C,H,W]. FT-compatible in B, H and W.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { rotationFault } from '../../staging/ops/rotate'
import type { Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `rotary` creates. @example const positions: Rotary = rotary(64) */
export interface Rotary<Name extends string = ''> extends Layer<'rotary', Name> {
  readonly head: number
  readonly skip: number
  /** 0: the width of the value. */
  readonly columns: number
  readonly step: readonly [rows: number, columns: number]
  readonly first: number
  readonly base: number
}

/** Options of `rotary`. @example const options: RotaryOptions = { skip: 1, columns: 16 } */
export interface RotaryOptions {
  /** Number of tokens in front of the pixels that are not rotated. Default 0. @example rotary(64, { skip: 1, columns: 16 }) */
  readonly skip?: number | undefined
  /** Columns of the image, for pixels in one row. Default: the width of the value. @example rotary(64, { skip: 1, columns: 16 }) */
  readonly columns?: number | undefined
  /** Angle of the fastest pair between neighbouring rows and columns. Default 1. @example rotary(64, { step: 0.5 }) */
  readonly step?: number | readonly [rows: number, columns: number] | undefined
  /** Place of the first row and column. Default 0. @example rotary(64, { first: 0.5 }) */
  readonly first?: number | undefined
  /** Ratio of the angles of the fastest and of an imagined slowest pair. Default 10000. @example rotary(64, { base: 100 }) */
  readonly base?: number | undefined
}
const OPTIONS = optionsFor<RotaryOptions>()('rotary', 'skip', 'columns', 'step', 'first', 'base')

/**
 * Creates rotary positions: pairs of neighbouring channels are rotated by angles that grow with the row or the column of
 * the pixel, as in EVA-02. Apply it to queries and to keys: their products then depend on distances. The first half of
 * each head has the angles of rows, the other half those of columns.
 *
 * @param head Channels of a head, a multiple of 4.
 * @param options `step`, `first` and `base` of the angles; `skip` and `columns` for tokens in one row.
 * @example seq(conv2d('q', 192, 1), rotary(64))
 */
export const rotary = <Given = unknown>(
  head: number,
  options: RotaryOptions & Strays<Given, typeof OPTIONS> = {} as never,
): Rotary => {
  const { skip = 0, columns = 0, step = 1, first = 0, base = 10000 } = known(OPTIONS, options)
  const [rows, across] = typeof step === 'number' ? [step, step] : step
  return { kind: 'rotary', name: '', head, skip, columns, step: [rows, across], first, base }
}

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    rotary: S
  }
  interface LayerFt {
    rotary: 'B' | 'H' | 'W'
  }
}

export const rotaryRule: LayerRule<Rotary<string>> = {
  codec: layerCodec('rotary', {
    head: t.number,
    skip: t.number,
    columns: t.number,
    step: t.readonly(t.tuple([t.number, t.number])),
    first: t.number,
    base: t.number,
  }),
  example: 'rotary(4)',
  fault: (l, [, c]) => rotationFault(l.head, c) ?? null,
  elaborate: ({ head, skip, columns, step: [stepH, stepW], first, base }, x, at) =>
    emit(at, 'rotate', { head, skip, columns: columns || at.input[3], stepH, stepW, first, base, inverse: 0 }, [x]),
}
