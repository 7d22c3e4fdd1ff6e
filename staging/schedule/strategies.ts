// The planners by name. Adding a planner is adding its file and a line here.
import { auto, refineAuto } from './auto'
import { checkpointSqrt } from './checkpoint'
import type { Planner, Refiner } from './candidate'
import { swapGreedy } from './greedy'
import { inCore } from './incore'
import { checkpointOptimal, refineOptimal } from './optimal'
import { tiled } from './tiled'

export const planners: Readonly<Record<string, Planner>> = {
  'in-core': inCore,
  'checkpoint:sqrt': checkpointSqrt,
  'checkpoint:optimal': checkpointOptimal,
  'swap:greedy': swapGreedy,
  tiled,
  auto,
}

/** What some of them try once the budget is known. */
export const refiners: Readonly<Record<string, Refiner>> = {
  'checkpoint:optimal': refineOptimal,
  auto: refineAuto,
}

export const strategies: readonly string[] = Object.keys(planners)
