// The planners by name. Adding a planner is adding its file and a line here.
import { checkpointSqrt } from './checkpoint'
import type { Planner } from './candidate'
import { swapGreedy } from './greedy'
import { inCore } from './incore'
import { tiled } from './tiled'

export const planners: Readonly<Record<string, Planner>> = {
  'in-core': inCore,
  'checkpoint:sqrt': checkpointSqrt,
  'swap:greedy': swapGreedy,
  tiled,
}

/** `auto` is not a planner of its own yet: it takes the fastest plan that any of these finds. */
export const strategies: readonly string[] = [...Object.keys(planners), 'auto']
