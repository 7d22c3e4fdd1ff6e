// The planners by name. Adding a planner is adding its file and a line here.
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
}

/** What some of them try once the budget is known. */
export const refiners: Readonly<Record<string, Refiner>> = {
  'checkpoint:optimal': refineOptimal,
}

/** `auto` is not a planner of its own yet: it takes the fastest plan that any of these finds. */
export const strategies: readonly string[] = [...Object.keys(planners), 'auto']
