// A convolution's weight as its kernels take it: channels innermost, as activations lie, and 16 bits where activations have them. A device whose
// kernels take weights so lays each out in every call, tile and recompute; laid out once a step, by `lay_out`, it is a value that they read.
// No network names it: it comes from the planner, where memory allows (planner/laying.ts).
// Worked example, w [64,32,3,3] in a bf16 step: laid is [64,32,3,3] of bf16, 32 channels side by side at each of 9 places.
import { asInput0, defineOp } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

export const layOut = defineOp({
  kind: 'lay_out',
  wire: 194,
  half: 'may',
  fields: {},
  anchor: 0,
  what: 'laid = w with channels innermost, stored in the type of activations; convolutions accept it in place of w',
  ins: [{ name: 'w', role: 'whole' }],
  outs: [{ ...asInput0('laid'), laid: 'is' }],
  shape: (_, [w]) => checked([expectRank('the weight', w!, 4)], () => legal(w!)),
  flops: perElement(1, firstOut),
})
