// The gradient of a parameter that a network uses several times: the sum of the complete gradients of its uses. Unlike `grad_sum`, it adds
// whole values: parameters of any rank.
import { asInput0, defineOp } from './op'
import { elements, legal } from './rules'

export const paramGradSum = defineOp({
  kind: 'param_grad_sum',
  wire: 58,
  fields: {},
  anchor: 0,
  variadic: true,
  inPlace: [0],
  what: 'the gradient of a parameter with several uses; in place of d0',
  ins: [asInput0('d0'), asInput0('d1')],
  outs: [asInput0('d')],
  shape: (_, [first]) => legal(first!),
  flops: (_, s) => (s.ins.length - 1) * elements(s.outs[0]),
})
