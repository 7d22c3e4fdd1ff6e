// `npm run bench -- ranks --suite bands`: images of 2048² whose rows several GPUs share, on paper. In: networks, an image or two, `v100-pcie-16g`
// over NVLink, all values kept. Out: the bytes of the largest band beside one process, a rank's sent bytes, and bench/results/bands.json. Invariant:
// all is simulated; peaks are those of plans, which runs hold exactly. Worked example: vgg16-features 3.22 GiB alone, 1.75 GiB in each of 2.
import { zooEntry } from '../src/zoo'
import { machineNamed } from '../src/machine/machine'
import { exchangesOf } from '../src/report/facts'
import { prepare } from '../src/stage/prepare'
import { compileTogether } from '../staging/compile'
import { bytesOf } from '../staging/core/bytes'
import { certain } from '../staging/core/certain'
import { simulate } from '../staging/sim/simulate'
import { record, rounded } from './sides'

const [MACHINE, NETWORK, SIDE] = ['v100-pcie-16g', 'nvlink-v100', 2048] as const
/** Images: a norm of one number a channel has no variance. */
const MODELS = { 'vgg16-features': 1, unet: 1, 'deeplabv3plus-resnet50': 2 } as const
const BANDS = [1, 2, 4] as const

const rowOf = (model: string, images: number, bands: number) => {
  const machine = certain(model)(machineNamed(MACHINE, bands > 1 ? { ranks: bands, bands, network: NETWORK } : {}))
  const { build, defaultInput, loss } = zooEntry(model)!
  const net = certain(model)(build([images, defaultInput[1], SIDE, SIDE]))
  const { graph, family = [graph] } = certain(model)(prepare(net, machine, net.kind === 'step' ? {} : { loss }))
  const options = { strategy: 'in-core', budgetBytes: 2 ** 45, machine, algorithms: 'fixed' } as const
  const plans = certain(model)(compileTogether(family, options))
  const timelines = plans.map((plan) => simulate(plan, machine.link))
  return {
    peakBytes: Math.max(...plans.map((p) => bytesOf(p.peakPages))),
    stepSeconds: rounded(Math.max(...timelines.map((t) => t.makespanSeconds))),
    commBytes: exchangesOf(plans[0]!, timelines[0]!)?.commBytes ?? 0,
  }
}

const rows = Object.entries(MODELS).flatMap(([model, images]) => {
  const all = BANDS.map((bands) => ({ model, images, bands, ...rowOf(model, images, bands) }))
  return all.map((row) => {
    const told = {
      ...row,
      peakOfAlone: rounded(row.peakBytes / all[0]!.peakBytes),
      efficiency: rounded(all[0]!.stepSeconds / row.stepSeconds / row.bands),
    }
    console.log(JSON.stringify(told))
    return told
  })
})
record('bands', { machine: MACHINE, network: NETWORK, side: SIDE, strategy: 'in-core', simulated: true, rows })
