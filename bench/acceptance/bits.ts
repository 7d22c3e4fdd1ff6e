// Swapping and recomputation change no bit: one network of each family of the zoo, trained on the CPU from one seed by every strategy that swaps,
// checkpoints or does both, each in its smallest budget. In: a claim. Out: a claim for each network: the weights after some steps are those of
// in-core, pages were held as planned, and each strategy moved or recomputed as stated, if its smallest budget is below in-core.
import { type Either, isLeft } from 'fp-ts/Either'
import { machineNamed } from '../../src/machine/machine'
import type { TrainResult } from '../../src/train/result'
import { prepare } from '../../src/stage/prepare'
import { stageGraph } from '../../src/stage/stage'
import { trainTask } from '../../src/train/trainer'
import { zooEntry, zooNames } from '../../src/zoo'
import { smallestOf } from '../../src/stage/sweep'
import { mib } from '../../staging/core/bytes'
import { planners, strategies } from '../../staging/planner/strategies'
import type { Claiming } from './claims'

const STEPS = 2

type Sizes = Readonly<Record<string, readonly [batch: number, height: number, width: number]>>

const USUAL: Sizes[string] = [4, 96, 96]

/** Large enough that values have pages of their own, small enough to train in a second. */
const CHOSEN: Sizes = {
  alexnet: [8, 224, 224],
  'resnet20-cifar': [64, 32, 32],
  'darknet19-features': [2, 128, 128],
  'deeplabv3plus-resnet50': [2, 97, 97],
  densenet121: [4, 96, 96],
  googlenet: [8, 96, 96],
  inception3: [4, 107, 107],
  inception4: [4, 107, 107],
  pix2pixhd: [1, 64, 128],
  resnet18: [8, 96, 96],
  unet: [1, 96, 96],
  'vgg11-features': [2, 128, 128],
}
const familyOf = (name: string): string | undefined => zooEntry(name)?.family
const chosen = new Set(Object.keys(CHOSEN).map(familyOf))
/** By family, backwards: the first network of each is the one that stays. */
const others = new Map([...zooNames].reverse().map((name) => [familyOf(name), name]))

/** A family that nobody chose a network of is there with its first, of the usual size. */
export const ONE_OF_EACH: Sizes = {
  ...CHOSEN,
  ...Object.fromEntries([...others].filter(([family]) => !chosen.has(family)).map(([, name]) => [name, USUAL])),
}

const must = <T>(e: Either<unknown, T>): T => {
  if (isLeft(e)) throw new Error(JSON.stringify(e.left))
  return e.right
}

const isExact = (strategy: string): boolean => strategy !== 'in-core' && !planners[strategy]!.tiles

const graphOn = (network: string, [batch, height, width]: readonly [number, number, number]) => {
  const on = must(machineNamed('cpu', { algorithms: 'fixed' }))
  const { build, defaultInput, loss } = zooEntry(network)!
  const model = must(build([batch, defaultInput[1], height, width]))
  return { on, graph: must(prepare(model, on, { name: network, loss })).graph }
}

export interface Bits {
  readonly strategy: string
  readonly budgetMiB: number
  readonly inCoreMiB: number
  readonly same: boolean
  /** It had less memory than in-core, and moved or recomputed; or it had as much. */
  readonly worked: boolean
  readonly asPlanned: boolean
}

/** Each strategy beside in-core. */
export const bitsOf = async (
  network: string,
  of: readonly string[] = strategies.filter(isExact),
  input = ONE_OF_EACH[network]!,
): Promise<readonly Bits[]> => {
  const { on, graph } = graphOn(network, input)
  const run = async (strategy: string): Promise<TrainResult> => {
    const budget = smallestOf(graph, on, strategy, 'fixed')
    const plan = must(stageGraph(graph, on, { strategy, budget, algorithms: 'fixed' }))
    return must(await trainTask(undefined, plan, { steps: STEPS, seed: 1 })())
  }
  const inCore = await run('in-core')
  const out: Bits[] = []
  for (const strategy of of) {
    const r = await run(strategy)
    out.push({
      strategy,
      budgetMiB: r.budgetBytes / mib(1),
      inCoreMiB: inCore.budgetBytes / mib(1),
      same: r.weightsSha256 === inCore.weightsSha256 && r.losses.join() === inCore.losses.join(),
      worked: r.budgetBytes >= inCore.budgetBytes || r.bytesOut > 0 || r.recomputeSeconds > 0,
      asPlanned: r.arenaPeakBytes === r.peakBytes && r.arenaPeakBytes <= r.budgetBytes,
    })
  }
  return out
}

export const bits = async (claim: Claiming): Promise<void> => {
  for (const network of Object.keys(ONE_OF_EACH)) {
    const all = await bitsOf(network)
    const holds = all.every((b) => b.same && b.worked && b.asPlanned) && all.some((b) => b.budgetMiB < b.inCoreMiB)
    claim('bits', `${network}: ${all.length} strategies train to the bits of in-core`, holds, {
      input: ONE_OF_EACH[network],
      steps: STEPS,
      inCoreMiB: all[0]?.inCoreMiB,
      budgetMiB: Object.fromEntries(all.map((b) => [b.strategy, b.budgetMiB])),
      ...(holds ? {} : { faults: all.filter((b) => !b.same || !b.worked || !b.asPlanned) }),
    })
  }
}
