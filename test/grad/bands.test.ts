// A graph whose images ranks share by bands of rows: the rows of each, refusals of parts read as wholes, plans of every kind.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  asStep,
  batchNorm,
  conv2d,
  crossEntropy,
  elaborate,
  flatten,
  globalAvgPool,
  linear,
  maxPool,
  model,
  relu,
  seq,
  sgd,
} from '../../dsl'
import { compileTogether, trainingGraph } from '../../staging/compile'
import { renderError } from '../../staging/core/errors'
import { devices } from '../../staging/devices'
import { checkedGraph } from '../../staging/graph/codec'
import type { Graph } from '../../staging/graph/graph'
import { asOne, ranksFault } from '../../staging/graph/ranks'
import { hasIn, isPartition, wantsIn } from '../../staging/ops/bands'
import { soundGraph } from '../../staging/verify/soundgraph'
import { errorText } from '../../src/errors/errors'
import { machineNamed } from '../../src/machine/machine'
import { prepare } from '../../src/stage/prepare'
import { zooEntry } from '../../src/zoo'

const net = seq(
  conv2d('c', 4, 3, { pad: 1, stride: 2 }),
  batchNorm('n'),
  relu(),
  maxPool('p', 2),
  conv2d('d', 4, 3, { pad: 2, dilation: 2 }),
  globalAvgPool('pool'),
  linear('head', 3),
)
const elaborated = (model: Parameters<typeof asStep>[0]) => {
  const step = asStep(model, crossEntropy, sgd({ lr: 0.1 }))
  assert.ok(E.isRight(step))
  const own = elaborate(step.right, 'net')
  assert.ok(E.isRight(own))
  return own.right
}
const graphOf = (of: number, at: number, height = 21, shares = 1): E.Either<string, Graph> =>
  E.mapLeft(renderError)(
    trainingGraph(elaborated(model([shares, 3, height, 13] as never, net) as never), {
      device: devices.ref,
      precision: 'fp32',
      ...(of > 1 ? { ranks: of * shares, bands: { at, of } } : {}),
    }),
  )
const made = (of: number, at: number, shares = 1): Graph => {
  const g = graphOf(of, at, 21, shares)
  assert.ok(E.isRight(g), E.isLeft(g) ? g.left : '')
  return g.right
}

test('each rank has its rows of high values, the ops of the others, and the graph of one process', () => {
  const all = [0, 1].map((at) => made(2, at))
  for (const g of all) {
    assert.ok(E.isRight(checkedGraph(g)))
    assert.is(soundGraph(g), undefined)
    assert.equal(asOne(g), made(1, 0))
    assert.equal(
      g.ops.map((op) => [op.kind, op.ins, op.outs]),
      all[0]!.ops.map((op) => [op.kind, op.ins, op.outs]),
    )
  }
  const shape = (g: Graph, name: string) => g.values.find((v) => v.name === name)!
  assert.equal(
    all.map((g) => [shape(g, 'c').rows, shape(g, 'c').shape]),
    [
      [{ from: 0, of: 11 }, [1, 4, 5, 7]],
      [{ from: 5, of: 11 }, [1, 4, 6, 7]],
    ],
  )
  assert.equal([shape(all[1]!, 'pool').rows, shape(all[1]!, 'head').rows], [undefined, undefined])
  const counts = all[1]!.ops.find((op) => op.kind === 'all_moments')!.attrs
  assert.equal([counts['of0'], counts['of1']], [35, 42])
})

test('a grid: rows are those of a share, sums those of all ranks, or where each band has all of it those of the shares', () => {
  const g = made(2, 1, 3)
  const one = graphOf(1, 0, 21, 3)
  assert.ok(E.isRight(one) && E.isRight(checkedGraph(g)))
  assert.is(soundGraph(g), undefined)
  assert.equal(asOne(g), one.right)
  const of = (layer: string, kind: string): readonly number[] =>
    g.ops.filter((op) => op.layer === layer && op.kind === kind).map((op) => op.attrs['ranks'] ?? op.attrs['bands']!)
  assert.equal([of('c', 'all_sums'), of('head', 'all_sums'), of('d', 'take_rows')], [[6], [3], [2, 2]])
  const moments = g.ops.find((op) => op.kind === 'all_moments')!.attrs
  assert.equal(
    [0, 1, 2, 3, 4, 5].map((r) => moments[`of${r}`]),
    [35, 42, 35, 42, 35, 42],
  )
  const head = g.ops.find((op) => op.layer === 'head' && op.kind === 'all_sums')!
  const odd: Graph = { ...g, ops: g.ops.map((op) => (op === head ? { ...op, attrs: { ...op.attrs, ranks: 6 } } : op)) }
  assert.match(ranksFault(odd)!, /all_sums of 'head' is for 6 ranks; allowed: 3/)
  assert.match(ranksFault({ ...g, bands: { at: 0, of: 4 } })!, /band 0 of 4 in a graph of 6 ranks/)
})

