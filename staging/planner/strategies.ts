// The planners by name. To add a planner, add its file and a line here.
import { auto, autoSmall, refineAuto } from '../search/auto'
import { autoswap, autoswapSmall, refineAutoswap } from '../literature/autoswap'
import { checkpointSqrt } from '../literature/checkpoint'
import { otherBorders } from './borders'
import type { BuiltInStrategies } from '../core/names'
import type { Method } from '../schedule/candidate'
import { dymem, dymemSmall } from '../literature/dymem'
import { dynprog, dynprogSmall, refineDynprog } from '../literature/dynprog'
import { fractional, fractionalSmall, refineFractional } from '../literature/fractional'
import { greedySmall, swapGreedy } from '../literature/greedy'
import { hybridSuperneurons, hybridSuperneuronsSmall } from '../literature/hybridsuperneurons'
import { hybridTflms, hybridTflmsSmall, refineHybridTflms } from '../literature/hybridtflms'
import { inCore } from '../schedule/incore'
import { jointFinest } from '../schedule/jointsearch'
import { checkpointOptimal, refineOptimal } from '../schedule/optimal'
import { ownGrids } from './owngrids'
import { recomputeConv } from '../literature/recomputeconv'
import { sft } from '../literature/sft'
import { tiled, tiledFinest, tiledSmall } from '../schedule/tiled'
import { superneurons, superneuronsSmall } from '../literature/superneurons'
import { refineTflms, tflms, tflmsSmall } from '../literature/tflms'
import { vdnnAll, vdnnAllSmall, vdnnConv, vdnnConvSmall, vdnnPlus, vdnnPlusSmall } from '../literature/vdnn'
import { window, windowSmall } from '../literature/window'

export interface Strategy extends Method {
  /** True if the strategy cuts images into tiles. The sums of tiles are rounded in another order than those of whole images. */
  readonly tiles?: true
}

const byName: Readonly<Record<keyof BuiltInStrategies, Strategy>> = {
  'in-core': { planner: inCore },
  'checkpoint:sqrt': { planner: checkpointSqrt() },
  'checkpoint:optimal': { planner: checkpointOptimal(), refiner: refineOptimal() },
  'swap:vdnn-all': { planner: vdnnAll(), small: vdnnAllSmall },
  'swap:vdnn-conv': { planner: vdnnConv(), small: vdnnConvSmall },
  'swap:vdnn++': { planner: vdnnPlus(), small: vdnnPlusSmall },
  'swap:superneurons': { planner: superneurons(), small: superneuronsSmall },
  'swap:autoswap': { planner: autoswap, small: autoswapSmall, refiner: refineAutoswap() },
  'swap:tflms': { planner: tflms, small: tflmsSmall, refiner: refineTflms() },
  'swap:dymem': { planner: dymem(), small: dymemSmall },
  'swap:window': { planner: window(), small: windowSmall },
  'swap:greedy': { planner: swapGreedy(), small: greedySmall },
  'swap:dynprog': { planner: dynprog(), small: dynprogSmall, refiner: refineDynprog() },
  'swap:fractional': { planner: fractional(), small: fractionalSmall, refiner: refineFractional() },
  'recompute:conv': { planner: recomputeConv },
  'hybrid:tflms': { planner: hybridTflms(), small: hybridTflmsSmall, refiner: refineHybridTflms() },
  'hybrid:superneurons': { planner: hybridSuperneurons(), small: hybridSuperneuronsSmall },
  sft: { planner: sft(), tiles: true },
  tiled: { planner: tiled(), small: tiledSmall, finest: tiledFinest, improvers: [otherBorders, ownGrids], tiles: true },
  auto: {
    planner: auto,
    small: autoSmall,
    finest: jointFinest,
    refiner: refineAuto,
    tiles: true,
  },
}

/** The planners by any string, for names that users give. */
export const planners: Readonly<Record<string, Strategy>> = byName

/**
 * The names of all built-in planners, for `stage` and `--strategy`.
 *
 * @example strategies.includes('swap:greedy')
 */
export const strategies = Object.keys(byName) as readonly (keyof BuiltInStrategies)[]
