// Losses: a sum over the tiles into one number, and its gradient, which reads what the loss read and no dy (the loss's
// own gradient is 1). `count` is that of the whole value, so a tile contributes its share of the mean; `weight` multiplies
// value and gradient. A loss per element compares with a target or, when that is left out, with `constant` everywhere; it is an
// entry of a table, from which the DSL's constructors (dsl/training.ts), the command line's flags, operators, kernels and the cases
// of tests follow. Its arithmetic stands in native/ops/loss.hpp, once for all devices.
import { type Either, left, map, right } from 'fp-ts/Either'
import type { GraphError } from '../core/errors'
import { knownIn } from '../core/known'
import { attrsOf, chosenBy, type Choices, type Chosen, fieldsOf, limitsOf, trials, withDefaults } from './choices'
import {
  type AnyAttrs,
  data,
  defineOp,
  type Fields,
  type GradContext,
  type OperandDef,
  type OpDef,
  type Shapes,
  wholeChannels,
  type Sizes,
} from './op'
import { checked, elements, expectRank, expectShape, firstIn, legal, partialSums, perElement } from './rules'

const loss: OperandDef = { name: 'loss', role: 'whole', dims: [1], merge: 'sum', drawn: 'one' }

const gradientOf =
  (kind: string) =>
  <F extends Fields>(g: GradContext<F>): void => {
    if (g.wants(0)) g.give(0, g.emit(kind, g.attrs, g.ins, [g.shape(g.ins[0]!)])[0]!)
  }

const labelsOf = (x: Sizes): Sizes => [x[0]!, 1, x[2]!, x[3]!]
const counted = (count: number, expected: number) => (): string | undefined =>
  count === expected ? undefined : `count is ${count}; legal is ${expected}`

const labels: OperandDef = { name: 'labels', role: 'data', access: () => wholeChannels, dtype: 'i32' }
/** How many labels are not ignored, as what is left over 4096 and how often 4096: floats add up those of all tiles without rounding. */
const countedLabels: OperandDef = { name: 'counted', role: 'whole', dims: [2] }
const ignoreIndex = { least: -(2 ** 31) + 1, most: 2 ** 31 - 1 } as const

export const countLabels = defineOp({
  kind: 'count_labels',
  wire: 125,
  fields: { ignoreIndex: 'int' },
  limits: { ignoreIndex },
  anchor: 0,
  ins: [labels],
  outs: [{ ...countedLabels, merge: 'sum' }],
  what: 'labels `[B,1,H,W]` i32; counted `[2]`: of those that are not ignoreIndex, how many are left over 4096, and how often 4096; sum',
  shape: (_, [given]) =>
    checked([expectRank('labels', given!, 4), () => expectShape('labels', given!, labelsOf(given!))()], () => legal([2])),
  flops: perElement(1, firstIn),
  workspace: partialSums(1),
})

/** Divided by a number that is known, or by that of the labels that are not ignored. */
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
    bf16: 'may',
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
  limits: { ignoreIndex },
  counted: [countedLabels],
  what: '`softmax_xent` without labels that are ignoreIndex, divided by the number that `count_labels` counted; 0 where there is none; sum',
  dx: 'the gradient of it; 0 for a label outside [0, C) or ignored',
})

// ---------------------------------------------------------------- the table

export interface LossEntry {
  /** The operator; its gradient is called after it. */
  readonly op: string
  /** For users. */
  readonly about: string
  readonly options: Choices
  /** Class labels, one for each pixel; else the target is like the output. */
  readonly labels?: true
  /** Of the output's sigmoid: of one channel, above zero is yes and the rest no. */
  readonly logits?: true
  /** The operator where labels are ignored, which reads what `count_labels` counts as well. */
  readonly counted?: string
  /** Of |x − t| alone: then the target's gradient is that of x with the two exchanged. Else the target has none. */
  readonly symmetric?: true
}

/** One that compares element by element. */
interface ElementLoss extends LossEntry {
  /** Of the loss and of its gradient. */
  readonly wires: readonly [number, number]
  /** Of an element x and its target t, and the slope along x. */
  readonly value: string
  readonly slope: string
  /** Operations for each element. */
  readonly flops: number
}

const none = {}

// biome-ignore format: a table
const ELEMENT_LOSSES = {
  mse: { op: 'mse', wires: [33, 34], value: '(x−t)²', slope: '2(x−t)', flops: 3, symmetric: true, options: none,
    about: "Mean squared error to a target of the output's shape." },
  l1: { op: 'l1', wires: [54, 55], value: '|x−t|', slope: 'sign(x−t), 0 where they are equal', flops: 2, symmetric: true, options: none,
    about: "Mean absolute error to a target of the output's shape." },
  'bce-with-logits': { op: 'bce_with_logits', wires: [56, 57], value: 'max(x,0) − x·t + log(1+exp(−|x|))', slope: 'σ(x)−t', flops: 12, logits: true, options: none,
    about: "Binary cross-entropy of the output's sigmoid to a target between 0 and 1, for each pixel and channel." },
  huber: { op: 'huber', wires: [122, 123], value: '|x−t| ≤ delta ? (x−t)²/2 : delta·(|x−t| − delta/2)', slope: 'x−t, kept to ±delta', flops: 5, symmetric: true,
    options: { delta: { above: 0, default: 1 } },
    about: 'Huber loss: half the squared error up to delta, straight beyond it. @example huber({ delta: 0.5 })' },
  focal: { op: 'focal', wires: [140, 141], value: 'a·mᵞ·bce(x,t), bce that of bce_with_logits, m = σ(x) + t − 2·σ(x)·t, a = balance·t + (1−balance)·(1−t)',
    slope: 'a·(mᵞ·(σ(x)−t) + bce(x,t)·gamma·mᵞ⁻¹·σ(x)·(1−σ(x))·(1−2t))', flops: 40,
    options: { balance: { least: 0, most: 1, default: 0.25 }, gamma: { least: 0, default: 2 } }, logits: true,
    about: "Focal loss (Lin et al., 2017): binary cross-entropy of the output's sigmoid, of which elements that are right already count little. @example focal({ balance: 0.5, gamma: 1 })" },
} as const satisfies Readonly<Record<string, ElementLoss>>

