// GoogLeNet (Szegedy et al. 2014) as torchvision builds it: batch norm after each convolution, 3x3 where the paper has 5x5,
// poolings that count a last partial window, and no auxiliary classifiers. Layer names are torchvision's parameter names.
import {
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  dropout,
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

const unit = <N extends string, O extends number, K extends 1 | 3 | 7, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => block(name, conv2d('conv', out, kernel, { stride, bias: false, init: 0.01 }), batchNorm('bn', { eps: 1e-3 }), relu())

const pool = <N extends string, K extends 2 | 3>(name: N, kernel: K) => maxPool(name, kernel, { stride: 2, ceil: true })

/** The columns of the paper's table 1: #1x1, #3x3 reduce, #3x3, #5x5 reduce, #5x5, pool proj. */
// biome-ignore format: one branch a line
const inception = <
  N extends string, A extends number, B1 extends number, B2 extends number, C1 extends number, C2 extends number, D extends number,
>(name: N, a: A, b1: B1, b2: B2, c1: C1, c2: C2, d: D) => block(name, concat(
  unit('branch1', a, 1),
  block('branch2', unit('0', b1, 1), unit('1', b2, 3)),
  block('branch3', unit('0', c1, 1), unit('1', c2, 3)),
  block('branch4', maxPool('0', 3, { stride: 1, pad: 1, ceil: true }), unit('1', d, 1)),
))

// biome-ignore format: a row of the paper's table a line
export const googlenetBody = seq(
  unit('conv1', 64, 7, 2),
  pool('maxpool1', 3),
  unit('conv2', 64, 1), unit('conv3', 192, 3),
  pool('maxpool2', 3),
  inception('inception3a', 64, 96, 128, 16, 32, 32),
  inception('inception3b', 128, 128, 192, 32, 96, 64),
  pool('maxpool3', 3),
  inception('inception4a', 192, 96, 208, 16, 48, 64),
  inception('inception4b', 160, 112, 224, 24, 64, 64),
  inception('inception4c', 128, 128, 256, 24, 64, 64),
  inception('inception4d', 112, 144, 288, 32, 64, 64),
  inception('inception4e', 256, 160, 320, 32, 128, 128),
  pool('maxpool4', 2),
  inception('inception5a', 256, 160, 320, 32, 128, 128),
  inception('inception5b', 384, 192, 384, 48, 128, 128),
)

/** The head for a number of classes. */
export const googlenetHead = <C extends number>(classes: C) =>
  seq(globalAvgPool('avgpool'), dropout(0.2), linear('fc', classes, { init: 0.01 }))

/** GoogLeNet, for a number of classes. */
export type GooglenetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof googlenetHead<C>>]>
/** GoogLeNet; called with other classes, the same body with a head for them. */
export interface Googlenet<Body extends Net> extends GooglenetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): GooglenetOf<Body, N>
}
export const googlenet: Googlenet<typeof googlenetBody> = classifier(1000, (classes) =>
  seq(googlenetBody, googlenetHead(classes)),
)

export default { googlenet: network(googlenet, 224, crossEntropy) } satisfies Family
