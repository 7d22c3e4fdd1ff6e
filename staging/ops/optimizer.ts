// Optimizer updates as ops of the update phase, so that their memory is in the plan. They overwrite the weight and its
// moments; all operands are whole. PyTorch's rules.
import { defineOp, type OperandDef } from './op'
import { checked, expectRange, expectShape, firstIn, legal, perElement } from './rules'

type Shape = readonly number[]
const whole = (name: string): OperandDef => ({ name, role: 'whole' })
const below1 = (name: string, value: number) => (): string | undefined =>
  value >= 0 && value < 1 ? undefined : `${name} is ${value}; legal is 0 or more and below 1`
const likeWeight = (w: Shape, rest: readonly (Shape | undefined)[]) =>
  rest.map((s, i) => () => s && expectShape(`operand ${i + 1}`, s, w)())

export const sgd = defineOp({
  kind: 'sgd',
  wire: 35,
  fields: { lr: 'float', momentum: 'float', weightDecay: 'float', nesterov: 'int' },
  what: "PyTorch's rule, dampening 0; v absent when momentum is 0",
  anchor: 0,
  mutates: [0, 2],
  ins: [whole('w'), whole('g'), { ...whole('v'), optional: true }],
  outs: [],
  shape: (a, ins) =>
    checked(
      [
        expectRange('lr', a.lr, 0),
        expectRange('momentum', a.momentum, 0),
        expectRange('weightDecay', a.weightDecay, 0),
        expectRange('nesterov', a.nesterov, 0, 1),
        () =>
          (a.momentum !== 0) === (ins.length === 3)
            ? undefined
            : 'momentum and its buffer come together; legal is both or neither',
        ...likeWeight(ins[0]!, ins.slice(1)),
      ],
      () => legal(),
    ),
  flops: perElement(6, firstIn),
})

export const adam = defineOp({
  kind: 'adam',
  wire: 36,
  what: 'Adam, or AdamW when decoupled = 1; bias correction from the step counter (1 at the first step)',
  fields: { lr: 'float', beta1: 'float', beta2: 'float', eps: 'float', weightDecay: 'float', decoupled: 'int' },
  anchor: 0,
  mutates: [0, 2, 3],
  ins: [whole('w'), whole('g'), whole('m'), whole('v')],
  outs: [],
  shape: (a, ins) =>
    checked(
      [
        expectRange('lr', a.lr, 0),
        below1('beta1', a.beta1),
        below1('beta2', a.beta2),
        expectRange('eps', a.eps, 0),
        expectRange('weightDecay', a.weightDecay, 0),
        expectRange('decoupled', a.decoupled, 0, 1),
        ...likeWeight(ins[0]!, ins.slice(1)),
      ],
      () => legal(),
    ),
  flops: perElement(14, firstIn),
})
