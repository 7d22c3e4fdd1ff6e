// `npm run bench -- plans --suite bounds`: lower bounds of steps, over the in-core compute. In: networks at a quarter to a sixteenth of their in-core
// memory on a machine that is simulated. Out: the bound of a single barrier, the bound that `plan` prints, processor seconds of both, and
// bench/results/bounds.json. `convnext-tiny` has no batch norms.
import { barriersOf } from '../staging/bound/barriers'
import { lowerBoundOf } from '../staging/bound/lowerbound'
import { bytesOf } from '../staging/core/bytes'
import { computeSeconds } from '../staging/schedule/bound'
import { resident } from '../staging/schedule/candidate'
import { inCoreLayout } from '../staging/schedule/incore'
import { solver } from '../src/stage/least'
import { graphOf, machine, rounded } from './lab/steps'
import { processorSeconds, record } from './sides'

const MACHINE = 'v100-pcie-16g'
const SHARES = [4, 8, 16] as const
const CASES = [
  ['resnet50', 64, 224],
  ['resnet152', 32, 224],
  ['densenet121', 32, 224],
  ['mobilenetv2', 32, 224],
  ['unet', 8, 512],
  ['convnext-tiny', 1, 512],
] as const

const main = async (): Promise<void> => {
  const on = machine(MACHINE)
  const solve = await solver()
  const named = process.argv.slice(2)
  const rows = CASES.filter(([name]) => named.length === 0 || named.includes(name)).flatMap(([name, batch, side]) => {
    const graph = graphOf(name, on, batch, side)!
    const layout = inCoreLayout(graph, on)
    const compute = computeSeconds(layout)
    return SHARES.map((share) => {
      const budgetBytes = bytesOf(Math.floor(resident(layout).least / share))
      const timed = (most?: number) => {
        const began = process.cpuUsage()
        const { seconds } = lowerBoundOf(graph, on, budgetBytes, solve, most)!
        return { bound: rounded(seconds / compute, 5), processorSeconds: rounded(processorSeconds(began), 2) }
      }
      const row = {
        network: name,
        batch,
        side,
        share: `1/${share}`,
        mib: budgetBytes / 2 ** 20,
        ops: graph.ops.length,
        barriers: barriersOf(graph).ops.length,
        single: timed(1),
        printed: timed(),
      }
      console.log(
        `${name.padEnd(16)} b${batch} ${row.share.padEnd(4)} ${row.mib} MiB: single ${row.single.bound} (${row.single.processorSeconds} s), printed ${row.printed.bound} (${row.printed.processorSeconds} s)`,
      )
      return row
    })
  })
  if (named.length === 0) record('bounds', { machineOfThePlans: MACHINE, rows })
}

void main()
