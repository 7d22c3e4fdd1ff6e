// The facts of a step that do not depend on the budget. In: a training graph, a machine, the kind of loops, the place of parameters. Out: a
// problem: the loops, and numbers for each value and op. A loop is a run of ops for one sequence of tiles. It ends at an op that reads a sum
// over tiles. In the forward pass these are the statistics of a norm, in the backward pass its two sums.
// Worked example, [conv1 norm1 relu1 conv2 norm2]: forward loops [conv1, statistics 1], [norm1 relu1 conv2, statistics 2], [norm2].
import { mapped } from '../../core/mapped'
import { type Graph, isFed, isOfWeight, isPersistent, isResult, type OpId, type ValueId, valueBytes } from '../../graph/graph'
import type { Machine } from '../../graph/machine'
import { type Persistents, SMALL_BYTES } from '../../memory/place'
import { opDef } from '../../ops/registry'
import { launchSeconds } from '../atleast'
import { opCosts } from '../chain'
import { breaksOf, inPieces, type Joint, jointOf, mayMake, rising, type Stretch, stretchesOf } from '../joint'
import { tileableDims } from '../../tile/ft'
import { reachOf } from '../../tile/gridfor'
import { mostTiles } from '../../tile/pieces'
import { summed } from '../../tile/segments'

export interface Loop extends Stretch {
  /** True if the loop can run in tiles. */
  readonly tiles: boolean
  /** The largest grid of its own ops: images and rows. */
  readonly most: { readonly B: number; readonly H: number }
  /** 1 for each op of other loops that it can recompute. */
  readonly mayRepeat: Uint8Array
  /** Large parameters and optimizer state of its ops and updates, if they live in the lower tier. */
  readonly homes: readonly { readonly value: ValueId; readonly writes: boolean }[]
  /** Seconds of its own ops, and of the updates after it. */
  readonly seconds: number
  readonly afterSeconds: number
}

export interface Problem {
  readonly graph: Graph
  readonly machine: Machine
  readonly persistents: Persistents
  readonly joint: Joint
  readonly loops: readonly Loop[]
  /** Bytes of parameters and state that stay on the device. */
  readonly alwaysBytes: number
  readonly launch: number
  /** The mean seconds of ops that can be recomputed: the typical price of a decision. */
  readonly meanSeconds: number
  /** The number of decisions. */
  readonly decisions: number
  /** By value. */
  readonly bytes: Float64Array
  /** The op that makes it, or -1. */
  readonly maker: Int32Array
  /** 1 for activations and their gradients that are large enough to move. */
  readonly crosses: Uint8Array
  /** 1 for gradients of parameters. Loops add them up whole. */
  readonly isWeightGradient: Uint8Array
  /** 1 for values with a copy in the lower tier at the start of the step. */
  readonly hasCopy: Uint8Array
  /** By op: seconds and scratch over whole values. */
  readonly seconds: Float64Array
  readonly scratch: Float64Array
  readonly ins: readonly (readonly ValueId[])[]
  readonly outs: readonly (readonly ValueId[])[]
  /** The number of outputs that tiles add up. */
  readonly sums: Int32Array
  /** The input that the first output may overwrite, or -1. */
  readonly inPlace: Int32Array
  /** 1 for ops whose tiles must grow when they are recomputed. */
  readonly grows: Uint8Array
}

const flags = (graph: Graph, is: (v: Graph['values'][number]) => boolean): Uint8Array =>
  Uint8Array.from(graph.values, (v) => (is(v) ? 1 : 0))

const isLarge = (v: Graph['values'][number]): boolean => isPersistent(v) && valueBytes(v) >= SMALL_BYTES

const homesOf = (graph: Graph, s: Stretch): Loop['homes'] => {
  const writes = new Map<ValueId, boolean>()
  for (const id of [...s.ops, ...s.after]) {
    const op = graph.ops[id]!
    for (const v of [...op.ins, ...op.outs])
      if (isLarge(graph.values[v]!)) writes.set(v, (writes.get(v) ?? false) || op.phase === 'update')
  }
  return mapped([...writes], ([value, w]) => ({ value, writes: w }))
}

/** Bytes of parameters and state that stay on the device. */
export const alwaysBytes = (graph: Graph, persistents: Persistents): number =>
  graph.values.filter((v) => isPersistent(v) && !(persistents === 'home' && isLarge(v))).reduce((n, v) => n + valueBytes(v), 0)

