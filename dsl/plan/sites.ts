// The layers of a net, or of all nets that a step applies, in execution order, as types: the input of the plan checks. The run-time twins are
// `Model.layers` and the layers of elaboration. In: a net and its shape, or tensors. Out: a Chain of Sites: a tuple would be copied whole at each
// layer that is added or removed. Invariant: as long as its twin and in the same order, joins included; nameless layers are called after their kind,
// unnumbered.
import type { AtInputSize, Block, Blocks, Concat, Counted, Masked, Repeat, Residual, Scaled, Seq, Values } from '../compose'
import type { Analyse, AnyFacts, AnyValue, FtOf, NameOf, Numbered, ParametersOf, ReadBy, ResizedShape, SumsOf } from '../facts'
import type { NextDigit } from '../numbers/naturals'
import type { Dim, LayerShapes, Net, Shape } from '../net'
import type { Combining } from '../combined'
import type { Made, Tensor } from '../step'

/** One layer: its place, the dimensions along which it may be tiled, its input, its output, and its trained numbers (a Low number). */
export interface Site<
  Called extends string,
  Named extends boolean,
  Kind extends string,
  Ft extends Dim,
  Sums extends Dim,
  In extends Shape,
  Out extends Shape,
  Parameters,
> {
  called: Called
  named: Named
  kind: Kind
  ft: Ft
  sums: Sums
  in: In
  out: Out
  parameters: Parameters
}
export type AnySite = Site<any, any, any, any, any, any, any, any>

/** A list by its first item and the rest; null is the empty one. */
export interface Chain<First, Rest> {
  first: First
  rest: Rest
}
/** For a list that is not empty. A comparison with a type would cost as much as the list is long, but one with null costs nothing. */
export type FirstOf<C> = C['first' & keyof C]
export type RestOf<C> = C['rest' & keyof C]
/**
 * T, evaluated by a call of its own. TypeScript allows 1000 recursive calls in a row, and a list may be longer. So folds continue with `Nested`
 * after each `null` of a list.
 */
export type Nested<T> = [T] extends [never] ? never : T
/** Both made at once: a type that names others within it is put off, and copied with all that holds it. */
export type Linked<First, Rest> = 0 extends 0 ? Chain<First, Rest> : never
type Standing<
  Called extends string,
  Named extends boolean,
  Kind extends string,
  Ft extends Dim,
  Sums extends Dim,
  In extends Shape,
  Out extends Shape,
  Parameters,
> = 0 extends 0 ? Site<Called, Named, Kind, Ft, Sums, In, Out, Parameters> : never
/** A list in reverse, with a `null` after every 100 items. */
export type Reversed<C, Acc = null, Tens extends keyof NextDigit = '', Ones extends keyof NextDigit = ''> = C extends null
  ? Acc
  : FirstOf<C> extends null
    ? Reversed<RestOf<C>, Acc, Tens, Ones>
    : Ones extends '9'
      ? Tens extends '9'
        ? Nested<Reversed<C, Linked<null, Acc>>>
        : Reversed<RestOf<C>, Linked<FirstOf<C>, Acc>, NextDigit[Tens], ''>
      : Reversed<RestOf<C>, Linked<FirstOf<C>, Acc>, Tens, NextDigit[Ones]>
/** The sites of a net, in execution order. */
export type SitesOf<N extends Net, S extends Shape> = Reversed<Sites<N, S, '', '', null>>

/** The sites of net N at shape S and, behind them, those Before, the last first; P is put before their names, and U after them. */
export type Sites<
  N extends Net,
  S extends Shape,
  P extends string,
  U extends string,
  Before,
> = N['kind'] extends keyof LayerShapes<any, any>
  ? LayerShapes<N, S>[N['kind']] extends infer O extends Shape
    ? Linked<Standing<`${P}${NameOf<N>}${U}`, IsNamed<N>, N['kind'], FtOf<N>, SumsOf<N>, S, O, ParametersOf<N, S>>, Before>
    : Before
  : N['kind'] extends keyof CompositionSites<any, any, any, any, any>
    ? CompositionSites<N, S, P, U, Before>[N['kind']]
    : Before

interface CompositionSites<N, S extends Shape, P extends string, U extends string, Before> {
  seq: N extends Seq<infer Ls> ? LineSites<Ls, S, P, U, Before> : never
  block: N extends Block<infer B, infer Body> ? Sites<Body, S, `${P}${B}.`, U, Before> : never
  blocks: N extends Blocks<infer B, infer Ls> ? LineSites<Numbered<Ls>, S, `${P}${B}.`, U, Before> : never
  counted: N extends Counted<infer Stem, infer From, infer Ls> ? LineSites<Numbered<Ls, Stem, From>, S, P, U, Before> : never
  repeat: N extends Repeat<any, any> ? LineSites<Numbered<[N]>, S, P, U, Before> : never
  residual: N extends Residual<infer B, infer C> ? Joined<N, [B, C], 'residual', Dim, S, P, U, Before> : never
  scaled: N extends Scaled<infer B> ? Joined<N, [B], 'scaled', Dim, S, P, U, Before> : never
  atInputSize: N extends AtInputSize<infer B> ? ResizeSite<Analyse<B, S>, S, P, U, Sites<B, S, P, U, Before>> : never
  masked: N extends Masked<any, infer B> ? Sites<B, S, P, U, Before> : never
  values: N extends Values<infer Vs> ? ValueSites<Vs, { input: S }, P, U, Before> : never
  concat: N extends Concat<infer Bs> ? Joined<N, Bs, 'concat', 'B' | 'H' | 'W', S, P, U, Before> : never
}

