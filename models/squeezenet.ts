// SqueezeNet (Iandola et al. 2016) as torchvision builds it: a 1x1 convolution to few channels, then a 1x1 and a 3x3 convolution side by side.
// Layer names are torchvision's parameter names: 'features.3.expand3x3', 'classifier.1'.
import {
  block,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  dropout,
  type Family,
  globalAvgPool,
  maxPool,
  type Net,
  network,
  relu,
  type Seq,
  seq,
} from '../dsl'

const conv = <N extends string, O extends number, K extends 1 | 3>(name: N, out: O, kernel: K) =>
  seq(conv2d(name, out, kernel, { init: 'fan-in-normal' }), relu())

// biome-ignore format: one convolution a line
const fire = <N extends number, S extends number, E extends number>(n: N, squeezed: S, expanded: E) => block(`${n}`,
  conv('squeeze', squeezed, 1),
  concat(conv('expand1x1', expanded, 1), conv('expand3x3', expanded, 3)),
)

const stem = <O extends number, K extends 3 | 7>(out: O, kernel: K) =>
  seq(conv2d('0', out, kernel, { stride: 2, pad: 0, init: 'fan-in-normal' }), relu())
const half = maxPool(3, { stride: 2, ceil: true })

// biome-ignore format: one resolution a line
export const squeezenet10Body = block('features',
  stem(96, 7), half,
  fire(3, 16, 64), fire(4, 16, 64), fire(5, 32, 128), half,
  fire(7, 32, 128), fire(8, 48, 192), fire(9, 48, 192), fire(10, 64, 256), half,
  fire(12, 64, 256),
)

// biome-ignore format: one resolution a line
export const squeezenet11Body = block('features',
  stem(64, 3), half,
  fire(3, 16, 64), fire(4, 16, 64), half,
  fire(6, 32, 128), fire(7, 32, 128), half,
  fire(9, 48, 192), fire(10, 48, 192), fire(11, 64, 256), fire(12, 64, 256),
)

/** The head for a number of classes. */
export const squeezenetHead = <C extends number>(classes: C) =>
  seq(dropout(0.5), conv2d('classifier.1', classes, 1, { init: 0.01 }), relu(), globalAvgPool('avgpool'))

/** SqueezeNet, for a number of classes. */
export type SqueezenetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof squeezenetHead<C>>]>
/** SqueezeNet; called with other classes, the same body with a head for them. */
export interface Squeezenet<Body extends Net> extends SqueezenetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): SqueezenetOf<Body, N>
}
const squeezenet = <Body extends Net>(body: Body): Squeezenet<Body> =>
  classifier(1000, (classes) => seq(body, squeezenetHead(classes)))

export const squeezenet10 = squeezenet(squeezenet10Body)
export const squeezenet11 = squeezenet(squeezenet11Body)

export default {
  'squeezenet1-0': network(squeezenet10, 224, crossEntropy),
  'squeezenet1-1': network(squeezenet11, 224, crossEntropy),
} satisfies Family
