// Codecs of the parts of layers, for nets from outside: model files, JSON descriptions. In: unknown data. Out: io-ts types, and the decoder of a
// whole layer. Invariant: the result of a constructor passes, with no field more or less.
import { mapLeft } from 'fp-ts/Either'
import * as t from 'io-ts'
import { tuple } from '../../staging/core/codecs'
import type { Extent } from '../net'
import type { FieldFault, LayerCodec } from './rule'
import type { SidePadding } from './sides'
import type { Padding } from './window'

export const extentCodec: t.Type<Extent> = t.union([t.number, tuple(t.number, t.number)])
export const sidesCodec: t.Type<SidePadding> = t.union([
  extentCodec,
  // The layer's rule refuses all other fields.
  t.readonly(t.type({ top: t.number, left: t.number, bottom: t.number, right: t.number })),
])
export const paddingCodec: t.Type<Padding> = t.union([sidesCodec, t.literal('same')])

/** The first field that a codec refuses: its path, and its value. */
export const fieldFault = ([e]: t.Errors): FieldFault => ({
  fields: e!.context.map((c) => c.key).filter((k) => k !== '' && !/^\d+$/.test(k)),
  value: e!.value,
})

type Fields<K, R extends t.Props, O extends t.Props> = { readonly kind: K; readonly name: string } & {
  readonly [F in keyof R]: t.TypeOf<R[F]>
} & { readonly [F in keyof O]?: t.TypeOf<O[F]> }

/** The codec of one kind of layer: its kind, its name, its fields, and those that may be left out. */
export const layerCodec = <K extends string, R extends t.Props, O extends t.Props = Record<never, t.Mixed>>(
  kind: K,
  required: R,
  optional: O = {} as O,
): LayerCodec<Fields<K, R, O>> => {
  const all = { kind: t.literal(kind), name: t.string, ...required }
  const codec = t.exact(t.intersection([t.type(all), t.partial(optional)]))
  return {
    options: { of: kind, keys: [...Object.keys(all), ...Object.keys(optional)] },
    decode: (u) => mapLeft(fieldFault)(codec.decode(u)) as ReturnType<LayerCodec<Fields<K, R, O>>['decode']>,
  }
}
