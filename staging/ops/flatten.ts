// [B,C,H,W] to [B,C*H*W,1,1] in PyTorch's order (C, then H, then W), for any storage: a copy, since activations
// are stored channels-last. It tiles along B only.
import { all, type AccessMap, defineOp, same, type Sizes } from './op'
import { checked, expectRank, firstOut, invertsForward, legal, perElement, gradientBy } from './rules'

const perSample = (): AccessMap => ({ B: same, C: all, H: all, W: all })
const flat = (x: Sizes) => checked([expectRank('the input', x, 4)], () => legal([x[0]!, x[1]! * x[2]! * x[3]!, 1, 1]))

export const flatten = defineOp({
  kind: 'flatten',
  wire: 27,
  half: 'may',
  reclaimed: true,
  fields: {},
  anchor: 'out',
  dense: true,
  what: "`[B,C,H,W]` → `[B,C·H·W,1,1]` in PyTorch's order (C, then H, then W), for any storage",
  ins: [{ name: 'x', role: 'data', access: perSample }],
  outs: [{ name: 'y', role: 'data', access: perSample }],
  shape: (_, [x]) => flat(x!),
  backward: gradientBy('flatten_bwd'),
  flops: perElement(0, firstOut),
})

export const flattenBwd = defineOp({
  kind: 'flatten_bwd',
  wire: 28,
  half: 'may',
  fields: {},
  anchor: 0,
  dense: true,
  what: 'dx in the order of x',
  ins: [{ name: 'dy', role: 'data', access: perSample }],
  outs: [{ name: 'dx', role: 'data', access: perSample }],
  outputsGiven: true,
  shape: (_, [dy], given) => invertsForward(() => flat(given[0]!), dy!, given),
  flops: perElement(0, firstOut),
})
