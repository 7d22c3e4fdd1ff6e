// Losses as users name them: a table with an entry for each, and the types of a loss. In: nothing. Out: names, options and texts of losses. The DSL's
// constructors (dsl/training.ts), the command line's flags and the operators of losses per element follow from the table. Worked example: the loss
// `crossEntropy + 0.5*dice` is a sum of two parts with the weights 1 and 0.5.
import { type Choices, type Chosen, withDefaults } from './choices'
import type { AnyAttrs } from './op'

/** The limits of an ignored label. */
export const ignoreIndex = { least: -(2 ** 31) + 1, most: 2 ** 31 - 1 } as const

/** A loss of the table. */
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
export interface ElementLoss extends LossEntry {
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
export const ELEMENT_LOSSES = {
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

export type Read = 'output' | 'target' | 'mask' | number

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

export const isOwn = (l: PlainLoss): l is OwnLoss => typeof l === 'object' && l.kind === 'own'

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

/** The last op of the user's own loss: the mean. */
export const OWN_MEAN = 'mean'
