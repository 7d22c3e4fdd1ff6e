// `npm run bench -- planning`: the seconds of planning, here and in the checkout in FOLDER, in turns. In: large networks, all or those named, at half
// of their memory, every strategy, a machine that is simulated. Out: processor seconds from the network to the verified plan (the median of the
// processes) and bench/results/planning.json. Invariant: a process plans each case once, warmed up by a small one.
import { certain } from '../staging/core/certain'
import { mse, PAGE_BYTES, stage, strategies, zooEntry } from '../src'
import { begin, chosen, folderAndNames, inTurns, median, processorSeconds, record } from './sides'

const MACHINE = 'v100-pcie-16g'
const CASES = [
  ['resnet152', 32, 224],
  ['densenet201', 32, 224],
  ['inception4', 32, 299],
] as const
const PROCESSES = 5

/** Processor seconds by network and strategy; nothing where no plan fits. */
type Answer = Readonly<Record<string, number>>

// The overloads want a model's own type: here it is any network.
const anyStage = stage as (model: unknown, options: object) => { readonly plan: { readonly peakPages: number } }

const once = (only: string): Answer => {
  const plan = (name: string, shape: readonly [number, number, number, number], options: object): number => {
    const { build, loss = mse } = zooEntry(name)!
    return anyStage(certain(name)(build(shape)), { ...options, loss, machine: MACHINE }).plan.peakPages
  }
  plan('resnet18', [1, 3, 64, 64], { strategy: 'auto' })
  const [name, batch, size] = CASES.find(([network]) => network === only)!
  const shape = [batch, 3, size, size] as const
  const budget = Math.floor(plan(name, shape, { strategy: 'in-core' }) / 2) * PAGE_BYTES
  const seconds = (strategy: string): number | null => {
    const began = process.cpuUsage()
    try {
      plan(name, shape, { strategy, budget })
    } catch {
      return null
    }
    return processorSeconds(began)
  }
  return Object.fromEntries(
    strategies.flatMap((strategy) => {
      const took = seconds(strategy)
      return took === null ? [] : [[`${name} ${strategy}`, took]]
    }),
  )
}

const main = (): void => {
  const { other, named } = folderAndNames()
  const names = chosen(
    CASES.map(([name]) => name),
    named,
  )
  const rows = CASES.filter(([name]) => names.includes(name)).flatMap(([name]) => {
    const sides = inTurns<Answer>(__filename, other, PROCESSES, [name])
    return Object.keys(sides.at(-1)!.answers[0]!).map((what) => {
      const seconds = sides.map(({ side, answers }) => [side, median(answers.map((a) => a[what] ?? Number.NaN))] as const)
      console.log(`${what.padEnd(36)} ${seconds.map(([side, s]) => `${side} ${s.toFixed(2)} s`).join('  ')}`)
      return { what, ...Object.fromEntries(seconds) }
    })
  })
  record('planning', { machineOfThePlans: MACHINE, processes: PROCESSES, rows })
}

void begin(main, (network) => once(network!))
