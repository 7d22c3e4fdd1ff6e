// The gradient of a parameter that a network uses several times: the sum of those of its uses, each complete. Unlike
// `grad_sum` it adds what no tile slices: parameters of any rank.
import { defineOp, type OperandDef } from './op'
import { elements, legal } from './rules'

const whole = (name: string): OperandDef => ({ name, role: 'whole', dims: 'as input 0' })

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
  shape: (_, [first]) => legal(first!),
  flops: (_, s) => (s.ins.length - 1) * elements(s.outs[0]),
})
