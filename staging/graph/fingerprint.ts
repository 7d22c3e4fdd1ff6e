// A short stable name of a graph's computation. Equal graphs have equal fingerprints, and each change of a name, shape, operator, attribute or wiring
// changes it (FNV-1a, 64 bits: it distinguishes versions, but does not resist forgery). Weights laid out once a step do not change it, and neither do
// weights in parts or copies of inputs.
import { hashText } from '../core/fnv'
import type { Graph } from './graph'
import { asStaged } from './laid'

const sorted = (attrs: Readonly<Record<string, number>>): readonly (readonly [string, number])[] =>
  Object.entries(attrs).sort(([a], [b]) => (a < b ? -1 : 1))

export const fingerprint = (graph: Graph): string => {
  const g = asStaged(graph)
  return hashText(
    JSON.stringify([
      g.values.map((v) => [
        v.name,
        v.role,
        v.shape,
        v.dtype,
        v.init?.dist ?? null,
        v.init?.a ?? null,
        v.gradOf ?? null,
        ...(v.rows ? [v.rows.from, v.rows.of] : []),
        ...(v.part ? [v.part] : []),
      ]),
      g.ops.map((o) => [o.kind, o.layer, o.phase, sorted(o.attrs), o.ins, o.outs]),
      ...(g.ranks === undefined ? [] : [g.ranks]),
      ...(g.bands === undefined ? [] : [g.bands.at, g.bands.of]),
      ...(g.norms === undefined ? [] : [g.norms]),
    ]),
  )
}
