// Max pools keep the position of each maximum, a byte, if that frees their input: a quarter of the output's bytes instead of the input's. In: a
// training graph. Out: the same with an op for the positions after such a pool, which its gradient reads. Invariant: the gradient's bits are the
// same, and no schedule holds more. The input is freed because no other backward op reads it. Worked example: conv2d, max_pool, relu, …,
// max_pool_bwd(x, dy) becomes conv2d, max_pool, max_pool_places, relu, …, max_pool_places_bwd(places, dy).
import type { Graph, Op, Value, ValueId } from '../../graph/graph'
import { MOST_PLACES, placesShape } from '../../ops/poolplaces'
import { readersOf } from './rewrite'

/** Returns, by pooled input, the gradients of pools that are the only backward readers of the input. */
const onlyBackwardReaders = (g: Graph): ReadonlyMap<ValueId, Op> => {
  const readers = readersOf(g.ops.filter((op) => op.phase === 'backward'))
  const fits = (op: Op): boolean =>
    op.kind === 'max_pool_bwd' &&
    op.attrs['kernelH']! * op.attrs['kernelW']! <= MOST_PLACES &&
    g.values[op.ins[0]!]!.role === 'activation' &&
    readers.get(op.ins[0]!)!.length === 1
  return new Map(g.ops.filter(fits).map((op) => [op.ins[0]!, op]))
}

const sameAttrs = (a: Op, b: Op): boolean => Object.entries(a.attrs).every(([name, n]) => b.attrs[name] === n)

export const withPoolPlaces = (g: Graph): Graph => {
  const gradients = onlyBackwardReaders(g)
  const values: Value[] = [...g.values]
  const placesFor = new Map<Op, ValueId>()
  const ops = g.ops.flatMap((op): readonly Op[] => {
    const gradient = op.kind === 'max_pool' ? gradients.get(op.ins[0]!) : undefined
    if (gradient && sameAttrs(op, gradient)) {
      const id = values.length
      const y = g.values[op.outs[0]!]!
      values.push({ id, name: `${op.layer}.places`, role: 'activation', shape: placesShape(y.shape), dtype: 'i32' })
      placesFor.set(gradient, id)
      return [op, { ...op, kind: 'max_pool_places', outs: [id] }]
    }
    const places = placesFor.get(op)
    return [
      places === undefined ? op : { ...op, kind: 'max_pool_places_bwd', attrs: placesBwdAttrs(g, op), ins: [places, op.ins[1]!] },
    ]
  })
  return placesFor.size === 0 ? g : { ...g, values, ops: ops.map((op, id) => ({ ...op, id })) }
}

const placesBwdAttrs = (g: Graph, op: Op): Op['attrs'] => {
  const [, channels, extentH, extentW] = g.values[op.ins[0]!]!.shape
  return { ...op.attrs, channels: channels!, extentH: extentH!, extentW: extentW! }
}
