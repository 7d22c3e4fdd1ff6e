// `npm run bench -- launches`: launches and moved bytes of an in-core step on the cuda device, counted on the imitated CUDA
// (test/native/host_cuda/launches), and its time on an H200 at its published rates. In: networks, batches, sizes. Out: bench/results/launches.json:
// own kernels, calls of cuDNN and cuBLAS, bytes of operands, and seconds of the model, in tf32 and bf16, in the column `now`, or the named one; the
// other stays. Invariant: nothing is measured here; no GPU is needed.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { certain } from '../staging/core/certain'
import { compile, compileSegments } from '../staging/compile'
import { type Graph, valueBytes } from '../staging/graph/graph'
import { laidOut, readers } from '../staging/graph/laid'
import type { Machine } from '../staging/graph/machine'
import type { LocalMachine } from '../src/machine/localmachine'
import { opDef } from '../staging/ops/registry'
import { callShapes } from '../staging/plan/callcosts'
import type { Plan, Segment } from '../staging/plan/plan'
import { toTape } from '../staging/plan/tape'
import { behindLaying } from '../staging/planner/laying'
import { graphOf, machine } from './lab/steps'
import { begin, chosen, inFolder, record, ROOT } from './sides'
import { argumentsOf, BENCHES } from './table'

/** Network, batch, side. */
const CASES = [
  ['resnet50', 128, 224],
  ['vgg16-features', 64, 224],
  ['densenet121', 64, 224],
  ['deeplabv3plus-resnet50', 8, 512],
  ['unet', 8, 512],
] as const
const PRECISIONS = ['tf32', 'bf16'] as const
type Rounded = (typeof PRECISIONS)[number]

/** NVIDIA's data sheet of the H200 SXM, dense; a launch within a replayed graph is an assumption. */
const H200 = { tf32: 494.7e12, bf16: 989.5e12, fp32: 67e12, bytesPerSecond: 4.8e12, launchSeconds: 1.5e-6 }

interface Counted {
  readonly call: number
  readonly kind: string
  readonly kernels: number
  readonly products: number
  readonly bytes: number
}

const inCoreOn = <M extends Machine>(machine: M) =>
  ({ strategy: 'in-core', machine, budgetBytes: machine.memoryBytes, algorithms: 'fixed' }) as const

const planOf = (network: string, batch: number, side: number, on: LocalMachine): Plan => {
  const graph = graphOf(network, on, batch, side)
  if (!graph) throw new Error(`there is no ${network}`)
  return certain(network)(compile(graph, inCoreOn(on)))
}

/** The counting program, and a folder for its input. */
interface Program {
  readonly file: string
  readonly folder: string
}

const countedOf = ({ file, folder }: Program, plan: Plan, precision: Rounded): readonly Counted[] => {
  const tape = join(folder, 'plan.tape')
  writeFileSync(tape, toTape(plan))
  const lines = execFileSync(file, [tape, precision], { encoding: 'utf8', maxBuffer: 2 ** 28 })
  return lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Counted)
}

/** Seconds at peak rates: of products by their arithmetic or bytes, whichever is more, of all else, and of launching. */
const modelled = (plan: Plan, counted: readonly Counted[], precision: Rounded) => {
  let [products, others, launches] = [0, 0, 0]
  counted.forEach((c, i) => {
    const { kind, attrs, ins, outs } = plan.calls[i]!
    if (kind !== c.kind) throw new Error(`call ${i} is ${kind}, and ${c.kind} was counted`)
    const flops = opDef(kind).flops(attrs as never, callShapes(plan.graph, ins, outs))
    const moving = c.bytes / H200.bytesPerSecond
    if (c.products > 0) products += Math.max(flops / H200[precision], moving)
    else others += Math.max(flops / H200.fp32, moving)
    launches += (c.kernels + c.products) * H200.launchSeconds
  })
  const ms = (seconds: number): number => Number((seconds * 1e3).toFixed(3))
  return { productsMs: ms(products), othersMs: ms(others), launchesMs: ms(launches), stepMs: ms(products + others + launches) }
}

/** The same step in other segments, with the rest of the plan. */
const inSegments = (graph: Graph, segments: readonly Segment[], on: Machine): Plan =>
  certain(graph.name)(compileSegments(graph, segments, inCoreOn(on)))

const launchesOf = (counted: readonly Counted[]): number => counted.reduce((n, c) => n + c.kernels + c.products, 0)

