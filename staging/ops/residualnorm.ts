// The end of a residual block in one pass: batch norm, the sum with the shortcut and the rectifier. The backward needs one bit of the sum for each
// element, 32 channels to a word, so the normalised value and the sum are not stored: the pass reads and writes nine values of activation size,
// the three separate ops thirteen.
import { countFits, rectifiedFields, rectifiedLimits, stats } from './batchnorm'
import { data, defineOp, type OperandDef, perChannel, perChannelSum, wholeChannels, type Sizes } from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const CHANNELS_PER_WORD = 32

/** Returns the shape of the sign bits of a value. */
export const signsShape = ([b, c, h, w]: Sizes): Sizes => [b!, Math.ceil(c! / CHANNELS_PER_WORD), h!, w!]

const signs: OperandDef = { name: 'signs', role: 'data', dtype: 'i32', access: () => wholeChannels }

export const bnAddReluApply = defineOp({
  kind: 'bn_add_relu_apply',
  wire: 96,
  half: 'may',
  fields: rectifiedFields,
  limits: rectifiedLimits,
  anchor: 'out',
  inPlace: [1],
  what: 'z = shortcut + y of bn_apply; y = z > 0 ? z : slope·z; bit k of word i of signs: z > 0 (or NaN) in channel 32i + k; y in place of shortcut',
  ins: [data('x'), data('shortcut'), stats, perChannel('gamma'), perChannel('beta')],
  outs: [data('y'), signs],
  shape: (a, [x, shortcut]) =>
    checked([expectRank('the input', x!, 4), countFits(a.count, x!), expectShape('the shortcut', shortcut!, x!)], () =>
      legal(x!, signsShape(x!)),
    ),
  backward: (g) => {
    const [x, , statistics, gamma, beta] = g.ins
    const dy = g.outputGradient(0)
    const [dgamma, dbeta] = g.emit(
      'bn_add_relu_bwd_reduce',
      g.attrs,
      [x!, dy, g.outs[1]!, statistics!],
      [g.shape(gamma!), g.shape(beta!)],
    )
    g.addGradient(3, dgamma!)
    g.addGradient(4, dbeta!)
    if (!g.needsGradient(0) && !g.needsGradient(1)) return
    const [dshortcut, dx] = g.emit(
      'bn_add_relu_bwd_data',
      g.attrs,
      [x!, dy, g.outs[1]!, statistics!, gamma!, dgamma!, dbeta!],
      [g.shape(x!), g.shape(x!)],
    )
    if (g.needsGradient(0)) g.addGradient(0, dx!)
    if (g.needsGradient(1)) g.addGradient(1, dshortcut!)
  },
  flops: perElement(6, firstOut),
})

export const bnAddReluBwdReduce = defineOp({
  kind: 'bn_add_relu_bwd_reduce',
  wire: 97,
  half: 'may',
  fields: rectifiedFields,
  limits: rectifiedLimits,
  anchor: 1,
  what: "bn_bwd_reduce of dz = the sign's bit ? dy : slope·dy",
  ins: [data('x'), data('dy'), signs, stats],
  outs: [perChannelSum('dgamma'), perChannelSum('dbeta')],
  shape: (a, [x, dy, found]) =>
    checked(
      [expectShape('the incoming gradient', dy!, x!), countFits(a.count, x!), expectShape('signs', found!, signsShape(x!))],
      () => legal([x![1]!], [x![1]!]),
    ),
  flops: perElement(6, firstIn),
  workspace: partialSums(2),
})

export const bnAddReluBwdData = defineOp({
  kind: 'bn_add_relu_bwd_data',
  wire: 98,
  half: 'may',
  fields: rectifiedFields,
  limits: rectifiedLimits,
  anchor: 1,
  inPlace: [1],
  what: "dshortcut = dz = the sign's bit ? dy : slope·dy, in place of dy; dx = bn_bwd_data of dz",
  ins: [data('x'), data('dy'), signs, stats, perChannel('gamma'), perChannel('dgamma'), perChannel('dbeta')],
  outs: [data('dshortcut'), data('dx')],
  shape: (a, [x, dy, found]) =>
    checked(
      [expectShape('the incoming gradient', dy!, x!), countFits(a.count, x!), expectShape('signs', found!, signsShape(x!))],
      () => legal(x!, x!),
    ),
  flops: perElement(8, firstIn),
})
