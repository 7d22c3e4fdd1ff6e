// The off switch of every heuristic of every planner. In: nothing. Out: for each strategy the method with everything, and one without each field of
// its options record. Invariant: the compiler refuses a planner's option that has no switch here. Without its heuristic, a method is its earlier
// version, or, if it tries several settings, it tries the first alone.
import type { CompileOptions } from '../../staging/compile'
import { arriving } from '../../staging/planner/arriving'
import { copying } from '../../staging/planner/copying'
import { laying } from '../../staging/planner/laying'
import { refine } from '../../staging/search/search'
import { DEFAULT_EFFORT, type Effort, effortOf } from '../../staging/search/limits'
import { auto, autoSmall } from '../../staging/search/auto'
import { type AutoswapOptions, autoswap, refineAutoswap } from '../../staging/literature/autoswap'
import type { Improver, Planner, Refiner } from '../../staging/schedule/candidate'
import { ALL_RULES, type ChainRules } from '../../staging/schedule/chaindp'
import { type CheckpointSqrtOptions, checkpointSqrt } from '../../staging/literature/checkpoint'
import { type DymemOptions, dymem } from '../../staging/literature/dymem'
import { type DynprogOptions, dynprog, refineDynprog } from '../../staging/literature/dynprog'
import { type FractionalOptions, fractional, refineFractional } from '../../staging/literature/fractional'
import { type GreedyOptions, swapGreedy } from '../../staging/literature/greedy'
import { type HybridSuperneuronsOptions, hybridSuperneurons } from '../../staging/literature/hybridsuperneurons'
import { type HybridTflmsOptions, hybridTflms, refineHybridTflms } from '../../staging/literature/hybridtflms'
import { checkpointOptimal, refineOptimal } from '../../staging/schedule/optimal'
import { type SuperneuronsOptions, superneurons } from '../../staging/literature/superneurons'
import { refineTflms, type TflmsOptions, tflms } from '../../staging/literature/tflms'
import { type SftOptions, sft } from '../../staging/literature/sft'
import { type TiledOptions, tiled } from '../../staging/schedule/tiled'
import { type VdnnOptions, type VdnnPlusOptions, vdnnAll, vdnnConv, vdnnPlus } from '../../staging/literature/vdnn'
import { type WindowOptions, window } from '../../staging/literature/window'

export type Method = CompileOptions['method']

/** The method without the heuristic, in words that follow 'with' or 'without', if an option has this value. */
type Off<T> = readonly [words: string, value: T]

export interface Switch {
  readonly words: string
  readonly method: Method
}

const switches = <O extends object>(
  make: (o: Partial<O>) => Method,
  off: { readonly [K in keyof O]-?: Off<O[K]> },
): readonly Switch[] => [
  { words: 'with everything', method: make({}) },
  ...Object.entries<Off<unknown>>(off).map(([option, [words, value]]) => ({
    words,
    method: make({ [option]: value } as Partial<O>),
  })),
]

const alone =
  <O>(planner: (o: Partial<O>) => Planner) =>
  (o: Partial<O>): Method => ({ planner: planner(o) })
const both =
  <O>(planner: (o: Partial<O>) => Planner, refiner: (o: Partial<O>) => Refiner) =>
  (o: Partial<O>): Method => ({ planner: planner(o), refiner: refiner(o) })

const vdnn: { readonly [K in keyof Omit<VdnnOptions, 'layers'>]-?: Off<VdnnOptions[K]> } = {
  barriers: ['without barriers', false],
  prefetch: ['without prefetching', false],
}
const cache: { readonly [K in keyof SuperneuronsOptions]-?: Off<SuperneuronsOptions[K]> } = {
  cache: ['without the tensor cache: all outputs of convolutions are swapped', false],
  prefetch: ['without prefetching', false],
}
const tuning: { readonly [K in keyof TflmsOptions]-?: Off<TflmsOptions[K]> } = {
  tuneAhead: ['without look-ahead', false],
  tuneGroupby: ['without grouping swaps in', false],
  thresholds: ['without a choice of thresholds: the highest', [1]],
}
const rules = (o: Partial<ChainRules>): ChainRules => ({ ...ALL_RULES, ...o })

const searched = (effort: Partial<Effort> = {}, improvers: readonly Improver[] = []): Method => ({
  improvers,
  planner: auto,
  small: autoSmall,
  refiner: (graph, on, pages, toBeat) => refine(graph, on, pages, toBeat, { ...effortOf(DEFAULT_EFFORT), ...effort }),
})