/**
 * The gain of laying out once each weight that a convolution and its data gradient read: launches, as they are counted with it and without; the bytes
 * that laying out reads and writes, which are no call's operands; milliseconds; and its share of memory, over the peak of the step.
 */
const weightsOnce = (program: Program, { graph, segments }: Plan, on: Machine, precision: Rounded) => {
  const twice = [...readers(graph)].filter(([, ops]) => ops.length > 1)
  const laid = laidOut(graph, new Set(twice.map(([w]) => w)))
  const [before, after] = [inSegments(graph, segments, on), inSegments(laid, behindLaying(laid, segments), on)]
  const launches = launchesOf(countedOf(program, before, precision)) - launchesOf(countedOf(program, after, precision))
  const floats = twice.map(([w]) => valueBytes(graph.values[w]!))
  const stored = precision === 'bf16' ? 1 / 2 : 1
  const saved = twice.reduce((bytes, [, ops], i) => bytes + (ops.length - 1) * floats[i]! * (1 + stored), 0)
  const kept = floats.reduce((bytes, n) => bytes + n * stored, 0)
  const ms = (launches * H200.launchSeconds + saved / H200.bytesPerSecond) * 1e3
  const megabytes = (bytes: number): number => Number((bytes / 1e6).toFixed(1))
  return {
    weights: twice.length,
    launches,
    megabytes: megabytes(saved),
    ms: Number(ms.toFixed(3)),
    keptMegabytes: megabytes(kept),
    ofPeak: Number((after.peakPages / before.peakPages - 1).toFixed(4)),
  }
}

/** The kinds of call that launch most. */
const dearest = (counted: readonly Counted[]): Readonly<Record<string, string>> => {
  const kinds = new Map<string, { calls: number; launches: number }>()
  for (const c of counted) {
    const of = kinds.get(c.kind) ?? { calls: 0, launches: 0 }
    kinds.set(c.kind, { calls: of.calls + 1, launches: of.launches + c.kernels + c.products })
  }
  const most = [...kinds].sort(([, a], [, b]) => b.launches - a.launches).slice(0, 12)
  return Object.fromEntries(most.map(([kind, { calls, launches }]) => [kind, `${launches} of ${calls} calls`]))
}

const row = (program: Program, network: string, batch: number, side: number, precision: Rounded) => {
  const on = { ...machine('h200-pcie-141g'), precision }
  const plan = planOf(network, batch, side, on)
  const counted = countedOf(program, plan, precision)
  const sum = (of: (c: Counted) => number): number => counted.reduce((n, c) => n + of(c), 0)
  return {
    calls: counted.length,
    kernels: sum((c) => c.kernels),
    products: sum((c) => c.products),
    gigabytes: Number((sum((c) => c.bytes) / 1e9).toFixed(2)),
    ...modelled(plan, counted, precision),
    weightsOnce: weightsOnce(program, plan, on, precision),
    launches: dearest(counted),
  }
}

const main = (folder: string): void => {
  const { given, named } = argumentsOf(BENCHES.launches.steps)
  const build = `require('./scripts/testing/native').nativeLibrary(process.cwd(), 'cuda_launches').then((f) => process.exit(f ? 0 : 1))`
  if (spawnSync(process.execPath, ['-e', build], { cwd: ROOT, stdio: 'inherit' }).status !== 0)
    throw new Error('the headers of CUDA, cuDNN and cuBLAS are not here')
  const file = process.env['SPILLWAY_CUDA_LAUNCHES'] ?? join(ROOT, 'build', 'addon', 'cuda_launches')
  const { rows }: { readonly rows: Record<string, object> } = JSON.parse(
    readFileSync(join(ROOT, 'bench/results/launches.json'), 'utf8'),
  )
  const names = chosen(
    CASES.map(([name]) => name),
    named,
  )
  for (const [network, batch, side] of CASES.filter(([n]) => names.includes(n)))
    for (const precision of PRECISIONS) {
      const name = `${network} b${batch}@${side} ${precision}`
      const one = row({ file, folder }, network, batch, side, precision)
      rows[name] = { ...rows[name], [given.as]: one }
      console.log(
        `${name}: ${one.kernels} own kernels, ${one.products} products, ${one.gigabytes} GB, ${one.stepMs} ms by the model`,
      )
    }
  record('launches', { rates: H200, rows })
}

void begin(() => inFolder('launches', main))
