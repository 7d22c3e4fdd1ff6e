// Optimizers, an entry each: the users' options, the state of each parameter, the operator that updates it. In: nothing. Out: these operators, the
// types of optimizers, and the states of one. The DSL's constructors (dsl/training.ts), the command line's flags, the bytes in types, kernels' checks
// and the cases of tests follow from an entry; its arithmetic is in native/ops/optimizer.hpp, once for all devices. Updates are ops, so that their
// memory is in the plan; operands are whole, or rows of them.
import { chosenBy, type Choices, type Chosen, fieldsOf, limitsOf, trials, withDefaults } from './choices'
import { type AnyAttrs, asInput0, defineOp, inputsWith, type OpDef, type OperandDef } from './op'
import { firstIn, legal, perElement } from './rules'
import { updatesOperand } from './scaling'

export interface OptimizerEntry {
  /** The operator, which several may share, and its number on the wire. */
  readonly update: string
  readonly wire: number
  /** The operator that updates in every n-th step, or with an average of the weights. */
  readonly steeredWire: number
  /** The operator under a loss scale. It also updates in every n-th step, or with an average. */
  readonly scaledWire: number
  readonly what: string
  /** The description for users. */
  readonly about: string
  readonly options: Choices
  /** Attributes of the operator that are not options. */
  readonly fixed?: Readonly<Record<string, 0 | 1>>
  /** Its states for each parameter, named as in PyTorch; `when`: only if that option is not 0. */
  readonly states: readonly (Pick<OperandDef, 'drawn' | 'when'> & { readonly name: string })[]
  readonly flops: number
}

const rate = { least: 0, about: 'learning rate' } as const
const decay = { least: 0, default: 0, about: 'weight decay' } as const
const epsilon = { least: 0, default: 1e-8, about: 'number added to the denominator' } as const
const momentum = { least: 0, default: 0, about: 'momentum factor' } as const
const below1 = (value: number, about: string) => ({ least: 0, below: 1, default: value, about }) as const

const adam = {
  update: 'adam',
  wire: 36,
  steeredWire: 133,
  scaledWire: 288,
  what: 'Adam, or AdamW when decoupled = 1; bias correction from the step counter (1 at the first step)',
  about: 'Creates the Adam optimizer (Kingma and Ba, 2015), with weight decay added to the gradient. @example adam({ lr: 1e-3 })',
  options: {
    lr: rate,
    beta1: below1(0.9, 'decay of the gradient average'),
    beta2: below1(0.999, 'decay of the squared gradient average, or for lion of the gradient average'),
    eps: epsilon,
    weightDecay: decay,
  },
  fixed: { decoupled: 0 },
  states: [{ name: 'exp_avg' }, { name: 'exp_avg_sq', drawn: 'positive' }],
  flops: 14,
} as const

