// `npm run bench -- plans --suite waiting`: the waits of training steps on a link of 1 GB/s, here and in the checkout in FOLDER. In: networks at a
// quarter, an eighth and a sixteenth of their memory, a machine that is simulated. Out: seconds of the step, its compute and its waits, MiB of loaded
// inputs, processor seconds of planning, and bench/results/waiting.json. The rows of other networks stay. Invariant: a process plans one network; no
// budget profits from another.
import { isLeft } from 'fp-ts/Either'
import { compile } from '../staging/compile'
import { bytesOf, mib } from '../staging/core/bytes'
import { resident } from '../staging/schedule/candidate'
import { inCoreLayout } from '../staging/schedule/incore'
import { simulate } from '../staging/sim/simulate'
import { graphOf, machine } from './lab/steps'
import { begin, chosen, folderAndNames, inTurns, processorSeconds, record, storedRows, withRow } from './sides'

const MACHINE = 'v100-pcie-16g'
const BYTES_PER_SECOND = 1e9
const NETWORKS = ['efficientnet-b0', 'mobilenetv2']
const BATCH = 32
const SIDE = 224
const SHARES = [4, 8, 16]

type Row = { readonly network: string } & Readonly<Partial<Record<'before' | 'now', readonly Waiting[]>>>

const once = (network: string) => {
  const own = machine(MACHINE)
  const rates = { inBytesPerSecond: BYTES_PER_SECOND, outBytesPerSecond: BYTES_PER_SECOND }
  const on = { ...own, link: { ...own.link, ...rates } }
  const graph = graphOf(network, on, BATCH, SIDE)!
  const { least } = resident(inCoreLayout(graph, on))
  return SHARES.map((share) => {
    const budgetBytes = bytesOf(Math.floor(least / share))
    const began = process.cpuUsage()
    // A copy of the graph: caches hold nothing of it.
    const plan = compile({ ...graph }, { strategy: 'auto', machine: on, budgetBytes })
    const planning = Number(processorSeconds(began).toFixed(1))
    if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
    const { makespanSeconds, computeSeconds } = simulate(plan.right, on.link)
    const fedPages = plan.right.residencies.reduce((n, r) => n + (r.swapIn?.from === 'source' ? r.to - r.from : 0), 0)
    return {
      share,
      budgetMiB: budgetBytes / mib(1),
      stepSeconds: Number(makespanSeconds.toFixed(5)),
      computeSeconds: Number(computeSeconds.toFixed(5)),
      waiting: Number((1 - computeSeconds / makespanSeconds).toFixed(4)),
      fedMiB: bytesOf(fedPages) / mib(1),
      planning,
    }
  })
}
type Waiting = ReturnType<typeof once>[number]

const text = (w: Waiting): string =>
  `1/${w.share}: ${(1000 * w.stepSeconds).toFixed(1)} ms, waiting ${(100 * w.waiting).toFixed(1)} % (${w.planning} s)`

const main = (): void => {
  const { other, named } = folderAndNames()
  for (const network of chosen(NETWORKS, named)) {
    const sides = inTurns<readonly Waiting[]>(__filename, other, 1, [network])
    for (const { side, answers } of sides)
      console.log(`${network.padEnd(16)} ${side.padEnd(6)} ${answers[0]!.map(text).join('  ')}`)
    const row: Row = {
      ...(storedRows<Row>('waiting').find((r) => r.network === network) ?? { network }),
      ...Object.fromEntries(sides.map(({ side, answers }) => [side, answers[0]!])),
    }
    const rows = withRow('waiting', row, (r) => r.network, NETWORKS)
    record('waiting', { machineOfThePlans: MACHINE, linkBytesPerSecond: BYTES_PER_SECOND, batch: BATCH, side: SIDE, rows })
  }
}

void begin(main, once)
