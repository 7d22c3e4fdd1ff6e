// Attention, trained values and global responses as ONNX nodes.
import { distances, distancesBehindToken } from '../../staging/ops/attention'
import { coordinate } from '../../staging/ops/distancescores'
import { rotation } from '../../staging/ops/rotate'
import { LEAST_LENGTH } from '../../dsl/layers/layernorm'
import type { Dims } from './nodes'
import { flatDims, imageDims, type Inference, onImage, type Write } from './writing'

/** A trained value that is added, as [C,1,1] or [C,H,W]; flat, as [C]. */
export const shift: Write = (at, op) => {
  const [x, p] = op.ins
  const out = op.outs[0]!
  const [, c, h, w] = at.value(x!).shape as [number, number, number, number]
  const own = at.image(p!)
  if (at.areFlat([x!])) {
    const line = op.attrs['elements'] === 0 ? own : at.nodes.add('Reshape', [own, at.nodes.ints(c)], [c])
    return at.is(out, { flat: at.nodes.add('Add', [at.flat(x!), line], flatDims(at.value(out))) })
  }
  const rows = (): string => at.nodes.add('Reshape', [own, at.nodes.ints(h * w, c)], [h * w, c])
  const turned = (): string =>
    at.nodes.add(
      'Reshape',
      [at.nodes.add('Transpose', [rows()], [c, h * w], { perm: [1, 0] }), at.nodes.ints(c, h, w)],
      [c, h, w],
    )
  const isImage = at.value(p!).shape.slice(-3).join() === [c, h, w].join()
  const image = (): string => (isImage ? own : at.nodes.add('Reshape', [own, at.nodes.ints(c, h, w)], [c, h, w]))
  const vector = (): string => at.nodes.add('Unsqueeze', [own, at.nodes.ints(1, 2)], [c, 1, 1])
  const added = [vector, image, turned][op.attrs['elements']!]!()
  const dims = imageDims(at.value(out))
  return at.is(out, { image: at.nodes.add('Add', [at.image(x!), added], dims) })
}

export const turnPixels: Write = onImage((at, x, dims, { ins }) => {
  const [, c, h, w] = at.value(ins[0]!).shape as [number, number, number, number]
  const rows = at.nodes.add('Reshape', [x, at.nodes.ints(0, c, h * w)], ['batch', c, h * w])
  const turned = at.nodes.add('Transpose', [rows], ['batch', h * w, c], { perm: [0, 2, 1] })
  return at.nodes.add('Unsqueeze', [turned, at.nodes.ints(2)], dims)
})

/** Rotary positions as timm writes them: x times cosines, and exchanged pairs of channels times sines. */
export const rotate: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const [, c, h, w] = at.value(ins[0]!).shape as [number, number, number, number]
  const a = attrs as unknown as Parameters<typeof rotation>[0]
  const { head } = a
  const [heads, pixels] = [c / head, h * w]
  const table = (f: (angle: number) => number): string => {
    const numbers = Array.from({ length: pixels * head }, (_, i) =>
      f(rotation(a, Math.floor(i / head), Math.floor((i % head) / 2))),
    )
    return nodes.matrix(numbers, pixels)
  }
  const rows = nodes.add('Reshape', [x, nodes.ints(0, heads, head, pixels)], ['batch', heads, head, pixels])
  const tokens: Dims = ['batch', heads, pixels, head]
  const own = nodes.add('Transpose', [rows], tokens, { perm: [0, 1, 3, 2] })
  const half: Dims = ['batch', heads, pixels, head / 2]
  const every = (first: number): string =>
    nodes.add('Slice', [own, nodes.ints(first), nodes.ints(head), nodes.ints(3), nodes.ints(2)], half)
  const lined = (v: string): string => nodes.add('Unsqueeze', [v, nodes.ints(4)], [...half, 1])
  const pairs = nodes.add('Concat', [lined(nodes.add('Neg', [every(1)], half)), lined(every(0))], [...half, 2], { axis: 4 })
  const exchanged = nodes.add('Reshape', [pairs, nodes.ints(0, heads, pixels, head)], tokens)
  const cosines = nodes.add('Mul', [own, table(Math.cos)], tokens)
  const rotated = nodes.add('Add', [cosines, nodes.add('Mul', [exchanged, table(Math.sin)], tokens)], tokens)
  const turned = nodes.add('Transpose', [rotated], ['batch', heads, head, pixels], { perm: [0, 1, 3, 2] })
  return nodes.add('Reshape', [turned, nodes.ints(0, c, h, w)], dims)
})

