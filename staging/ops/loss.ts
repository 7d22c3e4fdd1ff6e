// Losses: a sum over the tiles into one number, and its gradient, which reads the loss's operands and no dy (the loss's own gradient is 1). `count`
// is that of the whole value, so a tile contributes its share of the mean; `weight` multiplies value and gradient. A loss per element compares with a
// target or, without one, with `constant`. Each is an entry of a table. The DSL's constructors (dsl/training.ts), the command line's flags,
// operators, kernels and the cases of tests follow from it. Its arithmetic is in native/ops/loss.hpp, once for all devices.
import { chain, type Either, left, right, traverseArray } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../core/errors'
import { knownIn } from '../core/known'
import { castOps } from './cast'
import {
  attrsOf,
  type Choice,
  chosenBy,
  type Choices,
  type Chosen,
  fieldsOf,
  isFlag,
  limitsOf,
  trials,
  withDefaults,
} from './choices'
import {
  type AnyAttrs,
  attrsListed,
  data,
  defineOp,
  type Fields,
  type GradContext,
  listedAttrs,
  pixels,
  pointwise,
  reduce,
  same,
  type OperandDef,
  type OpDef,
  type Shapes,
  wholeChannels,
  type Sizes,
} from './op'
import { maskFactors, maskLabels } from './maskpixels'
import { checked, elements, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const loss: OperandDef = { name: 'loss', role: 'whole', dims: [1], merge: 'sum', drawn: 'one' }

const gradientOf =
  (kind: string) =>
  <F extends Fields>(g: GradContext<F>): void => {
    if (g.needsGradient(0)) g.addGradient(0, g.emit(kind, g.attrs, g.ins, [g.shape(g.ins[0]!)])[0]!)
  }

const labelsOf = (x: Sizes): Sizes => [x[0]!, 1, x[2]!, x[3]!]
const counted = (count: number, expected: number) => (): string | undefined =>
  count === expected ? undefined : `count is ${count}; allowed: ${expected}`

/** A factor for each pixel, [B,1,H,W]: 0 outside of a mask. Their mean is 1. */
const factors: OperandDef = {
  ...data('factors', { B: same, C: reduce, H: same, W: same }),
  optional: true,
  float: true,
  drawn: 'positive',
}
const factorsFit = (given: Sizes | undefined, x: Sizes) => (): string | undefined =>
  given && expectShape('the factors', given, labelsOf(x))()

const labels: OperandDef = { name: 'labels', role: 'data', access: () => wholeChannels, dtype: 'i32' }
/** The number of counted labels, as remainder and quotient by 4096: float sums of both over all tiles are exact. */
const countedLabels: OperandDef = { name: 'counted', role: 'whole', dims: [2] }
const ignoreIndex = { least: -(2 ** 31) + 1, most: 2 ** 31 - 1 } as const

/** The ignored label of losses without `ignoreIndex`, and of pixels outside of a mask. It is below all legal labels. */
const NONE_IGNORED = -(2 ** 31)
const mayIgnore = { ...ignoreIndex, least: NONE_IGNORED } as const

export const countLabels = defineOp({
  kind: 'count_labels',
  wire: 125,
  fields: { ignoreIndex: 'int' },
  limits: { ignoreIndex: mayIgnore },
  anchor: 0,
  ins: [labels],
  outs: [{ ...countedLabels, merge: 'sum' }],
  what: 'labels `[B,1,H,W]` i32; counted `[2]`: n mod 4096 and ⌊n / 4096⌋ for the number n of labels other than ignoreIndex; sum',
  shape: (_, [given]) =>
    checked([expectRank('labels', given!, 4), () => expectShape('labels', given!, labelsOf(given!))()], () => legal([2])),
  flops: perElement(1, firstIn),
  workspace: partialSums(1),
})

export const countClasses = defineOp({
  kind: 'count_classes',
  wire: 142,
  fields: { ignoreIndex: 'int', classes: 'int' },
  limits: { ignoreIndex: mayIgnore, classes: { least: 1, most: 2 ** 24 } },
  anchor: 0,
  ins: [labels],
  outs: [{ name: 'counted', role: 'whole', merge: 'sum' }],
  what: 'labels `[B,1,H,W]` i32; counted `[2,classes]`: for each class, its number of labels other than ignoreIndex, in the form of `count_labels`; labels outside [0, classes) are not counted; sum',
  shape: (a, [given]) =>
    checked([expectRank('labels', given!, 4), () => expectShape('labels', given!, labelsOf(given!))()], () =>
      legal([2, a.classes]),
    ),
  flops: perElement(1, firstIn),
  workspace: (a) => 512 * a.classes,
})

/** The attributes of a loss's op with the weights of classes. */
const CLASS_WEIGHT = 'classWeight'
const classWeights = { [CLASS_WEIGHT]: { least: 0 } } as const
/** Checks the class weights: none, or one for each class, and not all 0. */
const weightsFit = (a: AnyAttrs, classes: number) => (): string | undefined => {
  const weights = attrsListed(CLASS_WEIGHT, a)
  if (weights.length === 0) return undefined
  if (weights.length !== classes) return `it has ${weights.length} class weights; allowed: ${classes}, one per class`
  return weights.every((w) => w === 0) ? 'all class weights are 0; at least one must be above 0' : undefined
}

export const weighClasses = defineOp({
  kind: 'weigh_classes',
  wire: 143,
  fields: {},
  rest: classWeights,
  anchor: 0,
  ins: [{ name: 'counted', role: 'whole' }],
  outs: [{ name: 'factors', role: 'whole' }],
  what: 'counted `[2,C]` from `count_classes`; factors `[C]` = classWeight / Σ classWeight·count over the classes; without weights all are 1; if the sum is 0, all factors are 0',
  shape: (a, [given]) => {
    const classes = given![1] ?? 1
    return checked([expectShape('what is counted', given!, [2, classes]), weightsFit(a, classes)], () => legal([classes]))
  },
  flops: perElement(2, firstIn),
})

/** The divisor of the mean: a constant, or computed from the labels. */
interface ClassLoss {
  readonly kind: string
  readonly wires: readonly [number, number]
  readonly fields: Fields
  readonly limits?: OpDef['limits']
  readonly counted: readonly OperandDef[]
  readonly what: string
  readonly dx: string
}

const classLoss = ({ kind, wires, fields, limits, counted: also, what, dx }: ClassLoss): readonly [OpDef, OpDef] => {
  const common = {
    half: 'may',
    fields,
    ...(limits ? { limits } : {}),
    anchor: 0,
    ins: [{ name: 'x', role: 'data', access: () => wholeChannels }, labels, ...also],
    flops: perElement(15, firstIn),
  } as const
  const labelled = (a: AnyAttrs, x: Sizes, given: Sizes, out: Sizes): Shapes =>
    checked(
      [
        expectRank('the input', x, 4),
        expectShape('labels', given, labelsOf(x)),
        counted(a.count ?? elements(labelsOf(x)), elements(labelsOf(x))),
      ],
      () => legal(out),
    )
  return [
    defineOp({
      ...common,
      kind,
      wire: wires[0],
      reclaimed: true,
      outs: [loss],
      what,
      shape: (a, [x, given]) => labelled(a, x!, given!, [1]),
      backward: gradientOf(`${kind}_bwd`),
      workspace: partialSums(1),
    }),
    defineOp({
      ...common,
      kind: `${kind}_bwd`,
      wire: wires[1],
      what: dx,
      outs: [{ name: 'dx', role: 'data', access: () => wholeChannels }],
      shape: (a, [x, given]) => labelled(a, x!, given!, x!),
    }),
  ]
}

export const [softmaxXent, softmaxXentBwd] = classLoss({
  kind: 'softmax_xent',
  wires: [31, 32],
  fields: { count: 'int', weight: 'float' },
  counted: [],
  what: 'labels `[B,1,H,W]` i32; loss `[1]` = weight·Σ −log softmax(x)[label] / count, count = B·H·W of the whole value; a label outside [0, C) contributes nothing; sum',
  dx: 'dx = weight·(softmax(x) − one-hot(label)) / count; 0 for a label outside [0, C)',
})

export const [softmaxXentCounted, softmaxXentCountedBwd] = classLoss({
  kind: 'softmax_xent_counted',
  wires: [126, 127],
  fields: { ignoreIndex: 'int', weight: 'float' },
  limits: { ignoreIndex: mayIgnore },
  counted: [countedLabels],
  what: '`softmax_xent` without labels equal to ignoreIndex, divided by the count from `count_labels`; 0 if the count is 0; sum',
  dx: 'the gradient; 0 for labels that are ignored or outside [0, C)',
})

export const [classXent, classXentBwd] = classLoss({
  kind: 'class_xent',
  wires: [144, 145],
  fields: { ignoreIndex: 'int', labelSmoothing: 'float', weight: 'float' },
  limits: { ignoreIndex: mayIgnore, labelSmoothing: { least: 0, most: 1 } },
  counted: [{ name: 'factors', role: 'whole', dims: ['C'] }],
  what: 'loss `[1]` = weight·Σ (1−labelSmoothing)·factors[label]·l[label] + labelSmoothing/C·Σ factors·l, l = −log softmax(x), over pixels whose label is in [0, C) and not ignoreIndex, with factors from `weigh_classes`; sum',
  dx: 'the gradient; 0 for labels that are ignored or outside [0, C)',
})

// ---------------------------------------------------------------- shares of classes

const softFields = { count: 'int', weight: 'float', labelSmoothing: 'float' } as const
const softCommon = {
  half: 'may',
  fields: softFields,
  limits: { labelSmoothing: { least: 0, most: 1 } },
  anchor: 0,
  ins: [pixels('x'), { ...pixels('target'), float: true }, factors],
  flops: perElement(18, firstIn),
} as const
const sharesFit = (a: AnyAttrs, [x, target, given]: readonly Sizes[], out: Sizes): Shapes =>
  checked(
    [
      expectRank('the input', x!, 4),
      expectShape('the target', target!, x!),
      factorsFit(given, x!),
      counted(a.count!, elements(labelsOf(x!))),
    ],
    () => legal(out),
  )

export const softXent = defineOp({
  ...softCommon,
  kind: 'soft_xent',
  wire: 150,
  reclaimed: true,
  outs: [loss],
  what: 'loss `[1]` = weight/count·Σ −t·log softmax(x), t = (1−labelSmoothing)·target + labelSmoothing/C, over the channels of all pixels, count = B·H·W of the whole value; with factors `[B,1,H,W]`, each pixel is multiplied by its own; the target has no gradient; sum',
  shape: (a, ins) => sharesFit(a, ins, [1]),
  backward: gradientOf('soft_xent_bwd'),
  samples: (image) => [
    { attrs: { count: elements(labelsOf(image)), weight: 2.5, labelSmoothing: 0 }, ins: [image, image] },
    { attrs: { count: elements(labelsOf(image)), weight: 1, labelSmoothing: 0.25 }, ins: [image, image] },
    { attrs: { count: elements(labelsOf(image)), weight: 1, labelSmoothing: 0.25 }, ins: [image, image, labelsOf(image)] },
  ],
  workspace: partialSums(1),
})

export const softXentBwd = defineOp({
  ...softCommon,
  kind: 'soft_xent_bwd',
  wire: 151,
  outs: [pixels('dx')],
  what: "dx = weight/count·(softmax(x)·Σ t − t), the sum over the channels of a pixel; with factors, times the pixel's",
  shape: (a, ins) => sharesFit(a, ins, ins[0]!),
})

// ---------------------------------------------------------------- labels of two classes

/** Reads labels as numbers, for a loss on numbers in a sum with Dice of one channel. */
export const labelNumbers = defineOp({
  kind: 'label_numbers',
  wire: 193,
  fields: {},
  anchor: 'out',
  ins: [{ ...labels, access: () => pointwise }],
  outs: [{ ...data('y'), float: true }],
  what: 'labels `[B,1,H,W]` i32; y = labels as numbers',
  shape: (_, [given]) =>
    checked([expectRank('labels', given!, 4), () => expectShape('labels', given!, labelsOf(given!))()], () => legal(given!)),
  flops: perElement(1, firstOut),
})

// ---------------------------------------------------------------- dice

/** For each class: the sum of predictions at its labels, the sum of all predictions, and the number of its labels. */
const classSums: OperandDef = { name: 'sums', role: 'whole', dims: [3, 'C'] }
const diceFields = { smooth: 'float', weight: 'float' } as const
const diceLimits = { smooth: { least: 0 } } as const

export const diceSums = defineOp({
  kind: 'dice_sums',
  wire: 146,
  half: 'may',
  fields: { ignoreIndex: 'int' },
  limits: { ignoreIndex: mayIgnore },
  anchor: 0,
  ins: [{ name: 'x', role: 'data', access: () => wholeChannels }, labels],
  outs: [{ ...classSums, merge: 'sum' }],
  what: 'sums `[3,C]`, p = softmax(x): for each class Σ p over the pixels with this label, Σ p over all pixels, and the number of its labels. Pixels count if their label is in [0, C) and not ignoreIndex. For a single channel, p = σ(x), the class is 1, and labels are 0 and 1; sum',
  shape: (_, [x, given]) =>
    checked([expectRank('the input', x!, 4), expectShape('labels', given!, labelsOf(x!))], () => legal([3, x![1]!])),
  backward: (g) => {
    const [x, given] = g.ins
    if (g.needsGradient(0))
      g.addGradient(0, g.emit('dice_sums_bwd', g.attrs, [x!, given!, g.outputGradient(0)], [g.shape(x!)])[0]!)
  },
  flops: perElement(15, firstIn),
  workspace: partialSums(3),
})

export const diceSumsBwd = defineOp({
  kind: 'dice_sums_bwd',
  wire: 149,
  half: 'may',
  fields: { ignoreIndex: 'int' },
  limits: { ignoreIndex: mayIgnore },
  anchor: 0,
  ins: [{ name: 'x', role: 'data', access: () => wholeChannels }, labels, { ...classSums, name: 'slopes' }],
  outs: [{ name: 'dx', role: 'data', access: () => wholeChannels }],
  what: 'dx = p·(g − Σ p·g), g = slopes[1], plus slopes[0] if the class is the label; for a single channel, dx = p·(1 − p)·g; 0 for labels that are ignored or outside [0, C)',
  shape: (_, [x, given]) =>
    checked([expectRank('the input', x!, 4), expectShape('labels', given!, labelsOf(x!))], () => legal(x!)),
  flops: perElement(20, firstIn),
})

export const dice = defineOp({
  kind: 'dice',
  wire: 147,
  fields: diceFields,
  limits: diceLimits,
  rest: classWeights,
  anchor: 0,
  ins: [classSums],
  outs: [{ name: 'loss', role: 'whole', dims: [1] }],
  what: 'loss `[1]` = weight·(1 − mean over the classes of (2·sums[0] + smooth) / (sums[1] + sums[2] + smooth)). The mean is weighted by classWeight if weights are given. A class whose sums are all 0 counts as 1',
  shape: (a, [sums]) => checked([weightsFit(a, sums![1] ?? 1)], () => legal([1])),
  backward: gradientOf('dice_bwd'),
  flops: perElement(2, firstIn),
})

export const diceBwd = defineOp({
  kind: 'dice_bwd',
  wire: 148,
  fields: diceFields,
  limits: diceLimits,
  rest: classWeights,
  anchor: 0,
  ins: [classSums],
  outs: [{ ...classSums, name: 'slopes' }],
  what: 'the gradient with respect to each of the sums; 0 for the last row, the number of labels',
  shape: (a, [sums]) => checked([weightsFit(a, sums![1] ?? 1)], () => legal(sums!)),
  flops: perElement(2, firstIn),
})

// ---------------------------------------------------------------- the table

export interface LossEntry {
  /** The operator. The kind of its gradient is derived from this name. */
  readonly op: string
  /** The description for users. */
  readonly about: string
  readonly options: Choices
  /** True if the target is a class label for each pixel. Otherwise it has the output's shape. */
  readonly labels?: true
  /** True if the target has a share for each class of each pixel. */
  readonly shares?: true
  /** True if the output is a logit: with one channel, values above zero are class 1, all others class 0. */
  readonly logits?: true
  /** The operator for ignored labels. It also reads the result of `count_labels`. */
  readonly counted?: string
  /** The operator for class weights or smoothed labels. It also reads the result of `weigh_classes`. */
  readonly weighed?: string
  /** For a loss that is not a sum over pixels: the operator that sums its terms. */
  readonly summed?: string
  /** True for a function of |x − t|: the target's gradient is that of x with x and t exchanged. Other losses have no gradient of the target. */
  readonly symmetric?: true
}

/** A loss that compares element by element. */
interface ElementLoss extends LossEntry {
  /** Wire numbers of the loss and of its gradient. */
  readonly wires: readonly [number, number]
  /** The value for an element x and its target t, and the derivative with respect to x. */
  readonly value: string
  readonly slope: string
  /** Operations for each element. */
  readonly flops: number
}

const none = {}

// biome-ignore format: a table
const ELEMENT_LOSSES = {
  mse: { op: 'mse', wires: [33, 34], value: '(x−t)²', slope: '2(x−t)', flops: 3, symmetric: true, options: none,
    about: "Mean squared error between the output and a target of its shape." },
  l1: { op: 'l1', wires: [54, 55], value: '|x−t|', slope: 'sign(x−t), 0 where they are equal', flops: 2, symmetric: true, options: none,
    about: "Mean absolute error between the output and a target of its shape." },
  'bce-with-logits': { op: 'bce_with_logits', wires: [56, 57], value: 'max(x,0) − x·t + log(1+exp(−|x|))', slope: 'σ(x)−t', flops: 12, logits: true, options: none,
    about: "Binary cross-entropy between the sigmoid of the output and a target between 0 and 1, for each pixel and channel." },
  huber: { op: 'huber', wires: [122, 123], value: '|x−t| ≤ delta ? (x−t)²/2 : delta·(|x−t| − delta/2)', slope: 'x−t, clamped to ±delta', flops: 5, symmetric: true,
    options: { delta: { above: 0, default: 1, about: 'error where the loss changes from squared to linear' } },
    about: 'Creates the Huber loss: half the squared error below delta, linear above it. @example huber({ delta: 0.5 })' },
  focal: { op: 'focal', wires: [140, 141], value: 'a·mᵞ·bce(x,t), bce that of bce_with_logits, m = σ(x) + t − 2·σ(x)·t, a = balance·t + (1−balance)·(1−t)',
    slope: 'a·(mᵞ·(σ(x)−t) + bce(x,t)·gamma·mᵞ⁻¹·σ(x)·(1−σ(x))·(1−2t))', flops: 40,
    options: { balance: { least: 0, most: 1, default: 0.25, about: 'weight of elements with target 1' }, gamma: { least: 0, default: 2, about: 'exponent that lowers the weight of easy elements' } }, logits: true,
    about: "Creates the focal loss (Lin et al., 2017): binary cross-entropy of the sigmoid of the output, with less weight on elements that are correct already. @example focal({ balance: 0.5, gamma: 1 })" },
  mean: { op: 'mean', wires: [166, 167], value: 'x−t', slope: '1', flops: 1, options: none,
    about: "Mean of the output minus mean of a target, such as the loss of a Wasserstein critic." },
} as const satisfies Readonly<Record<string, ElementLoss>>

export const LOSSES = {
  ...ELEMENT_LOSSES,
  'cross-entropy': {
    op: 'softmax_xent',
    counted: 'softmax_xent_counted',
    weighed: 'class_xent',
    labels: true,
    options: {
      ignoreIndex: { ...ignoreIndex, whole: true, default: 'none', about: 'label to ignore' },
      weights: { least: 0, default: 'none', list: true, flag: 'classWeights', about: 'weight of each class' },
      labelSmoothing: { least: 0, most: 1, default: 'none', about: 'share of each label to spread over all classes' },
    },
    about: 'Softmax cross-entropy to class labels: one label per image, or one per pixel if the output has several pixels.',
  },
  'soft-cross-entropy': {
    op: 'soft_xent',
    shares: true,
    options: { labelSmoothing: { least: 0, most: 1, default: 0, about: 'share of each label to spread over all classes' } },
    about:
      'Creates softmax cross-entropy to class probabilities instead of labels, e.g. for mixup. @example softCrossEntropy({ labelSmoothing: 0.1 })',
  },
  dice: {
    op: 'dice',
    summed: 'dice_sums',
    labels: true,
    options: {
      smooth: { least: 0, default: 1e-5, about: 'number added to numerator and denominator' },
      ignoreIndex: { ...ignoreIndex, whole: true, default: 'none', about: 'label to ignore' },
      weights: { least: 0, default: 'none', list: true, flag: 'classWeights', about: 'weight of each class; 0 omits the class' },
    },
    about:
      'Creates the Dice loss: 1 minus the overlap of predicted and labelled pixels, averaged over classes. It uses a softmax, or a sigmoid if the output has one channel. @example dice({ smooth: 1 })',
  },
} as const satisfies Readonly<Record<string, LossEntry>>

export type LossName = keyof typeof LOSSES
export const lossNames = Object.keys(LOSSES) as readonly LossName[]

/** A loss by its name, with default options, or with options. */
export type LossOf<K extends LossName> = { readonly kind: K } & Chosen<(typeof LOSSES)[K]['options']>
/** An op of a loss: its kind, its attributes, and its operands: the output, the target, or the result of a call before it. */
export interface LossCall {
  readonly op: string
  readonly attrs: AnyAttrs
  readonly reads: readonly Read[]
}
type Read = 'output' | 'target' | 'mask' | number
/**
 * The loss that `lossOf` creates.
 *
 * @example const squared: OwnLoss = lossOf((y, t) => y.minus(t).square().mean())
 */
export interface OwnLoss {
  readonly kind: 'own'
  readonly calls: readonly LossCall[]
  /** The value whose mean is the loss. */
  readonly of: Read
}
/** A loss that is not a sum of losses: a loss of the table, or the user's own. */
export type PlainLoss = LossName | { readonly [K in LossName]: LossOf<K> }[LossName] | OwnLoss
/**
 * The weighted sum of losses that `sumOf` creates.
 *
 * @example const both: LossSum = sumOf(crossEntropy, [0.5, dice()])
 */
export interface LossSum<L extends PlainLoss = PlainLoss> {
  readonly kind: 'sum'
  readonly parts: readonly (readonly [weight: number, loss: L])[]
}
/**
 * A loss: compares an output with a target. Plain data.
 *
 * @example const losses: readonly Loss[] = [mse, crossEntropy, dice(), sumOf(mse, [0.1, l1])]
 */
export type Loss = PlainLoss | LossSum

const isOwn = (l: PlainLoss): l is OwnLoss => typeof l === 'object' && l.kind === 'own'
export const lossName = (l: PlainLoss): LossName | 'own' => (typeof l === 'string' ? l : l.kind)
/** The parts of a sum. */
export const partsOf = (l: Loss): LossSum['parts'] => (typeof l === 'object' && l.kind === 'sum' ? l.parts : [[1, l]])
/** Returns the text for users: `cross-entropy + 0.5*dice`. */
export const lossText = (l: Loss): string =>
  partsOf(l)
    .map(([weight, part]) => (weight === 1 ? lossName(part) : `${weight}*${lossName(part)}`))
    .join(' + ')
/** Returns the single loss, if there is only one and its weight is 1. */
export const sumOfParts = (parts: LossSum['parts']): Loss =>
  parts.length === 1 && parts[0]![0] === 1 ? parts[0]![1] : { kind: 'sum', parts }
/** Returns a loss with its options as a record. */
export const lossMade = <L extends PlainLoss>(kind: LossName, given: object): L =>
  ({ kind, ...withDefaults(LOSSES[kind].options, given) }) as unknown as L
/** Returns the short form: the name alone if there are no options. */
export const lossWith = (kind: LossName, given: object): PlainLoss => {
  const made = lossMade(kind, given)
  return Object.keys(made).length === 1 ? (kind as PlainLoss) : made
}

/** The part of a graph's op that this file reads. */
interface LossOp {
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly layer: string
  readonly ins: readonly number[]
  readonly outs: readonly number[]
  readonly phase: string
}
interface LossGraph {
  readonly ops: readonly LossOp[]
  readonly values: readonly { readonly role: string }[]
}
/** The last op of the user's own loss: the mean. */
const OWN_MEAN = 'mean'

/** Returns the label that an op ignores, if it ignores one. */
export const ignoredIn = ({ ignoreIndex: ignored }: AnyAttrs): number | undefined =>
  ignored === NONE_IGNORED ? undefined : ignored

const CASTS: readonly string[] = castOps.map((d) => d.kind)
/** Kinds of ops that apply a mask. They are not part of the loss. */
const MASKS = ['bn_stats', maskFactors.kind]
/** In written order, at any later place. */
const asWritten = (ops: readonly LossOp[]): readonly LossOp[] => [...ops].sort((a, b) => a.outs[0]! - b.outs[0]!)

/** Returns the user's own loss from the ops of its layer. Undefined if the mean is of the output itself. */
const ownBy = (ops: readonly LossOp[], isTarget: (value: number) => boolean, op: LossOp): OwnLoss | undefined => {
  const own = ops.filter((o) => o.layer === op.layer && o.phase === 'forward')
  const factors = own.filter((o) => o.kind === maskFactors.kind).flatMap((o) => o.outs)
  const isPassed = (o: LossOp): boolean => CASTS.includes(o.kind) || o.ins.some((v) => factors.includes(v))
  const made = asWritten(own.filter((o) => !isPassed(o) && !MASKS.includes(o.kind)))
  const readOf = (value: number): Read => {
    const by = own.find((o) => o.outs.includes(value))
    if (by && isPassed(by)) return readOf(by.ins[0]!)
    return by ? made.indexOf(by) : isTarget(value) ? 'target' : 'output'
  }
  const calls = made.map(({ kind, attrs, ins }): LossCall => ({ op: kind, attrs, reads: ins.map(readOf) }))
  return calls.length === 0 ? undefined : { kind: 'own', calls, of: readOf(op.ins[0]!) }
}

/** Returns a loss of the table from its op and the ops that compute its operands. */
const tableBy = (ops: readonly LossOp[], op: LossOp): PlainLoss | undefined => {
  const kind = lossNames.find((name) => {
    const e: LossEntry = LOSSES[name]
    return [e.op, e.counted, e.weighed].includes(op.kind)
  })
  if (kind === undefined) return undefined
  const made = ops.filter((o) => o.phase !== 'loss' && o.outs.some((v) => op.ins.includes(v)))
  const weights = [...made, op].flatMap((o) => attrsListed(CLASS_WEIGHT, o.attrs))
  const { ignoreIndex, labelSmoothing, ...attrs } = { ...made.find((o) => o.kind === diceSums.kind)?.attrs, ...op.attrs }
  return lossWith(kind, {
    ...chosenBy(LOSSES[kind].options, {
      ...attrs,
      ...(ignoreIndex === undefined || ignoreIndex === NONE_IGNORED ? {} : { ignoreIndex }),
      ...(labelSmoothing ? { labelSmoothing } : {}),
    }),
    ...(weights.length > 0 ? { weights } : {}),
  })
}

/** Returns the loss on a graph's output, or undefined if there is none. */
export const lossBy = ({ ops, values }: LossGraph): Loss | undefined => {
  const isTarget = (value: number): boolean => values[value]!.role === 'target'
  const plainBy = (o: LossOp): PlainLoss | undefined =>
    (o.kind === OWN_MEAN ? ownBy(ops, isTarget, o) : undefined) ?? tableBy(ops, o)
  const parts = asWritten(ops.filter((o) => o.phase === 'loss')).flatMap((o) => {
    const loss = plainBy(o)
    return loss === undefined ? [] : [[o.attrs.weight ?? 1, loss] as const]
  })
  return parts.length === 0 ? undefined : sumOfParts(parts)
}

const isNumbers = (u: unknown): boolean =>
  Array.isArray(u) && u.length > 0 && u.every((n) => typeof n === 'number' && Number.isFinite(n))

const notLegal = (name: string, reason: string, legal: string): Either<GraphError, never> =>
  left({ tag: 'ValueInvalid', name, reason, legal })

const OWN_ENTRY: LossEntry = { op: OWN_MEAN, about: '', options: {} }
const isRead = (calls: number) => (r: unknown) =>
  r === 'output' || r === 'target' || (Number.isInteger(r) && (r as number) >= 0 && (r as number) < calls)
const ownEntry = ({ calls, of }: OwnLoss): Either<GraphError, LossEntry> =>
  Array.isArray(calls) &&
  isRead(calls.length)(of) &&
  calls.every((c: LossCall, i) => typeof c?.op === 'string' && Array.isArray(c.reads) && c.reads.every(isRead(i)))
    ? right(OWN_ENTRY)
    : notLegal("a loss of one's own", 'its calls read a value that no earlier call computes', 'a result of lossOf')

const plainEntry = (l: PlainLoss): Either<GraphError, LossEntry> => {
  if (l !== null && isOwn(l)) return ownEntry(l)
  const of = typeof l === 'object' && l !== null ? l.kind : l
  if (typeof of !== 'string' || !Object.hasOwn(LOSSES, of)) return left({ tag: 'UnknownLoss', got: String(of), legal: lossNames })
  const entry: LossEntry = LOSSES[of]
  if (typeof l === 'string') return right(entry)
  return pipe(
    knownIn({ of, keys: ['kind', ...Object.keys(entry.options)] })(l),
    chain((given): Either<GraphError, LossEntry> => {
      const isLegal = (c: Choice, v: unknown): boolean =>
        c.list ? isNumbers(v) : typeof v === (isFlag(c) ? 'boolean' : 'number')
      const wrong = Object.entries(given).find(
        ([name, v]) => name !== 'kind' && v !== undefined && !isLegal(entry.options[name]!, v),
      )
      const legal = wrong && entry.options[wrong[0]]?.list ? 'a list of numbers' : 'a number'
      return wrong ? notLegal(`${wrong[0]} of ${of}`, `it is ${JSON.stringify(wrong[1])}`, legal) : right(entry)
    }),
  )
}

/** Returns the kind of target of a loss, in words. */
const comparesWith = (e: LossEntry): string => (e.labels ? 'class labels' : e.shares ? 'shares of classes' : 'numbers')

/** Returns true for Dice together with a loss on logits: with one channel, both accept labels of 0 and 1. */
const isOfMarks = (entries: readonly LossEntry[]): boolean =>
  entries.some((e) => e.logits) && entries.some((e) => e.summed) && entries.every((e) => e.logits || e.summed)

/** Returns the entry of a sum of losses, or an error if its parts need different kinds of targets. */
const sumEntry = ({ parts }: LossSum): Either<GraphError, LossEntry> => {
  const name = 'a sum of losses'
  if (!Array.isArray(parts) || parts.length === 0) return notLegal(name, `it is of ${JSON.stringify(parts)}`, 'one part or more')
  const odd = parts.findIndex((p: unknown) => !Array.isArray(p) || p.length !== 2 || !Number.isFinite(p[0]))
  if (odd >= 0) return notLegal(name, `part ${odd} is ${JSON.stringify(parts[odd])}`, 'a loss, or [weight, loss]')
  return pipe(
    (parts as LossSum['parts']).map(([, part]) => part),
    traverseArray(plainEntry),
    chain((entries) => {
      const [first] = entries
      const ofMarks = isOfMarks(entries)
      const other = ofMarks ? -1 : entries.findIndex((e) => comparesWith(e) !== comparesWith(first!))
      const nameAt = (i: number): string => lossName((parts as LossSum['parts'])[i]![1])
      if (other >= 0)
        return notLegal(
          name,
          `'${nameAt(0)}' compares with ${comparesWith(first!)}, but '${nameAt(other)}' with ${comparesWith(entries[other]!)}`,
          'losses with the same kind of target',
        )
      const ignoring = (parts as LossSum['parts']).findIndex(
        ([, p]) => typeof p === 'object' && 'ignoreIndex' in p && p.ignoreIndex !== undefined,
      )
      if (ofMarks && ignoring >= 0)
        return notLegal(
          name,
          `'${nameAt(ignoring)}' has an ignoreIndex, but '${nameAt(entries.findIndex((e) => e.logits))}' uses all labels`,
          'the sum without ignoreIndex',
        )
      return right<GraphError, LossEntry>({
        op: 'sum',
        about: '',
        options: {},
        ...(ofMarks || first!.labels ? { labels: true } : {}),
        ...(first!.shares ? { shares: true } : {}),
        ...(entries.some((e) => e.logits) ? { logits: true } : {}),
        ...(entries.every((e) => e.symmetric) ? { symmetric: true } : {}),
      })
    }),
  )
}

/** Returns the entry of a loss. The loss may be unchecked user input. */
export const lossEntry = (l: Loss): Either<GraphError, LossEntry> => {
  if (Array.isArray(l)) return notLegal('loss', 'it is a list', 'one loss, or sumOf(...) of several')
  return typeof l === 'object' && l.kind === 'sum' ? sumEntry(l) : plainEntry(l)
}

/** Returns true if one of the user's own parts reads a target. Then the target cannot be a constant. */
export const readsTarget = (l: Loss): boolean =>
  partsOf(l).some(([, p]) => isOwn(p) && [p.of, ...p.calls.flatMap((c) => c.reads)].includes('target'))

export const targetOf = (e: Pick<LossEntry, 'labels'>, output: Sizes): Sizes => (e.labels ? labelsOf(output) : output)

/** The place of a loss: the shape of its output, and true if only pixels inside of a mask count. */
export interface LossPlace {
  readonly output: Sizes
  readonly isMasked: boolean
}

/** Returns the calls that compute the factors of pixels, after `before` other calls. The last call returns the factors. */
const factorCalls = (before: number): readonly LossCall[] => [
  { op: 'bn_stats', attrs: {}, reads: ['mask'] },
  { op: maskFactors.kind, attrs: {}, reads: ['mask', before] },
]

/** Returns the calls of a single loss with a weight. The last call returns the loss. */
const callsOf = (
  l: PlainLoss,
  { output, isMasked }: LossPlace,
  weight: number,
  constant: number,
  ofMarks: boolean,
): readonly LossCall[] => {
  if (isOwn(l)) {
    const mean = (of: Read): LossCall => ({ op: OWN_MEAN, attrs: { count: elements(output), weight, constant: 0 }, reads: [of] })
    if (!isMasked) return [...l.calls, mean(l.of)]
    const n = l.calls.length
    return [...l.calls, ...factorCalls(n), { op: 'multiply', attrs: { over: 2 }, reads: [l.of, n + 1] }, mean(n + 2)]
  }
  const e: LossEntry = LOSSES[typeof l === 'string' ? l : l.kind]
  const given = typeof l === 'string' ? {} : l
  const own = attrsOf(e.options, given)
  const { weights } = given as { readonly weights?: readonly number[] }
  const { ignoreIndex = NONE_IGNORED, labelSmoothing = 0, ...others } = own
  const inside: readonly LossCall[] = isMasked ? [{ op: maskLabels.kind, attrs: { ignoreIndex }, reads: ['target', 'mask'] }] : []
  const labelled: Read = isMasked ? 0 : 'target'
  const both = ['output', labelled] as const
  const n = inside.length
  if (e.summed !== undefined)
    return [
      ...inside,
      { op: e.summed, attrs: { ignoreIndex }, reads: both },
      { op: e.op, attrs: { ...others, weight, ...listedAttrs(CLASS_WEIGHT, weights ?? []) }, reads: [n] },
    ]
  if (e.weighed !== undefined && (weights !== undefined || own.labelSmoothing !== undefined))
    return [
      ...inside,
      { op: countClasses.kind, attrs: { ignoreIndex, classes: output[1]! }, reads: [labelled] },
      { op: weighClasses.kind, attrs: listedAttrs(CLASS_WEIGHT, weights ?? []), reads: [n] },
      { op: e.weighed, attrs: { ignoreIndex, labelSmoothing, weight }, reads: [...both, n + 1] },
    ]
  if (e.counted !== undefined && (isMasked || own.ignoreIndex !== undefined))
    return [
      ...inside,
      { op: countLabels.kind, attrs: { ignoreIndex }, reads: [labelled] },
      { op: e.counted, attrs: { ignoreIndex, weight }, reads: [...both, n] },
    ]
  const count = elements(e.shares ? labelsOf(output) : targetOf(e, output))
  const attrs = { count, weight, ...(e.labels || e.shares ? {} : { constant }), ...own }
  const numbers: readonly LossCall[] = ofMarks ? [{ op: labelNumbers.kind, attrs: {}, reads: ['target'] }] : []
  const m = numbers.length
  const target: Read = ofMarks ? 0 : 'target'
  return isMasked
    ? [...numbers, ...factorCalls(m), { op: e.op, attrs, reads: ['output', target, m + 1] }]
    : [...numbers, { op: e.op, attrs, reads: ['output', target] }]
}

/** Returns the calls of each part of a loss with its weight, and the part's name if there are several. */
export const lossCalls = (
  l: Loss,
  place: LossPlace,
  weight = 1,
  constant = 0,
): readonly { readonly name: string; readonly calls: readonly LossCall[] }[] => {
  const parts = partsOf(l)
  const names = parts.map(([, part]) => lossName(part))
  const ofMarks = isOfMarks(names.map((n): LossEntry => (n === 'own' ? OWN_ENTRY : LOSSES[n])))
  return parts.map(([share, part], i) => {
    const own = names.filter((n) => n === names[i]).length > 1 ? `${names[i]}.${i}` : names[i]!
    return { name: parts.length > 1 ? `.${own}` : '', calls: callsOf(part, place, share * weight, constant, ofMarks) }
  })
}

// ---------------------------------------------------------------- losses per element, as operators

const elementIns: readonly OperandDef[] = [data('x'), { ...data('target'), optional: true, float: true }, factors]

const elementOps = (e: ElementLoss): readonly OpDef[] => {
  const backwardKind = `${e.op}_bwd`
  const common = {
    half: 'may',
    fields: { count: 'int', weight: 'float', constant: 'float', ...fieldsOf(e.options) },
    limits: limitsOf(e.options),
    anchor: 0,
    ins: elementIns,
    flops: perElement(e.flops, firstIn),
  } as const
  const compared = (count: number, [x, target, given]: readonly Sizes[], out: Sizes): Shapes =>
    checked(
      [
        expectRank('the input', x!, 4),
        () => target && expectShape('the target', target, x!)(),
        factorsFit(given, x!),
        counted(count, elements(x!)),
      ],
      () => legal(out),
    )
  return [
    defineOp({
      ...common,
      kind: e.op,
      wire: e.wires[0],
      outs: [loss],
      what: `weight/count·Σ f, f = ${e.value}, t the target or, without one, the constant; with factors \`[B,1,H,W]\`, each f is multiplied by its pixel's${e.symmetric ? '' : '; the target has no gradient'}; sum`,
      shape: (a, ins) => compared(a.count!, ins, [1]),
      /** The gradient of a computed target: trained values may be on both sides. */
      backward: (g) => {
        gradientOf(backwardKind)(g)
        const [x, target, ...factors] = g.ins
        if (target !== undefined && e.symmetric && g.needsGradient(1))
          g.addGradient(1, g.emit(backwardKind, g.attrs, [target, x!, ...factors], [g.shape(target)])[0]!)
      },
      samples: (image) =>
        trials(e.options).flatMap((options) => [
          { attrs: { count: elements(image), weight: 2.5, constant: 0, ...options }, ins: [image, image] },
          { attrs: { count: elements(image), weight: 1, constant: 0.25, ...options }, ins: [image] },
          { attrs: { count: elements(image), weight: 2.5, constant: 0, ...options }, ins: [image, image, labelsOf(image)] },
        ]),
      workspace: partialSums(1),
    }),
    defineOp({
      ...common,
      kind: backwardKind,
      wire: e.wires[1],
      outs: [data('dx')],
      what: `weight/count·f′, f′ = ${e.slope}; with factors, times the pixel's`,
      shape: (a, ins) => compared(a.count!, ins, ins[0]!),
    }),
  ]
}

export const elementLossOps: readonly OpDef[] = Object.values<ElementLoss>(ELEMENT_LOSSES).flatMap(elementOps)
