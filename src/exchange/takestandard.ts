// Standardised weights, from ONNX nodes: (w − mean)/√(variance + eps) for each output channel, also times a gain. They come in single steps, or as
// PyTorch's batch norm of the weight's rows in training mode. In: a node that reads a weight. Out: the next part of the standardisation; false if the
// node is none. Invariant: only a convolution reads the whole of it, which becomes its option `standardize`, with the gain in a layer behind it.
import { elementsOf } from '../../staging/core/box'
import { numbersOf } from './read'
import { axesOf, positive, type Reading, shortest } from './reading'
import type { Meaning, Weight } from './symbols'

type Standard = Extract<Meaning, { readonly tag: 'standard' }>

const partOf = (r: Reading, i: number): Standard | undefined => {
  const s = r.has(i) ? r.symbol(i) : undefined
  return s?.tag === 'standard' ? s : undefined
}
const put = (r: Reading, s: Omit<Standard, 'tag'>): true => {
  r.is({ tag: 'standard', ...s })
  return true
}

const isWeight = (r: Reading, i: number, w: Weight): boolean => {
  const s = r.symbol(i)
  return s.tag === 'weight' && s.weight.tensor === w.tensor
}

/** Rows of a weight, one for each output channel: [1,O,I·kH·kW]. PyTorch's older exporter writes columns, too, and only for means. */
const isRows = ({ dims }: Weight): boolean => dims.length === 3 && dims[0] === 1

/** The mean of each output channel of a weight. */
const mean = (r: Reading): boolean => {
  const s = r.symbol(0)
  const part = partOf(r, 0)
  const weight = part?.part === 'square' ? part.weight : s.tag === 'weight' ? s.weight : undefined
  const axes = positive(axesOf(r) ?? [], weight?.dims.length ?? 0).join()
  const isWhole = weight?.dims.length === 4 && axes === '1,2,3' && r.int('keepdims', 1) === 1
  if (weight === undefined || !(isWhole || (isRows(weight) && ['0,1', '0,2'].includes(axes)))) return false
  return put(r, part ? { ...part, part: 'variance' } : { part: 'mean', weight, eps: 0, ofColumns: axes === '0,1' })
}

const filled = (w: Weight, n: number): boolean => numbersOf(w.tensor)?.every((v) => v === n) ?? false

/** A batch norm of the rows by their own statistics, which the node or others compute. */
const batchNorm = (r: Reading): boolean => {
  const s = r.symbol(0)
  if (s.tag !== 'weight' || !isRows(s.weight)) return false
  const [means, variance] = [partOf(r, 3), partOf(r, 4)]
  const isOwn =
    means?.part === 'mean' &&
    variance?.part === 'variance' &&
    [means, variance].every((p) => !p.ofColumns && isWeight(r, 0, p.weight))
  if (!isOwn && r.int('training_mode', 0) !== 1) return false
  const [given, shift, scaled] = [r.symbol(1), r.symbol(2), partOf(r, 1)]
  const scale = scaled?.part === 'gain' ? scaled.weight : given.tag === 'weight' ? given.weight : undefined
  if (scale === undefined || shift.tag !== 'weight' || !filled(shift.weight, 0)) return false
  const gain = filled(scale, 1) && scaled === undefined ? undefined : scale
  return put(r, { part: 'whole', weight: s.weight, eps: r.float('epsilon', 1e-5), gain, factor: scaled?.factor })
}

/** A gain times a number: one of each output channel. */
const scaledGain = (r: Reading): boolean => {
  const [s, factor] = [r.symbol(0), r.scalar(1)]
  if (s.tag !== 'weight' || factor === undefined || s.weight.dims.length !== 4 || elementsOf(s.weight.dims.slice(1)) > 1)
    return false
  return put(r, { part: 'gain', weight: s.weight, eps: 0, factor: shortest(factor) })
}

const PARTS: Readonly<Record<string, (r: Reading) => boolean>> = {
  ReduceMean: mean,
  Sub: (r) => {
    const by = partOf(r, 1)
    return by?.part === 'mean' && isWeight(r, 0, by.weight) && put(r, { ...by, part: 'centred' })
  },
  Mul: (r) => {
    if (scaledGain(r)) return true
    const [a, b] = [partOf(r, 0), partOf(r, 1)]
    return a?.part === 'centred' && b?.part === 'centred' && a.weight === b.weight && put(r, { ...a, part: 'square' })
  },
  Add: (r) => {
    const part = partOf(r, 0)
    const eps = r.has(1) ? r.scalar(1) : undefined
    return part?.part === 'variance' && eps !== undefined && put(r, { ...part, part: 'shifted', eps: shortest(eps) })
  },
  Sqrt: (r) => {
    const part = partOf(r, 0)
    return part?.part === 'shifted' && put(r, { ...part, part: 'deviation' })
  },
  Div: (r) => {
    const [a, b] = [partOf(r, 0), partOf(r, 1)]
    return (
      a?.part === 'centred' && b?.part === 'deviation' && a.weight === b.weight && !b.ofColumns && put(r, { ...b, part: 'whole' })
    )
  },
  BatchNormalization: batchNorm,
  Reshape: (r) => {
    const part = partOf(r, 0)
    const dims = r.numbers(1)?.map(Number)
    if (part?.part === 'gain' && dims?.join() === `${elementsOf(part.weight.dims)}`) return put(r, part)
    if (part?.part !== 'whole' || dims?.length !== 4) return false
    const known = dims.filter((d) => d !== -1).reduce((n, d) => n * d, 1)
    const sized = dims.map((d) => (d === -1 ? elementsOf(part.weight.dims) / known : d))
    return put(r, { ...part, weight: { ...part.weight, dims: sized } })
  },
}

/** Takes a node of a standardisation. */
export const standardPart = (r: Reading, opType: string): boolean => Object.hasOwn(PARTS, opType) && PARTS[opType]!(r)