/** The root of the sum, which is all that `response` reads. */
export const squareSums: Write = onImage((at, x, dims) =>
  at.nodes.add('ReduceL2', [x, at.nodes.ints(2, 3)], dims, { keepdims: 1 }),
)

export const response: Write = onImage((at, norms, dims, { attrs, ins }) => {
  const { nodes } = at
  const [, c] = at.value(ins[0]!).shape as [number, number]
  const mean = nodes.add('ReduceMean', [norms, nodes.ints(1)], ['batch', 1, 1, 1], { keepdims: 1 })
  const ratio = nodes.add('Div', [norms, nodes.add('Add', [mean, nodes.scalar(attrs['eps']!)], ['batch', 1, 1, 1])], dims)
  const weight = nodes.add('Unsqueeze', [at.image(ins[1]!), nodes.ints(1, 2)], [c, 1, 1])
  return nodes.add('Add', [nodes.add('Mul', [ratio, weight], dims), nodes.scalar(1)], dims)
})

interface Windows {
  readonly heads: number
  readonly headFirst: number
  readonly windowH: number
  readonly windowW: number
  readonly grid: number
  readonly shiftH: number
  readonly shiftW: number
  readonly biased: number
  readonly scale: number
  readonly across: number
}

/** An image rolled by some rows and columns: the last ones come first. */
const rolled = (at: Inference, x: string, dims: Dims, by: readonly [number, number]): string =>
  [2, 3].reduce((image, axis, i) => {
    const extent = dims[axis] as number
    const cut = (((by[i]! % extent) + extent) % extent) as number
    if (cut === 0) return image
    const part = (from: number, to: number): string =>
      at.nodes.add(
        'Slice',
        [image, at.nodes.ints(from), at.nodes.ints(to), at.nodes.ints(axis)],
        dims.map((d, j) => (j === axis ? to - from : d)),
      )
    return at.nodes.add('Concat', [part(extent - cut, extent), part(0, extent - cut)], dims, { axis })
  }, x)

/** 0 for pairs of tokens of one side of a rolled image, a large negative number for others: [groups, 1, tokens, tokens]. */
export const sidesOf = (
  a: Pick<Windows, 'windowH' | 'windowW' | 'shiftH' | 'shiftW'>,
  h: number,
  w: number,
): readonly number[] => {
  const tokens = Array.from({ length: a.windowH * a.windowW }, (_, i) => [Math.floor(i / a.windowW), i % a.windowW] as const)
  const groups = Array.from({ length: (h / a.windowH) * (w / a.windowW) }, (_, g) => {
    const [top, left] = [Math.floor(g / (w / a.windowW)) * a.windowH, (g % (w / a.windowW)) * a.windowW]
    return tokens.map(([y, x]) => 2 * Number(top + y >= h - a.shiftH) + Number(left + x >= w - a.shiftW))
  })
  return groups.flatMap((sides) => sides.flatMap((q) => sides.map((k) => (q === k ? 0 : -1e30))))
}

