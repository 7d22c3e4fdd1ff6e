// The layers of a net, or of all that a step applies, in execution order, as types: what the plan checks fold over. The run-time
// twins are `Model.layers` and what elaboration tells. In: a net and its shape, or tensors. Out: a tuple of Sites.
// Invariant: as long as its twin and in the same order, joins included; nameless layers are called after their kind, unnumbered.
// Worked example: block('b', conv2d('c', 8, 3), relu()) at [1,3,4,4] has the sites 'b.c' (conv2d) and 'b.relu' (relu).
import type { AtInputSize, Block, Blocks, Concat, Counted, Repeat, Residual, Scaled, Seq } from '../compose'
import type { Analyse, Copies, Facts, FtOf, NameOf, Numbered, ParametersOf, ResizedShape, SumsOf } from '../facts'
import type { Dim, LayerShapes, Net, Shape } from '../net'
import type { Combining } from '../combined'
import type { Made, Tensor } from '../step'

/** One layer: where it stands, along which dimensions it may be tiled, what it takes, makes and trains (a Low string). */
export interface Site<
  Called extends string,
  Named extends boolean,
  Kind extends string,
  Ft extends Dim,
  Sums extends Dim,
  In extends Shape,
  Out extends Shape,
  Parameters extends string,
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

/** The sites of net N at shape S; P is put before their names. */
export type SitesOf<N extends Net, S extends Shape, P extends string = ''> = N['kind'] extends keyof LayerShapes<any, any>
  ? LayerShapes<N, S>[N['kind']] extends infer O extends Shape
    ? [Site<`${P}${NameOf<N>}`, IsNamed<N>, N['kind'], FtOf<N>, SumsOf<N>, S, O, ParametersOf<N, S>>]
    : []
  : N['kind'] extends keyof CompositionSites<any, any, any>
    ? CompositionSites<N, S, P>[N['kind']]
    : []

interface CompositionSites<N, S extends Shape, P extends string> {
  seq: N extends Seq<infer Ls> ? LineSites<Ls, S, P> : never
  block: N extends Block<infer B, infer Body> ? SitesOf<Body, S, `${P}${B}.`> : never
  blocks: N extends Blocks<infer B, infer Ls> ? LineSites<Numbered<Ls>, S, `${P}${B}.`> : never
  counted: N extends Counted<infer Stem, infer From, infer Ls> ? LineSites<Numbered<Ls, Stem, Copies<From, 0>>, S, P> : never
  repeat: N extends Repeat<any, any> ? LineSites<Numbered<[N]>, S, P> : never
  residual: N extends Residual<infer B, infer C> ? Joined<N, [B, C], 'residual', Dim, S, P> : never
  scaled: N extends Scaled<infer B> ? Joined<N, [B], 'scaled', Dim, S, P> : never
  atInputSize: N extends AtInputSize<infer B> ? [...SitesOf<B, S, P>, ...ResizeSite<Analyse<B, S>, S, P>] : never
  concat: N extends Concat<infer Bs> ? Joined<N, Bs, 'concat', 'B' | 'H' | 'W', S, P> : never
}

type IsNamed<N> = N extends { readonly name: '' } ? false : true

type LineSites<Ls, S extends Shape, P extends string, Acc extends readonly unknown[] = []> = Ls extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? Analyse<H, S> extends Facts<infer O, any, any, any>
    ? LineSites<T, O, P, [...Acc, ...SitesOf<H, S, P>]>
    : Acc
  : Acc

type BranchSites<Bs, S extends Shape, P extends string, Acc extends readonly unknown[] = []> = Bs extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? BranchSites<T, S, P, [...Acc, ...SitesOf<H, S, P>]>
  : Acc

type ResizeSite<X, S extends Shape, P extends string> =
  X extends Facts<infer O, any, any, any>
    ? ResizedShape<O, S> extends infer Z extends Shape
      ? [Site<`${P}atInputSize`, false, 'atInputSize', Dim, never, O, Z, '0'>]
      : []
    : []

/** The first branch's shape is as good as any: nobody looks at the input of a join. */
type Joined<N, Bs, Kind extends string, Ft extends Dim, S extends Shape, P extends string> = N extends Net
  ? Analyse<N, S> extends Facts<infer O, any, any, any>
    ? [...BranchSites<Bs, S, P>, Site<`${P}${Kind}`, false, Kind, Ft, never, O, O, '0'>]
    : []
  : []

// ---------------------------------------------------------------- of a step

/** A net that is applied again has '#2', '#3', ... after the names of its layers. Used: the nets so far. */
export type SitesOfTensors<
  Ts,
  Used extends readonly unknown[] = [],
  Kinds extends readonly Combining[] = [],
  Acc extends readonly unknown[] = [],
> = Ts extends readonly [Tensor<infer S, infer M>, ...infer Rest]
  ? M extends Made<'applied', readonly [Tensor<infer In>], infer N extends Net>
    ? SitesOfTensors<Rest, [...Used, N], Kinds, [...Acc, ...Suffixed<SitesOf<N, In>, UseSuffix<N, Used>>]>
    : M extends Made<infer K extends Combining, readonly [Tensor<infer In>, ...Tensor[]]>
      ? SitesOfTensors<Rest, Used, [...Kinds, K], [...Acc, CombinedSite<K, Count<K, Kinds>, In, S>]>
      : SitesOfTensors<Rest, Used, Kinds, Acc>
  : Acc
/** Which of its kind it is, behind these. */
type Count<K, Kinds, N extends readonly unknown[] = [1]> = Kinds extends readonly [infer First, ...infer Rest]
  ? Count<K, Rest, K extends First ? [...N, 1] : N>
  : N['length']
interface CombinedFacts {
  joined: ['concat', 'B' | 'H' | 'W']
  added: ['add', Dim]
  multiplied: ['multiply', Dim]
}
type CombinedSite<K extends Combining, N, In extends Shape, Out extends Shape> = Site<
  `${K}${N extends 1 ? '' : N & number}`,
  false,
  CombinedFacts[K][0],
  CombinedFacts[K][1],
  never,
  In,
  Out,
  '0'
>

/** '' for a net that is applied for the first time. */
export type UseSuffix<N, Used, Count extends readonly unknown[] = [1]> = Used extends readonly [infer U, ...infer Rest]
  ? UseSuffix<N, Rest, [U, N] extends [N, U] ? [...Count, 1] : Count>
  : Count['length'] extends 1
    ? ''
    : `#${Count['length'] & number}`
type Suffixed<Sites extends readonly unknown[], Suffix extends string> = Suffix extends ''
  ? Sites
  : { [I in keyof Sites]: WithSuffix<Sites[I], Suffix> }
type WithSuffix<X, Suffix extends string> =
  X extends Site<infer L, infer Named, infer K, infer Ft, infer Sums, infer In, infer Out, infer P>
    ? Site<`${L}${Suffix}`, Named, K, Ft, Sums, In, Out, P>
    : never
