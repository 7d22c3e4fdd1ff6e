// The facts of a step that do not depend on the budget. In: a training graph, a machine. Out: a problem: atoms, loops of atoms, and numbers
// for each value and op. A loop is a run of ops for one sequence of tiles. It ends at an op that reads a sum over tiles: in the forward pass
// at the statistics of a norm, in the backward pass at its two sums. An atom is a smallest loop: it also ends between blocks and weights.
// Worked example, [conv1 norm1 relu1 conv2 norm2]: forward loops [conv1, statistics 1], [norm1 relu1 conv2, statistics 2], [norm2].
import { alignUp, PAGE_BYTES } from '../core/bytes'
import { mapped } from '../core/mapped'
import { copiesIn } from '../graph/copied'
import { type Graph, isFed, isOfWeight, isPersistent, isResult, type OpId, type ValueId, valueBytes } from '../graph/graph'
import { hasTier, type Machine } from '../graph/machine'
import { type Unit, unitsOf } from '../memory/homes'
import { SMALL_BYTES } from '../memory/place'
import { opDef } from '../ops/registry'
import { launchSeconds } from '../schedule/atleast'
import { opCosts } from '../schedule/chain'
import {
  breaksOf,
  inPieces,
  type Joint,
  jointOf,
  canRecomputeIn,
  withAdvancedOps,
  type LoopOps,
  loopsOf,
  wholeIn,
} from '../schedule/joint'
import { tilesOf } from '../plan/plan'
import { rowsGridOf } from '../tile/byrows'
import { tileableDims } from '../tile/ft'
import { reachOf } from '../tile/gridfor'
import { mostTiles } from '../tile/pieces'
import { mutated } from '../tile/liveness'
import { summed } from '../tile/segments'
import { LACK } from './limits'

export interface Loop extends LoopOps {
  /** Its atoms: from the first to before the other one. */
  readonly from: number
  readonly to: number
  /** True if the loop can run in tiles. */
  readonly tiles: boolean
  /** The largest grid of its own ops: images and rows. */
  readonly most: { readonly B: number; readonly H: number }
  /** 1 for each op that it can recompute, if the op is of another loop. */
  readonly repeatable: Uint8Array
  /** Large parameters and optimizer state of its ops and updates, and the most bytes of each at once: updates by rows hold parts. */
  readonly homes: readonly { readonly value: ValueId; readonly writes: boolean; readonly most: number }[]
  /** Bytes of parameter gradients that it makes, or that wait for a later update. They stay whole from the first tile to the last. */
  readonly gradients: number
  /** Seconds of its own ops, and of the updates after it. */
  readonly seconds: number
  readonly afterSeconds: number
}

/** Returns true if a loop can recompute an op of another loop. */
export const mayRepeat = (atomOf: Int32Array, { from, to, repeatable }: Loop, op: OpId): boolean =>
  repeatable[op] === 1 && (atomOf[op]! < from || atomOf[op]! >= to)