export const OPTIMIZERS = {
  sgd: {
    update: 'sgd',
    wire: 35,
    steeredWire: 132,
    scaledWire: 287,
    what: "PyTorch's rule, dampening 0",
    about: 'Creates stochastic gradient descent, with momentum if given. @example sgd({ lr: 1e-3, momentum: 0.9 })',
    options: {
      lr: rate,
      momentum,
      weightDecay: decay,
      nesterov: { default: false, needs: 'momentum', about: 'use Nesterov momentum' },
    },
    states: [{ name: 'momentum', when: 'momentum' }],
    flops: 6,
  },
  adam,
  adamw: {
    ...adam,
    about: 'Creates Adam with decoupled weight decay (Loshchilov and Hutter, 2019). @example adamw({ lr: 1e-3 })',
    options: { ...adam.options, weightDecay: { ...decay, default: 0.01 } },
    fixed: { decoupled: 1 },
  },
  rmsprop: {
    update: 'rmsprop',
    wire: 124,
    steeredWire: 134,
    scaledWire: 289,
    what: "PyTorch's rule: the step is g / (√(square_avg − grad_avg²) + eps), grad_avg 0 unless centered",
    about: 'Creates the RMSprop optimizer. @example rmsprop({ lr: 1e-2, momentum: 0.9, centered: true })',
    options: {
      lr: rate,
      alpha: below1(0.99, 'decay of the squared gradient average'),
      eps: epsilon,
      weightDecay: decay,
      momentum,
      centered: { default: false, about: 'normalize by the variance of the gradient' },
    },
    states: [
      { name: 'square_avg', drawn: 'positive' },
      { name: 'momentum_buffer', when: 'momentum' },
      { name: 'grad_avg', when: 'centered', drawn: 'small' },
    ],
    flops: 14,
  },
  nadam: {
    update: 'nadam',
    wire: 231,
    steeredWire: 232,
    scaledWire: 290,
    what: "PyTorch's rule: Adam with Nesterov momentum, whose factor rises to beta1 with the step counter; decoupled as in AdamW",
    about:
      'Creates the NAdam optimizer (Dozat, 2016): Adam with Nesterov momentum. @example nadam({ lr: 2e-3, momentumDecay: 4e-3 })',
    options: {
      lr: rate,
      beta1: below1(0.9, 'decay of the gradient average'),
      beta2: below1(0.999, 'decay of the squared gradient average'),
      eps: epsilon,
      weightDecay: decay,
      momentumDecay: { least: 0, default: 4e-3, about: 'speed at which the momentum rises to beta1' },
      decoupled: { default: false, about: 'decay the weights themselves, as AdamW does' },
    },
    states: [{ name: 'exp_avg' }, { name: 'exp_avg_sq', drawn: 'positive' }],
    flops: 18,
  },
  lion: {
    update: 'lion',
    wire: 233,
    steeredWire: 234,
    scaledWire: 291,
    what: 'w ← (1 − lr·weightDecay)·w − lr·sign(beta1·m + (1 − beta1)·g), then m ← beta2·m + (1 − beta2)·g',
    about:
      'Creates the Lion optimizer (Chen et al., 2023), with decoupled weight decay. It needs a third to a tenth of the learning rate of AdamW. @example lion({ lr: 1e-4, weightDecay: 0.1 })',
    options: {
      lr: rate,
      beta1: below1(0.9, 'share of the gradient average in an update'),
      beta2: below1(0.99, 'decay of the gradient average'),
      weightDecay: decay,
    },
    states: [{ name: 'exp_avg' }],
    flops: 9,
  },
} as const satisfies Readonly<Record<string, OptimizerEntry>>

// ---------------------------------------------------------------- optimizers with options

export type OptimizerName = keyof typeof OPTIMIZERS
export const optimizerNames = Object.keys(OPTIMIZERS) as readonly OptimizerName[]

export type OptimizerOf<K extends OptimizerName> = { readonly kind: K } & Chosen<(typeof OPTIMIZERS)[K]['options']>
/**
 * An optimizer with its options. Plain data.
 *
 * @example const optimizer: Optimizer = adamw({ lr: 1e-3 })
 */
export type Optimizer = { readonly [K in OptimizerName]: OptimizerOf<K> }[OptimizerName]

export const optimizerWith = <O extends Optimizer>(kind: O['kind'], given: object): O =>
  ({ kind, ...withDefaults(OPTIMIZERS[kind].options, given) }) as unknown as O

export const optimizerEntry = (kind: string): OptimizerEntry | undefined =>
  Object.hasOwn(OPTIMIZERS, kind) ? OPTIMIZERS[kind as OptimizerName] : undefined

/** Returns the names of an optimizer's states for each parameter. */
export const statesKept = (o: Optimizer): readonly string[] =>
  (OPTIMIZERS[o.kind] as OptimizerEntry).states
    .filter(({ when }) => when === undefined || Number(o[when as keyof Optimizer]) !== 0)
    .map((s) => s.name)

/** Returns the optimizer of an update op, or undefined for other ops. */
export const optimizerBy = (update: string, attrs: AnyAttrs): Optimizer | undefined => {
  const kind = optimizerNames.find((name) => {
    const e: OptimizerEntry = OPTIMIZERS[name]
    return e.update === update && Object.entries(e.fixed ?? {}).every(([f, v]) => attrs[f] === v)
  })
  return kind && optimizerWith(kind, chosenBy(OPTIMIZERS[kind].options, attrs))
}

// ---------------------------------------------------------------- operators

