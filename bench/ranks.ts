// `npm run bench:ranks`: a batch that several GPUs share, on paper. In: resnet50, 64 images a GPU on `v100-nvlink-16g`, named networks, numbers of
// ranks. Out: the step, its exchanges, what no schedule can beat, and bench/results/ranks.json. Invariant: all is simulated, nothing measured.
// Worked example: one GPU computes 213 ms; 8 of them on 25 Gb Ethernet exchange 89 ms more: each does 0.71 of what one does alone.
import { isLeft } from 'fp-ts/Either'
import { machineNamed } from '../src/machine/machine'
import { compile } from '../staging/compile'
import type { NetworkName } from '../staging/sim/networks'
import { simulate } from '../staging/sim/simulate'
import { COLLECTIVES } from '../staging/graph/ranks'
import { graphOf } from './lab/steps'
import { record } from './sides'

const [MODEL, MACHINE, EACH, SIDE] = ['resnet50', 'v100-nvlink-16g', 64, 224] as const
/** GPUs of one machine, and machines. */
const BETWEEN = {
  'nvlink-v100': [2, 4, 8],
  'pcie-3': [2, 4, 8],
  'infiniband-100g': [2, 8, 64, 256, 1024],
  'ethernet-100g': [2, 8, 64, 256, 1024],
  'ethernet-25g': [2, 8, 64, 256, 1024],
} as const satisfies { readonly [N in NetworkName]?: readonly number[] }

const rounded = (x: number): number => Number(x.toPrecision(4))

const stepOf = (ranks: number, network?: NetworkName): { readonly seconds: number; readonly exchanges: number } => {
  const found = machineNamed(MACHINE, { ranks, network })
  if (isLeft(found)) throw new Error(JSON.stringify(found.left))
  const on = found.right
  const graph = graphOf(MODEL, on, ranks * EACH, SIDE, SIDE)!
  const plan = compile(graph, { strategy: 'in-core', machine: on, budgetBytes: on.memoryBytes })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  const exchanges = plan.right.calls.filter((c) => COLLECTIVES.includes(c.kind)).reduce((n, c) => n + c.seconds, 0)
  return { seconds: simulate(plan.right, on.link).makespanSeconds, exchanges }
}

const alone = stepOf(1).seconds
const rows = Object.entries(BETWEEN).flatMap(([network, numbers]) =>
  numbers.map((ranks) => {
    const { seconds, exchanges } = stepOf(ranks, network as NetworkName)
    // Whatever is exchanged when: the step computes, and each rank's part of the network carries.
    const bound = Math.max(seconds - exchanges, exchanges)
    const row = {
      network,
      ranks,
      stepSeconds: rounded(seconds),
      commSeconds: rounded(exchanges),
      commHiddenShare: 0,
      efficiency: rounded(alone / seconds),
      boundSeconds: rounded(bound),
      boundEfficiency: rounded(alone / bound),
    }
    console.log(JSON.stringify(row))
    return row
  }),
)
record('ranks', { model: MODEL, machine: MACHINE, imagesEach: EACH, simulated: true, aloneSeconds: rounded(alone), rows })