export const LOSSES = {
  ...ELEMENT_LOSSES,
  'cross-entropy': {
    op: 'softmax_xent',
    counted: 'softmax_xent_counted',
    labels: true,
    options: { ignoreIndex: { ...ignoreIndex, default: 'none' } },
    about: 'Softmax cross-entropy to class labels, for each image or, where the output has pixels, for each pixel.',
  },
} as const satisfies Readonly<Record<string, LossEntry>>

export type LossName = keyof typeof LOSSES
export const lossNames = Object.keys(LOSSES) as readonly LossName[]

/** A name alone is the loss with its defaults. */
export type LossOf<K extends LossName> = { readonly kind: K } & Chosen<(typeof LOSSES)[K]['options']>
/** What an output is compared with: a name, or an object with options. */
export type Loss = LossName | { readonly [K in LossName]: LossOf<K> }[LossName]

export const lossName = (l: Loss): LossName => (typeof l === 'string' ? l : l.kind)
export const lossWith = <L extends Loss>(kind: LossName, given: object): L => {
  const options = withDefaults(LOSSES[kind].options, given)
  return (Object.keys(options).length === 0 ? kind : { kind, ...options }) as unknown as L
}

/** The loss of an op. */
export const lossBy = (op: string, attrs: AnyAttrs): Loss | undefined => {
  const kind = lossNames.find((name) => [LOSSES[name].op, (LOSSES[name] as LossEntry).counted].includes(op))
  return kind && lossWith(kind, chosenBy(LOSSES[kind].options, attrs))
}

/** What is known of a loss that may come from outside. */
export const lossEntry = (l: Loss): Either<GraphError, LossEntry> => {
  const of = lossName(l)
  if (!Object.hasOwn(LOSSES, of)) return left({ tag: 'UnknownLoss', got: of, legal: lossNames })
  const entry: LossEntry = LOSSES[of]
  return typeof l === 'string'
    ? right(entry)
    : map(() => entry)(knownIn({ of, keys: ['kind', ...Object.keys(entry.options)] })(l))
}

export const targetOf = (e: LossEntry, output: Sizes): Sizes => (e.labels ? labelsOf(output) : output)

/** An operator's call: its kind and attributes. */
export interface LossCall {
  readonly op: string
  readonly attrs: AnyAttrs
  /** What is called before it on the target, and gives its last input. */
  readonly counting?: { readonly op: string; readonly attrs: AnyAttrs }
}

/** A loss that is a mean over the output, times a weight. */
export const lossCall = (l: Loss, e: LossEntry, output: Sizes, weight = 1, constant = 0): LossCall => {
  const own = attrsOf(e.options, typeof l === 'string' ? {} : l)
  if (e.counted !== undefined && own.ignoreIndex !== undefined)
    return { op: e.counted, attrs: { ...own, weight }, counting: { op: countLabels.kind, attrs: own } }
  const count = elements(targetOf(e, output))
  return { op: e.op, attrs: { count, weight, ...(e.labels ? {} : { constant }), ...own } }
}

// ---------------------------------------------------------------- losses per element, as operators

const elementIns: readonly OperandDef[] = [data('x'), { ...data('target'), optional: true, float: true }]

const elementOps = (e: ElementLoss): readonly OpDef[] => {
  const backwardKind = `${e.op}_bwd`
  const common = {
    bf16: 'may',
    fields: { count: 'int', weight: 'float', constant: 'float', ...fieldsOf(e.options) },
    limits: limitsOf(e.options),
    anchor: 0,
    ins: elementIns,
    flops: perElement(e.flops, firstIn),
  } as const
  const compared = (count: number, x: Sizes, target: Sizes | undefined, out: Sizes): Shapes =>
    checked(
      [expectRank('the input', x, 4), () => target && expectShape('the target', target, x)(), counted(count, elements(x))],
      () => legal(out),
    )
  return [
    defineOp({
      ...common,
      kind: e.op,
      wire: e.wires[0],
      outs: [loss],
      what: `weight/count·Σ f, f = ${e.value}, t the target or, without one, the constant${e.symmetric ? '' : '; the target has no gradient'}; sum`,
      shape: (a, [x, target]) => compared(a.count!, x!, target, [1]),
      /** The target may be computed, too: what is trained may stand on either side. */
      backward: (g) => {
        gradientOf(backwardKind)(g)
        const [x, target] = g.ins
        if (target !== undefined && e.symmetric && g.wants(1))
          g.give(1, g.emit(backwardKind, g.attrs, [target, x!], [g.shape(target)])[0]!)
      },
      samples: (image) =>
        trials(e.options).flatMap((options) => [
          { attrs: { count: elements(image), weight: 2.5, constant: 0, ...options }, ins: [image, image] },
          { attrs: { count: elements(image), weight: 1, constant: 0.25, ...options }, ins: [image] },
        ]),
      workspace: partialSums(1),
    }),
    defineOp({
      ...common,
      kind: backwardKind,
      wire: e.wires[1],
      outs: [data('dx')],
      what: `weight/count·f′, f′ = ${e.slope}`,
      shape: (a, [x, target]) => compared(a.count!, x!, target, x!),
    }),
  ]
}

export const elementLossOps: readonly OpDef[] = Object.values<ElementLoss>(ELEMENT_LOSSES).flatMap(elementOps)
