// The operators of losses: a sum over the tiles into one number, and its gradient, which reads the loss's operands and no dy (the loss's own gradient
// is 1). `count` is that of the whole value, so a tile contributes its share of the mean; `weight` multiplies value and gradient. A loss per element
// compares with a target or, without one, with `constant`; it is an entry of the table in losses.ts. The arithmetic is in native/ops/loss.hpp, once
// for all devices.
import { fieldsOf, limitsOf, trials } from './choices'
import { ELEMENT_LOSSES, type ElementLoss, ignoreIndex } from './losses'
import {
  type AnyAttrs,
  attrsListed,
  data,
  defineOp,
  type Fields,
  type GradContext,
  type OpDef,
  type OperandDef,
  pixels,
  pointwise,
  reduce,
  same,
  type Shapes,
  type Sizes,
  wholeChannels,
} from './op'
import { checked, elements, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const loss: OperandDef = { name: 'loss', role: 'whole', dims: [1], merge: 'sum', drawn: 'one' }

const gradientOf =
  (kind: string) =>
  <F extends Fields>(g: GradContext<F>): void => {
    if (g.needsGradient(0)) g.addGradient(0, g.emit(kind, g.attrs, g.ins, [g.shape(g.ins[0]!)])[0]!)
  }

export const labelsOf = (x: Sizes): Sizes => [x[0]!, 1, x[2]!, x[3]!]

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

/** The ignored label of losses without `ignoreIndex`, and of pixels outside of a mask. It is below all legal labels. */
export const NONE_IGNORED = -(2 ** 31)

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
export const CLASS_WEIGHT = 'classWeight'

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
