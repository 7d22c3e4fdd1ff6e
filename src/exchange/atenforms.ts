// PyTorch's reshapes, transpositions, slices, rolls and joins as ONNX nodes. In: the current node of a program. Out: its ONNX nodes. Invariant: the axis
// of the batch is known behind each of them. Worked example: aten.roll of 56 rows by -3 is the rows 3 to 55, then the rows 0 to 2.
import { fault, type Lower, type Lowering } from './lowering'
import { OWN } from './onnx'

export const reshape: Lower = (l) => {
  if (l.result().join() === l.sizes('self').join()) l.same('self')
  else l.make('Reshape', [l.given('self'), l.ints(...l.reshapedTo('self'))])
}

const permuted = (l: Lowering, perm: readonly number[]): void => {
  l.moves('self', (batch) => perm.indexOf(batch))
  l.make('Transpose', [l.given('self')], { perm })
}
export const permute: Lower = (l) => {
  const rank = l.sizes('self').length
  permuted(
    l,
    (l.list('dims') ?? []).map((a) => (a < 0 ? a + rank : a)),
  )
}
export const exchange: Lower = (l) => {
  const rank = l.sizes('self').length
  const [a, b] = ['dim0', 'dim1'].map((name, i) => l.axis(l.has(`axis${i}`) ? `axis${i}` : name, rank, i)) as [number, number]
  permuted(
    l,
    Array.from({ length: rank }, (_, i) => (i === a ? b : i === b ? a : i)),
  )
}

export const unsqueeze: Lower = (l) => {
  const axis = l.axis('dim', l.result().length, 0)
  l.moves('self', (batch) => batch + Number(axis <= batch))
  l.make('Unsqueeze', [l.given('self')], { axes: [axis] })
}

export const squeeze: Lower = (l) => {
  const sizes = l.sizes('self')
  const named = l.list('dim')?.map((a) => (a < 0 ? a + sizes.length : a)) ?? sizes.map((_, i) => i)
  const axes = named.filter((a) => sizes[a] === 1)
  if (axes.length === 0) return l.same('self')
  if (axes.includes(l.batchAxis('self') ?? -1)) fault('it removes the dimension of the batch; allowed: others')
  l.moves('self', (batch) => batch - axes.filter((a) => a < batch).length)
  l.make('Squeeze', [l.given('self')], { axes })
}

/** One place of an axis. */
const selected = (l: Lowering, axis: number, at: number, output: string): void => {
  if (l.batchAxis('self') === axis) fault('it takes one image of the batch; allowed: channels')
  l.moves('self', (batch) => batch - Number(axis < batch))
  l.add('Gather', [l.given('self'), l.index(at)], { axis }, output)
}
export const select: Lower = (l) => selected(l, l.axis('dim', l.sizes('self').length, 0), l.number('index', 0), l.output())
export const unbind: Lower = (l) => {
  const axis = l.axis('dim', l.sizes('self').length, 0)
  for (const [i, output] of l.outputs.entries()) selected(l, axis, i, output)
}

export const slice: Lower = (l) => {
  if (l.result().join() === l.sizes('self').join() && l.number('step', 1) === 1) return l.same('self')
  const axis = l.axis('dim', l.result().length, 0)
  const [extent, step] = [l.sizes('self')[axis]!, l.number('step', 1)]
  const [start, end] = [l.number('start', 0), Math.min(l.number('end', extent), extent)]
  if (l.sizes('self').length === 1 && step === 1 && l.batchAxis('self') === undefined) return l.isPart('self', start, end)
  l.make('Slice', [l.given('self')], { starts: [start], ends: [end], axes: [axis], steps: [step] })
}
/** Zeros in a part of a vector, in place: torchvision's Swin V2 does so to the bias of keys. */
export const zero: Lower = (l) => {
  const { of, from, to } = l.partOf('self') ?? fault('it changes a value in place; allowed: a part of a vector that was copied')
  l.renewed(of, l.add('Blank', [l.nameOf(of)], { from, to }, undefined, OWN))
}

