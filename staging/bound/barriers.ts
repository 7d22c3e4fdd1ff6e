// The points that each plan of a step passes in the same order. In: a training graph. Out: a chain of barriers; for each op the number of barriers
// before it and the first one after it. A barrier is an op with a result that needs all of an input. Examples are the statistics of a norm and the
// sums of its gradient. Each barrier needs the one before it. Worked example, conv stats norm relu conv stats …: both `stats` are barriers; the first
// conv has none before it, the norm has one.
import { dimIndex } from '../core/box'
import { onceFor } from '../core/remember'
import { type Graph, isResult, type Op, type ValueId, valueBytes } from '../graph/graph'
import { operandsOf, TILED_DIMS } from '../tile/slices'
import { coverageOf } from './coverage'

export interface Barriers {
  /** The barriers, in order. */
  readonly ops: readonly Op[]
  /** By op of the graph: the number of barriers that it needs, and the first barrier that needs it (`ops.length`: none). */
  readonly before: readonly number[]
  readonly due: readonly number[]
  /** The batch, if barriers are those of one image each; 1 if they wait for the whole batch. */
  readonly parts: number
}

/** Returns true if a result is complete only after all of an input; with `image`, after all of the same image. */
const needsAll = (graph: Graph, op: Op, image: boolean): boolean => {
  const { ins, outs } = operandsOf(graph, op)
  const extent = (v: ValueId, d: (typeof TILED_DIMS)[number]): number => graph.values[v]!.shape[dimIndex[d]] ?? 1
  return ins.some(
    ({ value, access }) =>
      access !== null &&
      TILED_DIMS.every(
        (d) =>
          (image && d === 'B') ||
          extent(value, d) === 1 ||
          access[d].tag === 'all' ||
          outs.every((o) => o.access === null || o.access[d].tag === 'reduce'),
      ),
  )
}

const readersOf = (graph: Graph): readonly (readonly Op[])[] => {
  const readers: Op[][] = graph.values.map(() => [])
  for (const op of graph.ops) if (op.phase !== 'update') for (const v of op.ins) readers[v]!.push(op)
  return readers
}

const chainOf = (graph: Graph, isBarrier: (op: Op) => boolean): Omit<Barriers, 'parts'> => {
  const readers = readersOf(graph)
  const reach = new Int32Array(graph.values.length)
  const ops: Op[] = []
  const before = graph.ops.map((op) => {
    const n = op.ins.reduce((most, v) => Math.max(most, reach[v]!), 0)
    const isNext = n === ops.length && op.outs.some((v) => readers[v]!.length > 0) && isBarrier(op)
    if (isNext) ops.push(op)
    for (const v of op.outs) reach[v] = isNext ? n + 1 : n
    return n
  })
  return { ops, before, due: dueOf(graph, ops) }
}

const dueOf = (graph: Graph, ops: readonly Op[]): readonly number[] => {
  const place = new Map(ops.map((op, i) => [op, i]))
  const dueByValue = new Int32Array(graph.values.length).fill(ops.length)
  const due = new Array<number>(graph.ops.length).fill(ops.length)
  for (let i = graph.ops.length - 1; i >= 0; i--) {
    const op = graph.ops[i]!
    due[i] = place.get(op) ?? op.outs.reduce((least, v) => Math.min(least, dueByValue[v]!), ops.length)
    for (const v of op.ins) dueByValue[v] = Math.min(dueByValue[v]!, due[i]!)
  }
  return due
}

/** Returns true if each image of the batch is computed from the same image only. */
const isByImage = (graph: Graph, batch: number): boolean =>
  graph.ops.every((op) => {
    const { ins, outs } = operandsOf(graph, op)
    return [...ins, ...outs].every(
      ({ value, access }) =>
        access === null || (graph.values[value]!.shape[0] === batch && (access.B.tag === 'same' || access.B.tag === 'inside')),
    )
  })

