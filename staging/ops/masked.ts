// Batch norm over the pixels of a mask (dsl/masks.ts). `bn_stats` counts all pixels of x, which is 0 outside of the mask. `masked_stats` derives
// the statistics of the pixels inside from them, `masked_sums` does the same for the totals of the backward; all other parts are those of batch
// norm. Worked example, x = [0, 0, 1, 3], the mask holds the last two: mean 1 and M2 6 of four pixels become mean 2 and M2 2 of two. They are
// stored as M2 4 of four pixels, which is the same variance.
import { asInput0, data, defineOp, type OperandDef, perChannel } from './op'
import { countFits, stats } from './batchnorm'
import { checked, expectRank, firstIn, firstOut, legal, perElement } from './rules'

/** The operand with `bn_stats` of the mask. Its mean is the share of pixels inside. */
const mask: OperandDef = { name: 'mask', role: 'whole', dims: [4, 1] }
const counted = { count: 'int' } as const
const atLeastOne = { count: { least: 1 } } as const

export const maskedStats = defineOp({
  kind: 'masked_stats',
  wire: 273,
  fields: counted,
  limits: atLeastOne,
  anchor: 0,
  what: 'n = count·mean(mask), rounded, pixels lie inside; mean and M2 of these from those of all count pixels, which are 0 outside. M2 is given for count pixels of the same variance, and, second, for running averages: M2·(count−1)/(n−1)',
  ins: [stats, mask],
  outs: [
    { ...stats, name: 'masked' },
    { ...stats, name: 'running' },
  ],
  shape: (_, [all]) => checked([expectRank('stats', all!, 2)], () => legal(all!, all!)),
  update: (u) => {
    const mean = u.state('running_mean')
    const variance = u.state('running_var')
    if (mean === undefined || variance === undefined) return
    u.emit('bn_running', { momentum: u.normMomentum, count: u.attrs['count']! }, [u.outs[1]!, mean, variance])
  },
  flops: perElement(4, firstIn),
})

export const maskedSums = defineOp({
  kind: 'masked_sums',
  wire: 274,
  fields: counted,
  limits: atLeastOne,
  anchor: 0,
  what: 'dgamma·count/n and dbeta·count/n, n as in masked_stats: bn_bwd_data divides them by count',
  ins: [asInput0('dgamma'), asInput0('dbeta'), mask],
  outs: [asInput0('gamma_total'), asInput0('beta_total')],
  shape: (_, [dgamma]) => checked([expectRank('dgamma', dgamma!, 1)], () => legal(dgamma!, dgamma!)),
  flops: perElement(2, firstIn),
})

const fields = { eps: 'float', count: 'int' } as const

export const bnMaskedApply = defineOp({
  kind: 'bn_masked_apply',
  wire: 275,
  half: 'may',
  fields,
  limits: { eps: { least: 0 } },
  anchor: 'out',
  what: 'bn_apply with statistics of masked_stats; its backward takes means over the pixels inside',
  ins: [data('x'), stats, perChannel('gamma'), perChannel('beta'), mask],
  outs: [data('y')],
  shape: (a, [x]) => checked([expectRank('the input', x!, 4), countFits(a.count, x!)], () => legal(x!)),
  backward: (g) => {
    const [x, statistics, gamma, beta, inside] = g.ins
    const dy = g.outputGradient(0)
    const sums = g.emit('bn_bwd_reduce', g.attrs, [x!, dy, statistics!], [g.shape(gamma!), g.shape(beta!)])
    g.addGradient(2, sums[0]!)
    g.addGradient(3, sums[1]!)
    if (!g.needsGradient(0)) return
    const totals = g.emit('masked_sums', { count: g.attrs.count }, [...sums, inside!], [g.shape(gamma!), g.shape(beta!)])
    g.addGradient(0, g.emit('bn_bwd_data', g.attrs, [x!, dy, statistics!, gamma!, ...totals], [g.shape(x!)])[0]!)
  },
  flops: perElement(4, firstOut),
})