/** The scores' bias from the table: [heads, tokens, tokens]. */
const tableBias = (at: Inference, table: string, a: Windows): string => {
  const { nodes } = at
  const n = a.windowH * a.windowW
  const { across } = a
  const places = nodes.ints(
    ...(across === 0 ? distances([a.windowH, a.windowW]) : distancesBehindToken([(a.windowW - 1) / across, across])),
  )
  const rows = nodes.add('Gather', [table, places], [n * n, a.heads], { axis: 0 })
  const pairs = nodes.add('Reshape', [rows, nodes.ints(n, n, a.heads)], [n, n, a.heads])
  return nodes.add('Transpose', [pairs], [a.heads, n, n], { perm: [2, 0, 1] })
}

/** Queries, keys and values as [B, groups, heads, tokens, channels], their products, and the way back. */
export const attention: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const a = attrs as unknown as Windows
  const [, c, h, w] = dims as readonly ['batch', number, number, number]
  const [head, n, down, across] = [c / a.heads, a.windowH * a.windowW, h / a.windowH, w / a.windowW]
  const image = rolled(at, x, ['batch', 3 * c, h, w], [-a.shiftH, -a.shiftW])
  const channels = a.headFirst === 1 ? [a.heads, 3, head] : [3, a.heads, head]
  const places = a.grid === 1 ? [a.windowH, down, a.windowW, across] : [down, a.windowH, across, a.windowW]
  const cut = nodes.add('Reshape', [image, nodes.ints(0, ...channels, ...places)], ['batch', ...channels, ...places])
  const [part, own] = a.headFirst === 1 ? [2, 1] : [1, 2]
  const [groups, tokens] =
    a.grid === 1
      ? [
          [5, 7],
          [4, 6],
        ]
      : [
          [4, 6],
          [5, 7],
        ]
  const turned = nodes.add('Transpose', [cut], [3, 'batch', down, across, a.heads, a.windowH, a.windowW, head], {
    perm: [part, 0, ...groups, own, ...tokens, 3],
  })
  const all = nodes.add(
    'Reshape',
    [turned, nodes.ints(3, 0, down * across, a.heads, n, head)],
    [3, 'batch', down * across, a.heads, n, head],
  )
  const rows: Dims = ['batch', down * across, a.heads, n, head]
  const [q, k, v] = [0, 1, 2].map((i) => nodes.add('Gather', [all, nodes.index(i)], rows, { axis: 0 })) as [
    string,
    string,
    string,
  ]
  const pairs: Dims = ['batch', down * across, a.heads, n, n]
  const turnedKeys = nodes.add('Transpose', [k], ['batch', down * across, a.heads, head, n], { perm: [0, 1, 2, 4, 3] })
  const products = nodes.add('Mul', [nodes.add('MatMul', [q, turnedKeys], pairs), nodes.scalar(a.scale)], pairs)
  const biased = a.biased === 1 ? nodes.add('Add', [products, tableBias(at, at.image(ins[1]!), a)], pairs) : products
  const masked =
    a.shiftH + a.shiftW > 0 ? nodes.add('Add', [biased, nodes.tensor(sidesOf(a, h, w), [down * across, 1, n, n])], pairs) : biased
  const y = nodes.add('MatMul', [nodes.add('Softmax', [masked], pairs, { axis: -1 }), v], rows)
  const split = nodes.add(
    'Reshape',
    [y, nodes.ints(0, down, across, a.heads, a.windowH, a.windowW, head)],
    ['batch', down, across, a.heads, a.windowH, a.windowW, head],
  )
  const back = nodes.add('Transpose', [split], ['batch', a.heads, head, ...places], {
    perm: a.grid === 1 ? [0, 3, 6, 4, 1, 5, 2] : [0, 3, 6, 1, 4, 2, 5],
  })
  return rolled(at, nodes.add('Reshape', [back, nodes.ints(0, c, h, w)], dims), dims, [a.shiftH, a.shiftW])
})

