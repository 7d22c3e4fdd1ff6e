// Changes of height and width as ONNX nodes.
import type { Dims } from './nodes'
import { type Inference, onImage, type Write } from './writing'

/** Returns true if the nearest pixel is ours, with places computed in single precision. */
const isNearestExact = (from: number, to: number): boolean => {
  const scale = Math.fround(to / from)
  for (let i = 0; i < to; i++) if (Math.floor(Math.fround(i / scale)) !== Math.floor((i * from) / to)) return false
  return true
}

const resized = (at: Inference, x: string, dims: Dims, mode: number, [h, w]: readonly [number, number]): string =>
  at.nodes.add('Resize', [x, '', '', at.nodes.ints(h, w)], dims, {
    axes: [2, 3],
    ...(mode === 0
      ? { mode: 'nearest', coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' }
      : { mode: 'linear', coordinate_transformation_mode: mode === 1 ? 'half_pixel' : 'align_corners' }),
  })

/** The mean of the pixels that a new pixel covers: [from, to]. */
export const meansOf = (from: number, to: number): readonly number[] =>
  Array.from({ length: from * to }, (_, n) => {
    const [i, o] = [Math.floor(n / to), n % to]
    const [first, end] = [Math.floor((o * from) / to), Math.ceil(((o + 1) * from) / to)]
    return i >= first && i < end ? 1 / (end - first) : 0
  })

/** ONNX has no windows that differ in size: a product with a matrix for each axis. */
const windowMeans = (at: Inference, x: string, dims: Dims, [h, w]: readonly [number, number]): string => {
  const [, c, outH, outW] = dims as readonly ['batch', number, number, number]
  const rows = Array.from({ length: outH }, (_, o) => meansOf(h, outH).filter((_, n) => n % outH === o)).flat()
  const narrow = outW === w ? x : at.nodes.add('MatMul', [x, at.nodes.matrix(meansOf(w, outW), w)], ['batch', c, h, outW])
  return outH === h ? narrow : at.nodes.add('MatMul', [at.nodes.matrix(rows, outH), narrow], dims)
}

export const upsample: Write = onImage((at, x, dims, { attrs }) => {
  const { mode, inH, inW, outH, outW } = attrs as Record<'mode' | 'inH' | 'inW' | 'outH' | 'outW', number>
  if (mode === 3) return windowMeans(at, x, dims, [inH, inW])
  if (mode !== 0 || (isNearestExact(inH, outH) && isNearestExact(inW, outW))) return resized(at, x, dims, mode, [outH, outW])
  const places = (from: number, to: number) => Array.from({ length: to }, (_, i) => Math.floor((i * from) / to))
  const rows = at.nodes.add('Gather', [x, at.nodes.ints(...places(inH, outH))], ['batch', dims[1]!, outH, inW], { axis: 2 })
  return at.nodes.add('Gather', [rows, at.nodes.ints(...places(inW, outW))], dims, { axis: 3 })
})

export const reflectPad: Write = onImage((at, x, dims, { attrs: a }) =>
  at.nodes.add('Pad', [x, at.nodes.ints(0, 0, a['padTop']!, a['padLeft']!, 0, 0, a['padBottom']!, a['padRight']!)], dims, {
    mode: 'reflect',
  }),
)
