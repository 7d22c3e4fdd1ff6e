// Which calls cost the same. In: a call's operator, attributes and shapes. Out: a text that is equal for calls that any
// machine times alike and gives the same scratch: equal shapes and types, and equal padding where a tile meets the image's border.
// Worked example: of the tiles of a 3x3 convolution over a 4x4 grid, all but the outer ones share one key.
import { DIMS } from '../core/box'
import type { AnyAttrs, CallShapes } from './op'
import { inputDef, outputDef } from './op'
import { opDef } from './registry'

export const callKey = (kind: string, attrs: AnyAttrs, s: CallShapes): string =>
  `${kind}|${Object.values(attrs).join()}|${s.ins.join(';')}|${s.outs.join(';')}|${paddings(kind, attrs, s)}${s.bf16 ? '|bf16' : ''}`

/** Rows and columns of padding before and after each windowed operand; how the windows of a transposed one lie. */
const paddings = (kind: string, attrs: AnyAttrs, s: CallShapes): string => {
  const at = s.at
  if (!at) return ''
  const def = opDef(kind)
  const anchor = def.anchor === 'out' ? at.outs[0] : at.ins[def.anchor]
  const counts = def.anchor === 'out' ? s.outs[0] : s.ins[def.anchor]
  if (!anchor || counts?.length !== 4) return ''
  const sides = [
    ...s.ins.map((_, i) => ({ o: inputDef(def, i), at: at.ins[i]! })),
    ...s.outs.map((_, i) => ({ o: outputDef(def, i), at: at.outs[i]! })),
  ]
  return sides
    .flatMap(({ o, at: where }) => {
      const map = o.access?.(attrs, s)
      return ([2, 3] as const).flatMap((d) => {
        const a = map?.[DIMS[d]]
        if (a?.tag === 'transposed') return [`${where.origin[d]! * a.stride - a.pad - anchor.origin[d]!}`]
        if (a?.tag !== 'window') return []
        const lo = anchor.origin[d]! * a.stride - a.pad
        const hi = (anchor.origin[d]! + counts[d]! - 1) * a.stride - a.pad + a.reach
        return [`${Math.max(0, -lo)}+${Math.max(0, hi - where.extent[d]!)}`]
      })
    })
    .join()
}
