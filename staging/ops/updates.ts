// Updates from gradients, beside the optimizer: frozen parameters, and own rates or weight decays. Plain data. In: the users' options, the names of
// parameters. Out: the optimizer of each trained parameter, or an error in words. Invariant: a parameter belongs to the first group that matches its name; frozen
// parameters belong to none; each pattern matches at least one name. Worked example, names conv.weight, fc.weight, fc.bias: freeze 'conv.*', groups [{ match:
// '*.bias', weightDecay: 0 }] trains fc.weight with the optimizer's options, and fc.bias without decay.
import { chain, type Either, left, map, right, traverseArray, traverseReadonlyArrayWithIndex } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { list, words } from '../core/codecs'
import type { GraphError } from '../core/errors'
import { globMatches, nearestGlob } from '../core/glob'
import { knownIn } from '../core/known'
import { type KnownItems, optionsFor, type UnknownKeys } from '../core/options'
import { flag, listOf, numeric, texts, withValues } from '../core/values'
import { depthsOf, type NamedParameter } from './layerdecay'
import { OPTIMIZERS, type Optimizer } from './optimizer'

/**
 * A group of parameters with its own learning rate or weight decay.
 *
 * @example const group: ParameterGroup = { match: ['*.bias', 'bn*'], weightDecay: 0 }
 */
export interface ParameterGroup<P extends string = string> {
  /**
   * Names of the parameters; `*` matches any characters.
   *
   * @example stage(net, { groups: [{ match: ['*.bias', 'bn*'], weightDecay: 0 }] })
   */
  readonly match: P | readonly P[]
  /** Learning rate of the group. Default: as the optimizer. @example stage(net, { groups: [{ match: 'stem.*', lr: 1e-4 }] }) */
  readonly lr?: number | undefined
  /**
   * Weight decay of the group. Default: as the optimizer.
   *
   * @example stage(net, { groups: [{ match: '*.bias', weightDecay: 0 }] })
   */
  readonly weightDecay?: number | undefined
  /**
   * If true, the parameters are not trained. Default false.
   *
   * @example stage(net, { groups: [{ match: 'head.*' }, { match: '*', frozen: true }] })
   */
  readonly frozen?: boolean | undefined
}
export const GROUP = withValues(
  optionsFor<ParameterGroup>()('a parameter group', 'match', 'lr', 'weightDecay', 'frozen'),
  { match: texts, lr: numeric('numbers of at least 0'), weightDecay: numeric('numbers of at least 0'), frozen: flag },
  { prefix: 'groups: ', required: ['match'] },
)

/**
 * Options of the updates: freezing, groups, clipping, accumulation and averaging.
 *
 * @example const updates: Updates = { freeze: 'stem.*', clipNorm: 1, accumulate: 4 }
 */
export interface Updates {
  /**
   * Names of parameters that are not trained; `*` matches any characters. Their gradients and optimizer state
   * take no memory.
   *
   * @example stage(net, { freeze: ['stem.*', 'bn*'] })
   */
  readonly freeze?: string | readonly string[] | undefined
  /**
   * Groups of parameters with their own learning rate or weight decay. The first group that matches a parameter
   * counts.
   *
   * @example stage(net, { optimizer: adamw({ lr: 1e-3 }), groups: [{ match: '*.bias', weightDecay: 0 }] })
   */
  readonly groups?: readonly ParameterGroup[] | undefined
  /**
   * Largest absolute value of a gradient element; larger ones are clipped. Default: no clipping.
   *
   * @example stage(net, { clipValue: 0.5 })
   */
  readonly clipValue?: number | undefined
  /**
   * Largest norm of all gradients together; longer gradients are scaled down to it. Default: no clipping.
   *
   * @example stage(net, { optimizer: sgd({ lr: 0.1 }), clipNorm: 1 })
   */
  readonly clipNorm?: number | undefined
  /**
   * Number of steps per update; the update uses the mean of their gradients. Default 1.
   *
   * @example stage(net, { accumulate: 4 })
   */
  readonly accumulate?: number | undefined
  /**
   * Decay of an exponential moving average of the weights, e.g. 0.999. Default: no average. It is saved beside
   * the weights.
   *
   * @example stage(net, { average: 0.999 })
   */
  readonly average?: number | undefined
  /**
   * Factor of the learning rate from each block of layers to the block before it, e.g. 0.75: the head learns
   * fastest. Default 1.
   *
   * @example stage(net, { optimizer: adamw({ lr: 1e-3 }), layerDecay: 0.75 })
   */
  readonly layerDecay?: number | undefined
}
/** Values of the options of updates; their ranges are checked where they are used. */
export const UPDATE_VALUES = {
  freeze: texts,
  groups: listOf("a list of groups, such as { match: '*.bias', weightDecay: 0 }", () => true),
  clipValue: numeric('a finite number above 0'),
  clipNorm: numeric('a finite number above 0'),
  accumulate: numeric('whole numbers of at least 1'),
  average: numeric('0 or more and below 1'),
  layerDecay: numeric('more than 0 and at most 1'),
}
// biome-ignore format: a list
export const UPDATES = optionsFor<Updates>()('updates', 'freeze', 'groups', 'clipValue', 'clipNorm', 'accumulate', 'average', 'layerDecay')

/** Returns the options with error texts in place of unknown keys of their groups; null if all keys are known. */
export type FaultyGroups<O> = O extends { readonly groups: infer Gs extends readonly unknown[] }
  ? [UnknownKeys<Gs[number], typeof GROUP>] extends [never]
    ? null
    : { [K in keyof O]: K extends 'groups' ? KnownItems<Gs, typeof GROUP> : O[K] }
  : null

