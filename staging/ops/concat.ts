// Concatenation along C, and the slice of channels that is its backward.
import { defineOp, pixels } from './op'
import { agreeBut, checked, expectRange, expectRank, firstOut, legal, perElement } from './rules'

const fields = { from: 'int' } as const

export const concat = defineOp({
  kind: 'concat',
  wire: 25,
  bf16: 'may',
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
      if (g.wants(i)) g.give(i, g.emit('slice_channels', { from }, [g.dOut(0)], [g.shape(x)])[0]!)
      from += g.shape(x)[1]!
    }
  },
  flops: () => 0,
})

export const sliceChannels = defineOp({
  kind: 'slice_channels',
  wire: 26,
  bf16: 'may',
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
