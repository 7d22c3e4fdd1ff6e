// `npm run bench -- plans --suite joint`: the plans of `auto` for small budgets, here and in the checkout in FOLDER. In: networks at half to a
// sixteenth of their memory, budgets in MiB, a machine that is simulated. Out: the step over the compute of the in-core one, the seconds of planning,
// and bench/results/joint.json. Invariant: a process plans one network, warmed up by a small one; null is a budget that is refused.
import { isLeft } from 'fp-ts/Either'
import { compile } from '../staging/compile'
import { mib, PAGE_BYTES } from '../staging/core/bytes'
import { computeSeconds } from '../staging/schedule/bound'
import { inCoreLayout } from '../staging/schedule/incore'
import { leastSeconds } from '../src/stage/least'
import { simulate } from '../staging/sim/simulate'
import { graphOf, machine } from './lab/steps'
import { begin, chosen, folderAndNames, inTurns, processorSeconds, record } from './sides'

const MACHINE = 'v100-pcie-16g'
/** Network, batch, height, width, and MiB at 1/2, 1/4, 1/8 and 1/16 of in-core. */
const CASES = [
  ['resnet50', 64, 224, 224, [2704, 1352, 676, 338]],
  ['deeplabv3plus-resnet50', 8, 512, 512, [2520, 1260, 630, 316]],
  ['inception4', 32, 299, 299, [2712, 1356, 678, 340]],
  ['densenet121', 32, 224, 224, [1960, 980, 490, 246]],
  ['unet', 8, 512, 512, [5384, 2692, 1346, 672]],
  ['vgg16-features', 8, 512, 512, [1312, 656, 328, 164]],
  ['pix2pixhd', 1, 512, 1024, [2246, 1124]],
] as const

interface Row {
  readonly mib: number
  /** The step over the in-core compute, and processor seconds of planning. */
  readonly ratio: number | null
  readonly planning: number
  readonly strategy: string
  /** For a refused budget. */
  readonly smallestMiB?: number
}

const once = (network: string): readonly Row[] => {
  const on = machine(MACHINE)
  const [name, batch, height, width, budgets] = CASES.find(([n]) => n === network)!
  const small = graphOf('resnet18', on, 2, 64)!
  compile(small, { strategy: 'auto', machine: on, budgetBytes: 60 * PAGE_BYTES })
  const graph = graphOf(name, on, batch, height, width)!
  const compute = computeSeconds(inCoreLayout(graph, on))
  return budgets.map((budget): Row => {
    // Each budget as if it were the only one: nothing is remembered of the graph.
    const fresh = { ...graph }
    const began = process.cpuUsage()
    const plan = compile(fresh, { strategy: 'auto', machine: on, budgetBytes: mib(budget) })
    const planning = Number(processorSeconds(began).toFixed(2))
    if (isLeft(plan)) {
      if (plan.left.tag !== 'BudgetInfeasible') throw new Error(JSON.stringify(plan.left))
      return { mib: budget, ratio: null, planning, strategy: '', smallestMiB: plan.left.smallestBytes / mib(1) }
    }
    const ratio = Number((simulate(plan.right, on.link).makespanSeconds / compute).toFixed(4))
    return { mib: budget, ratio, planning, strategy: plan.right.strategy }
  })
}

/** The lower bound over the in-core compute at each budget. */
const boundsOf = async (network: string): Promise<readonly number[]> => {
  const least = await leastSeconds()
  const on = machine(MACHINE)
  const [name, batch, height, width, budgets] = CASES.find(([n]) => n === network)!
  const graph = graphOf(name, on, batch, height, width)!
  const compute = computeSeconds(inCoreLayout(graph, on))
  return budgets.map((budget) => Number(((least(graph, on, mib(budget))?.seconds ?? compute) / compute).toFixed(4)))
}

const main = async (): Promise<void> => {
  const { other, named } = folderAndNames()
  const names = chosen(
    CASES.map(([name]) => name),
    named,
  )
  const rows: object[] = []
  for (const [name, batch, height, width] of CASES.filter(([name]) => names.includes(name))) {
    const sides = inTurns<readonly Row[]>(__filename, other, 1, [name])
    for (const { side, answers } of sides) console.log(`${name.padEnd(24)} ${side.padEnd(6)} ${answers[0]!.map(text).join('  ')}`)
    const bounds = await boundsOf(name)
    console.log(`${name.padEnd(24)} bound  ${bounds.join('  ')}`)
    const planned = Object.fromEntries(sides.map(({ side, answers }) => [side, answers[0]!]))
    rows.push({ network: name, batch, height, width, ...planned, bounds })
  }
  if (named.length === 0) record('joint', { machineOfThePlans: MACHINE, rows })
}

const text = (r: Row): string => `${r.mib} MiB: ${r.ratio ?? `from ${r.smallestMiB}`} ${r.strategy} (${r.planning} s)`

void begin(main, once)
