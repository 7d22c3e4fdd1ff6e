// RegNet X and Y (Radosavovic et al. 2020) as torchvision builds them: stages of bottlenecks with groups, all of one width. Y adds gates from each
// channel's mean. Layer names are torchvision's parameter names: 'trunk_output.block2.block2-0.f.a.0', 'fc'.
import {
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  counted,
  crossEntropy,
  type Family,
  globalAvgPool,
  identity,
  linear,
  type Net,
  network,
  relu,
  repeat,
  residual,
  scaled,
  type Seq,
  seq,
  sigmoid,
} from '../dsl'

// biome-ignore format: the types on a line
const normed = <N extends string, O extends number, K extends 1 | 3, S extends number = 1, G extends number = 1>(
  name: N, out: O, kernel: K, stride?: S, groups?: G,
) => block(name, conv2d('0', out, kernel, { stride, groups, bias: false, init: 'fan-out-normal' }), batchNorm('1'))

/** A bottleneck, with a gate before its last convolution. */
// biome-ignore format: one convolution a line
const bottleneck = <W extends number, G extends number, E extends Net, S extends number = 1>(
  width: W, groups: G, gate: E, stride?: S,
) => block('f',
  normed('a', width, 1), relu(),
  normed('b', width, 3, stride, groups), relu(),
  gate,
  normed('c', width, 1),
)

/** The first block of a stage, which halves the image. */
const down = <W extends number, G extends number, E extends Net>(width: W, groups: G, gate: E) =>
  seq(residual(bottleneck(width, groups, gate, 2), normed('proj', width, 1, 2)), relu())
const keeping = <T extends number, W extends number, G extends number, E extends Net>(times: T, width: W, groups: G, gate: E) =>
  repeat(times, seq(residual(bottleneck(width, groups, gate), identity), relu()))
const stage = <N extends number, const Ls extends readonly Net[]>(n: N, ...layers: Ls) =>
  block(`block${n}`, counted(`block${n}-`, 0, ...layers))

const xDown = <W extends number, G extends number>(width: W, groups: G) => down(width, groups, seq())
const xKeeping = <T extends number, W extends number, G extends number>(times: T, width: W, groups: G) =>
  keeping(times, width, groups, seq())

/** A gate squeezes to a quarter of the channels that come into its block. */
const excited = <W extends number, Q extends number>(width: W, squeezed: Q) =>
  block('se', scaled(globalAvgPool(), conv2d('fc1', squeezed, 1), relu(), conv2d('fc2', width, 1), sigmoid()))
const yDown = <W extends number, G extends number, Q extends number>(width: W, groups: G, squeezed: Q) =>
  down(width, groups, excited(width, squeezed))
const yKeeping = <T extends number, W extends number, G extends number, Q extends number>(
  times: T,
  width: W,
  groups: G,
  squeezed: Q,
) => keeping(times, width, groups, excited(width, squeezed))

const regnetBody = <A extends Net, B extends Net, C extends Net, D extends Net>(a: A, b: B, c: C, d: D) =>
  seq(normed('stem', 32, 3, 2), relu(), block('trunk_output', a, b, c, d))

