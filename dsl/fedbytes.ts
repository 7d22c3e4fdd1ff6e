// Nets that are fed bytes: those whose first layer is `fromBytes`. In: a net, by its type and at run time, in the same words. Out: true if it begins
// so; the misplaced layer of that kind, if there is one. The types that look for it are with those that walk a net (facts.ts).
import type { Block, Blocks, Concat, Counted, Masked, Repeat, Residual, Seq } from './compose'
import type { FromBytes } from './layers/frombytes'
import type { Layer, Net } from './net'

/** True if the first layer of a net is `fromBytes`. */
export type TakesBytes<N> = N extends { readonly kind: 'fromBytes' }
  ? true
  : N extends
        | Seq<readonly [infer H, ...any]>
        | Blocks<any, readonly [infer H, ...any]>
        | Counted<any, any, readonly [infer H, ...any]>
    ? TakesBytes<H>
    : N extends Block<any, infer B> | Repeat<any, infer B> | Masked<any, infer B>
      ? TakesBytes<B>
      : false

/** The first part of a net; the net itself, if it is no composition or one of branches. */
const headOf = (n: Net): Net => {
  const first = 'layers' in n ? (n as Seq<readonly Net[]>).layers[0] : undefined
  if (first) return headOf(first)
  return n.kind === 'block' || n.kind === 'repeat' || n.kind === 'masked' ? headOf((n as Block<string, Net>).body) : n
}

/** The layer through which a net takes bytes; undefined if it takes numbers. */
export const bytesLayer = (n: Net): FromBytes | undefined => {
  const head = headOf(n)
  return head.kind === 'fromBytes' ? (head as FromBytes) : undefined
}
export const takesBytes = (n: Net): boolean => bytesLayer(n) !== undefined

const firstOf = (parts: readonly (() => string | null)[]): string | null => {
  for (const part of parts) {
    const found = part()
    if (found !== null) return found
  }
  return null
}

/** The name of the first layer of the kind that is not the first layer of the net. */
export const strayBytes = (n: Net, scope = '', head = true): string | null => {
  const line = (layers: readonly Net[], scopeAt: (i: number) => string): string | null =>
    firstOf(layers.map((l, i) => () => strayBytes(l, scopeAt(i), head && i === 0)))
  const apart = (nets: readonly Net[]): string | null => firstOf(nets.map((b) => () => strayBytes(b, scope, false)))
  switch (n.kind) {
    case 'seq':
      return line((n as Seq<readonly Net[]>).layers, () => scope)
    case 'block':
      return strayBytes((n as Block<string, Net>).body, `${scope}${(n as Block<string, Net>).name}.`, head)
    case 'blocks': {
      const { name, layers } = n as Blocks<string, readonly Net[]>
      return line(spread(layers), (i) => `${scope}${name}.${i}.`)
    }
    case 'counted': {
      const { stem, from, layers } = n as Counted<string, number, readonly Net[]>
      return line(spread(layers), (i) => `${scope}${stem}${from + i}.`)
    }
    case 'repeat':
      return line(spread([n]), (i) => `${scope}${i}.`)
    case 'masked':
      return strayBytes((n as Masked<number, Net>).body, scope, head)
    case 'residual':
      return apart([(n as Residual<Net, Net>).body, (n as Residual<Net, Net>).shortcut])
    case 'values':
      return apart((n as Seq<readonly Net[]>).layers)
    case 'concat':
      return apart((n as Concat<readonly Net[]>).branches)
    case 'scaled':
    case 'atInputSize':
    case 'value':
      return apart([(n as Block<string, Net>).body])
    case 'fromBytes':
      return head ? null : `${scope}${(n as Layer).name || n.kind}`
    default:
      return null
  }
}

const MOST_COPIES = 10_000
/** Copies one after the other. */
const spread = (layers: readonly Net[]): readonly Net[] =>
  layers.flatMap((l) => {
    if (l.kind !== 'repeat') return [l]
    const { times, body } = l as Repeat<number, Net>
    const once = spread([body])
    return Array.from({ length: Math.min(times, MOST_COPIES) }, () => once).flat()
  })
