// HRNet (Wang et al. 2019) as timm builds it: branches at a quarter to a 32nd of the image. Each module adds all branches to each other.
// Layer names are timm's parameter names: 'stage3.0.branches.1.0.conv1', 'stage3.0.fuse_layers.0.2.0', 'classifier'. The height and width of its
// images are multiples of 32.
import {
  batchNorm,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  linear,
  type Net,
  network,
  relu,
  repeat,
  type Seq,
  seq,
  upsample,
  value,
  values,
} from '../dsl'
import { basicBlock, bottleneck, bottleneckDown } from './resnet'

/** A convolution and its norm under the next number, which halves the image or keeps its size. */
const unit = <C extends number, K extends 1 | 3, S extends number = 1>(channels: C, kernel: K, stride?: S) =>
  seq(conv2d('0', channels, kernel, { stride, bias: false, init: 'fan-out-normal' }), batchNorm('1'))

// ---------------------------------------------------------------- a module, named `at`, that reads the values `from.0`, `from.1`, …

const branch = <A extends string, F extends string, I extends number, C extends number>(at: A, from: F, i: I, channels: C) =>
  value(`${at}.b${i}`, `${from}.${i}`, blocks(`${at}.branches.${i}`, repeat(4, basicBlock(channels))))
/** The coarser branch j at the size of branch i. */
const up = <A extends string, I extends number, J extends number, C extends number, S extends number>(
  at: A,
  i: I,
  j: J,
  channels: C,
  scale: S,
) => value(`${at}.${i}.${j}`, `${at}.b${j}`, block(`${at}.fuse_layers.${i}.${j}`, unit(channels, 1), upsample({ scale })))
/** The finer branch j at the size of branch i: `halvings` that keep its channels, then one to the channels of branch i. */
const down = <A extends string, I extends number, J extends number, C extends number, const Ls extends readonly Net[]>(
  at: A,
  i: I,
  j: J,
  channels: C,
  ...halvings: Ls
) => value(`${at}.${i}.${j}`, `${at}.b${j}`, blocks(`${at}.fuse_layers.${i}.${j}`, ...halvings, unit(channels, 3, 2)))
const half = <C extends number>(channels: C) => seq(unit(channels, 3, 2), relu())

const added = <A extends string, I extends number, const R extends readonly [string, string, ...string[]]>(
  at: A,
  i: I,
  ...all: R
) => value(`${at}.${i}`, { added: all }, relu())

// biome-ignore format: one value a line
const module2 = <A extends string, F extends string, C0 extends number, C1 extends number>(at: A, from: F, c0: C0, c1: C1) => [
  branch(at, from, 0, c0), branch(at, from, 1, c1),
  up(at, 0, 1, c0, 2), added(at, 0, `${at}.b0`, `${at}.0.1`),
  down(at, 1, 0, c1), added(at, 1, `${at}.1.0`, `${at}.b1`),
] as const
// biome-ignore format: one output a line
const module3 = <A extends string, F extends string, C0 extends number, C1 extends number, C2 extends number>(
  at: A, from: F, c0: C0, c1: C1, c2: C2,
) => [
  branch(at, from, 0, c0), branch(at, from, 1, c1), branch(at, from, 2, c2),
  up(at, 0, 1, c0, 2), up(at, 0, 2, c0, 4), added(at, 0, `${at}.b0`, `${at}.0.1`, `${at}.0.2`),
  down(at, 1, 0, c1), up(at, 1, 2, c1, 2), added(at, 1, `${at}.1.0`, `${at}.b1`, `${at}.1.2`),
  down(at, 2, 0, c2, half(c0)), down(at, 2, 1, c2), added(at, 2, `${at}.2.0`, `${at}.2.1`, `${at}.b2`),
] as const
// biome-ignore format: one output a line
const module4 = <A extends string, F extends string, C0 extends number, C1 extends number, C2 extends number, C3 extends number>(
  at: A, from: F, c0: C0, c1: C1, c2: C2, c3: C3,
) => [
  branch(at, from, 0, c0), branch(at, from, 1, c1), branch(at, from, 2, c2), branch(at, from, 3, c3),
  up(at, 0, 1, c0, 2), up(at, 0, 2, c0, 4), up(at, 0, 3, c0, 8), added(at, 0, `${at}.b0`, `${at}.0.1`, `${at}.0.2`, `${at}.0.3`),
  down(at, 1, 0, c1), up(at, 1, 2, c1, 2), up(at, 1, 3, c1, 4), added(at, 1, `${at}.1.0`, `${at}.b1`, `${at}.1.2`, `${at}.1.3`),
  down(at, 2, 0, c2, half(c0)), down(at, 2, 1, c2), up(at, 2, 3, c2, 2), added(at, 2, `${at}.2.0`, `${at}.2.1`, `${at}.b2`, `${at}.2.3`),
  down(at, 3, 0, c3, half(c0), half(c0)), down(at, 3, 1, c3, half(c1)), down(at, 3, 2, c3), added(at, 3, `${at}.3.0`, `${at}.3.1`, `${at}.3.2`, `${at}.b3`),
] as const

