// `swap:dymem` (paper 4, sections 3.1 and 3.2): layers run depth-first, so that each branch between a fork and its join is
// through before the next begins; all activations leave without barriers, and must be out when the backward pass begins; each
// layer's backward fetches for the layers to come, as long as no more than two convolutions' inputs are on the device.
// The paper's search takes every other layer without limit, which would fetch the network; ours stops at the third convolution.
// Worked example, backward c r b r a of convolutions a b c: when c begins, b's and the first r's input come; a's when b begins.
import { right } from 'fp-ts/Either'
import type { Graph, Op, OpId } from '../graph/graph'
import { forwardOps } from '../tile/segments'
import type { Candidate, Planner } from '../schedule/candidate'
import { inCoreLayout, untiled } from '../schedule/incore'
import { layerRuns } from './layers'
import { type Layout, layOut } from '../schedule/layout'
import { type Activation, activationsOf, swapping, turningPoint } from '../schedule/activations'
import { prefetched } from './prefetch'
import { onceFor } from '../schedule/remember'
import { overSharedPages } from '../schedule/sharing'
import { leastPages } from '../schedule/stays'

export interface DymemOptions {
  readonly depthFirst: boolean
  /** Each layer waits at its end for its copies out, as in vDNN. */
  readonly barriers: boolean
  /** Convolutions whose inputs may be on the device at once; 0: nothing is fetched early. */
  readonly convolutions: number
}
export const DYMEM: DymemOptions = { depthFirst: true, barriers: false, convolutions: 2 }

/** Algorithm 1: an op runs after the last of its inputs, and its successors run before its siblings. */
export const depthFirst = (graph: Graph): readonly OpId[] => {
  const ops = forwardOps(graph)
  const maker = new Map(ops.flatMap((o) => o.outs.map((v) => [v, o] as const)))
  const inputs = (o: Op): readonly Op[] => [...new Set(o.ins.flatMap((v) => maker.get(v) ?? []))]
  const waiting = new Map(ops.map((o) => [o, inputs(o).length]))
  const next = new Map<Op, Op[]>(ops.map((o) => [o, []]))
  for (const o of ops) for (const i of inputs(o)) next.get(i)!.push(o)
  const order: OpId[] = []
  const stack = ops.filter((o) => waiting.get(o) === 0).reverse()
  for (let o = stack.pop(); o; o = stack.pop()) {
    order.push(o.id)
    for (const n of [...next.get(o)!].reverse()) {
      waiting.set(n, waiting.get(n)! - 1)
      if (waiting.get(n) === 0) stack.push(n)
    }
  }
  return order
}

const depthFirstLayout = onceFor((graph, machine): Layout => layOut(graph, untiled(graph, [depthFirst(graph)]), machine))

const candidate = (l: Layout, o: DymemOptions): Candidate => {
  const { runs, at } = layerRuns(l)
  const turn = turningPoint(l)
  /** The number of convolutions that begin before each layer. Layers with the same number fetch together. */
  const started = [0]
  for (const r of runs) started.push(started[started.length - 1]! + (r.convolves ? 1 : 0))
  const earliest = (a: Activation): number => {
    const run = at[a.needed]!
    let from = run
    while (from > 0 && runs[from - 1]!.first >= turn && started[run + 1]! - started[from - 1]! <= o.convolutions) from--
    return from === run ? a.needed : runs[from]!.first
  }
  const swappedOutBy = (a: Activation): number => (o.barriers ? runs[at[a.read - 1]!]!.end : turn)
  const swapped = activationsOf(l).map((a) => ({ ...a, earliest: earliest(a), timing: { swappedOutBy: swappedOutBy(a) } }))
  const inOrder = [...swapped].sort((a, b) => a.needed - b.needed)
  return {
    layout: l,
    least: leastPages(swapping(l, swapped), l.calls.length),
    fit: (budget) => prefetched(l, inOrder, budget),
  }
}

export const dymem =
  (options: Partial<DymemOptions> = {}): Planner =>
  (graph, machine) => {
    const o = { ...DYMEM, ...options }
    return right([candidate((o.depthFirst ? depthFirstLayout : inCoreLayout)(graph, machine), o)].values())
  }

export const dymemSmall: Planner = overSharedPages(depthFirstLayout, undefined, (l) => [candidate(l, DYMEM)])
