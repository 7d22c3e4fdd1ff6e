// Legal cuts of the forward pass. In: the training graph. Out: positions between forward ops, with the values that cross them. A position is clean if
// a single activation crosses it, or activations that a later op reads side by side as one. A checkpoint at a clean position costs one value, even in
// a network with branches (paper 3 names the same positions by dominators). Worked example: conv relu [conv relu conv +] relu pool: inside the
// brackets the skip crosses too, so the clean positions are before and after the block.
import { mapped } from '../core/mapped'
import { onceFor } from '../core/remember'
import { valueBytes, type Graph, type Op, type ValueId } from '../graph/graph'
import { opDef } from '../ops/registry'
import { forwardOps } from './segments'

export interface Cut {
  /** The cut is before forward op `at`. */
  readonly at: number
  /** Bytes of activations that are made before the cut and read after it. */
  readonly bytes: number
  readonly clean: boolean
  /** The activations that cross. */
  readonly values: readonly ValueId[]
}

export interface ForwardProfile {
  readonly ops: readonly Op[]
  readonly cuts: readonly Cut[]
  /** By position i: bytes of the activations made by the ops before it. */
  readonly madeBefore: readonly number[]
}

export const profileForward = onceFor((graph: Graph): ForwardProfile => {
  const ops = forwardOps(graph)
  const lastUse = new Map<ValueId, number>()
  ops.forEach((op, i) => op.ins.forEach((v) => lastUse.set(v, i)))
  const joinedBy = new Map(ops.filter((op) => opDef(op.kind).joins).flatMap((op) => mapped(op.ins, (v) => [v, new Set(op.ins)])))
  const crossAsOne = (values: readonly ValueId[]): boolean =>
    values.length === 1 || values.every((v) => joinedBy.get(values[0]!)?.has(v))
  const isActivation = (v: ValueId): boolean => graph.values[v]!.role === 'activation'
  const madeBefore = [0]
  const cuts: Cut[] = []
  const alive = new Set<ValueId>()
  ops.forEach((op, i) => {
    for (const v of op.outs) if (isActivation(v)) alive.add(v)
    for (const v of [...alive]) if ((lastUse.get(v) ?? -1) <= i) alive.delete(v)
    madeBefore.push(madeBefore[i]! + op.outs.filter(isActivation).reduce((n, v) => n + valueBytes(graph.values[v]!), 0))
    const bytes = [...alive].reduce((n, v) => n + valueBytes(graph.values[v]!), 0)
    if (i + 1 < ops.length) cuts.push({ at: i + 1, bytes, clean: crossAsOne([...alive]), values: [...alive] })
  })
  return { ops, cuts, madeBefore }
})

/** Returns positions that split the forward pass into about `blocks` blocks of equal activation bytes. They are clean cuts if there are any. */
export const balancedCuts = (p: ForwardProfile, blocks: number): readonly number[] => {
  const clean = p.cuts.filter((c) => c.clean)
  const legal = clean.length ? clean : p.cuts
  const total = p.madeBefore[p.ops.length]!
  const out = new Set<number>()
  for (let b = 1; b < blocks; b++) {
    const goal = (b * total) / blocks
    let best = legal[0]
    for (const c of legal) if (best && Math.abs(p.madeBefore[c.at]! - goal) < Math.abs(p.madeBefore[best.at]! - goal)) best = c
    if (best) out.add(best.at)
  }
  return [...out].sort((a, b) => a - b)
}

/** Splits a list at positions. Empty parts are left out. */
export const splitAt = <T>(list: readonly T[], positions: readonly number[]): readonly (readonly T[])[] => {
  const ends = [...positions, list.length]
  return mapped(ends, (e, i) => list.slice(i === 0 ? 0 : ends[i - 1]!, e)).filter((x) => x.length > 0)
}

/**
 * Returns the useful positions of checkpoints. The values that cross are read by the backward pass, and differ from those at the position before. The
 * sum that a rectifier overwrites crosses too, but to keep it would cost one value more.
 */
export const checkpointCuts = (graph: Graph): readonly Cut[] => {
  const read = new Set(graph.ops.filter((op) => op.phase === 'backward').flatMap((op) => op.ins))
  const cuts = profileForward(graph).cuts.filter((c) => c.clean && c.values.every((v) => read.has(v)))
  return cuts.filter((c, i) => c.values.join() !== cuts[i - 1]?.values.join())
}
