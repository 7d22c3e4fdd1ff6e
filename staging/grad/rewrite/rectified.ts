// Fuses a rectifier with the op before it, so that the rectifier's input is neither written nor read. Both halves of batch norm compute from x on
// which side of zero the output is; a sum or a convolution is rectified where it is computed. A norm that only such a sum reads is fused too, at the
// end of a residual block: bn_apply(x), add_relu(that, shortcut) becomes bn_add_relu_apply(x, shortcut), with a bit for each element for the sign of
// the sum.
import { signsShape } from '../../ops/residualnorm'
import { type PairRule, rewriteOps, rewritePairs } from './rewrite'

/** Fuses a rectifier `second` into `first`, which gets another kind. */
const joined =
  (from: string, to: string): PairRule =>
  (first, second) =>
    first.kind === from && second.kind === 'relu'
      ? { ops: [{ ...first, kind: to, attrs: { ...first.attrs, ...second.attrs }, outs: second.outs }] }
      : undefined

export const normThenRelu = rewritePairs('norm-relu', joined('bn_apply', 'bn_relu_apply'))
export const convThenRelu = rewritePairs('conv-relu', joined('conv2d', 'conv2d_relu'))
export const addThenRelu = rewritePairs('add-relu', joined('add', 'add_relu'))

export const normAddThenRelu = rewriteOps('norm-add-relu', () => (op, d) => {
  if (op.kind !== 'add_relu' || op.ins.length !== 2) return undefined
  const at = op.ins.findIndex((v, i) => d.maker(v)?.kind === 'bn_apply' && d.readers(v).length === 1 && op.ins[1 - i] !== v)
  if (at < 0) return undefined
  const norm = d.maker(op.ins[at]!)!
  const [x, ...perChannel] = norm.ins
  const y = d.values[op.outs[0]!]!
  const signs = d.make({ name: `${norm.layer}.signs`, role: 'activation', shape: signsShape(y.shape), dtype: 'i32' })
  return [
    {
      ...norm,
      kind: 'bn_add_relu_apply',
      attrs: { ...norm.attrs, ...op.attrs },
      ins: [x!, op.ins[1 - at]!, ...perChannel],
      outs: [y.id, signs],
    },
  ]
})
