// `npm run bench -- ranks`: a batch that several GPUs share, on paper. In: resnet50, 64 images a GPU on `v100-nvlink-16g`, named networks, numbers of
// ranks. Out: the step, its exchanges, a bound for any schedule, and bench/results/ranks.json. Invariant: all is simulated, nothing measured. Worked
// example: one GPU computes 213 ms; 8 of them on 25 Gb Ethernet exchange for 78 ms, 57 of these during compute: each reaches 0.91.
import { certain } from '../staging/core/certain'
import { machineNamed } from '../src/machine/machine'
import { compile } from '../staging/compile'
import type { Norms, Shard } from '../staging/graph/machine'
import type { NetworkName } from '../staging/sim/networks'
import { bytesOf } from '../staging/core/bytes'
import { exchangesOf } from '../src/report/facts'
import { simulate } from '../staging/sim/simulate'
import { COLLECTIVES } from '../staging/graph/ranks'
import { mostHiddenSeconds } from './hideable'
import { graphOf } from './lab/steps'
import { record, rounded } from './sides'

const [MODEL, MACHINE, EACH, SIDE] = ['resnet50', 'v100-nvlink-16g', 64, 224] as const
/** GPUs of one machine, and machines. */
const BETWEEN = {
  'nvlink-v100': [2, 4, 8],
  'pcie-3': [2, 4, 8],
  'infiniband-100g': [2, 8, 64, 256, 1024],
  'ethernet-100g': [2, 8, 64, 256, 1024],
  'ethernet-25g': [2, 8, 64, 256, 1024],
} as const satisfies { readonly [N in NetworkName]?: readonly number[] }

const stepOf = (ranks: number, network?: NetworkName, norms?: Norms, shard?: Shard) => {
  const on = certain(MACHINE)(machineNamed(MACHINE, { ranks, network, norms, shard }))
  const graph = graphOf(MODEL, on, ranks * EACH, SIDE, SIDE)!
  const plan = certain(MODEL)(compile(graph, { strategy: 'in-core', machine: on, budgetBytes: on.memoryBytes }))
  const timeline = simulate(plan, on.link)
  const { exchanges: calls = 0, commSeconds = 0, commHiddenShare = 0 } = exchangesOf(plan, timeline) ?? {}
  const inTurn = plan.calls.reduce((n, c) => n + (COLLECTIVES.includes(c.kind) ? c.seconds : 0), 0)
  return {
    seconds: timeline.makespanSeconds,
    exchanges: commSeconds,
    /** Without calls that wait for other ranks. */
    otherSeconds: timeline.makespanSeconds - inTurn - (timeline.stallSeconds.ranks ?? 0),
    hiddenShare: commHiddenShare,
    /** For any schedule: the share of exchanges with independent ops. */
    mostHiddenShare: commSeconds > 0 ? mostHiddenSeconds(plan) / commSeconds : 0,
    peakBytes: bytesOf(plan.peakPages),
    calls,
  }
}

const { seconds: alone, peakBytes: alonePeakBytes } = stepOf(1)
const rows = Object.entries(BETWEEN).flatMap(([network, numbers]) =>
  numbers.map((ranks) => {
    const { seconds, exchanges, otherSeconds, hiddenShare, mostHiddenShare, peakBytes, calls } = stepOf(
      ranks,
      network as NetworkName,
    )
    const local = stepOf(ranks, network as NetworkName, 'local')
    const parts = stepOf(ranks, network as NetworkName, undefined, 'gradients')
    // In any order of exchanges: the step computes, and each rank's part of the network carries.
    const bound = Math.max(otherSeconds, exchanges)
    const row = {
      network,
      ranks,
      stepSeconds: rounded(seconds),
      commSeconds: rounded(exchanges),
      commHiddenShare: rounded(hiddenShare),
      mostHiddenShare: rounded(mostHiddenShare),
      exchanges: calls,
      peakBytes,
      efficiency: rounded(alone / seconds),
      // Norms of each rank's own share: nobody waits for them.
      localNorms: {
        commSeconds: rounded(local.exchanges),
        commHiddenShare: rounded(local.hiddenShare),
        mostHiddenShare: rounded(local.mostHiddenShare),
        efficiency: rounded(alone / local.seconds),
      },
      // Each has a part of the optimizer's state and of gradients' sums.
      sharedUpdates: {
        commSeconds: rounded(parts.exchanges),
        commHiddenShare: rounded(parts.hiddenShare),
        peakBytes: parts.peakBytes,
        efficiency: rounded(alone / parts.seconds),
      },
      boundSeconds: rounded(bound),
      boundEfficiency: rounded(alone / bound),
    }
    console.log(JSON.stringify(row))
    return row
  }),
)
record('ranks', {
  model: MODEL,
  machine: MACHINE,
  imagesEach: EACH,
  simulated: true,
  aloneSeconds: rounded(alone),
  alonePeakBytes,
  rows,
})
