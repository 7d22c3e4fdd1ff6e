// `swap:vdnn-all`, `swap:vdnn-conv` (Rhu et al. 2016) and `swap:vdnn++` (Shriram et al. 2019, as paper 5 generalises it).
// vDNN swaps out each layer's input (of every layer, or of convolutions only) after its last use in the forward pass, ends the
// layer only when the copy is out, and fetches, while one layer's backward runs, the next of these inputs up to the nearest
// convolution; the layer ends only when it is in. vDNN++ has no such barriers, and swaps out inputs with much computing per byte.
// Worked example, convolutions a b c: while c's backward runs, b's input comes in; b waits for it, and fetches a's.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { Candidate, Planner } from '../schedule/candidate'
import { inCoreLayout } from '../schedule/incore'
import { convolutionInputs, type LayerRuns, layerRuns } from './layers'
import type { Layout } from '../schedule/layout'
import { type Activation, activationsOf, always, swapping, indicesByValue, turningPoint } from '../schedule/activations'
import { overSharedPages } from '../schedule/sharing'
import type { Timing } from '../schedule/stays'

export interface VdnnOptions {
  /** Whose inputs leave. */
  readonly layers: 'all' | 'conv'
  /** Each layer waits at its end for its copies. */
  readonly barriers: boolean
  /** Inputs are loaded while the layer before computes; otherwise when they are needed. */
  readonly prefetch: boolean
}

/**
 * The prefetches of each layer's backward: each looks back through the needs of later layers, to the nearest convolution, and takes the first free
 * input. The others come when they are needed.
 */
const prefetches = (l: Layout, { runs, at }: LayerRuns, swapped: readonly Activation[]): ReadonlyMap<Activation, number> => {
  const neededBy = new Map<number, Activation[]>()
  for (const a of swapped) neededBy.set(at[a.needed]!, [...(neededBy.get(at[a.needed]!) ?? []), a])
  const taken = new Map<Activation, number>()
  for (let r = at[turningPoint(l)] ?? runs.length; r < runs.length; r++)
    search: for (let next = r + 1; next < runs.length; next++) {
      for (const a of neededBy.get(next) ?? [])
        if (!taken.has(a)) {
          taken.set(a, r)
          break search
        }
      if (runs[next]!.convolves) break
    }
  return taken
}

const vdnnCandidate = (l: Layout, o: VdnnOptions): Candidate => {
  const conv = convolutionInputs(l, indicesByValue(l))
  const swapped = activationsOf(l).filter((a) => o.layers === 'all' || conv.has(a.index))
  const layers = layerRuns(l)
  const fetchedBy = prefetches(l, layers, swapped)
  const timing = (a: Activation): Timing => {
    const run = o.prefetch ? fetchedBy.get(a) : undefined
    const { first, end } = layers.runs[run ?? layers.at[a.needed]!]!
    const come = run === undefined ? { swapInAt: a.needed } : { swapInAt: first, ...(o.barriers ? { swappedInBy: end } : {}) }
    return { ...(o.barriers ? { swappedOutBy: layers.runs[layers.at[a.read - 1]!]!.end } : {}), ...come }
  }
  return always(
    l,
    swapping(
      l,
      swapped.map((a) => ({ ...a, timing: timing(a) })),
    ),
  )
}

const vdnn =
  (layers: 'all' | 'conv') =>
  (o: Partial<Omit<VdnnOptions, 'layers'>> = {}): Planner =>
  (graph, machine) =>
    right([vdnnCandidate(inCoreLayout(graph, machine), { barriers: true, prefetch: true, ...o, layers })].values())

export const vdnnAll = vdnn('all')
export const vdnnConv = vdnn('conv')

const vdnnSmall = (layers: 'all' | 'conv'): Planner =>
  overSharedPages(inCoreLayout, undefined, (l) => [vdnnCandidate(l, { barriers: true, prefetch: true, layers })])

export const vdnnAllSmall = vdnnSmall('all')
export const vdnnConvSmall = vdnnSmall('conv')

// ---------------------------------------------------------------- vDNN++

export interface VdnnPlusOptions {
  /** Thresholds of computing per byte; else only convolutions' inputs. */
  readonly thresholds: boolean
  /** Also every second one of the inputs above a threshold. */
  readonly halves: boolean
}

const MOST_THRESHOLDS = 12

/** Seconds of the layer that reads an activation last in the forward pass, per page. */
const secondsPerPage =
  (l: Layout, layers: LayerRuns) =>
  (a: Activation): number => {
    const { first, end } = layers.runs[layers.at[a.read - 1]!]!
    return l.calls.slice(first, end).reduce((n, c) => n + c.seconds, 0) / a.pages
  }

const selections = (l: Layout, o: VdnnPlusOptions): readonly (readonly Activation[])[] => {
  const all = activationsOf(l)
  const conv = convolutionInputs(l, indicesByValue(l))
  const value = secondsPerPage(l, layerRuns(l))
  const worth = new Map(all.map((a) => [a, value(a)]))
  const ratios = [...new Set(worth.values())].sort((a, b) => b - a)
  const count = Math.min(MOST_THRESHOLDS, ratios.length)
  const cuts = o.thresholds
    ? Array.from({ length: count }, (_, i) => ratios[Math.ceil(((i + 1) * ratios.length) / count) - 1]!)
    : []
  const above = [all.filter((a) => conv.has(a.index)), ...cuts.map((cut) => all.filter((a) => worth.get(a)! >= cut))]
  return above.flatMap((list) => (o.halves ? [list, list.filter((_, i) => i % 2 === 0)] : [list]))
}

const selected = (l: Layout, o: VdnnPlusOptions): readonly Candidate[] => selections(l, o).map((s) => always(l, swapping(l, s)))

const VDNN_PLUS: VdnnPlusOptions = { thresholds: true, halves: true }

export const vdnnPlus =
  (o: Partial<VdnnPlusOptions> = {}): Planner =>
  (graph: Graph, machine: Machine) =>
    right(selected(inCoreLayout(graph, machine), { ...VDNN_PLUS, ...o }).values())

export const vdnnPlusSmall: Planner = overSharedPages(inCoreLayout, undefined, (l) => selected(l, VDNN_PLUS))