export interface Problem {
  readonly graph: Graph
  readonly machine: Machine
  readonly atoms: number
  /** The loop of some atoms, or null if they cannot be one loop. */
  readonly loopOf: (from: number, to: number) => Loop | null
  /** The ends of the longest loops. With cuts, they also end between blocks. Several weights of a loop have at most this number of bytes. */
  readonly endsFor: (cuts: boolean, wholeBytes: number) => readonly number[]
  /** Parameters and state that live together, on the device or in the lower tier: a weight, or small ones, and all that their updates touch. */
  readonly units: readonly Unit[]
  /** Bytes of parameters, state and copied inputs that are always on the device. */
  readonly alwaysBytes: number
  /** Bytes of parameters and state that may live in the lower tier. */
  readonly homeBytes: number
  /** Bytes of the copied inputs. The device holds the copies, and the inputs of the next step arrive beside them. */
  readonly nextBytes: number
  /** The most bytes of other small values. */
  readonly smallBytes: number
  /** The seconds of all ops. */
  readonly graphSeconds: number
  readonly launch: number
  /** Seconds for each byte that must leave the device without a lower tier; 0 with one. */
  readonly unplaced: number
  /** The mean seconds of ops that can be recomputed: the typical price of a decision. */
  readonly meanSeconds: number
  /** The number of decisions. */
  readonly decisions: number
  /** By value. The first value of a storage that several parameters share has the bytes of all. */
  readonly bytes: Float64Array
  /** The op that makes it, or -1. */
  readonly maker: Int32Array
  /** By op: its atom. */
  readonly atomOf: Int32Array
  /** 1 for activations and their gradients that are large enough to move. */
  readonly crosses: Uint8Array
  /** 1 for values with a copy in the lower tier at the start of the step. */
  readonly hasCopy: Uint8Array
  /** By op: seconds and scratch over whole values. */
  readonly seconds: Float64Array
  readonly scratch: Float64Array
  readonly ins: readonly (readonly ValueId[])[]
  readonly outs: readonly (readonly ValueId[])[]
  /** By value: the last atom that reads it, without recomputation. */
  readonly lastAtom: Int32Array
  /** The number of outputs that tiles add up. */
  readonly sums: Int32Array
  /** The inputs that the first output may overwrite. */
  readonly inPlace: readonly (readonly ValueId[])[]
  /** 1 for ops whose tiles must grow when they are recomputed. */
  readonly grows: Uint8Array
}

const flags = (graph: Graph, is: (v: Graph['values'][number]) => boolean): Uint8Array =>
  Uint8Array.from(graph.values, (v) => (is(v) ? 1 : 0))

/** Each parameter or state that may live in the lower tier, and the first value of its storage. Small ones share pages. */
type Storages = ReadonlyMap<ValueId, ValueId>

const homesOf = (graph: Graph, s: LoopOps, storageOf: Storages, bytes: Float64Array): Loop['homes'] => {
  const known = new Map<ValueId, Loop['homes'][number]>()
  for (const id of [...s.ops, ...s.after]) {
    const op = graph.ops[id]!
    const tiles = op.phase === 'update' ? tilesOf(rowsGridOf(graph, op)) : 1
    for (const v of [...op.ins, ...op.outs]) {
      const value = storageOf.get(v)
      if (value === undefined) continue
      const before = known.get(value) ?? { value, writes: false, most: 0 }
      known.set(value, {
        value,
        writes: before.writes || op.phase === 'update' || mutated(graph, id).includes(v),
        most: Math.max(before.most, bytes[value]! / tiles),
      })
    }
  }
  return [...known.values()]
}

/** Small values live from the first to the last op that touches them. */
const smallBytes = (graph: Graph, leastBytes: number): number => {
  const isSmall = (v: ValueId): boolean => !isPersistent(graph.values[v]!) && valueBytes(graph.values[v]!) < leastBytes
  const change = new Float64Array(graph.ops.length + 1)
  const last = new Map<ValueId, number>()
  graph.ops.forEach((op, k) => {
    for (const v of [...op.ins, ...op.outs]) {
      if (!isSmall(v)) continue
      if (!last.has(v)) change[k]! += valueBytes(graph.values[v]!)
      last.set(v, k)
    }
  })
  for (const [v, k] of last) change[k + 1]! -= valueBytes(graph.values[v]!)
  let [held, most] = [0, 0]
  for (const by of change) {
    held += by
    most = Math.max(most, held)
  }
  return most
}

