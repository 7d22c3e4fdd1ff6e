// Codecs of the pieces that layers are made of, for nets that come from outside: model files, JSON descriptions.
// In: unknown data. Out: io-ts types. Invariant: what a constructor makes passes, with no field more or less.
import * as t from 'io-ts'
import { tuple } from '../../staging/core/codecs'
import type { Extent } from '../net'
import type { SidePadding } from './sides'
import type { Padding } from './window'

export const extentCodec: t.Type<Extent> = t.union([t.number, tuple(t.number, t.number)])
export const sidesCodec: t.Type<SidePadding> = t.union([
  extentCodec,
  t.readonly(t.exact(t.type({ top: t.number, left: t.number, bottom: t.number, right: t.number }))),
])
export const paddingCodec: t.Type<Padding> = t.union([sidesCodec, t.literal('same')])

/** The codec of one kind of layer: its kind, its name, its fields, and those that may be left out. */
export const layerCodec = <K extends string, R extends t.Props, O extends t.Props = Record<never, t.Mixed>>(
  kind: K,
  required: R,
  optional: O = {} as O,
) => t.readonly(t.exact(t.intersection([t.type({ kind: t.literal(kind), name: t.string, ...required }), t.partial(optional)])))
