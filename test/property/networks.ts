// Random small networks for property tests: chains, residual blocks and concatenations of convolutions (stride, dilation,
// groups, asymmetric padding), poolings (ceil), norms (of the batch, frozen, of images), activations, dropout; odd image sizes.
// In: fast-check. Out: a recipe that prints well and shrinks, and the forward graph that it stands for.
// Invariant: every recipe is a legal network: windows are cut down to the image that they meet.
import { isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import type { Graph, ValueId } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import { opDef, opDefs } from '../../staging/ops/registry'
import { Sketch } from '../graph/sketch'

interface Window {
  readonly kernel: number
  readonly stride: number
  readonly dilation: number
  readonly pads: readonly [number, number, number, number]
}

export type Block =
  | {
      readonly tag: 'conv'
      readonly channels: number
      readonly window: Window
      readonly grouped: boolean
      readonly bias: boolean
    }
  | { readonly tag: 'up'; readonly channels: number; readonly window: Window; readonly more: number; readonly bias: boolean }
  | { readonly tag: 'resample'; readonly mode: 0 | 1 | 2; readonly to: readonly [h: number, w: number] }
  | { readonly tag: 'reflect'; readonly pads: Window['pads'] }
  /** One of the op table's samples of an operator, on this image. */
  | { readonly tag: 'sampled'; readonly kind: string; readonly sample: number }
  | { readonly tag: 'lrn' }
  | { readonly tag: 'max' | 'avg'; readonly window: Window; readonly ceil: boolean; readonly countPad: boolean }
  | { readonly tag: 'norm' | 'frozen' | 'dropout' }
  | { readonly tag: 'images'; readonly groups: 'one' | 'two' | 'each'; readonly affine: boolean }
  | { readonly tag: 'relu'; readonly slope: number }
  | { readonly tag: 'residual'; readonly body: readonly Block[] }
  /** A residual block as ResNets have it: a norm behind the body, a rectifier behind the sum. */
  | { readonly tag: 'block'; readonly body: readonly Block[]; readonly slope: number }
  | { readonly tag: 'concat'; readonly branches: readonly (readonly Block[])[] }

export interface Recipe {
  readonly image: readonly [b: number, c: number, h: number, w: number]
  readonly blocks: readonly Block[]
  /** How the network ends: a map for mean squared error, a class per pixel, or one per image. */
  readonly end: 'map' | 'pixels' | 'classes'
  /** True if the training graph is rewritten, as for the devices that train. */
  readonly fused: boolean
}

export interface Network {
  readonly graph: Graph
  readonly output: ValueId
  readonly loss: 'mse' | 'cross-entropy'
}

// ---------------------------------------------------------------- recipes

const small = (lo: number, hi: number): fc.Arbitrary<number> => fc.integer({ min: lo, max: hi })
const pads = (hi: number): fc.Arbitrary<Window['pads']> => fc.tuple(small(0, hi), small(0, hi), small(0, hi), small(0, hi))
const convWindow: fc.Arbitrary<Window> = fc.record({
  kernel: small(1, 4),
  stride: small(1, 3),
  dilation: small(1, 2),
  pads: pads(3),
})
const poolWindow: fc.Arbitrary<Window> = fc.record({
  kernel: small(1, 3),
  stride: small(1, 3),
  dilation: fc.constant(1),
  pads: pads(1),
})

export const conv: fc.Arbitrary<Block> = fc.record({
  tag: fc.constant('conv' as const),
  channels: small(1, 4),
  window: convWindow,
  grouped: fc.boolean(),
  bias: fc.boolean(),
})
export const up: fc.Arbitrary<Block> = fc.record({
  tag: fc.constant('up' as const),
  channels: small(1, 3),
  window: fc.record({ kernel: small(1, 4), stride: small(1, 3), dilation: small(1, 2), pads: pads(2) }),
  more: small(0, 1),
  bias: fc.boolean(),
})
export const resample: fc.Arbitrary<Block> = fc.record({
  tag: fc.constant('resample' as const),
  mode: fc.constantFrom(0 as const, 1 as const, 2 as const),
  to: fc.tuple(small(1, 29), small(1, 29)),
})
export const reflect: fc.Arbitrary<Block> = fc.record({ tag: fc.constant('reflect' as const), pads: pads(4) })
/** Keeps the image's size: the parts of residual and concatenated branches. */
export const keeping: fc.Arbitrary<Block> = fc.record({
  tag: fc.constant('conv' as const),
  channels: small(1, 4),
  grouped: fc.boolean(),
  bias: fc.boolean(),
  window: small(0, 2).map((p) => ({ kernel: 2 * p + 1, stride: 1, dilation: 1, pads: [p, p, p, p] as const })),
})
const pool: fc.Arbitrary<Block> = fc.record({
  tag: fc.constantFrom('max' as const, 'avg' as const),
  window: poolWindow,
  ceil: fc.boolean(),
  countPad: fc.boolean(),
})
const IMAGE: readonly [number, number, number, number] = [1, 2, 6, 6]
/** Returns true if every sample takes an image and gives one of the same size. */
const keepsSizes = ({ samples, shape }: (typeof opDefs)[number]): boolean =>
  samples?.(IMAGE).every(({ attrs, ins }) => {
    const outs = shape(attrs as never, ins, [])
    return isRight(outs) && [ins[0], outs.right[0]].every((s) => s?.join() === IMAGE.join())
  }) ?? false
/** The operators with samples in the op table that may be between layers. */
export const sampledKinds = opDefs
  .filter((d) => keepsSizes(d) && d.outs[0]?.role === 'data' && d.ins.every((o) => o.drawn === undefined))
  .map((d) => d.kind)
/** Those of them that can be tiled along the image. */
export const tiledKinds = sampledKinds.filter((kind) => {
  const { outs, samples } = opDef(kind)
  const { attrs, ins } = samples!(IMAGE)[0]!
  return outs[0]!.access?.(attrs as never, { ins, outs: [IMAGE] }).H.tag !== 'all'
})
export const sampled = (kind: string): fc.Arbitrary<Block> =>
  fc.record({
    tag: fc.constant('sampled' as const),
    kind: fc.constant(kind),
    sample: small(0, opDef(kind).samples!([1, 1, 1, 1]).length - 1),
  })

const elementwise: fc.Arbitrary<Block> = fc.oneof(
  fc.record({ tag: fc.constant('relu' as const), slope: fc.constantFrom(0, 0.1) }),
  fc.record({ tag: fc.constantFrom('norm' as const, 'frozen' as const, 'dropout' as const) }),
  fc.record({ tag: fc.constant('lrn' as const) }),
  fc.constantFrom(...sampledKinds).chain(sampled),
  fc.record({
    tag: fc.constant('images' as const),
    groups: fc.constantFrom('one' as const, 'two' as const, 'each' as const),
    affine: fc.boolean(),
  }),
)
const branch: fc.Arbitrary<readonly Block[]> = fc.array(fc.oneof(keeping, elementwise), { minLength: 1, maxLength: 3 })
const block: fc.Arbitrary<Block> = fc.oneof(
  { weight: 4, arbitrary: conv },
  { weight: 2, arbitrary: pool },
  { weight: 1, arbitrary: up },
  { weight: 1, arbitrary: resample },
  { weight: 1, arbitrary: reflect },
  { weight: 4, arbitrary: elementwise },
  { weight: 2, arbitrary: fc.record({ tag: fc.constant('residual' as const), body: branch }) },
  { weight: 2, arbitrary: fc.record({ tag: fc.constant('block' as const), body: branch, slope: fc.constantFrom(0, 0.1) }) },
  {
    weight: 1,
    arbitrary: fc.record({ tag: fc.constant('concat' as const), branches: fc.array(branch, { minLength: 2, maxLength: 3 }) }),
  },
)

export const recipes: fc.Arbitrary<Recipe> = fc.record({
  image: fc.tuple(small(1, 3), small(1, 3), small(5, 23), small(5, 19)),
  blocks: fc.array(block, { minLength: 1, maxLength: 7 }),
  end: fc.constantFrom('map' as const, 'pixels' as const, 'classes' as const),
  fused: fc.boolean(),
})

// ---------------------------------------------------------------- graphs

/** A window along one dimension that the op table allows: padding below the reach (half of it for pools), reach within the padded image. */
const fitted = (extent: number, w: Window, low: number, high: number, half: boolean) => {
  const limit = (kernel: number): number => (half ? Math.floor(kernel / 2) : w.dilation * (kernel - 1))
  let kernel = w.kernel
  const padded = (): number => extent + Math.min(low, limit(kernel)) + Math.min(high, limit(kernel))
  while (kernel > 1 && w.dilation * (kernel - 1) + 1 > padded()) kernel--
  return { kernel, low: Math.min(low, limit(kernel)), high: Math.min(high, limit(kernel)) }
}

class Builder {
  private layers = 0
  constructor(private readonly s: Sketch) {}

  private layer(kind: string): string {
    return `${kind}${++this.layers}`
  }

  run(x: Ref, blocks: readonly Block[]): Ref {
    return blocks.reduce((y, b) => this.block(y, b), x)
  }

  private block(x: Ref, b: Block): Ref {
    switch (b.tag) {
      case 'conv':
        return this.conv(x, b)
      case 'up':
        return this.up(x, b)
      case 'reflect': {
        const [, , h, w] = this.s.shape(x)
        const [padTop, padLeft, padBottom, padRight] = b.pads.map((p, i) => Math.min(p, (i % 2 === 0 ? h! : w!) - 1))
        return this.s.op(
          'reflect_pad',
          { padTop, padLeft, padBottom, padRight } as Record<string, number>,
          [x],
          this.layer('reflect'),
        )
      }
      case 'sampled':
        return this.sampled(x, b)
      case 'lrn':
        return this.s.op('lrn', { size: 3, alpha: 0.5, beta: 0.75, k: 1 }, [x], this.layer('lrn'))
      case 'resample': {
        const [, , inH, inW] = this.s.shape(x)
        return this.s.op(
          'upsample',
          { mode: b.mode, inH: inH!, inW: inW!, outH: b.to[0], outW: b.to[1] },
          [x],
          this.layer('resample'),
        )
      }
      case 'max':
      case 'avg':
        return this.pool(x, b)
      case 'relu':
        return this.s.op('relu', { slope: b.slope }, [x], this.layer('relu'))
      case 'norm':
        return this.hasVariance(x) ? this.s.norm(x, this.layer('norm')) : x
      case 'images':
        return this.imageNorm(x, b)
      case 'frozen':
        return this.s.frozen(x, this.layer('frozen'))
      case 'dropout':
        return this.s.op('dropout', { p: 0.3, key: ++this.layers }, [x], this.layer('dropout'))
      case 'residual':
        return this.residual(x, b.body)
      case 'block':
        return this.run(this.residual(x, [...b.body, { tag: 'norm' }]), [{ tag: 'relu', slope: b.slope }])
      case 'concat':
        return this.s.op(
          'concat',
          {},
          b.branches.map((body) => this.run(x, body)),
          this.layer('concat'),
        )
    }
  }

  /** Its other operands are parameters, or made of x. */
  private sampled(x: Ref, { kind, sample }: Extract<Block, { tag: 'sampled' }>): Ref {
    const layer = this.layer(kind)
    const [b, c, h, w] = this.s.shape(x) as readonly [number, number, number, number]
    const { attrs, ins } = opDef(kind).samples!([b, c, h, w])[sample]!
    const others = ins.slice(1).map((shape, i) => {
      if (opDef(kind).ins[i + 1]!.role === 'whole') return this.s.weight(`${layer}.weight${i}`, shape)
      if (shape[1] === c && shape[2] === h && shape[3] === w) return this.s.op('sigmoid', {}, [x], `${layer}.gate`)
      return shape[1] === c
        ? this.s.op('global_avg_pool', { count: h * w }, [x], `${layer}.gate`)
        : this.s.conv(x, `${layer}.gate`, shape[1]!, 1)
    })
    return this.s.op(kind, 'key' in attrs ? { ...attrs, key: ++this.layers } : attrs, [x, ...others], layer)
  }

  /** Group norm over all channels, half of them, or each alone. */
  private imageNorm(x: Ref, b: Extract<Block, { tag: 'images' }>): Ref {
    const [, c, h, w] = this.s.shape(x) as readonly [number, number, number, number]
    const groups = b.groups === 'each' ? c : b.groups === 'two' && c % 2 === 0 ? 2 : 1
    return (c / groups) * h * w > 1 ? this.s.groupNorm(x, this.layer('images'), groups, b.affine) : x
  }

  private hasVariance(x: Ref): boolean {
    const [n, , h, w] = this.s.shape(x)
    return n! * h! * w! > 1
  }

  private conv(x: Ref, b: Extract<Block, { tag: 'conv' }>): Ref {
    const [, c, h, w] = this.s.shape(x)
    const [top, left, bottom, right] = b.window.pads
    const rows = fitted(h!, b.window, top, bottom, false)
    const columns = fitted(w!, b.window, left, right, false)
    const groups = b.grouped ? c! : 1
    const layer = this.layer('conv')
    const out = b.grouped ? c! * Math.ceil(b.channels / 2) : b.channels
    const ins = [x, this.s.weight(`${layer}.weight`, [out, c! / groups, rows.kernel, columns.kernel])]
    if (b.bias) ins.push(this.s.weight(`${layer}.bias`, [out]))
    const { stride, dilation } = b.window
    return this.s.op(
      'conv2d',
      {
        strideH: stride,
        strideW: stride,
        padTop: rows.low,
        padLeft: columns.low,
        padBottom: rows.high,
        padRight: columns.high,
        dilationH: dilation,
        dilationW: dilation,
        groups,
      },
      ins,
      layer,
    )
  }

  /** Transposed convolutions, as long as the image stays small. */
  private up(x: Ref, b: Extract<Block, { tag: 'up' }>): Ref {
    const [, c, h, w] = this.s.shape(x)
    if (Math.max(h!, w!) > 24) return x
    const { kernel, stride, dilation, pads } = b.window
    const reach = dilation * (kernel - 1) + 1
    // Something must be left of the smallest image.
    const [padTop, padLeft, padBottom, padRight] = pads.map((p) => Math.min(p, Math.floor((reach - 1) / 2)))
    const more = Math.min(b.more, Math.max(stride, dilation) - 1)
    const layer = this.layer('up')
    const ins = [x, this.s.weight(`${layer}.weight`, [c!, b.channels, kernel, kernel])]
    if (b.bias) ins.push(this.s.weight(`${layer}.bias`, [b.channels]))
    const attrs = {
      strideH: stride,
      strideW: stride,
      padTop,
      padLeft,
      padBottom,
      padRight,
      dilationH: dilation,
      dilationW: dilation,
    }
    return this.s.op(
      'conv_transpose2d',
      { ...attrs, groups: 1, outputPadH: more, outputPadW: more } as Record<string, number>,
      ins,
      layer,
    )
  }

  private pool(x: Ref, b: Extract<Block, { tag: 'max' | 'avg' }>): Ref {
    const [, , h, w] = this.s.shape(x)
    const [top, left] = b.window.pads
    const rows = fitted(h!, b.window, top, top, true)
    const columns = fitted(w!, b.window, left, left, true)
    const attrs = {
      kernelH: rows.kernel,
      kernelW: columns.kernel,
      strideH: b.window.stride,
      strideW: b.window.stride,
      padTop: rows.low,
      padLeft: columns.low,
      ceil: b.ceil ? 1 : 0,
    }
    if (b.tag === 'max') return this.s.op('max_pool', attrs, [x], this.layer('max'))
    return this.s.op(
      'avg_pool',
      { ...attrs, countIncludePad: b.countPad ? 1 : 0, padBottom: rows.low, padRight: columns.low },
      [x],
      this.layer('avg'),
    )
  }

  /** The branch's result plus x, through a 1x1 convolution where the channels differ. */
  private residual(x: Ref, body: readonly Block[]): Ref {
    const y = this.run(x, body)
    const same = this.s.shape(x)[1] === this.s.shape(y)[1]
    const skip = same ? x : this.s.conv(x, this.layer('skip'), this.s.shape(y)[1]!, 1)
    return this.s.op('add', {}, [y, skip], this.layer('add'))
  }

  /** A last layer with weights, so that there is always something to train. */
  end(x: Ref, end: Recipe['end']): Ref {
    if (end !== 'classes') return this.s.conv(x, this.layer('head'), 3, 1)
    const pooled = this.s.globalPool(x, this.layer('global'))
    return this.s.linear(this.s.op('flatten', {}, [pooled], this.layer('flatten')), this.layer('classes'), 3)
  }
}

export const networkOf = (r: Recipe): Network => {
  const s = new Sketch(r.image, 'random')
  const b = new Builder(s)
  const output = b.end(b.run(s.image, r.blocks), r.end)
  return { graph: s.b.build(), output, loss: r.end === 'map' ? 'mse' : 'cross-entropy' }
}
