// Facts of one layer by its full name, while you type. In: the type of a net, its input shape, a name with its scopes. Out: the layer's shapes, bytes
// and parameters. Worked example: `block.conv` finds the layer `conv` inside the scope `block`, with the shape that it gets there.
import type { AtInputSize, Block, Blocks, Concat, Counted, Masked, Repeat, Residual, Scaled, Seq, Values } from './compose'
import type { Analyse, AnyFacts, AnyValue, BytesOf, Facts, FtOf, Numbered, OwnName, ReadBy } from './facts'
import type { Dim, LayerShapes, Net, Shape } from './net'
import type { FromLow } from './numbers/naturals'

/**
 * Facts of one layer, as an editor shows them: shapes, the dimensions along which it can be tiled, bytes.
 *
 * @example const facts: LayerFacts = layerOf(net, 'conv1')
 */
export interface LayerFacts<
  Name extends string = string,
  In extends Shape = Shape,
  Out extends Shape = Shape,
  Ft extends Dim = Dim,
  Bytes extends number = number,
> {
  readonly name: Name
  readonly input: In
  readonly output: Out
  readonly ft: readonly Ft[]
  /** Bytes of its output, in 32-bit floats. */
  readonly bytes: Bytes
}

type Seek<N extends Net, S extends Shape, Path extends string, Full extends string> =
  N extends Seq<infer Ls>
    ? SeekLine<Ls, S, Path, Full>
    : N extends Block<infer P, infer B>
      ? Path extends `${P}.${infer Rest}`
        ? Seek<B, S, Rest, Full>
        : never
      : N extends Blocks<infer P, infer Ls>
        ? Path extends `${P}.${infer Rest}`
          ? SeekLine<Numbered<Ls>, S, Rest, Full>
          : never
        : N extends Counted<infer P, infer F, infer Ls>
          ? SeekLine<Numbered<Ls, P, F>, S, Path, Full>
          : N extends Repeat<any, any>
            ? SeekLine<Numbered<[N]>, S, Path, Full>
            : N extends AtInputSize<infer B> | Masked<any, infer B> | Scaled<infer B>
              ? Seek<B, S, Path, Full>
              : N extends Residual<infer B, infer C>
                ? SeekAny<[B, C], S, Path, Full>
                : N extends Concat<infer Bs>
                  ? SeekAny<Bs, S, Path, Full>
                  : N extends Values<infer Vs>
                    ? SeekValued<Vs, { input: S }, Path, Full>
                    : Path extends OwnName<N>
                      ? LayerShapes<N, S>[N['kind'] & keyof LayerShapes<any, any>] extends infer O extends Shape
                        ? LayerFacts<Full, S, O, FtOf<N>, FromLow<BytesOf<O>>>
                        : never
                      : never

type SeekLine<Ls, S extends Shape, Path extends string, Full extends string> = Ls extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? Analyse<H, S> extends Facts<infer O, any, any, infer N>
    ? Path extends N
      ? Seek<H, S, Path, Full>
      : SeekLine<T, O, Path, Full>
    : never
  : never

type SeekAny<Bs, S extends Shape, Path extends string, Full extends string> = Bs extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? Analyse<H, S> extends Facts<any, any, any, infer N>
    ? Path extends N
      ? Seek<H, S, Path, Full>
      : SeekAny<T, S, Path, Full>
    : never
  : never

type SeekValued<Vs, Env, Path extends string, Full extends string> = Vs extends readonly [infer V extends AnyValue, ...infer T]
  ? ReadBy<V, Env> extends infer In
    ? In extends AnyFacts
      ? Analyse<V['body'], In['out']> extends Facts<infer O, any, any, infer N>
        ? Path extends N
          ? Seek<V['body'], In['out'], Path, Full>
          : SeekValued<T, Env & Record<V['name'], O>, Path, Full>
        : never
      : never
    : never
  : never

/** If the net is known only at run time, so are its facts. */
export type FactsOf<N extends Net, S extends Shape, Name extends string> = string extends N['kind']
  ? LayerFacts<Name>
  : Seek<N, S, Name, Name>
