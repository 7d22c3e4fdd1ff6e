// Channels and pixels exchanged: [B,C,H,W] to [B,H·W,1,C]. Twice, it gives all pixels in one row: [B,C,1,H·W]. A convolution along W after it is one
// along the channels before it (ECA). It tiles along B only.
import { all, type AccessMap, defineOp, same, type Sizes } from './op'
import { checked, expectRank, firstOut, gradientBy, invertsForward, legal, perElement } from './rules'

const perImage = (): AccessMap => ({ B: same, C: all, H: all, W: all })
const turned = (x: Sizes) => checked([expectRank('the input', x, 4)], () => legal([x[0]!, x[2]! * x[3]!, 1, x[1]!]))

export const turnPixels = defineOp({
  kind: 'turn_pixels',
  wire: 227,
  half: 'may',
  fields: {},
  anchor: 'out',
  dense: true,
  what: '`[B,C,H,W]` → `[B,H·W,1,C]`: y[b, h·W + w, 0, c] = x[b, c, h, w]',
  ins: [{ name: 'x', role: 'data', access: perImage }],
  outs: [{ name: 'y', role: 'data', access: perImage }],
  shape: (_, [x]) => turned(x!),
  backward: gradientBy('turn_pixels_bwd'),
  flops: perElement(0, firstOut),
})

export const turnPixelsBwd = defineOp({
  kind: 'turn_pixels_bwd',
  wire: 228,
  half: 'may',
  fields: {},
  anchor: 0,
  dense: true,
  what: 'dx[b, c, h, w] = dy[b, h·W + w, 0, c]',
  ins: [{ name: 'dy', role: 'data', access: perImage }],
  outs: [{ name: 'dx', role: 'data', access: perImage }],
  outputsGiven: true,
  shape: (_, [dy], given) => invertsForward(() => turned(given[0]!), dy!, given),
  flops: perElement(0, firstOut),
})