/** The atoms, and the loops of atoms. */
const atomsOf = (
  joint: Joint,
): {
  readonly atoms: readonly LoopOps[]
  readonly breaks: ReadonlySet<OpId>
  readonly join: (from: number, to: number) => LoopOps | null
} => {
  const { graph, forwardOrder, backwardOrder } = joint
  const breaks = breaksOf(joint, new Set(mapped(graph.values, (v) => v.id)))
  const atoms = [...loopsOf(graph, 'forward', forwardOrder, breaks, 0), ...loopsOf(graph, 'backward', backwardOrder, breaks, 0)]
  const at = new Map(mapped([...forwardOrder, ...backwardOrder], (op, k) => [op.id, k] as const))
  const join = (from: number, to: number): LoopOps | null => {
    const { phase } = atoms[from]!
    if (atoms[to - 1]!.phase !== phase) return null
    if (to === from + 1) return atoms[from]!
    const ids = atoms.slice(from, to).flatMap((s) => [...s.ops, ...s.after])
    const made = loopsOf(
      graph,
      phase,
      mapped(
        ids.sort((a, b) => at.get(a)! - at.get(b)!),
        (id) => graph.ops[id]!,
      ),
    )
    return made.length === 1 ? made[0]! : null
  }
  return { atoms, breaks, join }
}

