// A network of each family of the zoo, small enough for the imitated CUDA (test/native/host_cuda), which computes one value after the
// other. In: a family's network and options. Out: its staged plan. Invariant: every file of models/ has one (test/e2e/cuda-host).
import { type Either, flatMap, isLeft, map } from 'fp-ts/Either'
import { block, counted, modelAt, type Net, seq } from '../../dsl'
import { shrinking, unit } from '../../models/inception'
import {
  inception4Head,
  inceptionA,
  inceptionB,
  inceptionC,
  mixed3a,
  mixed4a,
  mixed5a,
  reductionA,
  reductionB,
} from '../../models/inception4'
import { down, globalGenerator, multiScale, pix2pixHD, residualBlocks, up } from '../../models/pix2pixhd'
import { stageNamed } from '../../src/cli/stage'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import type { Staged } from '../../src/stage/staged'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { PAGE_BYTES } from '../../staging/core/bytes'

/** Each with the side of its image and how many there are: norms of few values make noise of rounding. */
export const FAMILIES = {
  'vgg11-features': [32, 2],
  alexnet: [64, 2],
  'darknet19-features': [64, 2],
  googlenet: [64, 2],
  inception3: [128, 4],
  inception4: [107, 4],
  'resnet20-cifar': [32, 8],
  resnet18: [64, 2],
  densenet121: [64, 4],
  mobilenetv2: [64, 2],
  'efficientnet-b0': [64, 2],
  'convnext-tiny': [32, 2],
  unet: [32, 2],
  'deeplabv3plus-resnet50': [32, 8],
  'attention-unet': [32, 2],
  'convnextv2-tiny': [32, 2],
  cspdarknet53: [64, 2],
  'deeplabv3-mobilenetv3-large': [32, 8],
  dncnn: [16, 2],
  'edsr-baseline-x2': [8, 2],
  'fcn-resnet50': [32, 8],
  'fpn-resnet34': [64, 2],
  'hrnet-w18': [64, 2],
  'lraspp-mobilenetv3-large': [64, 2],
  'mnasnet0-5': [64, 2],
  'mobilenetv3-small': [64, 2],
  'pspnet-resnet50': [32, 8],
  'regnet-y-400mf': [64, 2],
  'repvgg-a0': [64, 2],
  resnet18d: [64, 2],
  'resnetv2-50': [64, 2],
  seresnet50: [64, 2],
  'shufflenetv2-x0-5': [64, 2],
  'squeezenet1-1': [64, 2],
  srresnet: [8, 2],
  'swin-t': [224, 2],
  'unetplusplus-resnet34': [64, 2],
  'vit-s': [32, 2],
  'yolo-pan': [64, 2],
  pix2pixhd: [128, 2],
} as const
export type FamilyName = keyof typeof FAMILIES
export const familyNames = Object.keys(FAMILIES) as readonly FamilyName[]

/** Pix2PixHD with few channels: that of the zoo has 188 million parameters. */
const narrow = {
  generator: globalGenerator(4, 19, down(4, 8), down(7, 16), residualBlocks(10, 2, 16), up(12, 8), up(15, 4)),
  discriminator: multiScale(4, 8, 16, 32),
}

/**
 * Inception-v4 with one module of each kind, not four, seven and three: that number of norms, one after the other, of initial weights turns a
 * rounding of the weights to fp32 into 5 % of the gradients, in doubles too. Such gradients cannot be compared.
 */
const shallow: Net = seq(
  block(
    'features',
    shrinking('0', 32, 2),
    shrinking('1', 32, 1),
    unit('2', 64, 3),
    counted('', 3, mixed3a, mixed4a, mixed5a, inceptionA, reductionA, inceptionB, reductionB, inceptionC),
  ),
  inception4Head(10),
)

/** Options for both a named network and one of TypeScript's. */
type Asked = Pick<StageOptions, 'machine' | 'strategy' | 'budget'>

const tried = (name: FamilyName, o: Asked): Either<SpillwayError, Staged> => {
  const [side, batch] = FAMILIES[name]
  if (name === 'pix2pixhd') return tryStage(pix2pixHD([batch, 5, side, side], narrow), { ...o, algorithms: 'fixed' })
  return name === 'inception4'
    ? flatMap(modelAt([batch, 3, side, side], shallow), (net) => tryStage(net, { ...o, algorithms: 'fixed' }))
    : map((s: { readonly staged: Staged }) => s.staged)(
        stageNamed(name, { ...o, batch, image: [side, side], algorithms: 'fixed' }),
      )
}

export const stagedFamily = (name: FamilyName, o: Asked): Staged => {
  const staged = tried(name, o)
  if (isLeft(staged)) throw new Error(`${name}: ${errorText(staged.left)}`)
  return staged.right
}

/** The least budget with a plan of a strategy. */
export const smallestOf = (name: FamilyName, o: Asked): number => {
  const refused = tried(name, { ...o, budget: PAGE_BYTES })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${name} has a plan of one page`)
  return refused.left.smallestBytes
}