const AUTO: readonly Switch[] = [
  { words: 'with everything', method: undefined },
  { words: 'the search alone', method: searched() },
  ...(['bits', 'tiles', 'loops', 'reserves', 'parameters'] as const).map((kind) => ({
    words: `the search alone, without moves of ${kind}`,
    method: searched({ without: [kind] }),
  })),
  { words: 'the search alone, with the first ops in parts of the batch', method: searched({}, [arriving]) },
  { words: 'the search alone, with a copied input', method: searched({}, [copying]) },
  { words: 'the search alone, with weights laid out', method: searched({}, [laying]) },
]

export const SWITCHES: Readonly<Record<string, readonly Switch[]>> = {
  'checkpoint:sqrt': switches<CheckpointSqrtOptions>(alone(checkpointSqrt), {
    search: ['without a search for the number of blocks: the square root of the layers', false],
    balanced: ['with blocks of as many ops instead of as many bytes', false],
  }),
  'checkpoint:optimal': switches<ChainRules>(
    both(
      (o) => checkpointOptimal(rules(o)),
      (o) => refineOptimal(rules(o)),
    ),
    {
      nested: ['without nested recomputation', false],
      options: ['without recomputing cheap values inside a stage', false],
    },
  ),
  'swap:vdnn-all': switches(alone(vdnnAll), vdnn),
  'swap:vdnn-conv': switches(alone(vdnnConv), vdnn),
  'swap:vdnn++': switches<VdnnPlusOptions>(alone(vdnnPlus), {
    thresholds: ['without thresholds: inputs of convolutions', false],
    halves: ['without every other activation', false],
  }),
  'swap:superneurons': switches(alone(superneurons), cache),
  'swap:autoswap': switches<AutoswapOptions>(
    both(() => autoswap, refineAutoswap),
    {
      searches: ['without Bayesian search', 0],
      options: ['with ten weightings to choose from', 10],
    },
  ),
  'swap:tflms': switches(
    both(() => tflms, refineTflms),
    tuning,
  ),
  'swap:dymem': switches<DymemOptions>(alone(dymem), {
    depthFirst: ['without depth-first order', false],
    barriers: ['with barriers', true],
    convolutions: ['without prefetching', 0],
  }),
  'swap:window': switches<WindowOptions>(alone(window), {
    shares: ['without a choice of windows: the budget', [1]],
    skipRedundant: ['with redundant moves', false],
    parameters: ['with parameters and state in its sequence', true],
  }),
  'swap:greedy': switches<GreedyOptions>(alone(swapGreedy), { asNeeded: ['with everything swapped out', false] }),
  'swap:dynprog': switches<DynprogOptions>(both(dynprog, refineDynprog), {
    share: ['with whole activations only', Infinity],
    slots: ['with one resolution', [500]],
    virtualLayers: ['with 16 virtual layers', 16],
    rounds: ['without iterative rounding', 1],
    limits: ['with the true limit only', [1]],
    slack: ['without slack for virtual layers', [0]],
  }),
  'swap:fractional': switches<FractionalOptions>(both(fractional, refineFractional), {
    parts: ['without parts: whole activations', false],
    eager: ['without the first pages written', false],
    belady: ['without the last pages read again', false],
    chosen: ['without the choice of the dynamic programme', false],
    eachUse: ['without gaps between any two uses', false],
  }),
  'recompute:conv': [{ words: 'with everything', method: undefined }],
  'hybrid:tflms': switches<HybridTflmsOptions>(both(hybridTflms, refineHybridTflms), {
    ...tuning,
    thresholds: ['with a choice of thresholds', [1, 0.5]],
    chooseList: ['without a choice of checkpoints: all of them', false],
    rank: ['with checkpoints in order of the forward pass', false],
  }),
  'hybrid:superneurons': switches<HybridSuperneuronsOptions>(alone(hybridSuperneurons), {
    ...cache,
    costAware: ['with all cheap values recomputed', false],
  }),
  sft: switches<SftOptions>(alone(sft), {
    expands: ['without growing in the backward pass: overlapping gradients are added', false],
  }),
  tiled: switches<TiledOptions>(alone(tiled), {
    crossings: ['without a price for values between segments', false],
    squares: ['with bands only', false],
    join: ['without joining segments', false],
  }),
  auto: AUTO,
}