test('rows are taken of a partition, and windows that overlap are added up', () => {
  const g = made(3, 1)
  for (const op of g.ops) {
    if (op.kind === 'take_rows') assert.ok(isPartition(hasIn(op.attrs)))
    if (op.kind === 'sum_rows') assert.ok(isPartition(wantsIn(op.attrs)) || wantsIn(op.attrs).every((r) => r[0] === 0))
  }
})

test('a part that is read as if it were whole, rows that are not there, other counts: refused', () => {
  const g = made(2, 0)
  const changed = (kind: string, change: (op: Graph['ops'][number]) => Partial<Graph['ops'][number]>): Graph => {
    const target = g.ops.find((op) => op.kind === kind)!
    return { ...g, ops: g.ops.map((op) => (op === target ? { ...op, ...change(op) } : op)) }
  }
  const sum = g.ops.find((op) => op.kind === 'sum_rows' && op.layer === 'd')!
  const reading: Graph = {
    ...g,
    ops: g.ops.map((op) => (op === sum ? op : { ...op, ins: op.ins.map((v) => (v === sum.outs[0] ? sum.ins[0]! : v)) })),
  }
  const rows = g.ops.find((op) => op.kind === 'take_rows' && op.layer === 'd')!
  const lacking: Graph = {
    ...g,
    ops: g.ops.map((op) => (op === rows ? op : { ...op, ins: op.ins.map((v) => (v === rows.outs[0] ? rows.ins[0]! : v)) })),
  }
  for (const [odd, words] of [
    [reading, /reads the part 'p.grad.part' as the whole value/],
    [lacking, /conv2d of 'd' needs rows \[0,4\) of 'p', but has \[0,2\)/],
    [changed('all_moments', (op) => ({ attrs: { ...op.attrs, of0: 36 } })), /merges moments of 36, 42 elements; allowed: 35, 42/],
    [changed('all_sums', () => ({ attrs: { ranks: 3, beside: 1 } })), /is for 3 ranks; allowed: 2/],
    [changed('take_rows', (op) => ({ attrs: { ...op.attrs, band: 1 } })), /belongs to band 1 of 2; allowed: 0 of 2/],
  ] as const) {
    assert.match(ranksFault(odd)!, words)
    assert.ok(soundGraph(odd))
  }
})

test('images with too few rows are refused; ops that cannot be divided run whole at every rank', () => {
  assert.equal(graphOf(8, 0, 6), E.left("'input': its 6 rows cannot be split into 8 bands; allowed: at most 6 bands"))
  const flat = model([1, 3, 12, 8], seq(conv2d('c', 4, 3, { pad: 1 }), flatten(), linear('head', 3)))
  const g = trainingGraph(elaborated(flat as never), {
    device: devices.ref,
    precision: 'fp32',
    ranks: 2,
    bands: { at: 1, of: 2 },
  })
  assert.ok(E.isRight(g))
  assert.is(soundGraph(g.right), undefined)
  const flattened = g.right.ops.find((op) => op.kind === 'flatten')!
  assert.is(g.right.values[flattened.ins[0]!]!.rows, undefined)
})

const familyOf = (name: string, side: number, bands: number) => {
  const machine = machineNamed('v100-pcie-16g', bands > 1 ? { ranks: bands, bands, network: 'nvlink-v100' } : {})
  assert.ok(E.isRight(machine))
  const entry = zooEntry(name)!
  const net = entry.build([1, 3, side, side] as never, 'train', {})
  assert.ok(E.isRight(net))
  const p = prepare(net.right, machine.right, { loss: entry.loss } as never)
  assert.ok(E.isRight(p), E.isLeft(p) ? errorText(p.left) : '')
  return { machine: machine.right, graphs: p.right.family ?? [p.right.graph] }
}
const peaksOf = (name: string, side: number, bands: number, strategy = 'in-core', budgetBytes = 2 ** 45): readonly number[] => {
  const { machine, graphs } = familyOf(name, side, bands)
  const plans = compileTogether(graphs, { strategy, budgetBytes, machine, algorithms: 'fixed' })
  assert.ok(E.isRight(plans), E.isLeft(plans) ? `${name} ${strategy}: ${renderError(plans.left as never)}` : '')
  return plans.right.map((p) => p.peakPages)
}

test('two bands hold at most 0.55 of the memory of one process at 2048²', () => {
  for (const name of ['vgg16-features', 'unet']) {
    const [whole] = peaksOf(name, 2048, 1)
    for (const peak of peaksOf(name, 2048, 2)) assert.ok(peak <= 0.55 * whole!, `${name}: ${peak} of ${whole}`)
  }
})

for (const strategy of ['checkpoint:sqrt', 'swap:greedy', 'tiled', 'auto'])
  test(`bands of unequal heights have plans in less memory: ${strategy}`, () => {
    const [inCore] = peaksOf('vgg16-features', 803, 3)
    const budget = Math.floor(0.9 * inCore!) * 2 ** 21
    for (const peak of peaksOf('vgg16-features', 803, 3, strategy, budget)) assert.ok(peak * 2 ** 21 <= budget)
  })

test.run()
