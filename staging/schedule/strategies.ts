// The planners by name. Adding a planner is adding its file and a line here.
import { auto, refineAuto } from './auto'
import { autoswap, refineAutoswap } from './autoswap'
import { checkpointSqrt } from './checkpoint'
import type { Improver, Planner, Refiner } from './candidate'
import { dymem } from './dymem'
import { dynprog, refineDynprog } from './dynprog'
import { fractional, refineFractional } from './fractional'
import { swapGreedy } from './greedy'
import { hybridSuperneurons } from './hybridsuperneurons'
import { hybridTflms, refineHybridTflms } from './hybridtflms'
import { inCore } from './incore'
import { checkpointOptimal, refineOptimal } from './optimal'
import { retiled } from './retile'
import { tiled } from './tiled'
import { superneurons } from './superneurons'
import { refineTflms, tflms } from './tflms'
import { vdnnAll, vdnnConv, vdnnPlus } from './vdnn'
import { window } from './window'

export const planners: Readonly<Record<string, Planner>> = {
  'in-core': inCore,
  'checkpoint:sqrt': checkpointSqrt(),
  'checkpoint:optimal': checkpointOptimal(),
  'swap:vdnn-all': vdnnAll(),
  'swap:vdnn-conv': vdnnConv(),
  'swap:vdnn++': vdnnPlus(),
  'swap:superneurons': superneurons(),
  'swap:autoswap': autoswap,
  'swap:tflms': tflms,
  'swap:dymem': dymem(),
  'swap:window': window(),
  'swap:greedy': swapGreedy(),
  'swap:dynprog': dynprog(),
  'swap:fractional': fractional(),
  'hybrid:tflms': hybridTflms(),
  'hybrid:superneurons': hybridSuperneurons(),
  tiled: tiled(),
  auto: auto(),
}

/** What some of them try once the budget is known. */
export const refiners: Readonly<Record<string, Refiner>> = {
  'checkpoint:optimal': refineOptimal(),
  'swap:autoswap': refineAutoswap(),
  'swap:tflms': refineTflms(),
  'swap:dynprog': refineDynprog(),
  'swap:fractional': refineFractional(),
  'hybrid:tflms': refineHybridTflms(),
  auto: refineAuto(),
}

/** What some of them try last, with the best plan of all. */
export const improvers: Readonly<Record<string, Improver>> = {
  auto: retiled(),
}

export const strategies: readonly string[] = Object.keys(planners)