/** Returns the barriers of the whole batch; if there are none, those of each image. */
export const barriersOf = onceFor((graph: Graph): Barriers => {
  const ofBatch = chainOf(graph, (op) => op.phase !== 'update' && needsAll(graph, op, false))
  if (ofBatch.ops.length > 0) return { ...ofBatch, parts: 1 }
  const batch = graph.values.find((v) => v.role === 'input')?.shape[0] ?? 1
  const isBarrier = (op: Op): boolean => op.phase !== 'update' && needsAll(graph, op, true)
  return { ...chainOf(graph, isByImage(graph, batch) ? isBarrier : () => false), parts: batch }
})

/** Returns the chain of some of its barriers, by their indices in order. */
export const someOf = ({ ops, before, due, parts }: Barriers, places: readonly number[]): Barriers => {
  const passed = new Int32Array(ops.length + 1)
  for (const p of places) passed[p + 1] = 1
  for (let i = 0; i < ops.length; i++) passed[i + 1]! += passed[i]!
  return {
    ops: places.map((p) => ops[p]!),
    before: before.map((n) => passed[n]!),
    due: due.map((n) => passed[n]!),
    parts,
  }
}

/** Returns the share of each op that the step needs before the barrier that is due. Tiles need not compute rows that strides skip. */
export const neededOf = (graph: Graph, due: readonly number[]): Float64Array => {
  const needed = new Float64Array(graph.ops.length)
  const isBarrier = (op: Op): boolean => op.outs.some((v) => required[v]!.due > due[op.id]!)
  const required = graph.values.map((v) => ({ due: Infinity, share: isResult(v) ? 1 : 0 }))
  for (let i = graph.ops.length - 1; i >= 0; i--) {
    const op = graph.ops[i]!
    const factors = coverageOf(graph, op)
    const shareOf = (v: ValueId, k: number): number => {
      const { share } = required[v]!
      const c = factors[op.ins.length + k]
      if (share === 0 || share === 1) return share
      return c ? share * c.needs : 1
    }
    needed[i] = op.outs.length === 0 || isBarrier(op) ? 1 : Math.max(...op.outs.map(shareOf))
    op.ins.forEach((v, k) => {
      const c = factors[k]
      const share = c && needed[i]! < 1 ? c.reads * needed[i]! : needed[i]! * (c?.all ?? 1)
      const current = required[v]!
      // A reader that is due later counts only if no other reader is due as early.
      if (due[i]! < current.due) required[v] = { due: due[i]!, share }
      else if (due[i] === current.due) current.share = Math.max(current.share, share)
    })
  }
  return needed
}

/** Returns, by barrier, the bytes of values that are complete before it and that ops directly after it read. */
const crossing = (graph: Graph, { ops, before }: Barriers): Float64Array => {
  const bytes = new Float64Array(ops.length)
  const made = new Int32Array(graph.values.length).fill(-1)
  const counted = new Int32Array(graph.values.length)
  for (const op of graph.ops) {
    const at = before[op.id]!
    for (const v of op.ins)
      if (made[v]! >= 0 && made[v]! < at && counted[v] !== at) {
        counted[v] = at
        bytes[at - 1]! += valueBytes(graph.values[v]!)
      }
    if (op.phase !== 'update') for (const v of op.outs) made[v] = at
  }
  return bytes
}

/** Returns at most `count` barriers: the last one of the forward pass, and those with the most bytes read across them. */
export const chosenOf = (graph: Graph, all: Barriers, count: number): Barriers => {
  const bytes = crossing(graph, all)
  const turn = all.ops.map((op) => op.phase !== 'backward').lastIndexOf(true)
  const order = all.ops.map((_, p) => p).sort((a, b) => bytes[b]! - bytes[a]! || b - a)
  const places = [...(turn < 0 ? [] : [turn]), ...order.filter((p) => p !== turn)].slice(0, count)
  return someOf(
    all,
    places.sort((a, b) => a - b),
  )
}