/** Queries, and keys and values, as [B, heads, pixels, channels], and their products. */
export const attend: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const [heads, headFirst, scale] = [attrs['heads']!, attrs['headFirst'] === 1, attrs['scale']!]
  const [, c, h, w] = dims as readonly ['batch', number, number, number]
  const [, , keyH, keyW] = at.value(ins[1]!).shape as readonly [number, number, number, number]
  const [head, n, m] = [c / heads, h * w, keyH * keyW]
  const cut = nodes.add('Reshape', [x, nodes.ints(0, heads, head, n)], ['batch', heads, head, n])
  const q = nodes.add('Transpose', [cut], ['batch', heads, n, head], { perm: [0, 1, 3, 2] })
  const channels = headFirst ? [heads, 2, head] : [2, heads, head]
  const pairs = nodes.add('Reshape', [at.image(ins[1]!), nodes.ints(0, ...channels, m)], ['batch', ...channels, m])
  const [k, v] = [0, 1].map((i) =>
    nodes.add('Gather', [pairs, nodes.index(i)], ['batch', heads, head, m], { axis: headFirst ? 2 : 1 }),
  ) as [string, string]
  const products = nodes.add(
    'Mul',
    [nodes.add('MatMul', [q, k], ['batch', heads, n, m]), nodes.scalar(scale)],
    ['batch', heads, n, m],
  )
  const shares = nodes.add('Softmax', [products], ['batch', heads, n, m], { axis: -1 })
  const values = nodes.add('Transpose', [v], ['batch', heads, m, head], { perm: [0, 1, 3, 2] })
  const y = nodes.add('MatMul', [shares, values], ['batch', heads, n, head])
  const turned = nodes.add('Transpose', [y], ['batch', heads, head, n], { perm: [0, 1, 3, 2] })
  return nodes.add('Reshape', [turned, nodes.ints(0, c, h, w)], dims)
})

/** A table of distances, from one of absolute distances. */
export const mirror: Write = (at, { attrs, ins, outs }) => {
  const { nodes } = at
  const [height, width] = [attrs['height']!, attrs['width']!]
  const [count] = at.value(ins[0]!).shape as [number]
  const isSigned = attrs['isSigned'] === 1
  const distances = (n: number): readonly number[] =>
    Array.from({ length: 2 * n - 1 }, (_, i) => (isSigned ? 2 * n - 2 - i : Math.abs(i - n + 1)))
  const across = isSigned ? 2 * width - 1 : width
  const places = distances(height).flatMap((h) => distances(width).map((w) => h * across + w))
  const own = at.image(ins[0]!)
  const table = isSigned ? nodes.add('Reshape', [own, nodes.ints(count, places.length)], [count, places.length]) : own
  const rows = nodes.add('Gather', [table, nodes.ints(...places)], [count, places.length], { axis: 1 })
  at.is(outs[0]!, { image: nodes.add('Transpose', [rows], [places.length, count], { perm: [1, 0] }) })
}

/** The table of a network of distances: two products of matrices, from coordinates that are constants. */
export const distanceScores: Write = (at, { attrs, ins, outs }) => {
  const { nodes } = at
  const [height, width, bound] = [attrs['height']!, attrs['width']!, attrs['bound']!]
  const [w1, b1, w2, b2] = ins.map((i) => at.image(i)) as [string, string, string, string?]
  const [hidden] = at.value(ins[1]!).shape as [number]
  const [heads] = at.value(ins[2]!).shape as [number]
  const along = (n: number, reach: number): readonly number[] =>
    Array.from({ length: 2 * n - 1 }, (_, i) => coordinate(i - n + 1, reach, attrs['factor']!))
  const columns = along(width, attrs['reachW']!)
  const places = along(height, attrs['reachH']!).flatMap((u) => columns.flatMap((v) => [u, v]))
  const count = places.length / 2
  const first = nodes.add('Gemm', [nodes.matrix(places, count), w1, b1], [count, hidden], { transB: 1 })
  const inner = nodes.add('Relu', [first], [count, hidden])
  const scores = nodes.add('Gemm', [inner, w2, ...(b2 === undefined ? [] : [b2])], [count, heads], { transB: 1 })
  const bounded = (): string =>
    nodes.add('Mul', [nodes.add('Sigmoid', [scores], [count, heads]), nodes.scalar(bound)], [count, heads])
  at.is(outs[0]!, { image: bound > 0 ? bounded() : scores })
}