/** Returns those of the options that are options of updates and present. */
export const updatesOf = (o: Updates): Updates =>
  Object.fromEntries(UPDATES.keys.flatMap((k) => (o[k] === undefined ? [] : [[k, o[k]]])))

/**
 * An optimizer and the options of its updates.
 *
 * @example const recipe: TrainedBy = { optimizer: adam({ lr: 1e-3 }), clipNorm: 1 }
 */
export type TrainedBy = Updates & { readonly optimizer: Optimizer }

// ---------------------------------------------------------------- checks of user input (names and numbers are checked at their use)

const patterns = t.union([words, list(words)])
const groupCodec = t.intersection([
  t.type({ match: patterns }),
  t.partial({ lr: t.number, weightDecay: t.number, frozen: t.boolean }),
])
const updates = {
  freeze: patterns,
  groups: list(groupCodec as t.Type<ParameterGroup, ParameterGroup, unknown>),
  clipValue: t.number,
  clipNorm: t.number,
  accumulate: t.number,
  average: t.number,
  layerDecay: t.number,
}
export const updatesCodec = t.partial(updates) as unknown as t.Type<Updates, Updates, unknown>
export const optimizerCodec = t.type({ kind: t.keyof(OPTIMIZERS) }) as unknown as t.Type<Optimizer, Optimizer, unknown>
export const trainedByCodec: t.Type<TrainedBy, TrainedBy, unknown> = t.intersection([
  t.type({ optimizer: optimizerCodec }),
  updatesCodec,
])

// ---------------------------------------------------------------- the update of each parameter

const listed = (p: string | readonly string[] = []): readonly string[] => (typeof p === 'string' ? [p] : p)

/** Returns a test for names that match a pattern, or an error if a pattern matches no name. */
const matching = (given: Updates['freeze'], names: readonly string[]): Either<GraphError, (name: string) => boolean> =>
  pipe(
    listed(given),
    traverseArray((pattern) => {
      const matches = globMatches(pattern)
      return names.some(matches)
        ? right(matches)
        : left<GraphError>({ tag: 'PatternUnmatched', pattern, nearest: nearestGlob(pattern, names) })
    }),
    map((all) => (name: string) => all.some((matches) => matches(name))),
  )

interface Group {
  readonly has: (name: string) => boolean
  /** Absent for a frozen parameter. */
  readonly optimizer: Optimizer | undefined
}

const groupOf =
  (optimizer: Optimizer, names: readonly string[]) =>
  (i: number, group: ParameterGroup): Either<GraphError, Group> => {
    const { match, frozen = false, ...own } = group
    const given = Object.entries(own).filter(([, v]) => v !== undefined)
    const wrong = (reason: string, legal: string): Either<GraphError, never> =>
      left({ tag: 'GroupInvalid', group: i, reason, legal })
    if (frozen && given.length > 0) return wrong(`it is frozen, but has ${given[0]![0]}`, 'one of the two')
    return pipe(
      knownIn(GROUP)(group),
      chain(() => (listed(match).length > 0 ? matching(match, names) : wrong('it has no pattern', 'at least one'))),
      map((has) => ({ has, optimizer: frozen ? undefined : ({ ...optimizer, ...Object.fromEntries(given) } as Optimizer) })),
    )
  }

/** The limit on the number of steps per update. */
const MOST_STEPS = 2 ** 30
const isAbove0 = (n: number): boolean => Number.isFinite(n) && n > 0
const LEGAL = {
  clipValue: [isAbove0, 'a finite number above 0'],
  clipNorm: [isAbove0, 'a finite number above 0'],
  accumulate: [(n) => Number.isSafeInteger(n) && n >= 1 && n <= MOST_STEPS, `a whole number from 1 to ${MOST_STEPS}`],
  average: [(n) => n >= 0 && n < 1, '0 or more and below 1'],
  layerDecay: [(n) => n > 0 && n <= 1, 'more than 0 and at most 1'],
} as const satisfies Readonly<Record<string, readonly [(n: number) => boolean, string]>>
const NUMBERS = Object.keys(LEGAL) as readonly (keyof typeof LEGAL)[]
const checkedNumbers = (u: Updates): Either<GraphError, unknown> => {
  const wrong = NUMBERS.find((k) => u[k] !== undefined && !LEGAL[k][0](u[k]!))
  return wrong === undefined
    ? right(u)
    : left({ tag: 'ValueInvalid', name: wrong, reason: `it is ${u[wrong]}`, legal: LEGAL[wrong][1] })
}

/** Returns the optimizer of each trained parameter by its name, in forward order. Other code checks its numbers. */
export const trainedBy = (
  optimizer: Optimizer,
  updates: Updates,
  parameters: readonly NamedParameter[],
): Either<GraphError, ReadonlyMap<string, Optimizer>> => {
  const { freeze, groups = [], layerDecay } = updates
  const names = parameters.map(({ name }) => name)
  const depths = layerDecay === undefined ? undefined : depthsOf(parameters)
  const slowed = (name: string, its: Optimizer): Optimizer =>
    depths ? { ...its, lr: its.lr * layerDecay! ** depths.get(name)! } : its
  return pipe(
    checkedNumbers(updates),
    chain(() => matching(freeze, names)),
    chain((isFrozen) =>
      pipe(
        groups,
        traverseReadonlyArrayWithIndex(groupOf(optimizer, names)),
        map((own): readonly Group[] => [{ has: isFrozen, optimizer: undefined }, ...own, { has: () => true, optimizer }]),
      ),
    ),
    map(
      (groups) =>
        new Map(
          names.flatMap((name) => {
            const its = groups.find((g) => g.has(name))!.optimizer
            return its ? [[name, slowed(name, its)] as const] : []
          }),
        ),
    ),
  )
}
