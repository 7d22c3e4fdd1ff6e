// `npm run bench -- sizes`: memory of every network of the zoo, or of those named, in training at its own image size and at 4096x4096. In: a machine
// that is simulated. Out: bytes if everything is kept, and the smallest budget with a plan; into bench/results/sizes.json, where other networks stay
// unchanged. docs/reference/zoo.md shows them. Invariant: a process plans one network.
import { zoo } from '../src/zoo'
import { graphOf, machine } from './lab/steps'
import { type Sizes, sizesOf } from './planned'
import { asked, begin, chosen, record, ROOT, withRow } from './sides'

const MACHINE = 'v100-pcie-16g'
const LARGE = 4096
interface Row {
  readonly network: string
  readonly own: Sizes
  /** Null if the network takes no images of this size. */
  readonly large: Sizes | null
}

const sizesAt = (network: string, batch: number, height: number, width: number): Sizes | null => {
  const on = machine(MACHINE)
  const graph = graphOf(network, on, batch, height, width)
  return graph && sizesOf(graph, on)
}

const networks = zoo.filter((z) => z.loss !== undefined)

const once = (network: string): Row => {
  const [batch, , height, width] = networks.find((z) => z.name === network)!.defaultInput
  return { network, own: sizesAt(network, batch, height, width)!, large: sizesAt(network, batch, LARGE, LARGE) }
}

const main = (): void => {
  const known = networks.map((z) => z.name)
  for (const name of chosen(known, process.argv.slice(2))) {
    const row = asked<Row>(ROOT, __filename, [name])
    console.log(`${name.padEnd(28)} ${JSON.stringify(row.own)} ${JSON.stringify(row.large)}`)
    record('sizes', { machineOfThePlans: MACHINE, large: LARGE, rows: withRow('sizes', row, (r) => r.network, known) })
  }
}

void begin(main, once)
