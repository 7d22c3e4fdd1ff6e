// Inception-v3 (Szegedy et al. 2015) as torchvision builds it, without the auxiliary classifier. Layer names are torchvision's
// parameter names: 'Mixed_5b.branch1x1.conv'. Takes images of at least 75 pixels, one a step from 107 on; 299 are usual.
// Kernels of 1x7 and 7x1 see seven pixels along one dimension.
import {
  avgPool,
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  dropout,
  type Extent,
  type Family,
  globalAvgPool,
  linear,
  maxPool,
  type Net,
  network,
  relu,
  type Seq,
  seq,
} from '../dsl'

/** A convolution that keeps the size. */
export const unit = <N extends string, O extends number, const K extends Extent>(name: N, out: O, kernel: K) =>
  block(name, conv2d('conv', out, kernel, { bias: false, init: 0.1 }), batchNorm('bn', { eps: 1e-3 }), relu())

/** A 3x3 convolution without padding. */
export const shrinking = <N extends string, O extends number, S extends number>(name: N, out: O, stride: S) =>
  block(name, conv2d('conv', out, 3, { stride, pad: 0, bias: false, init: 0.1 }), batchNorm('bn', { eps: 1e-3 }), relu())

const average = avgPool(3, { stride: 1, pad: 1 })
const half = maxPool(3, { stride: 2 })

// ---------------------------------------------------------------- modules, in the order of the paper's figures 5, 6, 7

// biome-ignore format: one branch a line
const inceptionA = <N extends string, P extends number>(name: N, pool: P) => block(name, concat(
  unit('branch1x1', 64, 1),
  seq(unit('branch5x5_1', 48, 1), unit('branch5x5_2', 64, 5)),
  seq(unit('branch3x3dbl_1', 64, 1), unit('branch3x3dbl_2', 96, 3), unit('branch3x3dbl_3', 96, 3)),
  seq(average, unit('branch_pool', pool, 1)),
))

// biome-ignore format: one branch a line
const inceptionC = <N extends string, M extends number>(name: N, mid: M) => block(name, concat(
  unit('branch1x1', 192, 1),
  seq(unit('branch7x7_1', mid, 1), unit('branch7x7_2', mid, [1, 7]), unit('branch7x7_3', 192, [7, 1])),
  seq(
    unit('branch7x7dbl_1', mid, 1), unit('branch7x7dbl_2', mid, [7, 1]), unit('branch7x7dbl_3', mid, [1, 7]),
    unit('branch7x7dbl_4', mid, [7, 1]), unit('branch7x7dbl_5', 192, [1, 7]),
  ),
  seq(average, unit('branch_pool', 192, 1)),
))

// biome-ignore format: one branch a line
const inceptionE = <N extends string>(name: N) => block(name, concat(
  unit('branch1x1', 320, 1),
  seq(unit('branch3x3_1', 384, 1), concat(unit('branch3x3_2a', 384, [1, 3]), unit('branch3x3_2b', 384, [3, 1]))),
  seq(
    unit('branch3x3dbl_1', 448, 1), unit('branch3x3dbl_2', 384, 3),
    concat(unit('branch3x3dbl_3a', 384, [1, 3]), unit('branch3x3dbl_3b', 384, [3, 1])),
  ),
  seq(average, unit('branch_pool', 192, 1)),
))

// ---------------------------------------------------------------- modules that halve the image

// biome-ignore format: one branch a line
const inceptionB = <N extends string>(name: N) => block(name, concat(
  shrinking('branch3x3', 384, 2),
  seq(unit('branch3x3dbl_1', 64, 1), unit('branch3x3dbl_2', 96, 3), shrinking('branch3x3dbl_3', 96, 2)),
  half,
))

// biome-ignore format: one branch a line
const inceptionD = <N extends string>(name: N) => block(name, concat(
  seq(unit('branch3x3_1', 192, 1), shrinking('branch3x3_2', 320, 2)),
  seq(
    unit('branch7x7x3_1', 192, 1), unit('branch7x7x3_2', 192, [1, 7]), unit('branch7x7x3_3', 192, [7, 1]),
    shrinking('branch7x7x3_4', 192, 2),
  ),
  half,
))

// biome-ignore format: one stage a line
export const inception3Body = seq(
  shrinking('Conv2d_1a_3x3', 32, 2), shrinking('Conv2d_2a_3x3', 32, 1), unit('Conv2d_2b_3x3', 64, 3),
  maxPool('maxpool1', 3, { stride: 2 }),
  unit('Conv2d_3b_1x1', 80, 1), shrinking('Conv2d_4a_3x3', 192, 1),
  maxPool('maxpool2', 3, { stride: 2 }),
  inceptionA('Mixed_5b', 32), inceptionA('Mixed_5c', 64), inceptionA('Mixed_5d', 64),
  inceptionB('Mixed_6a'),
  inceptionC('Mixed_6b', 128), inceptionC('Mixed_6c', 160), inceptionC('Mixed_6d', 160), inceptionC('Mixed_6e', 192),
  inceptionD('Mixed_7a'),
  inceptionE('Mixed_7b'), inceptionE('Mixed_7c'),
)

/** The head for a number of classes. */
export const inception3Head = <C extends number>(classes: C) =>
  seq(globalAvgPool('avgpool'), dropout(0.5), linear('fc', classes, { init: 0.1 }))

/** Inception-v3, for a number of classes. */
export type Inception3Of<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof inception3Head<C>>]>
/** Inception-v3; called with other classes, the same body with a head for them. */
export interface Inception3<Body extends Net> extends Inception3Of<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): Inception3Of<Body, N>
}
export const inception3: Inception3<typeof inception3Body> = classifier(1000, (classes) =>
  seq(inception3Body, inception3Head(classes)),
)

export default { inception3: network(inception3, 299, crossEntropy) } satisfies Family
