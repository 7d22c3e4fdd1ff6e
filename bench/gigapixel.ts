// `npm run bench -- planning --suite gigapixel`: planning the training of large images. In: networks of the zoo, or those named, at 16384x16384, on a
// machine that is simulated. Out: bench/results/gigapixel.json, where other networks stay unchanged. It has the smallest budget and a plan for twice
// that budget, with the seconds of its simulated step. Both have the processor seconds and the memory of a process. A process plans once.
import { isLeft } from 'fp-ts/Either'
import { mib, mse, PAGE_BYTES, tryStage, zooEntry } from '../src'
import { errorText } from '../src/errors/errors'
import { asked, begin, chosen, processorSeconds, record, ROOT, withRow } from './sides'

const MACHINE = 'v100-pcie-16g'
const SIDE = 16384
/** Batch of each network; the pooled norm of DeepLabV3+ needs two images. */
const BATCHES = {
  'vgg16-features': 1,
  resnet50: 1,
  'convnext-tiny': 1,
  unet: 1,
  'deeplabv3plus-resnet50': 2,
} as const
type Network = keyof typeof BATCHES
const networks = Object.keys(BATCHES) as readonly Network[]

/** One planning, with all that its process took. */
interface Planned {
  readonly budgetMiB: number
  readonly processorSeconds: number
  readonly processMiB: number
  /** The strategy and the step exist for plans, not for smallest budgets. */
  readonly strategy?: string
  readonly stepSeconds?: number
}
interface Row {
  readonly network: Network
  readonly batch: number
  readonly smallest: Planned
  readonly twice: Planned
}

// The overloads want a model's own type: here it is any network.
const anyStage = tryStage as (model: unknown, options: object) => ReturnType<typeof tryStage>
const KIB_PER_MIB = 1024

const planned = (network: Network, budgetMiB: number): Planned => {
  const { build, loss = mse } = zooEntry(network)!
  const model = build([BATCHES[network], 3, SIDE, SIDE])
  if (isLeft(model)) throw new Error(network)
  const budget = budgetMiB === 0 ? PAGE_BYTES : mib(budgetMiB)
  const staged = anyStage(model.right, { loss, budget, machine: MACHINE })
  const refused = isLeft(staged) ? staged.left : undefined
  if (refused && refused.tag !== 'BudgetInfeasible') throw new Error(`${network}: ${errorText(refused)}`)
  const found = isLeft(staged)
    ? { budgetMiB: refused!.smallestBytes / mib(1) }
    : {
        budgetMiB,
        strategy: staged.right.plan.strategy,
        stepSeconds: Number(staged.right.timeline.makespanSeconds.toFixed(1)),
      }
  return {
    ...found,
    processorSeconds: Number(processorSeconds().toFixed(1)),
    processMiB: Math.round(process.resourceUsage().maxRSS / KIB_PER_MIB),
  }
}

const main = (): void => {
  for (const network of chosen(networks, process.argv.slice(2))) {
    const one = (budget: number) => asked<Planned>(ROOT, __filename, [network, String(budget)])
    const smallest = one(0)
    const row: Row = { network, batch: BATCHES[network], smallest, twice: one(2 * smallest.budgetMiB) }
    console.log(JSON.stringify(row))
    record('gigapixel', {
      machineOfThePlans: MACHINE,
      side: SIDE,
      rows: withRow('gigapixel', row, (r) => r.network, networks),
    })
  }
}

void begin(main, (network, budgetMiB) => planned(network as Network, Number(budgetMiB)))