// ---------------------------------------------------------------- networks

// biome-ignore format: one convolution a line
const stem = seq(
  conv2d('conv1', 64, 3, { stride: 2, bias: false, init: 'fan-out-normal' }), batchNorm('bn1'), relu(),
  conv2d('conv2', 64, 3, { stride: 2, bias: false, init: 'fan-out-normal' }), batchNorm('bn2'), relu(),
  blocks('layer1', bottleneckDown(64, 256, 1), repeat(3, bottleneck(64, 256))),
)
/** The head's features of a branch. */
const wide = <I extends number, F extends string, M extends number, O extends number>(i: I, from: F, mid: M, out: O) =>
  value(`wide.${i}`, from, blocks(`incre_modules.${i}`, bottleneckDown(mid, out, 1)))
/** The sum so far, at the size of the next branch. */
// biome-ignore format: one value a line
const joined = <I extends number, F extends string, N extends number, O extends number>(i: I, from: F, next: N, out: O) => [
  value(`down.${i}`, from, block(`downsamp_modules.${i}`, conv2d('0', out, 3, { stride: 2 }), batchNorm('1'), relu())),
  value(`sum.${i}`, { added: [`wide.${next}`, `down.${i}`] }),
] as const

// biome-ignore format: one module a line
const bodies = <C0 extends number, C1 extends number, C2 extends number, C3 extends number>(c0: C0, c1: C1, c2: C2, c3: C3) => seq(
  stem,
  values(
    value('t1.0', 'input', block('transition1.0', unit(c0, 3), relu())),
    value('t1.1', 'input', block('transition1.1.0', unit(c1, 3, 2), relu())),
    ...module2('stage2.0', 't1', c0, c1),
    value('t2.0', 'stage2.0.0'), value('t2.1', 'stage2.0.1'),
    value('t2.2', 'stage2.0.1', block('transition2.2.0', unit(c2, 3, 2), relu())),
    ...module3('stage3.0', 't2', c0, c1, c2),
    ...module3('stage3.1', 'stage3.0', c0, c1, c2),
    ...module3('stage3.2', 'stage3.1', c0, c1, c2),
    ...module3('stage3.3', 'stage3.2', c0, c1, c2),
    value('t3.0', 'stage3.3.0'), value('t3.1', 'stage3.3.1'), value('t3.2', 'stage3.3.2'),
    value('t3.3', 'stage3.3.2', block('transition3.3.0', unit(c3, 3, 2), relu())),
    ...module4('stage4.0', 't3', c0, c1, c2, c3),
    ...module4('stage4.1', 'stage4.0', c0, c1, c2, c3),
    ...module4('stage4.2', 'stage4.1', c0, c1, c2, c3),
    wide(0, 'stage4.2.0', 32, 128), wide(1, 'stage4.2.1', 64, 256), wide(2, 'stage4.2.2', 128, 512), wide(3, 'stage4.2.3', 256, 1024),
    ...joined(0, 'wide.0', 1, 256), ...joined(1, 'sum.0', 2, 512), ...joined(2, 'sum.1', 3, 1024),
    value('features', 'sum.2', block('final_layer', conv2d('0', 2048, 1), batchNorm('1'), relu())),
  ),
)

export const hrnetW18Body = bodies(18, 36, 72, 144)
export const hrnetW32Body = bodies(32, 64, 128, 256)
export const hrnetW48Body = bodies(48, 96, 192, 384)

/** The head for a number of classes. */
export const hrnetHead = <C extends number>(classes: C) => seq(globalAvgPool('global_pool'), linear('classifier', classes))

/** An HRNet, for a number of classes. */
export type HrnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof hrnetHead<C>>]>
/** An HRNet; called with other classes, the same body with a head for them. */
export interface Hrnet<Body extends Net> extends HrnetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): HrnetOf<Body, N>
}
const hrnet = <Body extends Net>(body: Body): Hrnet<Body> => classifier(1000, (classes) => seq(body, hrnetHead(classes)))

export const hrnetW18 = hrnet(hrnetW18Body)
export const hrnetW32 = hrnet(hrnetW32Body)
export const hrnetW48 = hrnet(hrnetW48Body)

export default {
  'hrnet-w18': network(hrnetW18, 224, crossEntropy),
  'hrnet-w32': network(hrnetW32, 224, crossEntropy),
  'hrnet-w48': network(hrnetW48, 224, crossEntropy),
} satisfies Family