type IsNamed<N> = N extends { readonly name: '' } ? false : true

type LineSites<Ls, S extends Shape, P extends string, U extends string, Before> = Ls extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? Analyse<H, S> extends infer X
    ? X extends AnyFacts
      ? LineSites<T, X['out'], P, U, Sites<H, S, P, U, Before>>
      : Before
    : never
  : Before

type BranchSites<Bs, S extends Shape, P extends string, U extends string, Before> = Bs extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? BranchSites<T, S, P, U, Sites<H, S, P, U, Before>>
  : Before

/** Env: the shape of each value by its name. */
type ValueSites<Vs, Env, P extends string, U extends string, Before> = Vs extends readonly [infer V extends AnyValue, ...infer T]
  ? ReadBy<V, Env> extends infer In
    ? In extends AnyFacts
      ? Analyse<V['body'], In['out']> extends infer X
        ? X extends AnyFacts
          ? ValueSites<
              T,
              Env & Record<V['name'], X['out']>,
              P,
              U,
              Sites<V['body'], In['out'], P, U, ReadSite<V['reads'], In, P, U, Before>>
            >
          : Before
        : never
      : Before
    : never
  : Before
/** The site of values that are read as one. */
type ReadSite<R, In extends AnyFacts, P extends string, U extends string, Before> = R extends string
  ? Before
  : KindOf<R> extends infer K extends string
    ? Linked<Standing<`${P}${K}${U}`, false, K, In['ft'], never, In['out'], In['out'], null>, Before>
    : never
type KindOf<R> = R extends { readonly added: unknown }
  ? 'sum'
  : R extends { readonly joined: unknown }
    ? 'concat'
    : R extends { readonly attended: unknown }
      ? 'attention'
      : R extends { readonly contracted: unknown }
        ? 'contraction'
        : 'product'

type ResizeSite<X, S extends Shape, P extends string, U extends string, Before> = X extends AnyFacts
  ? ResizedShape<X['out'], S> extends infer Z extends Shape
    ? Linked<Standing<`${P}atInputSize${U}`, false, 'atInputSize', Dim, never, X['out'], Z, null>, Before>
    : Before
  : Before

/** The first branch's shape is as good as any: nobody looks at the input of a join. */
type Joined<
  N,
  Bs,
  Kind extends string,
  Ft extends Dim,
  S extends Shape,
  P extends string,
  U extends string,
  Before,
> = N extends Net
  ? Analyse<N, S> extends infer X
    ? X extends AnyFacts
      ? Linked<Standing<`${P}${Kind}${U}`, false, Kind, Ft, never, X['out'], X['out'], null>, BranchSites<Bs, S, P, U, Before>>
      : Before
    : never
  : Before

// ---------------------------------------------------------------- of a step

/** In execution order. */
export type SitesOfTensors<Ts> = Reversed<SitesBackwards<Ts>>

/** The last first. A net that is applied again has '#2', '#3', ... after the names of its layers. Used: the nets so far. */
export type SitesBackwards<
  Ts,
  Used extends readonly unknown[] = [],
  Kinds extends readonly Combining[] = [],
  Before = null,
> = Ts extends readonly [Tensor<infer S, infer M>, ...infer Rest]
  ? M extends Made<'applied', readonly [Tensor<infer In>], infer N extends Net>
    ? SitesBackwards<Rest, [...Used, N], Kinds, Sites<N, In, '', UseSuffix<N, Used>, Before>>
    : M extends Made<infer K extends Combining, readonly [Tensor<infer In>, ...Tensor[]]>
      ? SitesBackwards<Rest, Used, [...Kinds, K], Linked<CombinedSite<K, Count<K, Kinds>, In, S>, Before>>
      : SitesBackwards<Rest, Used, Kinds, Before>
  : Before
/** Which of its kind it is, behind these. */
type Count<K, Kinds, N extends readonly unknown[] = [1]> = Kinds extends readonly [infer First, ...infer Rest]
  ? Count<K, Rest, K extends First ? [...N, 1] : N>
  : N['length']
interface CombinedFacts {
  joined: ['concat', 'B' | 'H' | 'W']
  added: ['add', Dim]
  multiplied: ['multiply', Dim]
}
type CombinedSite<K extends Combining, N, In extends Shape, Out extends Shape> = Standing<
  `${K}${N extends 1 ? '' : N & number}`,
  false,
  CombinedFacts[K][0],
  CombinedFacts[K][1],
  never,
  In,
  Out,
  null
>

/** '' for a net that is applied for the first time. */
export type UseSuffix<N, Used, Count extends readonly unknown[] = [1]> = Used extends readonly [infer U, ...infer Rest]
  ? UseSuffix<N, Rest, [U, N] extends [N, U] ? [...Count, 1] : Count>
  : Count['length'] extends 1
    ? ''
    : `#${Count['length'] & number}`