/** Values below `leastBytes` are neither moved nor recomputed. */
export const problemOf = (graph: Graph, machine: Machine, leastBytes = SMALL_BYTES): Problem => {
  const costs = opCosts(graph, machine)
  const copies = copiesIn(graph)
  const areHeld = new Set([...copies].flat())
  const joint = withAdvancedOps(jointOf(graph, costs, leastBytes), leastBytes)
  const { atoms, breaks, join } = atomsOf(joint)
  const makers = new Map([...joint.makers, ...joint.gradientMakers])
  const bytes = Float64Array.from(graph.values, valueBytes)
  const units = hasTier(machine) ? unitsOf(graph) : []
  const storageOf = new Map(units.flat().flatMap((storage) => mapped(storage, (v) => [v, storage[0]!] as const)))
  // The first value of a storage counts for all of them.
  for (const [first, ...others] of units.flat())
    for (const v of others) {
      bytes[first!]! += bytes[v]!
      bytes[v] = 0
    }
  const maker = new Int32Array(graph.values.length).fill(-1)
  for (const op of graph.ops) for (const v of op.outs) maker[v] = op.id
  const atomOf = new Int32Array(graph.ops.length)
  const lastAtom = new Int32Array(graph.values.length)
  atoms.forEach(({ ops, after }, i) => {
    for (const id of [...ops, ...after]) {
      atomOf[id] = i
      for (const v of graph.ops[id]!.ins) lastAtom[v] = i
    }
  })
  const weightGradients = graph.values.flatMap((v) =>
    !isPersistent(v) && isOfWeight(graph, v)
      ? [{ value: v.id, made: atomOf[maker[v.id]!]!, read: Math.max(lastAtom[v.id]!, atomOf[maker[v.id]!]!) }]
      : [],
  )
  const seconds = (ids: readonly OpId[]): number => ids.reduce((n, id) => n + costs[id]!.seconds, 0)
  const repeatables = new Map<string, Uint8Array>()
  /** The same for all loops of a phase that run alike. */
  const repeatable = (s: LoopOps): Uint8Array => {
    const key = `${s.phase} ${reachOf(s.dims)}`
    const there = repeatables.get(key)
    if (there) return there
    const made = Uint8Array.from(graph.ops, ({ outs }) =>
      outs.some((v) => !areHeld.has(v) && makers.has(v) && canRecomputeIn(joint, s, v)) ? 1 : 0,
    )
    repeatables.set(key, made)
    return made
  }
  const loopOf = (from: number, to: number): Loop | null => {
    const s = join(from, to)
    if (!s) return null
    const tiles = reachOf(s.dims) === 'image'
    const ops = mapped(s.ops, (id) => graph.ops[id]!)
    const { B, H } = tiles ? mostTiles(graph, { dims: s.dims }, ops) : { B: 1, H: 1 }
    return {
      ...s,
      from,
      to,
      tiles,
      most: { B, H },
      repeatable: repeatable(s),
      homes: homesOf(graph, s, storageOf, bytes),
      gradients: weightGradients.reduce((n, g) => n + (g.made < to && g.read >= from ? bytes[g.value]! : 0), 0),
      seconds: seconds(s.ops),
      afterSeconds: seconds(s.after),
    }
  }
  const known = new Map<number, Loop | null>()
  const loop = (from: number, to: number): Loop | null => {
    const key = from * (atoms.length + 1) + to
    const there = known.get(key)
    if (there !== undefined) return there
    const made = loopOf(from, to)
    known.set(key, made)
    return made
  }
  const weights = mapped(atoms, (s) => wholeIn(graph, s.ops))
  const endsFor = (cuts: boolean, wholeBytes: number): readonly number[] => {
    const ends: number[] = []
    for (let from = 0, to = 1; from < atoms.length; to++) {
      const values = new Set(weights.slice(from, to + 1).flat())
      const most = wholeBytes === Infinity ? 0 : [...values].reduce((n, v) => n + bytes[v]!, 0)
      const isFull = most > wholeBytes && (weights[to]?.length ?? 0) > 0
      if (to < atoms.length && !(cuts && breaks.has(atoms[to]!.ops[0]!)) && !isFull && join(from, to + 1)) continue
      ends.push(to)
      from = to
    }
    return ends
  }
  const ends = endsFor(false, Infinity)
  const longest = mapped(ends, (to, k) => loop(k === 0 ? 0 : ends[k - 1]!, to)!)
  const repeats = graph.ops.filter((op) => longest.some((l) => mayRepeat(atomOf, l, op.id)))
  const choices = (l: Loop): number =>
    new Set(l.ops.flatMap((id) => graph.ops[id]!.ins.flatMap((v) => (mayRepeat(atomOf, l, maker[v]!) ? [maker[v]!] : [])))).size
  const crosses = flags(
    graph,
    (v) =>
      !areHeld.has(v.id) &&
      !isPersistent(v) &&
      !isOfWeight(graph, v) &&
      !isResult(v) &&
      v.role !== 'stat' &&
      valueBytes(v) >= leastBytes,
  )
  const crossing = bytes.reduce((n, b, v) => n + crosses[v]! * b, 0)
  const graphSeconds = seconds(mapped(graph.ops, (op) => op.id))
  return {
    graph,
    machine,
    atoms: atoms.length,
    loopOf: loop,
    endsFor,
    units,
    alwaysBytes: graph.values.reduce(
      (n, v) => n + ((isPersistent(v) && !storageOf.has(v.id)) || copies.has(v.id) ? valueBytes(v) : 0),
      0,
    ),
    nextBytes: [...copies.values()].reduce((n, v) => n + alignUp(bytes[v]!, PAGE_BYTES), 0),
    homeBytes: units.flat(2).reduce((n, v) => n + valueBytes(graph.values[v]!), 0),
    smallBytes: smallBytes(graph, leastBytes),
    graphSeconds,
    // Far more than to recompute the mean value.
    unplaced: hasTier(machine) ? 0 : (LACK * graphSeconds) / Math.max(1, crossing),
    launch: launchSeconds(machine),
    meanSeconds: repeats.reduce((n, op) => n + costs[op.id]!.seconds, 0) / Math.max(1, repeats.length),
    decisions: longest.reduce((n, l) => n + 1 + choices(l), 0),
    bytes,
    maker,
    atomOf,
    crosses,
    hasCopy: flags(graph, (v) => isPersistent(v) || isFed(v)),
    seconds: Float64Array.from(graph.ops, (op) => costs[op.id]!.seconds),
    scratch: Float64Array.from(graph.ops, (op) => costs[op.id]!.workspaceBytes),
    ins: mapped(graph.ops, (op) => op.ins),
    outs: mapped(graph.ops, (op) => op.outs),
    lastAtom,
    sums: Int32Array.from(graph.ops, (op) => summed(graph, op.id).length),
    inPlace: mapped(graph.ops, (op) =>
      mapped(opDef(op.kind).inPlace ?? [], (i) => op.ins[i]!).filter((v) => bytes[v] === bytes[op.outs[0]!]),
    ),
    grows: Uint8Array.from(graph.ops, (op) =>
      op.phase === 'backward' && reachOf(tileableDims(graph, op)) === 'image' && !inPieces(graph, op) ? 1 : 0,
    ),
  }
}
