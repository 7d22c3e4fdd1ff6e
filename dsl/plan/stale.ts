// Whether a net is still the one that a plan was staged for: its syntax tree against the one that it had.
// In: both trees, as types and at run time. Out: the first difference in words, or null. Invariant: what the types find, the
// run time finds in the same words; it also sees fields whose types say only `number` or `string` (initial values, epsilons).
// Worked example: conv2d('c', 8, 3) staged, conv2d('c', 8, 5) now: 'c' (conv2d) has changed.
import {
  type StaleChanged,
  staleChanged,
  type StaleGone,
  staleGone,
  type StaleNew,
  staleNew,
  type StaleReplaced,
  staleReplaced,
} from './words'

/** Fields that hold nets: their own nodes are compared one by one. */
type Parts = 'layers' | 'branches' | 'body' | 'shortcut'
const PARTS: readonly string[] = ['layers', 'branches', 'body', 'shortcut'] satisfies readonly Parts[]

// ---------------------------------------------------------------- as types

type OwnFields<N> = { [K in keyof N as K extends Parts ? never : K]: N[K] }
type CallOf<N> = N extends { readonly name: infer L extends string } ? (L extends '' ? KindOf<N> : L) : KindOf<N>
type KindOf<N> = N extends { readonly kind: infer K extends string } ? K : never
type Scope<N, P extends string> = N extends { readonly kind: 'block' | 'blocks'; readonly name: infer L extends string }
  ? `${P}${L}.`
  : N extends { readonly stem: infer L extends string }
    ? `${P}${L}.`
    : P

/** The first difference between a node now and then, P the scope of both; types that say too little are left to run time. */
export type StaleNode<Now, Then, P extends string = ''> = string extends KindOf<Now> | KindOf<Then>
  ? null
  : [KindOf<Now>, CallOf<Now>] extends [KindOf<Then>, CallOf<Then>]
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

/** The first difference between two lists of nodes. */
export type StaleList<Now, Then, P extends string = ''> = Now extends readonly [infer N, ...infer Rest]
  ? Then extends readonly [infer T, ...infer RestThen]
    ? StaleNode<N, T, P> extends infer S extends string
      ? S
      : StaleList<Rest, RestThen, P>
    : Then extends readonly []
      ? StaleNew<`${P}${CallOf<N>}`, KindOf<N>>
      : null
  : [Now, Then] extends [readonly [], readonly [infer T, ...unknown[]]]
    ? StaleGone<`${P}${CallOf<T>}`, KindOf<T>>
    : null

// ---------------------------------------------------------------- at run time

export type Node = Readonly<Record<string, unknown>> & { readonly kind: string }

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
  return staleList(partsOf(now), partsOf(then), scoped(now, scope))
}

export const staleList = (now: readonly Node[], then: readonly Node[], scope = ''): string | null =>
  staleItems(
    now,
    then,
    (n, t) => staleNode(n, t, scope),
    (n, words) => words(`${scope}${called(n)}`, n.kind),
  )

/** The first difference between two lists: between two items, or one too many or too few at the end. */
export const staleItems = <T>(
  now: readonly T[],
  then: readonly T[],
  stale: (now: T, then: T) => string | null,
  odd: (item: T, words: (at: string, kind: string) => string) => string,
): string | null => {
  for (const [i, n] of now.entries()) {
    const difference = i < then.length ? stale(n, then[i]!) : odd(n, staleNew)
    if (difference !== null) return difference
  }
  return then.length > now.length ? odd(then[now.length]!, staleGone) : null
}
