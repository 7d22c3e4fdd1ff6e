// Local response normalisation across channels, PyTorch's: y = x / (k + alpha/size * Σ x² over `size` channels)^beta, where
// channel c sums the channels of [c - size/2, c - size/2 + size) that exist. Needs all channels of a pixel.
import { type AttrsOf, defineOp, pixels } from './op'
import { checked, elements, expectRank, expectShape, legal, gradientBy } from './rules'

const fields = { size: 'int', alpha: 'float', beta: 'float', k: 'float' } as const
type Attrs = AttrsOf<typeof fields>

const limits = { size: { least: 1, most: 2 ** 30 }, alpha: { least: 0 }, beta: { least: 0 } } as const
/** The divisor must not be zero. */
const sound = (a: Attrs) => (): string | undefined => (a.k > 0 ? undefined : `k is ${a.k}; allowed: more than 0`)

export const lrn = defineOp({
  kind: 'lrn',
  wire: 90,
  fields,
  limits,
  anchor: 'out',
  what: 'y = x / d^beta, d = k + alpha/size·Σ x² over channels [c − ⌊size/2⌋, c − ⌊size/2⌋ + size)',
  ins: [pixels('x')],
  outs: [pixels('y')],
  shape: (a, [x]) => checked([expectRank('the input', x!, 4), sound(a)], () => legal(x!)),
  backward: gradientBy('lrn_bwd', 'x'),
  flops: (a, s) => (2 * a.size + 20) * elements(s.outs[0]),
})

export const lrnBwd = defineOp({
  kind: 'lrn_bwd',
  wire: 91,
  fields,
  limits,
  anchor: 1,
  what: 'dx = dy/d^beta − 2·alpha·beta/size·x·Σ dy·x/d^(beta+1) over the channels whose d contains x',
  ins: [pixels('x'), pixels('dy')],
  outs: [pixels('dx')],
  shape: (a, [x, dy]) =>
    checked([expectRank('x', x!, 4), expectShape('the incoming gradient', dy!, x!), sound(a)], () => legal(x!)),
  flops: (a, s) => (4 * a.size + 40) * elements(s.ins[1]),
  // For each of up to 64 threads: the divisors of a pixel, and its terms of the gradient.
  workspace: (_, s) => 64 * 2 * 8 * (s.ins[0]?.[1] ?? 1),
})
