// The common part of tiling tests: training graphs of sketches, their ops by layer and kind, ranges of a sliced step.
import { isLeft } from 'fp-ts/Either'
import type { Range } from '../../staging/core/box'
import type { Loss } from '../../staging/grad/grad'
import type { Graph, Op, OpId, ValueId } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import type { Grid, Segment, Step } from '../../staging/plan/plan'
import { assemble, type Group } from '../../staging/tile/segments'
import { type SlicedRun, sliceRun, type TiledDim, type TileError } from '../../staging/tile/slices'
import { must, type Sketch, trainingFrom } from '../graph/sketch'

export const trained = (s: Sketch, output: Ref, loss: Loss = 'mse'): Graph =>
  must(
    trainingFrom(s.b.build(), output, {
      loss,
      optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9, weightDecay: 0, nesterov: false },
    }),
  )

/** The op of 'layer:kind'. */
export const opNamed = (g: Graph, name: string): Op => {
  const op = g.ops.find((o) => `${o.layer}:${o.kind}` === name)
  if (!op) throw new Error(`no op '${name}'; there are ${g.ops.map((o) => `${o.layer}:${o.kind}`).join(' ')}`)
  return op
}
export const valueNamed = (g: Graph, name: string): ValueId => {
  const v = g.values.find((x) => x.name === name)
  if (!v) throw new Error(`no value '${name}'; there are ${g.values.map((x) => x.name).join(' ')}`)
  return v.id
}

export const grid = (B: number, H: number, W: number): Grid => ({ B, H, W })

export const sliced = (g: Graph, ops: readonly string[], over: Grid, leaves: readonly string[]): SlicedRun => {
  const r = sliceRun(
    g,
    ops.map((n) => opNamed(g, n).id),
    over,
    new Set(leaves.map((n) => valueNamed(g, n))),
  )
  if (isLeft(r)) throw new Error(`${r.left.layer} along ${r.left.dim}: ${r.left.why}`)
  return r.right
}
export const refused = (g: Graph, ops: readonly string[], over: Grid, leaves: readonly string[]): TileError => {
  const r = sliceRun(
    g,
    ops.map((n) => opNamed(g, n).id),
    over,
    new Set(leaves.map((n) => valueNamed(g, n))),
  )
  if (!isLeft(r)) throw new Error('an error was expected')
  return r.left
}

/** The ranges of a value, as the op of 'layer:kind' reads or writes it; null when it is not sliced. */
export const ranges = (
  g: Graph,
  steps: readonly Step[],
  op: string,
  value: string,
  dim: TiledDim = 'H',
): readonly Range[] | null => {
  const o = opNamed(g, op)
  const at = [...o.ins, ...o.outs].indexOf(valueNamed(g, value))
  if (at < 0) throw new Error(`${op} has no operand '${value}'`)
  return steps.find((s) => s.op === o.id)!.slices![at]?.[dim] ?? null
}

export const keepOf = (g: Graph, r: { readonly keeps: SlicedRun['keeps'] }, value: string) => {
  const k = r.keeps.find((x) => x.value === valueNamed(g, value))
  if (!k) throw new Error(`'${value}' is not kept; kept are ${r.keeps.map((x) => g.values[x.value]!.name).join(' ')}`)
  return k
}

export const segmentsOf = (g: Graph, groups: readonly Group[]): readonly Segment[] => {
  const r = assemble(g, groups)
  if (isLeft(r)) throw new Error(`${r.left.layer} along ${r.left.dim}: ${r.left.why}`)
  return r.right
}
/** 'layer:kind' of each op, in order. */
export const opNames = (g: Graph, ids: readonly OpId[]): string[] => ids.map((id) => `${g.ops[id]!.layer}:${g.ops[id]!.kind}`)
