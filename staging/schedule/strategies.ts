// The planners by name. Adding a planner is adding its file and a line here.
import { auto, autoSmall, refineAuto } from './auto'
import { autoswap, autoswapSmall, refineAutoswap } from './autoswap'
import { otherBorders } from './borders'
import { checkpointSqrt } from './checkpoint'
import type { BuiltInStrategies } from '../core/names'
import type { Method } from './candidate'
import { dymem, dymemSmall } from './dymem'
import { dynprog, dynprogSmall, refineDynprog } from './dynprog'
import { fractional, fractionalSmall, refineFractional } from './fractional'
import { greedySmall, swapGreedy } from './greedy'
import { hybridSuperneurons, hybridSuperneuronsSmall } from './hybridsuperneurons'
import { hybridTflms, hybridTflmsSmall, refineHybridTflms } from './hybridtflms'
import { inCore } from './incore'
import { jointFinest } from './jointsearch'
import { checkpointOptimal, refineOptimal } from './optimal'
import { ownGrids } from './owngrids'
import { sft } from './sft'
import { tiled, tiledFinest, tiledSmall } from './tiled'
import { superneurons, superneuronsSmall } from './superneurons'
import { refineTflms, tflms, tflmsSmall } from './tflms'
import { vdnnAll, vdnnAllSmall, vdnnConv, vdnnConvSmall, vdnnPlus, vdnnPlusSmall } from './vdnn'
import { window, windowSmall } from './window'

export interface Strategy extends Method {
  /** What it swaps of all that in-core keeps: all of it, or what cannot be made again. */
  readonly swaps?: 'all' | 'rest'
  /** It cuts images into tiles, whose sums are rounded in another order than those of whole images. */
  readonly tiles?: true
  /** `auto` does not try it: it is there to be compared with. */
  readonly alone?: true
}

const byName: Readonly<Record<keyof BuiltInStrategies, Strategy>> = {
  'in-core': { planner: inCore },
  'checkpoint:sqrt': { planner: checkpointSqrt() },
  'checkpoint:optimal': { planner: checkpointOptimal(), refiner: refineOptimal() },
  'swap:vdnn-all': { planner: vdnnAll(), small: vdnnAllSmall, swaps: 'all' },
  'swap:vdnn-conv': { planner: vdnnConv(), small: vdnnConvSmall, swaps: 'all' },
  'swap:vdnn++': { planner: vdnnPlus(), small: vdnnPlusSmall, swaps: 'all' },
  'swap:superneurons': { planner: superneurons(), small: superneuronsSmall, swaps: 'all' },
  'swap:autoswap': { planner: autoswap, small: autoswapSmall, refiner: refineAutoswap(), swaps: 'all' },
  'swap:tflms': { planner: tflms, small: tflmsSmall, refiner: refineTflms(), swaps: 'all' },
  'swap:dymem': { planner: dymem(), small: dymemSmall, swaps: 'all' },
  'swap:window': { planner: window(), small: windowSmall, swaps: 'all' },
  'swap:greedy': { planner: swapGreedy(), small: greedySmall, swaps: 'all' },
  'swap:dynprog': { planner: dynprog(), small: dynprogSmall, refiner: refineDynprog(), swaps: 'all' },
  'swap:fractional': { planner: fractional(), small: fractionalSmall, refiner: refineFractional(), swaps: 'all' },
  'hybrid:tflms': { planner: hybridTflms(), small: hybridTflmsSmall, refiner: refineHybridTflms(), swaps: 'rest' },
  'hybrid:superneurons': { planner: hybridSuperneurons(), small: hybridSuperneuronsSmall, swaps: 'rest' },
  sft: { planner: sft(), tiles: true, alone: true },
  tiled: { planner: tiled(), small: tiledSmall, finest: tiledFinest, tiles: true },
  auto: {
    planner: auto(),
    small: autoSmall,
    finest: jointFinest,
    refiner: refineAuto(),
    improvers: [otherBorders, ownGrids],
    tiles: true,
  },
}

/** By any name: those from outside are looked up here. */
export const planners: Readonly<Record<string, Strategy>> = byName

/**
 * The names of all built-in planners, for `stage` and `--strategy`.
 *
 * @example strategies.includes('swap:greedy')
 */
export const strategies = Object.keys(byName) as readonly (keyof BuiltInStrategies)[]