/** Options of all updates: change the weights in every n-th step only, and keep an average of the weights. */
const STEERED = {
  fields: { every: 'int', average: 'float' },
  limits: { every: { least: 1, most: 2 ** 30 }, average: { least: 0, below: 1 } },
  states: [{ name: 'average', when: 'average' }],
  tried: [
    { every: 1, average: 0.75 },
    { every: 3, average: 0 },
    { every: 2, average: 0.5 },
  ],
  beside: [],
} as const
const PLAIN = { fields: {}, limits: {}, states: [], tried: [{}], beside: [] } as const
/** Options under a loss scale. `updates` is the number of the update. */
const SCALED = { ...STEERED, beside: [updatesOperand] } as const

export const steeredKind = (update: string): string => `${update}_steered`
export const scaledKind = (update: string): string => `${update}_scaled`
/** The name of the state with the average of the weights. */
export const AVERAGE = STEERED.states[0].name

const updateOp = (
  e: OptimizerEntry,
  own: Pick<OpDef, 'kind' | 'wire' | 'what'>,
  more: typeof PLAIN | typeof STEERED | typeof SCALED,
): OpDef => {
  const choices: Choices = { ...e.options, ...Object.fromEntries(Object.keys(e.fixed ?? {}).map((f) => [f, { default: false }])) }
  const states: OptimizerEntry['states'] = [...e.states, ...more.states]
  const attrs = trials(choices)
  const def: OpDef = defineOp({
    ...own,
    fields: { ...fieldsOf(choices), ...more.fields },
    limits: { ...limitsOf(choices), ...more.limits },
    anchor: 0,
    mutates: [0, ...states.map((_, i) => 2 + more.beside.length + i)],
    byRows: true,
    ins: [
      asInput0('w'),
      asInput0('g'),
      ...more.beside,
      ...states.map((s) => ({ ...asInput0(s.name), ...s, optional: s.when !== undefined })),
    ],
    outs: [],
    shape: () => legal(),
    samples: (image) =>
      attrs
        .map((a, i) => ({ ...a, ...more.tried[i % more.tried.length] }))
        .concat(more.tried.map((t) => ({ ...attrs[attrs.length - 1]!, ...t })))
        .map((a) => ({ attrs: a, ins: inputsWith(def, a).map((o) => (o.dims === 'as input 0' ? image : [1])) })),
    flops: perElement(e.flops + more.states.length * 3, firstIn),
  })
  return def
}

const updates = Object.values<OptimizerEntry>(OPTIMIZERS).filter(
  (e, i, all) => all.findIndex((other) => other.update === e.update) === i,
)
export const updateOps: readonly OpDef[] = updates.map((e) => updateOp(e, { kind: e.update, wire: e.wire, what: e.what }, PLAIN))
export const steeredOps: readonly OpDef[] = updates.map((e) =>
  updateOp(
    e,
    {
      kind: steeredKind(e.update),
      wire: e.steeredWire,
      what: `${e.update} at every \`every\`-th step, counted as one step; average += (1 − a)·(w − average), initially w`,
    },
    STEERED,
  ),
)

export const scaledOps: readonly OpDef[] = updates.map((e) =>
  updateOp(
    e,
    {
      kind: scaledKind(e.update),
      wire: e.scaledWire,
      what: `${steeredKind(e.update)} with the number of the update from \`updates\`; nothing if that is 0`,
    },
    SCALED,
  ),
)
/** The kinds of all updates. */
export const updateKinds: readonly string[] = [...updateOps, ...steeredOps, ...scaledOps].map((d) => d.kind)

/** Returns the operands of an update that are optimizer states. */
export const statesOf = ({ kind, ins }: { readonly kind: string; readonly ins: readonly number[] }): readonly number[] =>
  ins.slice(scaledOps.some((d) => d.kind === kind) ? 3 : 2)

/** The operator that accumulates a gradient, and returns its mean over n steps in every n-th step. */
export const meanOverSteps: OpDef = defineOp({
  kind: 'mean_over_steps',
  wire: 135,
  what: 'sum ← sum + g; at every `every`-th step y = sum / every and sum ← 0, else y = g; in place of g',
  fields: { every: 'int' },
  limits: { every: STEERED.limits.every },
  anchor: 0,
  mutates: [0],
  inPlace: [1],
  ins: [asInput0('sum'), asInput0('g')],
  outs: [asInput0('y')],
  samples: (image) => [1, 3].map((every) => ({ attrs: { every }, ins: [image, image] })),
  shape: (_, [sum]) => legal(sum!),
  flops: perElement(2, firstIn),
})
