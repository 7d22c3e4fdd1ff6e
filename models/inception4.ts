// Inception-v4 (Szegedy et al. 2016) with the layer names that Cadene's pretrained models and timm have: 'features.3.conv.conv',
// 'last_linear'. Takes images of at least 75 pixels, one a step from 107 on; 299 are usual. Averages leave the padding out of
// the count; weights start as in Inception-v3.
import {
  avgPool,
  block,
  type ClassesOptions,
  classifier,
  concat,
  counted,
  crossEntropy,
  type Family,
  globalAvgPool,
  linear,
  maxPool,
  type Net,
  network,
  repeat,
  type Seq,
  seq,
} from '../dsl'
import { shrinking, unit } from './inception'

const average = avgPool('0', 3, { stride: 1, pad: 1, countIncludePad: false })
const half = maxPool(3, { stride: 2 })

// ---------------------------------------------------------------- the stem's three forks

export const mixed3a = concat(half, shrinking('conv', 96, 2))
// biome-ignore format: one branch a line
export const mixed4a = concat(
  block('branch0', unit('0', 64, 1), shrinking('1', 96, 1)),
  block('branch1', unit('0', 64, 1), unit('1', 64, [1, 7]), unit('2', 64, [7, 1]), shrinking('3', 96, 1)),
)
export const mixed5a = concat(shrinking('conv', 192, 2), half)

// ---------------------------------------------------------------- modules that keep the size

// biome-ignore format: one branch a line
export const inceptionA = concat(
  unit('branch0', 96, 1),
  block('branch1', unit('0', 64, 1), unit('1', 96, 3)),
  block('branch2', unit('0', 64, 1), unit('1', 96, 3), unit('2', 96, 3)),
  block('branch3', average, unit('1', 96, 1)),
)
// biome-ignore format: one branch a line
export const inceptionB = concat(
  unit('branch0', 384, 1),
  block('branch1', unit('0', 192, 1), unit('1', 224, [1, 7]), unit('2', 256, [7, 1])),
  block('branch2',
    unit('0', 192, 1), unit('1', 192, [7, 1]), unit('2', 224, [1, 7]), unit('3', 224, [7, 1]), unit('4', 256, [1, 7]),
  ),
  block('branch3', average, unit('1', 128, 1)),
)
// biome-ignore format: one branch a line
export const inceptionC = concat(
  unit('branch0', 256, 1),
  seq(unit('branch1_0', 384, 1), concat(unit('branch1_1a', 256, [1, 3]), unit('branch1_1b', 256, [3, 1]))),
  seq(
    unit('branch2_0', 384, 1), unit('branch2_1', 448, [3, 1]), unit('branch2_2', 512, [1, 3]),
    concat(unit('branch2_3a', 256, [1, 3]), unit('branch2_3b', 256, [3, 1])),
  ),
  block('branch3', average, unit('1', 256, 1)),
)

// ---------------------------------------------------------------- modules that halve it

// biome-ignore format: one branch a line
export const reductionA = concat(
  shrinking('branch0', 384, 2),
  block('branch1', unit('0', 192, 1), unit('1', 224, 3), shrinking('2', 256, 2)),
  half,
)
// biome-ignore format: one branch a line
export const reductionB = concat(
  block('branch0', unit('0', 192, 1), shrinking('1', 192, 2)),
  block('branch1', unit('0', 256, 1), unit('1', 256, [1, 7]), unit('2', 320, [7, 1]), shrinking('3', 320, 2)),
  half,
)

// biome-ignore format: one stage a line
export const inception4Body = seq(
  block('features',
    shrinking('0', 32, 2), shrinking('1', 32, 1), unit('2', 64, 3),
    counted('', 3,
      mixed3a, mixed4a, mixed5a,
      repeat(4, inceptionA), reductionA,
      repeat(7, inceptionB), reductionB,
      repeat(3, inceptionC),
    ),
  ),
)

/** The head for a number of classes. */
export const inception4Head = <C extends number>(classes: C) => seq(globalAvgPool('avg_pool'), linear('last_linear', classes))

/** Inception-v4, for a number of classes. */
export type Inception4Of<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof inception4Head<C>>]>
/** Inception-v4; called with other classes, the same body with a head for them. */
export interface Inception4<Body extends Net> extends Inception4Of<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): Inception4Of<Body, N>
}
export const inception4: Inception4<typeof inception4Body> = classifier(1000, (classes) =>
  seq(inception4Body, inception4Head(classes)),
)

export default { inception4: network(inception4, 299, crossEntropy) } satisfies Family
