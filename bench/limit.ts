// `npm run bench -- planning --suite limit`: the seconds of planning here, relative to the machine of its limit. In: a checkout of 8db3dac8 in
// FOLDER, with node_modules: its planner took known processor seconds there, and takes others here. Out: in turns with it the networks that take
// today's planner longest (bench/results/zoo.json), their seconds here, and divided by the slowness of this machine; into bench/results/limit.json.
// Invariant: a process plans one network; the least of the earlier planner's times for a case counts.
import { execFileSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { asked, begin, median, processorSeconds, record, ROOT, storedRows } from './sides'

const COMMIT = '8db3dac8'
/** Network, batch, height, width, MiB, and processor seconds there. */
const KNOWN = [
  ['inception4', 32, 299, 299, 678, 10.3],
  ['densenet121', 32, 224, 224, 246, 8.0],
  ['deeplabv3plus-resnet50', 8, 512, 512, 630, 7.8],
] as const
const ZOO = join(__dirname, 'zoo.ts')
const LIMIT_SECONDS = 5
const NETWORKS = 9

interface Planned {
  readonly share: number
  readonly planning: number
}
interface Row {
  readonly network: string
  readonly plans: readonly Planned[]
}

/** Run in the other checkout. */
const once = (network?: string): number => {
  const { compile } = require(resolve('staging/compile'))
  const { graphOf, machine } = require(resolve('bench/lab/steps'))
  const [, batch, height, width, budget] = KNOWN.find(([n]) => n === network)!
  const on = machine('v100-pcie-16g')
  const graph = graphOf(network, on, batch, height, width)
  const began = process.cpuUsage()
  compile(graph, { strategy: 'auto', machine: on, budgetBytes: budget * 2 ** 20 })
  return Number(processorSeconds(began).toFixed(2))
}

const head = (folder: string): string =>
  execFileSync('git', ['-C', folder, 'rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8' }).trim()

const main = (): void => {
  const [folder] = process.argv.slice(2)
  if (folder === undefined)
    throw new Error('npm run bench -- planning --suite limit FOLDER: a checkout of 8db3dac8, with node_modules')
  if (head(folder) !== COMMIT) throw new Error(`${folder} is not a checkout of ${COMMIT}: git worktree add ${folder} ${COMMIT}`)
  const longest = ({ plans }: Row): number => Math.max(...plans.map((p) => p.planning))
  const networks = [...storedRows<Row>('zoo')].sort((a, b) => longest(b) - longest(a)).slice(0, NETWORKS)
  const earlier = new Map<string, number[]>(KNOWN.map(([network]) => [network, []]))
  const rows = networks.map(({ network }, i) => {
    const [known] = KNOWN[i % KNOWN.length]!
    earlier.get(known)!.push(asked<number>(folder, __filename, [known]))
    console.log(`${known} ${earlier.get(known)!.at(-1)!.toFixed(1)} s at ${COMMIT}; now ${network}`)
    return asked<Row>(ROOT, ZOO, [network])
  })
  const known = KNOWN.map(([network, , , , budget, there]) => ({
    network,
    mib: budget,
    there,
    here: Math.min(...earlier.get(network)!),
  }))
  const slower = median(known.map((k) => k.here / k.there))
  const today = rows.flatMap(({ network, plans }) =>
    plans.map(({ share, planning: here }) => ({ network, share, here, there: Number((here / slower).toFixed(2)) })),
  )
  const most = today.reduce((a, b) => (b.there > a.there ? b : a))
  console.log(
    `this machine is ${slower.toFixed(2)} times slower; ${most.network} at 1/${most.share} takes most: ${most.here} s here, ${most.there} s there`,
  )
  record('limit', { commit: COMMIT, limitSeconds: LIMIT_SECONDS, known, slower: Number(slower.toFixed(3)), most, rows: today })
}

void begin(main, once)