export const narrow: Lower = (l) => {
  const axis = l.axis('dim', l.result().length, 0)
  const start = l.number('start', 0)
  l.make('Slice', [l.given('self')], { starts: [start], ends: [start + l.number('length', 1)], axes: [axis], steps: [1] })
}

export const split: Lower = (l) => {
  const axis = l.axis('dim', l.sizes('self').length, 0)
  const sizes = l.outputs.map((o) => l.sizesOf(o)[axis]!)
  l.add('Split', [l.given('self'), l.ints(...sizes)], { axis }, l.outputs)
}

/** Values without elements are left out, here and by the readers of a result that has none. */
export const cat: Lower = (l) => {
  const parts = l.values('tensors')
  if (parts.length > 0) l.make('Concat', parts, { axis: l.axis('dim', l.result().length, 0) })
}

export const stack: Lower = (l) => {
  const axis = l.axis('dim', l.result().length, 0)
  l.moves('tensors', (batch) => batch + Number(axis <= batch))
  const parts = l.values('tensors').map((v) => l.add('Unsqueeze', [v], { axes: [axis] }))
  l.make('Concat', parts, { axis })
}

/** The last rows or columns before the others, along each of the axes. */
export const roll: Lower = (l) => {
  const [shifts, dims] = [l.list('shifts') ?? [], l.list('dims') ?? []]
  if (shifts.length === 0 || shifts.length !== dims.length)
    return fault('it rolls all elements as one row; allowed: along rows and columns')
  const sizes = l.sizes('self')
  const rolled = dims.reduce((from, dim, i) => {
    const axis = dim < 0 ? dim + sizes.length : dim
    if (l.batchAxis('self') === axis) fault('it rolls the batch; allowed: rows and columns')
    const extent = sizes[axis]!
    const at = (((extent - shifts[i]!) % extent) + extent) % extent
    if (at === 0) return from
    const cut = (start: number, end: number) => l.add('Slice', [from], { starts: [start], ends: [end], axes: [axis], steps: [1] })
    return l.add('Concat', [cut(at, extent), cut(0, at)], { axis })
  }, l.given('self'))
  return l.make('Identity', [rolled])
}

export const expand: Lower = (l) => {
  const [sizes, to] = [l.sizes('self'), l.result()]
  const isForBatch = l.batchAxis('self') === undefined && sizes[0] === 1 && to[0] === l.batch
  // A value for each image.
  if (isForBatch && sizes.slice(1).join() === to.slice(1).join()) l.isOfBatch()
  return to.join() === sizes.join()
    ? l.same('self')
    : l.make('Expand', [l.given('self'), l.ints(...to.map((n, i) => (i === l.batchAxis('self') ? 1 : n)))])
}

/** A table of relative positions at constant places. */
export const index: Lower = (l) => {
  const places = l.values('indices')
  if (places.length !== 1) fault(`it takes elements at ${places.length} lists of places; allowed: one list, of a table`)
  l.make('Gather', [l.given('self'), places[0]], { axis: l.placesBefore('indices') })
}

export const pixelShuffle: Lower = (l) =>
  l.make('DepthToSpace', [l.given('self')], { blocksize: l.number('upscale_factor', 1), mode: 'CRD' })

export const pixelUnshuffle: Lower = (l) =>
  l.make('PixelUnshuffle', [l.given('self')], { factor: l.number('downscale_factor', 1) }, OWN)

export const channelShuffle: Lower = (l) => {
  const [, c, h, w] = l.sizes('self') as [number, number, number, number]
  const groups = l.number('groups', 1)
  const grouped = l.add('Reshape', [l.given('self'), l.ints(1, groups, c / groups, h, w)])
  const turned = l.add('Transpose', [grouped], { perm: [0, 2, 1, 3, 4] })
  l.make('Reshape', [turned, l.ints(1, c, h, w)])
}
