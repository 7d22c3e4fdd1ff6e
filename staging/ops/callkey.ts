// Keys of calls with equal cost. In: a call's operator, attributes and shapes. Out: a text that is equal for two calls if they have equal shapes,
// types and padding at the image's border: they then have equal times and equal scratch on any machine.
// Worked example: the inner tiles of a 3x3 convolution over a 4x4 grid share one key.
import { mapped } from '../core/mapped'
import { DIMS, type Range } from '../core/box'
import type { AnyAttrs, CallShapes, Windows } from './op'
import { comesLaid, inputDef, outputDef } from './op'
import { opDef } from './registry'

export const callKey = (kind: string, attrs: AnyAttrs, s: CallShapes): string =>
  `${kind}|${Object.values(attrs).join()}|${s.ins.join(';')}|${s.outs.join(';')}|${paddings(kind, attrs, s)}${s.half ? `|${s.half}` : ''}${comesLaid(opDef(kind), s) ? '|laid' : ''}`

/** An operand that windows read along rows (2) or columns (3). Operands are numbered from the inputs on, then the outputs. */
export interface Windowed {
  readonly operand: number
  readonly d: 2 | 3
  readonly windows: Windows
}

/** Returns the windowed operands of an operator. */
export const windowedOf = (kind: string, attrs: AnyAttrs, s: CallShapes): readonly Windowed[] => {
  const def = opDef(kind)
  const access = mapped([...mapped(s.ins, (_, i) => inputDef(def, i)), ...mapped(s.outs, (_, i) => outputDef(def, i))], (o) =>
    o.access?.(attrs, s),
  )
  return access.flatMap((map, operand) =>
    ([2, 3] as const).flatMap((d) => {
      const a = map?.[DIMS[d]]
      return a?.tag === 'window' || a?.tag === 'transposed' ? [{ operand, d, windows: a }] : []
    }),
  )
}

/** Returns the operand whose box is the iteration space, in the same numbering. */
export const anchorOf = (kind: string, ins: number): number => {
  const { anchor } = opDef(kind)
  return anchor === 'out' ? ins : anchor
}

/** Returns the padding before and after a range of the anchor; for transposed windows, their offset. */
export const alignmentOf = (a: Windows, anchor: Range, operandFrom: number, extent: number): string => {
  const lo = anchor[0] * a.stride - a.pad
  if (a.tag === 'transposed') return `${operandFrom * a.stride - a.pad - anchor[0]}`
  return `${Math.max(0, -lo)}+${Math.max(0, (anchor[1] - 1) * a.stride - a.pad + a.reach - extent)}`
}

/** Returns the alignments of all windowed operands of a call. */
const paddings = (kind: string, attrs: AnyAttrs, s: CallShapes): string => {
  if (!s.at) return ''
  const at = [...s.at.ins, ...s.at.outs]
  const anchor = anchorOf(kind, s.ins.length)
  const counts = [...s.ins, ...s.outs][anchor]
  if (!at[anchor] || counts?.length !== 4) return ''
  return mapped(windowedOf(kind, attrs, s), ({ operand, d, windows }) => {
    const from = at[anchor]!.origin[d]!
    return alignmentOf(windows, [from, from + counts[d]!], at[operand]!.origin[d]!, at[operand]!.extent[d]!)
  }).join()
}
