// `npm run bench -- plans`: the plans of `auto` for every network of the table, or for those named, at a half to a sixteenth of its memory; with
// --refusals only the smallest budget. In: usual training batches, a machine that is simulated. Out: the step over the compute of the in-core one,
// processor seconds, the smallest budget, and the refused networks at each share, also at 1/32; into bench/results/zoo.json, where other figures
// stay. Invariant: a process plans one network, warmed up by a small one; no budget profits from another. If planning exceeds its limit, other
// processes plan again, and the least counts: other work of the machine only adds to it.
import { isLeft } from 'fp-ts/Either'
import assert from 'node:assert/strict'
import { compile } from '../staging/compile'
import { bytesOf, mib, PAGE_BYTES, pagesIn } from '../staging/core/bytes'
import type { Graph } from '../staging/graph/graph'
import { computeSeconds } from '../staging/schedule/bound'
import { inCoreLayout } from '../staging/schedule/incore'
import { simulate } from '../staging/sim/simulate'
import { zooNames } from '../src/zoo'
import { graphOf, machine } from './lab/steps'
import { inCoreMiB, type Sizes as SizesOf, sizesOf } from './planned'
import { asked as askedAt, begin, chosen, processorSeconds, record, ROOT, storedRows, withRow } from './sides'
import { argumentsOf, BENCHES } from './table'

const MACHINE = 'v100-pcie-16g'
const SHARES = [2, 4, 8, 16]
/** The shares at which refusals are counted. The smallest budget tells them without a plan. */
const COUNTED = [...SHARES, 32]
const REFUSALS = '--refusals'
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
}
interface Sizes extends SizesOf {
  readonly network: string
}
interface Row extends Sizes {
  readonly plans: readonly Planned[]
}

const on = machine(MACHINE)
const graphFor = (network: string): Graph => graphOf(network, on, ...sizeOf(network))!

const namedSizes = (network: string, graph = graphFor(network)): Sizes => ({ network, ...sizesOf(graph, on) })

/** Returns the pages of a share of the in-core memory. */
const pagesAt = (inCoreMiB: number, share: number): number => Math.floor(pagesIn(mib(inCoreMiB)) / share)

/** The refused networks by share. */
const refusedIn = (rows: readonly Sizes[]): Readonly<Record<string, readonly string[]>> =>
  Object.fromEntries(
    COUNTED.map((share) => [
      `1/${share}`,
      rows.filter((r) => mib(r.smallestMiB) > bytesOf(pagesAt(r.inCoreMiB, share))).map((r) => r.network),
    ]),
  )

const once = (network: string): Row => {
  compile(graphOf('resnet18', on, 2, 64)!, { strategy: 'auto', machine: on, budgetBytes: 60 * PAGE_BYTES })
  const graph = graphFor(network)
  const compute = computeSeconds(inCoreLayout(graph, on))
  const whole = inCoreMiB(graph, on)
  const plans = SHARES.map((share): Planned => {
    // Each budget as if it were the only one: nothing is remembered of the graph.
    const fresh = { ...graph }
    const began = process.cpuUsage()
    const plan = compile(fresh, { strategy: 'auto', machine: on, budgetBytes: bytesOf(pagesAt(whole, share)) })
    const planning = Number(processorSeconds(began).toFixed(2))
    if (isLeft(plan)) {
      if (plan.left.tag !== 'BudgetInfeasible') throw new Error(JSON.stringify(plan.left))
      return { share, ratio: null, planning }
    }
    const ratio = Number((simulate(plan.right, on.link).makespanSeconds / compute).toFixed(4))
    return { share, ratio, planning, strategy: plan.right.strategy }
  })
  return { ...namedSizes(network, { ...graph }), plans }
}

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
  let row = asked<Row>(network)
  for (let again = 0; again < MOST_AGAIN && row.plans.some((p) => isSlow(p) && mayBeQuick(p)); again++)
    row = quicker(row, asked<Row>(network))
  return row
}

const asked = <A>(...args: readonly string[]): A => askedAt<A>(ROOT, __filename, args)

/** Writes the rows and prints the counts of refusals. */
const write = (rows: readonly Row[]): void => {
  const slow = rows.flatMap((r) => r.plans.filter(isSlow).map((p) => `${r.network} 1/${p.share}`))
  const refused = refusedIn(rows)
  record('zoo', { machineOfThePlans: MACHINE, limitSeconds: LIMIT_SECONDS, slow, refused, rows })
  const counts = Object.entries(refused).map(([share, of]) => `${share}: ${of.length}`)
  console.log(`  refused of ${rows.length}  ${counts.join('  ')}`)
}

const main = (): void => {
  const { given, named } = argumentsOf(BENCHES.plans.zoo)
  const stored = storedRows<Row>('zoo')
  for (const network of chosen(zooNames, named.length > 0 ? named : stored.map((r) => r.network))) {
    const before = stored.find((r) => r.network === network)
    const row: Row = given.refusals && before ? { ...before, ...asked<Sizes>(REFUSALS, network) } : measured(network)
    const text = ({ share, ratio, planning }: Planned): string => `1/${share}: ${ratio ?? 'refused'} (${planning} s)`
    console.log(`${network.padEnd(26)} from ${row.smallestMiB} of ${row.inCoreMiB} MiB  ${row.plans.map(text).join('  ')}`)
    write(withRow('zoo', row, (r) => r.network, zooNames))
  }
}

void begin(main, (first, second) => (first === REFUSALS ? namedSizes(second!) : once(first!)))
