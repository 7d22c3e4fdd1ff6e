// Compares a net with the one that a plan was staged for, by their syntax trees. In: both trees, as types and at run time. Out: the first difference
// in words, or null. Invariant: the run time finds all that the types find, in the same words; it also sees fields whose types say only `number` or
// `string` (initial values, epsilons). Two spellings of one network are equal: sequences in sequences are their layers, [3, 3] and {top: 3, ...} are
// 3. Worked example: conv2d('c', 8, 3) staged, conv2d('c', 8, 5) now: 'c' (conv2d) has changed.
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

type OwnFields<N> = { [K in keyof N as K extends Parts ? never : K]: OneWay<N[K]> }
/** A size as it is written in one way: a number where both, or all four, are one. Those that types do not know may be any. */
type OneWay<V> = V extends readonly [infer A, infer B]
  ? number extends A | B
    ? number | V
    : Same<A, B> extends true
      ? A
      : V
  : V extends { readonly top: infer T; readonly left: infer L; readonly bottom: infer B; readonly right: infer R }
    ? number extends T | L | B | R
      ? number | readonly [number, number] | V
      : [Same<T, B>, Same<L, R>] extends [true, true]
        ? OneWay<readonly [T, L]>
        : V
    : V extends { readonly scale: infer S }
      ? { readonly scale: OneWay<S> }
      : V extends { readonly size: infer S }
        ? { readonly size: OneWay<S> }
        : V
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false

type CallOf<N> = N extends { readonly name: infer L extends string } ? (L extends '' ? KindOf<N> : L) : KindOf<N>
type KindOf<N> = N extends { readonly kind: infer K extends string } ? K : never
type Scope<N, P extends string> = N extends { readonly kind: 'block' | 'blocks'; readonly name: infer L extends string }
  ? `${P}${L}.`
  : N extends { readonly stem: infer L extends string }
    ? `${P}${L}.`
    : P

/** The first difference between a node now and then, P the scope of both; types that say too little are left to run time. */
type StaleNode<Now, Then, P extends string> = string extends KindOf<Now> | KindOf<Then>
  ? null
  : [KindOf<Now>, CallOf<Now>] extends [KindOf<Then>, CallOf<Then>]
    ? OwnFields<Then> extends OwnFields<Now>
      ? StaleParts<Now, Then, Scope<Now, P>>
      : StaleChanged<`${P}${CallOf<Now>}`, KindOf<Now>>
    : StaleReplaced<`${P}${CallOf<Then>}`, KindOf<Then>, `${P}${CallOf<Now>}`, KindOf<Now>>

type StaleParts<Now, Then, P extends string> = Now extends { readonly body: infer A; readonly shortcut: infer B }
  ? Then extends { readonly body: infer A2; readonly shortcut: infer B2 }
    ? StaleNets<[A, B], [A2, B2], P>
    : never
  : Now extends { readonly body: infer A }
    ? Then extends { readonly body: infer A2 }
      ? StaleNet<A, A2, P>
      : never
    : Now extends { readonly layers: infer A }
      ? Then extends { readonly layers: infer A2 }
        ? StaleNets<A, A2, P>
        : never
      : Now extends { readonly branches: infer A }
        ? Then extends { readonly branches: infer A2 }
          ? StaleNets<A, A2, P>
          : never
        : null

/** The first difference between two nets. */
export type StaleNet<Now, Then, P extends string = ''> = StaleLine<[Now], [Then], P>

/** The first difference between two lists of nets, each with a place of its own. */
export type StaleNets<Now, Then, P extends string = ''> = Now extends readonly [infer N, ...infer Rest]
  ? Then extends readonly [infer T, ...infer RestThen]
    ? StaleNet<N, T, P> extends infer S extends string
      ? S
      : StaleNets<Rest, RestThen, P>
    : StaleEnd<Now, Then, P>
  : StaleEnd<Now, Then, P>

type Sequence<Ls> = { readonly kind: 'seq'; readonly layers: Ls }
/** The first difference between layers one after the other; a sequence among them is its layers. */
type StaleLine<Now, Then, P extends string> = Now extends readonly [infer N, ...infer Rest]
  ? N extends Sequence<infer Ls extends readonly unknown[]>
    ? StaleLine<[...Ls, ...Rest], Then, P>
    : Then extends readonly [infer T, ...infer RestThen]
      ? T extends Sequence<infer Ls extends readonly unknown[]>
        ? StaleLine<Now, [...Ls, ...RestThen], P>
        : StaleNode<N, T, P> extends infer S extends string
          ? S
          : StaleLine<Rest, RestThen, P>
      : StaleEnd<Now, Then, P>
  : Then extends readonly [Sequence<infer Ls extends readonly unknown[]>, ...infer RestThen]
    ? StaleLine<Now, [...Ls, ...RestThen], P>
    : StaleEnd<Now, Then, P>

/** The part of one of two lists beyond the other. */
type StaleEnd<Now, Then, P extends string> = [Now, Then] extends [readonly [infer N, ...unknown[]], readonly []]
  ? StaleNew<`${P}${CallOf<N>}`, KindOf<N>>
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

const oneWay = (v: unknown): unknown => {
  if (typeof v !== 'object' || v === null) return v
  if (Array.isArray(v)) return v.length === 2 && v[0] === v[1] ? v[0] : v
  const { top, left, bottom, right, scale, size } = v as Readonly<Record<string, unknown>>
  if (top !== undefined) return top === bottom && left === right ? oneWay([top, left]) : v
  if (scale !== undefined) return { scale: oneWay(scale) }
  return size === undefined ? v : { size: oneWay(size) }
}
const ownText = (n: Node): string =>
  JSON.stringify(
    Object.entries(n)
      .filter(([k, v]) => !PARTS.includes(k) && v !== undefined)
      .map(([k, v]) => [k, oneWay(v)])
      .sort(),
  )

/** The nets in a node, in the order of the types. */
const partsOf = (n: Node): readonly Node[] =>
  ['body', 'shortcut', 'layers', 'branches'].flatMap((k) => (n[k] === undefined ? [] : (n[k] as Node | readonly Node[])))

const staleNode = (now: Node, then: Node, scope: string): string | null => {
  const [at, thenAt] = [`${scope}${called(now)}`, `${scope}${called(then)}`]
  if (now.kind !== then.kind || at !== thenAt) return staleReplaced(thenAt, then.kind, at, now.kind)
  if (ownText(now) !== ownText(then)) return staleChanged(at, now.kind)
  return staleNets(partsOf(now), partsOf(then), scoped(now, scope))
}

/** The layers that a net is, one after the other. */
const lineOf = (n: Node): readonly Node[] => (n.kind === 'seq' ? partsOf(n).flatMap(lineOf) : [n])

const staleAll = (
  now: readonly Node[],
  then: readonly Node[],
  scope: string,
  stale: (now: Node, then: Node, scope: string) => string | null,
): string | null =>
  staleItems(
    now,
    then,
    (n, t) => stale(n, t, scope),
    (n, words) => words(`${scope}${called(n)}`, n.kind),
  )

export const staleNets = (now: readonly Node[], then: readonly Node[], scope = ''): string | null =>
  staleAll(now, then, scope, (n, t) => staleAll(lineOf(n), lineOf(t), scope, staleNode))

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
