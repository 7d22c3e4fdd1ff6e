// How long planning takes, and how it grows. In: a claim to make. Out: claims: seconds of each strategy for three large networks
// in half of their memory (the median of five, each on a graph that no planner has seen), and processor time on ever deeper
// chains of residual blocks for the strategies that claim n log n.
import { isLeft } from 'fp-ts/Either'
import { batchNorm, conv2d, identity, modelAt, type Net, relu, residual, seq } from '../../dsl'
import { prepare } from '../../src/stage/prepare'
import { compile } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import { certain } from '../../staging/core/certain'
import type { Graph } from '../../staging/graph/graph'
import { strategies } from '../../staging/planner/strategies'
import { processorSeconds } from '../sides'
import { digits, median, mustGraph, mustPlan, on, type Shaped, shareOfInCore } from './cases'
import type { Claiming } from './claims'

const TIMED: readonly Shaped[] = [
  ['resnet152', 32, 224],
  ['densenet201', 32, 224],
  ['inception4', 32, 299],
]
const RUNS = 5
const LIMIT_SECONDS = 1
/** Dynamic programmes (tiled chooses its segments by one), `sft`, which tries forty grids, and `auto`; `swap:autoswap` searches by Bayesian optimisation, and is exempt. */
const LIMITS: Readonly<Record<string, number>> = {
  auto: 5,
  tiled: 5,
  sft: 5,
  'checkpoint:optimal': 5,
  'swap:dynprog': 5,
  'swap:autoswap': Infinity,
}

/** Null where nothing fits. */
const planningSeconds = (c: Shaped, strategy: string, budgetBytes: number): number | null => {
  const times: number[] = []
  for (let run = 0; run < RUNS; run++) {
    const graph = mustGraph(c)
    const began = performance.now()
    if (isLeft(compile(graph, { strategy, budgetBytes, machine: on }))) return null
    times.push((performance.now() - began) / 1000)
  }
  return median(times)
}

const times = (claim: Claiming): void => {
  for (const c of TIMED) {
    const budget = shareOfInCore(mustGraph(c), 0.5)
    for (const strategy of strategies) {
      const seconds = planningSeconds(c, strategy, budget)
      const limit = LIMITS[strategy] ?? LIMIT_SECONDS
      const what = `${strategy} plans ${c[0]} in half of its memory in under ${limit} s`
      if (seconds !== null) claim('times', what, seconds < limit, { medianSeconds: digits(seconds) })
    }
  }
}

// ---------------------------------------------------------------- growth

/** Fifteen ops a block: convolution, norm, rectifier and a sum, forward and backward. */
export const residualChain = (blocks: number): Graph => {
  const one = (i: number): readonly Net[] => [conv2d(`c${i}`, 64, 3, { bias: false }), batchNorm(`n${i}`), relu()]
  const rest = Array.from({ length: blocks - 1 }, (_, i): Net => residual(seq(...one(i + 1)), identity))
  const chain = certain('a chain is valid')
  const model = chain(modelAt([8, 64, 112, 112], seq(...one(0), ...rest) as Net))
  return chain(prepare(model, on, { name: `${blocks} blocks` })).graph
}

export const GROWING = ['swap:greedy', 'swap:fractional', 'swap:window'] as const
export const FEW_BLOCKS = 80
/** 20 000 ops. */
export const MANY_BLOCKS = 1330
/** Times measured on a busy machine scatter. */
const SCATTER = 1.8

export interface Growth {
  readonly ops: number
  readonly seconds: number
  readonly times: number
  /** n log n, and what machines scatter. */
  readonly allowed: number
  readonly moves: boolean
}

const planned = (
  strategy: string,
  blocks: number,
): { readonly ops: number; readonly seconds: number; readonly moves: boolean } => {
  const graph = residualChain(blocks)
  const began = process.cpuUsage()
  const plan = mustPlan(graph, strategy, mib(200 + 40 * blocks))
  return { ops: graph.ops.length, seconds: processorSeconds(began), moves: plan.tierBytes > 0 }
}

const measuredGrowth = (strategy: string, blocks: number): Growth => {
  planned(strategy, FEW_BLOCKS)
  const few = [planned(strategy, FEW_BLOCKS), planned(strategy, FEW_BLOCKS)]
  const many = planned(strategy, blocks)
  const { ops } = few[0]!
  const nLogN = (many.ops * Math.log(many.ops)) / (ops * Math.log(ops))
  return { ...many, times: many.seconds / Math.min(...few.map((f) => f.seconds)), allowed: SCATTER * nLogN }
}

/** On a busy machine one measurement may be slow. */
const TRIES = 4

/** The first measurement within the allowed growth, else the last one. */
export const growthOf = (strategy: string, blocks: number, tries = TRIES): Growth => {
  const g = measuredGrowth(strategy, blocks)
  return g.times <= g.allowed || tries <= 1 ? g : growthOf(strategy, blocks, tries - 1)
}

const growth = (claim: Claiming): void => {
  for (const strategy of GROWING) {
    const g = growthOf(strategy, MANY_BLOCKS)
    claim('times', `${strategy} grows no faster than n log n`, g.moves && g.times <= g.allowed, { ...g })
  }
}

export const planningTimes = (claim: Claiming): void => {
  times(claim)
  growth(claim)
}
