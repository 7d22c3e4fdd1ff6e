// Patterns of parameter names, for completion while typing. In: the type of a model or step. Out: `NAME.*` of each layer with parameters, beside any
// other text. Invariant: a property of this type costs the compiler nothing until a program uses it.
import type { StepOf, Trainable } from '../trainable'
import type { TensorsOf } from './order'
import type { AnySite, FirstOf, Nested, RestOf, SitesOfTensors } from './sites'

/**
 * A pattern of parameter names: any text; editors complete the layers with parameters, e.g. `conv1.*`.
 *
 * @example const body: PatternIn<typeof net> = 'conv1.*'
 */
export type PatternIn<M extends Trainable> = (string & {}) | (Weighted<SitesOfTensors<TensorsOf<StepOf<M>>>> & string)

type Weighted<Sites, Acc = never> = Sites extends null
  ? Acc
  : FirstOf<Sites> extends infer X extends AnySite
    ? Weighted<RestOf<Sites>, X['parameters'] extends null ? Acc : Acc | (X['named'] extends true ? `${X['called']}.*` : never)>
    : Nested<Weighted<RestOf<Sites>, Acc>>