export interface Shape {
  readonly persistents: Persistents
  /** The limit of a loop for parameters of the lower tier and their gradients. A single op may exceed it. */
  readonly wholeBytes: number
  /** True if loops also end at the cuts between blocks. */
  readonly cuts: boolean
  /** Smaller values are neither moved nor recomputed. */
  readonly leastBytes?: number
}

export const problemOf = (
  graph: Graph,
  machine: Machine,
  { persistents, wholeBytes, cuts, leastBytes = SMALL_BYTES }: Shape,
): Problem => {
  const costs = opCosts(graph, machine)
  const joint = rising(jointOf(graph, costs, leastBytes), leastBytes)
  const before = cuts ? breaksOf(joint, new Set(graph.values.map((v) => v.id))) : new Set<OpId>()
  const whole = persistents === 'home' ? wholeBytes : Infinity
  const stretches = [
    ...stretchesOf(graph, 'forward', joint.forwardOrder, before, whole),
    ...stretchesOf(graph, 'backward', joint.backwardOrder, before, whole),
  ]
  const makers = new Map([...joint.makers, ...joint.gradientMakers])
  const bytes = Float64Array.from(graph.values, valueBytes)
  const maker = new Int32Array(graph.values.length).fill(-1)
  for (const op of graph.ops) for (const v of op.outs) maker[v] = op.id
  const isWeightGradient = flags(graph, (v) => !isPersistent(v) && isOfWeight(graph, v))
  const loops = mapped(stretches, (s): Loop => {
    const own = new Set(s.ops)
    const tiles = reachOf(s.dims) === 'image'
    const ops = mapped(s.ops, (id) => graph.ops[id]!)
    const { B, H } = tiles ? mostTiles(graph, { dims: s.dims }, ops) : { B: 1, H: 1 }
    return {
      ...s,
      tiles,
      most: { B, H },
      mayRepeat: Uint8Array.from(graph.ops, ({ id, outs }) =>
        !own.has(id) && outs.some((v) => makers.has(v) && mayMake(joint, s, v)) ? 1 : 0,
      ),
      homes: persistents === 'home' ? homesOf(graph, s) : [],
      seconds: s.ops.reduce((n, id) => n + costs[id]!.seconds, 0),
      afterSeconds: s.after.reduce((n, id) => n + costs[id]!.seconds, 0),
    }
  })
  const repeats = graph.ops.filter((op) => loops.some((l) => l.mayRepeat[op.id] === 1))
  const choices = (l: Loop): number =>
    new Set(l.ops.flatMap((id) => graph.ops[id]!.ins.flatMap((v) => (l.mayRepeat[maker[v]!] === 1 ? [maker[v]!] : [])))).size
  return {
    graph,
    machine,
    persistents,
    joint,
    loops,
    alwaysBytes: alwaysBytes(graph, persistents),
    launch: launchSeconds(machine),
    meanSeconds: repeats.reduce((n, op) => n + costs[op.id]!.seconds, 0) / Math.max(1, repeats.length),
    decisions: loops.reduce((n, l) => n + 1 + choices(l), 0),
    bytes,
    maker,
    crosses: flags(
      graph,
      (v) => !isPersistent(v) && !isOfWeight(graph, v) && !isResult(v) && v.role !== 'stat' && valueBytes(v) >= leastBytes,
    ),
    isWeightGradient,
    hasCopy: flags(graph, (v) => isPersistent(v) || isFed(v)),
    seconds: Float64Array.from(graph.ops, (op) => costs[op.id]!.seconds),
    scratch: Float64Array.from(graph.ops, (op) => costs[op.id]!.workspaceBytes),
    ins: mapped(graph.ops, (op) => op.ins),
    outs: mapped(graph.ops, (op) => op.outs),
    sums: Int32Array.from(graph.ops, (op) => summed(graph, op.id).length),
    inPlace: Int32Array.from(graph.ops, (op) => op.ins[opDef(op.kind).inPlace?.[0] ?? -1] ?? -1),
    grows: Uint8Array.from(graph.ops, (op) =>
      op.phase === 'backward' && reachOf(tileableDims(graph, op)) === 'image' && !inPieces(graph, op) ? 1 : 0,
    ),
  }
}
