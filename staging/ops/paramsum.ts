// The gradient of a parameter that a network uses several times: the sum of those of its uses, each complete. Unlike
// `grad_sum` it adds what no tile slices: parameters of any rank.
import { defineOp, type OperandDef } from './op'
import { checked, elements, expectShape, legal } from './rules'

const whole = (name: string): OperandDef => ({ name, role: 'whole' })

export const paramGradSum = defineOp({
  kind: 'param_grad_sum',
  wire: 58,
  fields: {},
  anchor: 0,
  variadic: true,
  inPlace: [0],
  what: 'the gradient of a parameter with several uses; in place of d0',
  ins: [whole('d0'), whole('d1')],
  outs: [whole('d')],
  shape: (_, ins) =>
    checked(
      ins.map((s, i) => expectShape(`input ${i}`, s, ins[0]!)),
      () => legal(ins[0]!),
    ),
  flops: (_, s) => (s.ins.length - 1) * elements(s.outs[0]),
})
