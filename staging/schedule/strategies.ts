// The planners by name. Adding a planner is adding its file and a line here.
import { auto, refineAuto } from './auto'
import { autoswap, refineAutoswap } from './autoswap'
import { checkpointSqrt } from './checkpoint'
import type { BuiltInStrategies } from '../core/names'
import type { Method } from './candidate'
import { dymem } from './dymem'
import { dynprog, refineDynprog } from './dynprog'
import { fractional, refineFractional } from './fractional'
import { swapGreedy } from './greedy'
import { hybridSuperneurons } from './hybridsuperneurons'
import { hybridTflms, refineHybridTflms } from './hybridtflms'
import { inCore } from './incore'
import { jointFinest, jointSmall } from './jointsearch'
import { checkpointOptimal, refineOptimal } from './optimal'
import { retiled } from './retile'
import { tiled, tiledFinest } from './tiled'
import { superneurons } from './superneurons'
import { refineTflms, tflms } from './tflms'
import { vdnnAll, vdnnConv, vdnnPlus } from './vdnn'
import { window } from './window'

export interface Strategy extends Method {
  /** What it swaps of all that in-core keeps: all of it, or what cannot be made again. */
  readonly swaps?: 'all' | 'rest'
  /** It cuts images into tiles, whose sums are rounded in another order than those of whole images. */
  readonly tiles?: true
}

const byName: Readonly<Record<keyof BuiltInStrategies, Strategy>> = {
  'in-core': { planner: inCore },
  'checkpoint:sqrt': { planner: checkpointSqrt() },
  'checkpoint:optimal': { planner: checkpointOptimal(), refiner: refineOptimal() },
  'swap:vdnn-all': { planner: vdnnAll(), swaps: 'all' },
  'swap:vdnn-conv': { planner: vdnnConv(), swaps: 'all' },
  'swap:vdnn++': { planner: vdnnPlus(), swaps: 'all' },
  'swap:superneurons': { planner: superneurons(), swaps: 'all' },
  'swap:autoswap': { planner: autoswap, refiner: refineAutoswap(), swaps: 'all' },
  'swap:tflms': { planner: tflms, refiner: refineTflms(), swaps: 'all' },
  'swap:dymem': { planner: dymem(), swaps: 'all' },
  'swap:window': { planner: window(), swaps: 'all' },
  'swap:greedy': { planner: swapGreedy(), swaps: 'all' },
  'swap:dynprog': { planner: dynprog(), refiner: refineDynprog(), swaps: 'all' },
  'swap:fractional': { planner: fractional(), refiner: refineFractional(), swaps: 'all' },
  'hybrid:tflms': { planner: hybridTflms(), refiner: refineHybridTflms(), swaps: 'rest' },
  'hybrid:superneurons': { planner: hybridSuperneurons(), swaps: 'rest' },
  tiled: { planner: tiled(), finest: tiledFinest, tiles: true },
  auto: { planner: auto(), small: jointSmall, finest: jointFinest, refiner: refineAuto(), improver: retiled(), tiles: true },
}

/** By any name: those from outside are looked up here. */
export const planners: Readonly<Record<string, Strategy>> = byName

/** The planners by name, for `stage` and `--strategy`. @example strategies.includes('swap:greedy') */
export const strategies = Object.keys(byName) as readonly (keyof BuiltInStrategies)[]
