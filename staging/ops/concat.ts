// Concatenation along C, slices of channels, and shuffled channels. `slice_channels` is the backward of `concat`, and consumes a gradient;
// `take_channels` computes the channels that its readers need. Worked example: [a b c d e f] shuffled in 2 groups is [a d b e c f].
import { defineOp, pixels, type Shapes, type Sizes } from './op'
import { agreeBut, checked, expectRange, expectRank, firstIn, firstOut, gradientBy, legal, perElement } from './rules'

const fields = { from: 'int' } as const

export const concat = defineOp({
  kind: 'concat',
  wire: 25,
  half: 'may',
  fields: {},
  anchor: 'out',
  variadic: true,
  what: 'along C',
  ins: [pixels('a'), pixels('b')],
  outs: [pixels('y')],
  shape: (_, ins) =>
    checked([...ins.map((s, i) => expectRank(`input ${i}`, s, 4)), agreeBut(1, ins)], () =>
      legal([ins[0]![0]!, ins.reduce((n, s) => n + s[1]!, 0), ins[0]![2]!, ins[0]![3]!]),
    ),
  backward: (g) => {
    let from = 0
    for (const [i, x] of g.ins.entries()) {
      if (g.needsGradient(i)) g.addGradient(i, g.emit('slice_channels', { from }, [g.outputGradient(0)], [g.shape(x)])[0]!)
      from += g.shape(x)[1]!
    }
  },
  flops: () => 0,
})

export const sliceChannels = defineOp({
  kind: 'slice_channels',
  wire: 26,
  half: 'may',
  fields,
  anchor: 0,
  what: 'channels [from, from + C of dx): the backward of concat',
  ins: [pixels('dy')],
  outs: [pixels('dx')],
  outputsGiven: true,
  shape: (a, [dy], given) =>
    checked(
      [
        expectRank('the incoming gradient', dy!, 4),
        expectRank('dx', given[0]!, 4),
        agreeBut(1, [dy!, given[0]!]),
        expectRange('from', a.from, 0, dy![1]! - 1),
        expectRange('the number of channels', given[0]![1]!, 1, dy![1]! - a.from),
      ],
      () => legal(given[0]!),
    ),
  flops: perElement(0, firstOut),
})

const first = { least: 0 } as const
const number = { least: 1 } as const

export const takeChannels = defineOp({
  kind: 'take_channels',
  wire: 195,
  half: 'may',
  fields: { from: 'int', count: 'int' },
  limits: { from: first, count: number },
  anchor: 'out',
  what: 'channels [from, from + count) of x',
  ins: [pixels('x')],
  outs: [pixels('y')],
  shape: ({ from, count }, [x]) =>
    checked([expectRank('the input', x!, 4), expectRange('from + count', from + count, 1, x![1]!)], () =>
      legal([x![0]!, count, x![2]!, x![3]!]),
    ),
  backward: (g) => {
    if (!g.needsGradient(0)) return
    const channels = g.shape(g.ins[0]!)[1]!
    g.addGradient(0, g.emit('put_channels', { from: g.attrs.from, channels }, [g.outputGradient(0)], [])[0]!)
  },
  samples: (image) => [{ attrs: { from: 0, count: 1 }, ins: [image] }],
  flops: () => 0,
})

export const putChannels = defineOp({
  kind: 'put_channels',
  wire: 196,
  half: 'may',
  fields: { from: 'int', channels: 'int' },
  limits: { from: first, channels: number },
  anchor: 0,
  what: 'dy as channels [from, from + C of dy) of dx, all others 0',
  ins: [pixels('dy')],
  outs: [pixels('dx')],
  shape: ({ from, channels }, [dy]) =>
    checked([expectRank('the incoming gradient', dy!, 4), expectRange('from + C of dy', from + dy![1]!, 1, channels)], () =>
      legal([dy![0]!, channels, dy![2]!, dy![3]!]),
    ),
  flops: perElement(0, firstOut),
})

const inGroups = (name: string, x: Sizes, groups: number): Shapes =>
  checked(
    [expectRank(name, x, 4), () => (x[1]! % groups === 0 ? undefined : `${x[1]} channels do not divide into ${groups} groups`)],
    () => legal(x),
  )

export const shuffleChannels = defineOp({
  kind: 'shuffle_channels',
  wire: 197,
  half: 'may',
  fields: { groups: 'int' },
  limits: { groups: number },
  anchor: 'out',
  what: 'y[c·groups + g] = x[g·(C / groups) + c], PyTorch’s ChannelShuffle',
  ins: [pixels('x')],
  outs: [pixels('y')],
  shape: ({ groups }, [x]) => inGroups('the input', x!, groups),
  backward: gradientBy('shuffle_channels_bwd'),
  samples: (image) => [{ attrs: { groups: image[1] }, ins: [image] }],
  flops: perElement(0, firstOut),
})

export const shuffleChannelsBwd = defineOp({
  kind: 'shuffle_channels_bwd',
  wire: 198,
  half: 'may',
  fields: { groups: 'int' },
  limits: { groups: number },
  anchor: 0,
  what: 'dx[g·(C / groups) + c] = dy[c·groups + g]',
  ins: [pixels('dy')],
  outs: [pixels('dx')],
  shape: ({ groups }, [dy]) => inGroups('the incoming gradient', dy!, groups),
  flops: perElement(0, firstIn),
})
