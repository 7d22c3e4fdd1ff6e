// `lay_out` stores a convolution's weight as kernels read it: channels innermost, as in activations, and in the 16-bit type of activations if they
// have one. Without it, each call, tile and recomputation lays the weight out again; with it, they read one value that is computed once a step.
// It is not a layer of a network: the planner inserts it if memory allows (planner/laying.ts).
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