// biome-ignore format: one stage a line
export const regnetX400mfBody = regnetBody(
  stage(1, xDown(32, 2)),
  stage(2, xDown(64, 4), xKeeping(1, 64, 4)),
  stage(3, xDown(160, 10), xKeeping(6, 160, 10)),
  stage(4, xDown(400, 25), xKeeping(11, 400, 25)),
)
// biome-ignore format: one stage a line
export const regnetX800mfBody = regnetBody(
  stage(1, xDown(64, 4)),
  stage(2, xDown(128, 8), xKeeping(2, 128, 8)),
  stage(3, xDown(288, 18), xKeeping(6, 288, 18)),
  stage(4, xDown(672, 42), xKeeping(4, 672, 42)),
)
// biome-ignore format: one stage a line
export const regnetX1600mfBody = regnetBody(
  stage(1, xDown(72, 3), xKeeping(1, 72, 3)),
  stage(2, xDown(168, 7), xKeeping(3, 168, 7)),
  stage(3, xDown(408, 17), xKeeping(9, 408, 17)),
  stage(4, xDown(912, 38), xKeeping(1, 912, 38)),
)
// biome-ignore format: one stage a line
export const regnetX3200mfBody = regnetBody(
  stage(1, xDown(96, 2), xKeeping(1, 96, 2)),
  stage(2, xDown(192, 4), xKeeping(5, 192, 4)),
  stage(3, xDown(432, 9), xKeeping(14, 432, 9)),
  stage(4, xDown(1008, 21), xKeeping(1, 1008, 21)),
)
// biome-ignore format: one stage a line
export const regnetX8gfBody = regnetBody(
  stage(1, xDown(80, 1), xKeeping(1, 80, 1)),
  stage(2, xDown(240, 2), xKeeping(4, 240, 2)),
  stage(3, xDown(720, 6), xKeeping(14, 720, 6)),
  stage(4, xDown(1920, 16)),
)
// biome-ignore format: one stage a line
export const regnetX16gfBody = regnetBody(
  stage(1, xDown(256, 2), xKeeping(1, 256, 2)),
  stage(2, xDown(512, 4), xKeeping(5, 512, 4)),
  stage(3, xDown(896, 7), xKeeping(12, 896, 7)),
  stage(4, xDown(2048, 16)),
)
// biome-ignore format: one stage a line
export const regnetX32gfBody = regnetBody(
  stage(1, xDown(336, 2), xKeeping(1, 336, 2)),
  stage(2, xDown(672, 4), xKeeping(6, 672, 4)),
  stage(3, xDown(1344, 8), xKeeping(12, 1344, 8)),
  stage(4, xDown(2520, 15)),
)
// biome-ignore format: one stage a line
export const regnetY400mfBody = regnetBody(
  stage(1, yDown(48, 6, 8)),
  stage(2, yDown(104, 13, 12), yKeeping(2, 104, 13, 26)),
  stage(3, yDown(208, 26, 26), yKeeping(5, 208, 26, 52)),
  stage(4, yDown(440, 55, 52), yKeeping(5, 440, 55, 110)),
)
// biome-ignore format: one stage a line
export const regnetY800mfBody = regnetBody(
  stage(1, yDown(64, 4, 8)),
  stage(2, yDown(144, 9, 16), yKeeping(2, 144, 9, 36)),
  stage(3, yDown(320, 20, 36), yKeeping(7, 320, 20, 80)),
  stage(4, yDown(784, 49, 80), yKeeping(1, 784, 49, 196)),
)
// biome-ignore format: one stage a line
export const regnetY1600mfBody = regnetBody(
  stage(1, yDown(48, 2, 8), yKeeping(1, 48, 2, 12)),
  stage(2, yDown(120, 5, 12), yKeeping(5, 120, 5, 30)),
  stage(3, yDown(336, 14, 30), yKeeping(16, 336, 14, 84)),
  stage(4, yDown(888, 37, 84), yKeeping(1, 888, 37, 222)),
)
// biome-ignore format: one stage a line
export const regnetY3200mfBody = regnetBody(
  stage(1, yDown(72, 3, 8), yKeeping(1, 72, 3, 18)),
  stage(2, yDown(216, 9, 18), yKeeping(4, 216, 9, 54)),
  stage(3, yDown(576, 24, 54), yKeeping(12, 576, 24, 144)),
  stage(4, yDown(1512, 63, 144)),
)
// biome-ignore format: one stage a line
export const regnetY8gfBody = regnetBody(
  stage(1, yDown(224, 4, 8), yKeeping(1, 224, 4, 56)),
  stage(2, yDown(448, 8, 56), yKeeping(3, 448, 8, 112)),
  stage(3, yDown(896, 16, 112), yKeeping(9, 896, 16, 224)),
  stage(4, yDown(2016, 36, 224)),
)
// biome-ignore format: one stage a line
export const regnetY16gfBody = regnetBody(
  stage(1, yDown(224, 2, 8), yKeeping(1, 224, 2, 56)),
  stage(2, yDown(448, 4, 56), yKeeping(3, 448, 4, 112)),
  stage(3, yDown(1232, 11, 112), yKeeping(10, 1232, 11, 308)),
  stage(4, yDown(3024, 27, 308)),
)
// biome-ignore format: one stage a line
export const regnetY32gfBody = regnetBody(
  stage(1, yDown(232, 1, 8), yKeeping(1, 232, 1, 58)),
  stage(2, yDown(696, 3, 58), yKeeping(4, 696, 3, 174)),
  stage(3, yDown(1392, 6, 174), yKeeping(11, 1392, 6, 348)),
  stage(4, yDown(3712, 16, 348)),
)

/** The head for a number of classes. */
export const regnetHead = <C extends number>(classes: C) => seq(globalAvgPool('avgpool'), linear('fc', classes, { init: 0.01 }))

/** A RegNet, for a number of classes. */
export type RegnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof regnetHead<C>>]>
/** A RegNet; called with other classes, the same body with a head for them. */
export interface Regnet<Body extends Net> extends RegnetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): RegnetOf<Body, N>
}
const regnet = <Body extends Net>(body: Body): Regnet<Body> => classifier(1000, (classes) => seq(body, regnetHead(classes)))

export const regnetX400mf = regnet(regnetX400mfBody)
export const regnetX800mf = regnet(regnetX800mfBody)
export const regnetX1600mf = regnet(regnetX1600mfBody)
export const regnetX3200mf = regnet(regnetX3200mfBody)
export const regnetX8gf = regnet(regnetX8gfBody)
export const regnetX16gf = regnet(regnetX16gfBody)
export const regnetX32gf = regnet(regnetX32gfBody)
export const regnetY400mf = regnet(regnetY400mfBody)
export const regnetY800mf = regnet(regnetY800mfBody)
export const regnetY1600mf = regnet(regnetY1600mfBody)
export const regnetY3200mf = regnet(regnetY3200mfBody)
export const regnetY8gf = regnet(regnetY8gfBody)
export const regnetY16gf = regnet(regnetY16gfBody)
export const regnetY32gf = regnet(regnetY32gfBody)

export default {
  'regnet-x-400mf': network(regnetX400mf, 224, crossEntropy),
  'regnet-x-800mf': network(regnetX800mf, 224, crossEntropy),
  'regnet-x-1-6gf': network(regnetX1600mf, 224, crossEntropy),
  'regnet-x-3-2gf': network(regnetX3200mf, 224, crossEntropy),
  'regnet-x-8gf': network(regnetX8gf, 224, crossEntropy),
  'regnet-x-16gf': network(regnetX16gf, 224, crossEntropy),
  'regnet-x-32gf': network(regnetX32gf, 224, crossEntropy),
  'regnet-y-400mf': network(regnetY400mf, 224, crossEntropy),
  'regnet-y-800mf': network(regnetY800mf, 224, crossEntropy),
  'regnet-y-1-6gf': network(regnetY1600mf, 224, crossEntropy),
  'regnet-y-3-2gf': network(regnetY3200mf, 224, crossEntropy),
  'regnet-y-8gf': network(regnetY8gf, 224, crossEntropy),
  'regnet-y-16gf': network(regnetY16gf, 224, crossEntropy),
  'regnet-y-32gf': network(regnetY32gf, 224, crossEntropy),
} satisfies Family