/** Queries and keys of unit length, the queries times the exponential of their head's number. */
export const unitHeads: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const { heads, headFirst, most } = attrs as { readonly heads: number; readonly headFirst: number; readonly most: number }
  const [, c, h, w] = dims as readonly ['batch', number, number, number]
  const [head, isFirst] = [c / heads / 3, headFirst === 1]
  const axis = isFirst ? 2 : 1
  const groups = isFirst ? [heads, 3, head] : [3, heads, head]
  const one: Dims = isFirst ? ['batch', heads, 1, head, h * w] : ['batch', 1, heads, head, h * w]
  const short = one.map((n, i) => (i === 3 ? 1 : n))
  const cut = nodes.add('Reshape', [x, nodes.ints(0, ...groups, h * w)], ['batch', ...groups, h * w])
  const part = (i: number): string => nodes.add('Slice', [cut, nodes.ints(i), nodes.ints(i + 1), nodes.ints(axis)], one)
  const unit = (of: string): string => {
    const squares = nodes.add('ReduceSum', [nodes.add('Mul', [of, of], one), nodes.ints(3)], short, { keepdims: 1 })
    const shifted = nodes.add('Add', [squares, nodes.scalar(LEAST_LENGTH ** 2)], short)
    return nodes.add('Div', [of, nodes.add('Sqrt', [shifted], short)], one)
  }
  const places = isFirst ? [heads, 1, 1, 1] : [heads, 1, 1]
  const least = nodes.add('Min', [at.image(ins[1]!), nodes.scalar(most)], at.value(ins[1]!).shape)
  const factors = nodes.add('Reshape', [nodes.add('Exp', [least], at.value(ins[1]!).shape), nodes.ints(...places)], places)
  const queries = nodes.add('Mul', [unit(part(0)), factors], one)
  const all = nodes.add('Concat', [queries, unit(part(1)), part(2)], ['batch', ...groups, h * w], { axis })
  return nodes.add('Reshape', [all, nodes.ints(0, c, h, w)], dims)
})

/** A vector with zeros at some places. */
export const blank: Write = (at, { attrs, ins, outs }) => {
  const [count] = at.value(ins[0]!).shape as [number]
  const kept = Array.from({ length: count }, (_, i) => Number(i < attrs['from']! || i >= attrs['to']!))
  at.is(outs[0]!, { image: at.nodes.add('Mul', [at.image(ins[0]!), at.nodes.tensor(kept, [count])], [count]) })
}

/** The equations of products of matrices [B, groups, channels, pixels], by the numbers of the axes that are summed. */
export const EQUATIONS: readonly string[] = ['abcd,abce->abde', 'abcd,abed->abce', 'abcd,abde->abce']

/** Each group of channels as a matrix of channels and pixels, their product, and the image of it. */
export const contract: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const groups = attrs['groups']!
  const matrices = [x, at.image(ins[1]!)].map((image, i) => {
    const [, c, h, w] = at.value(ins[i]!).shape as readonly [number, number, number, number]
    return nodes.add('Reshape', [image, nodes.ints(0, groups, c / groups, h * w)], ['batch', groups, c / groups, h * w])
  })
  const [, c, h, w] = dims as readonly ['batch', number, number, number]
  const equation = EQUATIONS[attrs['over']!]!
  const product = nodes.add('Einsum', matrices, ['batch', groups, c / groups, h * w], { equation })
  return nodes.add('Reshape', [product, nodes.ints(0, c, h, w)], dims)
})
