// `npm run bench:zoo -- [NETWORK …]`: the plans of `auto` for every network of the table, or for those named, at a half to a thirty-second
// of its memory, and their planning time. In: usual training batches, a machine that is simulated. Out: the step over the compute of the
// in-core one, or the smallest budget after a refusal, and processor seconds; into bench/results/zoo.json, where other networks stay unchanged.
// Invariant: a process plans one network, warmed up by a small one; no budget profits from another. If planning exceeds its limit, other processes
// plan again, and the least counts: other work of the machine only adds to it.
import { isLeft } from 'fp-ts/Either'
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { compile } from '../staging/compile'
import { bytesOf, mib, PAGE_BYTES } from '../staging/core/bytes'
import { computeSeconds } from '../staging/schedule/bound'
import { resident } from '../staging/schedule/candidate'
import { inCoreLayout } from '../staging/schedule/incore'
import { simulate } from '../staging/sim/simulate'
import { zooNames } from '../src/zoo'
import { graphOf, machine } from './lab/steps'
import { inTurns, ONCE, record } from './sides'

const MACHINE = 'v100-pcie-16g'
const RESULTS = join(__dirname, 'results/zoo.json')
const SHARES = [2, 4, 8, 16, 32]
/** The limit of planning at any of them, in processor seconds. */
const LIMIT_SECONDS = 5
const MOST_AGAIN = 2
/** The share that the rest of the machine may add: planning beyond it is not repeated. */
const NOISE = 1.3

const sizeOf = (network: string): readonly [batch: number, height: number, width: number] => {
  if (network.endsWith('-cifar')) return [128, 32, 32]
  if (network.startsWith('inception')) return [32, 299, 299]
  if (network.includes('-features') || network.startsWith('deeplab') || network === 'unet') return [8, 512, 512]
  if (network === 'pix2pixhd') return [1, 512, 1024]
  if (network.startsWith('vgg')) return [64, 224, 224]
  return network === 'alexnet' ? [256, 224, 224] : [32, 224, 224]
}

interface Planned {
  readonly share: number
  readonly ratio: number | null
  readonly planning: number
  readonly strategy?: string
  readonly smallestMiB?: number
}
interface Row {
  readonly network: string
  readonly inCoreMiB: number
  readonly plans: readonly Planned[]
}

const once = (network: string): Row => {
  const on = machine(MACHINE)
  compile(graphOf('resnet18', on, 2, 64)!, { strategy: 'auto', machine: on, budgetBytes: 60 * PAGE_BYTES })
  const graph = graphOf(network, on, ...sizeOf(network))!
  const layout = inCoreLayout(graph, on)
  const pages = resident(layout).least
  const compute = computeSeconds(layout)
  const plans = SHARES.map((share): Planned => {
    // Each budget as if it were the only one: nothing is remembered of the graph.
    const fresh = { ...graph }
    const began = process.cpuUsage()
    const plan = compile(fresh, { strategy: 'auto', machine: on, budgetBytes: bytesOf(Math.floor(pages / share)) })
    const { user, system } = process.cpuUsage(began)
    const planning = Number(((user + system) / 1e6).toFixed(2))
    if (isLeft(plan)) {
      if (plan.left.tag !== 'BudgetInfeasible') throw new Error(JSON.stringify(plan.left))
      return { share, ratio: null, planning, smallestMiB: plan.left.smallestBytes / mib(1) }
    }
    const ratio = Number((simulate(plan.right, on.link).makespanSeconds / compute).toFixed(4))
    return { share, ratio, planning, strategy: plan.right.strategy }
  })
  return { network, inCoreMiB: bytesOf(pages) / mib(1), plans }
}

const stored = (): readonly Row[] => (existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')).rows : [])

const isSlow = ({ planning }: Planned): boolean => planning > LIMIT_SECONDS
const mayBeQuick = ({ planning }: Planned): boolean => planning <= NOISE * LIMIT_SECONDS

/** The same plans of two processes, each with the less of its seconds. */
const quicker = (a: Row, b: Row): Row => ({
  ...a,
  plans: a.plans.map((p, i) => {
    const other = b.plans[i]!
    assert.deepEqual({ ...other, planning: 0 }, { ...p, planning: 0 }, `${a.network} is planned the same each time`)
    return { ...p, planning: Math.min(p.planning, other.planning) }
  }),
})

const measured = (network: string): Row => {
  const process = (): Row => inTurns<Row>(__filename, undefined, 1, [network])[0]!.answers[0]!
  let row = process()
  for (let again = 0; again < MOST_AGAIN && row.plans.some((p) => isSlow(p) && mayBeQuick(p)); again++)
    row = quicker(row, process())
  return row
}

const main = (): void => {
  const named = process.argv.slice(2)
  const unknown = named.find((n) => !zooNames.includes(n))
  if (unknown !== undefined) throw new Error(`there is no network '${unknown}'; allowed: ${zooNames.join(', ')}`)
  const chosen = named.length > 0 ? named : stored().map((r) => r.network)
  for (const network of zooNames.filter((n) => chosen.includes(n))) {
    const row = measured(network)
    const text = ({ share, ratio, planning, smallestMiB }: Planned): string =>
      `1/${share}: ${ratio ?? `from ${smallestMiB} MiB`} (${planning} s)`
    console.log(`${network.padEnd(26)} ${row.plans.map(text).join('  ')}`)
    const others = stored().filter((r) => r.network !== network)
    const rows = zooNames.flatMap((n) => [row, ...others].filter((r) => r.network === n))
    const slow = rows.flatMap((r) => r.plans.filter(isSlow).map((p) => `${r.network} 1/${p.share}`))
    record('zoo', { machineOfThePlans: MACHINE, limitSeconds: LIMIT_SECONDS, slow, rows })
  }
}

if (process.argv[2] === ONCE) console.log(JSON.stringify(once(process.argv[3]!)))
else main()
