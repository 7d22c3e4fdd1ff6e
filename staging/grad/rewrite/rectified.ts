// A rectifier joins the op before it, so that its input is neither written nor read again: the two halves of batch norm see
// from x on which side of zero the output was, a sum or a convolution is rectified where it is made.
import { type PairRule, rewritePairs } from './rewrite'

/** `second` is a rectifier that becomes part of `first` under another name. */
const joined = (from: string, to: string): PairRule => (first, second) =>
  first.kind === from && second.kind === 'relu'
    ? { ops: [{ ...first, kind: to, attrs: { ...first.attrs, ...second.attrs }, outs: second.outs }] }
    : undefined

export const normThenRelu = rewritePairs('norm-relu', joined('bn_apply', 'bn_relu_apply'))
export const convThenRelu = rewritePairs('conv-relu', joined('conv2d', 'conv2d_relu'))
export const addThenRelu = rewritePairs('add-relu', joined('add', 'add_relu'))
