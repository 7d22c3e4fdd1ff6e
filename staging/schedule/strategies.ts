// The planners by name. Adding a planner is adding its file and a line here.
import { auto, autoSmall, refineAuto } from './auto'
import { autoswap, autoswapSmall, refineAutoswap } from './autoswap'
import { checkpointSqrt } from './checkpoint'
import { otherBorders } from './borders'
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
  /** It cuts images into tiles, whose sums are rounded in another order than those of whole images. */
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

/** By any name: those from outside are looked up here. */
export const planners: Readonly<Record<string, Strategy>> = byName

/**
 * The names of all built-in planners, for `stage` and `--strategy`.
 *
 * @example strategies.includes('swap:greedy')
 */
export const strategies = Object.keys(byName) as readonly (keyof BuiltInStrategies)[]
