// `npm run bench -- sizes`: memory of every network of the zoo, or of those named, in training at its own image size and at 4096x4096. In: a machine
// that is simulated. Out: bytes if everything is kept, and the smallest budget with a plan; into bench/results/sizes.json, where other networks stay
// unchanged. docs/reference/zoo.md shows them. Invariant: a process plans one network.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { zoo } from '../src/zoo'
import { compile } from '../staging/compile'
import { bytesOf, mib, PAGE_BYTES } from '../staging/core/bytes'
import { resident } from '../staging/schedule/candidate'
import { inCoreLayout } from '../staging/schedule/incore'
import { graphOf, machine } from './lab/steps'
import { inTurns, ONCE, record } from './sides'

const MACHINE = 'v100-pcie-16g'
const LARGE = 4096
const RESULTS = join(__dirname, 'results/sizes.json')

interface Sizes {
  readonly inCoreMiB: number
  readonly smallestMiB: number
}
interface Row {
  readonly network: string
  readonly own: Sizes
  /** Null if the network takes no images of this size. */
  readonly large: Sizes | null
}

const sizesAt = (network: string, batch: number, height: number, width: number): Sizes | null => {
  const on = machine(MACHINE)
  const graph = graphOf(network, on, batch, height, width)
  if (graph === null) return null
  // No plan fits one page, so the refusal names the smallest budget.
  const plan = compile(graph, { strategy: 'auto', machine: on, budgetBytes: PAGE_BYTES })
  if (!isLeft(plan) || plan.left.tag !== 'BudgetInfeasible') throw new Error(`${network}: a plan fits one page`)
  return { inCoreMiB: bytesOf(resident(inCoreLayout(graph, on)).least) / mib(1), smallestMiB: plan.left.smallestBytes / mib(1) }
}

const networks = zoo.filter((z) => z.loss !== undefined)

const once = (network: string): Row => {
  const [batch, , height, width] = networks.find((z) => z.name === network)!.defaultInput
  return { network, own: sizesAt(network, batch, height, width)!, large: sizesAt(network, batch, LARGE, LARGE) }
}

const stored = (): readonly Row[] => (existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')).rows : [])

const main = (): void => {
  const named = process.argv.slice(2)
  const unknown = named.find((n) => !networks.some((z) => z.name === n))
  if (unknown !== undefined)
    throw new Error(`there is no network '${unknown}'; allowed: ${networks.map((z) => z.name).join(', ')}`)
  for (const { name } of networks.filter((z) => named.length === 0 || named.includes(z.name))) {
    const row = inTurns<Row>(__filename, undefined, 1, [name])[0]!.answers[0]!
    console.log(`${name.padEnd(28)} ${JSON.stringify(row.own)} ${JSON.stringify(row.large)}`)
    const others = stored().filter((r) => r.network !== name)
    const rows = networks.flatMap((z) => [row, ...others].filter((r) => r.network === z.name))
    record('sizes', { machineOfThePlans: MACHINE, large: LARGE, rows })
  }
}

if (process.argv[2] === ONCE) console.log(JSON.stringify(once(process.argv[3]!)))
else main()
