// Whether a plan still belongs to a model: the syntax tree that it was staged for, as plain data, against the model's own.
// In: both trees, as types and at run time. Out: the first difference in words, or null. Invariant: what the types find, the
// run time finds in the same words; it also sees fields whose types say only `number` or `string` (initial values, epsilons).
// Worked example: conv2d('c', 8, 3) staged, conv2d('c', 8, 5) now: 'c' (conv2d) has changed.
import { shapeText, type ShapeText } from '../messages'
import type { Shape } from '../net'
import {
  type StaleChanged,
  staleChanged,
  type StaleGone,
  staleGone,
  type StaleInput,
  staleInput,
  type StaleNew,
  staleNew,
  type StaleReplaced,
  staleReplaced,
} from './words'

/** Fields that hold nets: their own nodes are compared one by one. */
type Parts = 'layers' | 'branches' | 'body' | 'shortcut'
const PARTS: readonly string[] = ['layers', 'branches', 'body', 'shortcut'] satisfies readonly Parts[]

// ---------------------------------------------------------------- as types

interface AnyNode {
  readonly kind: string
}
type OwnFields<N> = { [K in keyof N as K extends Parts ? never : K]: N[K] }
type CallOf<N> = N extends { readonly name: infer L extends string } ? (L extends '' ? KindOf<N> : L) : KindOf<N>
type KindOf<N> = N extends { readonly kind: infer K extends string } ? K : never
type Scope<N, P extends string> = N extends { readonly kind: 'block' | 'blocks'; readonly name: infer L extends string }
  ? `${P}${L}.`
  : N extends { readonly stem: infer L extends string }
    ? `${P}${L}.`
    : P

/** The first difference between a node now and then; P is the scope of both. */
export type StaleNode<Now, Then, P extends string = ''> = [KindOf<Now>, CallOf<Now>] extends [KindOf<Then>, CallOf<Then>]
  ? Then extends OwnFields<Now>
    ? StaleParts<Now, Then, Scope<Now, P>>
    : StaleChanged<`${P}${CallOf<Now>}`, KindOf<Now>>
  : StaleReplaced<`${P}${CallOf<Then>}`, KindOf<Then>, `${P}${CallOf<Now>}`, KindOf<Now>>

type StaleParts<Now, Then, P extends string> = Now extends { readonly body: infer A; readonly shortcut: infer B }
  ? Then extends { readonly body: infer A2; readonly shortcut: infer B2 }
    ? StaleList<[A, B], [A2, B2], P>
    : never
  : Now extends { readonly body: infer A }
    ? Then extends { readonly body: infer A2 }
      ? StaleNode<A, A2, P>
      : never
    : Now extends { readonly layers: infer A }
      ? Then extends { readonly layers: infer A2 }
        ? StaleList<A, A2, P>
        : never
      : Now extends { readonly branches: infer A }
        ? Then extends { readonly branches: infer A2 }
          ? StaleList<A, A2, P>
          : never
        : null

type StaleList<Now, Then, P extends string> = Now extends readonly [infer N extends AnyNode, ...infer Rest]
  ? Then extends readonly [infer T extends AnyNode, ...infer RestThen]
    ? StaleNode<N, T, P> extends infer S extends string
      ? S
      : StaleList<Rest, RestThen, P>
    : StaleNew<`${P}${CallOf<N>}`, KindOf<N>>
  : Then extends readonly [infer T extends AnyNode, ...unknown[]]
    ? StaleGone<`${P}${CallOf<T>}`, KindOf<T>>
    : null

/** A net at an input shape. */
export interface Applied {
  readonly net: { readonly kind: string }
  readonly input: Shape
}
/** What changed between two models, in words, or null; models whose types say too little are left to run time. */
export type Stale<Now extends Applied, Then extends Applied> = string extends Now['net']['kind'] | Then['net']['kind']
  ? null
  : ShapeText<Now['input']> extends ShapeText<Then['input']>
    ? StaleNode<Now['net'], Then['net']>
    : StaleInput<ShapeText<Then['input']>, ShapeText<Now['input']>>

// ---------------------------------------------------------------- at run time

type Node = Readonly<Record<string, unknown>> & { readonly kind: string }

const called = (n: Node): string => (typeof n['name'] === 'string' && n['name'] !== '' ? n['name'] : n.kind)
const scoped = (n: Node, scope: string): string => {
  const name = n.kind === 'block' || n.kind === 'blocks' ? n['name'] : n['stem']
  return typeof name === 'string' ? `${scope}${name}.` : scope
}
const ownText = (n: Node): string =>
  JSON.stringify(
    Object.entries(n)
      .filter(([k, v]) => !PARTS.includes(k) && v !== undefined)
      .sort(),
  )

/** The nets in a node, in the order in which types look at them. */
const partsOf = (n: Node): readonly Node[] =>
  ['body', 'shortcut', 'layers', 'branches'].flatMap((k) => (n[k] === undefined ? [] : (n[k] as Node | readonly Node[])))

const staleNode = (now: Node, then: Node, scope: string): string | null => {
  const [at, thenAt] = [`${scope}${called(now)}`, `${scope}${called(then)}`]
  if (now.kind !== then.kind || at !== thenAt) return staleReplaced(thenAt, then.kind, at, now.kind)
  if (ownText(now) !== ownText(then)) return staleChanged(at, now.kind)
  const inner = scoped(now, scope)
  const [ours, theirs] = [partsOf(now), partsOf(then)]
  for (const [i, n] of ours.entries()) {
    const t = theirs[i]
    const stale = t ? staleNode(n, t, inner) : staleNew(`${inner}${called(n)}`, n.kind)
    if (stale !== null) return stale
  }
  const gone = theirs[ours.length]
  return gone ? staleGone(`${inner}${called(gone)}`, gone.kind) : null
}

export const stale = (now: Applied, then: Applied): string | null =>
  now.input.join() === then.input.join()
    ? staleNode(now.net as Node, then.net as Node, '')
    : staleInput(shapeText(then.input), shapeText(now.input))
