// `npm run bench -- plans --suite large`: the plans of `auto` and `tiled` for images whose values fit no device. In: networks at 16384² in the budget
// that is their goal, and at 20480² and 40960² on a GPU of 11 GB with 128 GiB of host memory and a disk. Out: the step over the compute of the
// in-core one, or the smallest budget after a refusal; processor seconds of planning, and the bytes of the plan file; into bench/results/large.json.
// Invariant: a process plans one case; cases that are not named stay unchanged.
import { isLeft } from 'fp-ts/Either'
import { compile } from '../staging/compile'
import { gib, mib } from '../staging/core/bytes'
import type { Link } from '../staging/graph/machine'
import { encodePlan } from '../staging/plan/codec'
import { computeSeconds } from '../staging/schedule/bound'
import { inCoreLayout } from '../staging/schedule/incore'
import { simulate } from '../staging/sim/simulate'
import { tieredLink, linkAt, STATED_DISK, STATED_LINKS } from '../src/machine/links'
import { graphOf, machine } from './lab/steps'
import { asked, begin, chosen, processorSeconds, record, ROOT, withRow } from './sides'

interface Case {
  readonly network: string
  readonly batch: number
  readonly size: readonly [height: number, width: number]
  readonly machine: string
  readonly strategy: 'tiled' | 'auto'
  readonly budget: number
  /** Bytes of host memory; a disk takes the rest. */
  readonly host?: number
}

const HOST = gib(128)
const smallest = (network: string, side: number, budget: number): Case => ({
  network,
  batch: 1,
  size: [side, side],
  machine: '2080ti-pcie-11g',
  strategy: 'auto',
  budget: mib(budget),
})
const GPU = { machine: '2080ti-pcie-11g', strategy: 'auto', budget: gib(10.75), host: HOST } as const

const CASES: Readonly<Record<string, Case>> = {
  'vgg16-features-16384': smallest('vgg16-features', 16384, 200),
  'unet-16384': smallest('unet', 16384, 400),
  'deeplabv3plus-resnet50-16384': { ...smallest('deeplabv3plus-resnet50', 16384, 900), batch: 2 },
  'pix2pixhd-2048': smallest('pix2pixhd', 2048, 900),
  'vgg16-features-40960-least': smallest('vgg16-features', 40960, 88),
  'vgg16-features-20480': { ...GPU, network: 'vgg16-features', batch: 1, size: [20480, 20480] },
  'vgg16-features-40960': { ...GPU, network: 'vgg16-features', batch: 1, size: [40960, 40960] },
  'darknet19-features-20480': { ...GPU, network: 'darknet19-features', batch: 1, size: [20480, 20480] },
  'resnet50-20480': { ...GPU, network: 'resnet50', batch: 1, size: [20480, 20480] },
  'deeplabv3plus-resnet50-20480': { ...GPU, network: 'deeplabv3plus-resnet50', batch: 2, size: [20480, 20480] },
}

interface Row {
  readonly case: string
  readonly budgetMiB: number
  /** The step over the in-core compute; null where the budget is refused. */
  readonly ratio: number | null
  readonly smallestMiB?: number
  readonly strategy?: string
  readonly calls?: number
  readonly hostGiB?: number
  readonly diskGiB?: number
  readonly planMB?: number
  readonly planning: number
}

const machineOf = ({ machine: name, host }: Case): ReturnType<typeof machine> => {
  const on = machine(name)
  if (host === undefined) return on
  const disk = (): Link => linkAt(STATED_LINKS.disk, {})
  return {
    ...on,
    link: tieredLink({ spill: '/', hostMemory: host }, { memory: () => on.link, disk, room: STATED_DISK, apart: true }),
  }
}

const once = (name: string): Row => {
  const c = CASES[name]!
  const on = machineOf(c)
  const graph = graphOf(c.network, on, c.batch, ...c.size)!
  const compute = computeSeconds(inCoreLayout(graph, on))
  const began = process.cpuUsage()
  const plan = compile(graph, { strategy: c.strategy, machine: on, budgetBytes: c.budget })
  const planning = Number(processorSeconds(began).toFixed(1))
  const said = { case: name, budgetMiB: c.budget / mib(1), planning }
  if (isLeft(plan))
    return {
      ...said,
      ratio: null,
      ...(plan.left.tag === 'BudgetInfeasible' ? { smallestMiB: plan.left.smallestBytes / mib(1) } : {}),
    }
  const { calls, strategy, tierBytes, hostBytes = tierBytes } = plan.right
  return {
    ...said,
    ratio: Number((simulate(plan.right, on.link).makespanSeconds / compute).toFixed(3)),
    strategy,
    calls: calls.length,
    hostGiB: Number((hostBytes / gib(1)).toFixed(1)),
    diskGiB: Number(((tierBytes - hostBytes) / gib(1)).toFixed(1)),
    planMB: Number((encodePlan(plan.right).length / 1e6).toFixed(1)),
  }
}

const main = (): void => {
  const known = Object.keys(CASES)
  for (const name of chosen(known, process.argv.slice(2))) {
    const row = asked<Row>(ROOT, __filename, [name])
    console.log(JSON.stringify(row))
    record('large', { rows: withRow('large', row, (r) => r.case, known) })
  }
}

void begin(main, once)
