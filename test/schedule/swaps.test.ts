// The swapping planners on steps small enough to follow by hand: which activations leave, and when they come back.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Ref } from '../../staging/ops/op'
import type { Candidate, Planner } from '../../staging/schedule/candidate'
import { depthFirst, dymem } from '../../staging/literature/dymem'
import { fractional } from '../../staging/literature/fractional'
import { swapGreedy } from '../../staging/literature/greedy'
import { inCoreLayout, inCoreRows } from '../../staging/schedule/incore'
import { layerRuns } from '../../staging/literature/layers'
import type { Layout } from '../../staging/schedule/layout'
import { activationsOf, eachUseLayout, turningPoint } from '../../staging/schedule/activations'
import { prefetched } from '../../staging/literature/prefetch'
import { superneurons } from '../../staging/literature/superneurons'
import { callLevels, levels, Tflms } from '../../staging/literature/tflms'
import { leastPages, type PlannedStays } from '../../staging/schedule/stays'
import { vdnnAll, vdnnConv, vdnnPlus } from '../../staging/literature/vdnn'
import { windowSwaps } from '../../staging/literature/window'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { compile } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import { recomputableOf, recomputing } from '../../staging/literature/recomputed'
import { trainingGraph } from '../golden/golden'
import { forwardOps } from '../../staging/tile/segments'
import { samePad, Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'
import { callsOf, plannedStays } from './steps'

const named = machines['v100-pcie-16g']!
/** Parts of one page: no latency to hide. */
const machine: Machine = { ...named, link: { ...named.link, latencySeconds: 0 } }

const CHANNELS = 8192
/** Values of two pages each. */
const conv = (s: Sketch, x: Ref, layer: string): Ref => s.conv(x, layer, CHANNELS, 3, { ...samePad(3), groups: CHANNELS }, false)
const chain = (n: number): Graph => {
  const s = new Sketch([2, CHANNELS, 8, 8])
  return trained(
    s,
    Array.from({ length: n }, (_, i) => `c${i + 1}`).reduce<Ref>((x, layer) => conv(s, x, layer), s.image),
  )
}
const five = chain(5)

const candidates = (planner: Planner, graph = five): readonly Candidate[] => {
  const listed = planner(graph, machine)
  if (isLeft(listed)) throw new Error('nothing is listed')
  const out: Candidate[] = []
  for (let c = listed.right.next(false); !c.done; c = listed.right.next(false)) out.push(c.value)
  return out
}
const labelOf = (l: Layout, t: PlannedStays): string => l.storages[t.storage]!.label
/** The swapped values, with their pages, in order of production. */
const gone = (l: Layout, planned: readonly PlannedStays[]): readonly (readonly [string, number])[] => {
  const pages = new Map<string, number>()
  for (const t of [...planned].sort((a, b) => a.stays[0]!.first - b.stays[0]!.first))
    if (t.swapped.includes(true)) pages.set(labelOf(l, t), (pages.get(labelOf(l, t)) ?? 0) + t.to - t.from)
  return [...pages]
}
const pagesIn = (l: Layout): number => leastPages(l.planned, l.calls.length)
const inCorePages = pagesIn(inCoreLayout(five, machine))
const inRowsPages = pagesIn(inCoreRows(five, machine))
/** The call of an op, by layer and kind. */
const callAt = (l: Layout, layer: string, kind: string): number =>
  l.calls.findIndex((c) => c.kind === kind && l.graph.ops[c.op]!.layer === layer)
const timingOf = (l: Layout, planned: readonly PlannedStays[], label: string) => {
  const t = planned.find((x) => labelOf(l, x) === label)!
  return t.timing?.find((x) => x !== undefined)
}

test('activations are computed by the forward pass and read by the backward pass, in order of production', () => {
  const l = inCoreLayout(five, machine)
  const all = activationsOf(l)
  assert.equal(
    all.map((a) => labelOf(l, l.planned[a.index]!)),
    ['image', 'c1', 'c2', 'c3', 'c4', 'target', 'c5'],
  )
  for (const a of all) assert.ok(a.made <= a.read && a.read <= turningPoint(l) && turningPoint(l) <= a.needed)
})

test('one page too many: greedy moves the first activation whole, page-wise greedy moves one page of it', () => {
  const [greedy] = candidates(swapGreedy())
  const [pagewise] = candidates(fractional())
  assert.equal(gone(greedy!.layout, greedy!.fit(inCorePages - 1)), [['image', 2]])
  assert.equal(gone(pagewise!.layout, pagewise!.fit(inRowsPages - 1)), [['image', 1]])
  assert.equal(gone(pagewise!.layout, pagewise!.fit(inRowsPages - 3)), [
    ['image', 2],
    ['c1', 1],
  ])
  assert.equal(gone(pagewise!.layout, pagewise!.fit(inRowsPages)), [])
  const [whole] = candidates(fractional({ parts: false, belady: false }))
  assert.equal(gone(whole!.layout, whole!.fit(inRowsPages - 1)), [['image', 2]])
})

// ---------------------------------------------------------------- paper 1

const byHand = (planned: readonly PlannedStays[], calls: number): Layout =>
  ({ planned, calls: callsOf(new Array<number>(calls).fill(1)) }) as unknown as Layout
const abcba = byHand(
  [
    plannedStays(0, 2, [
      [0, 0],
      [4, 4],
    ]),
    plannedStays(1, 2, [
      [1, 1],
      [3, 3],
    ]),
    plannedStays(2, 2, [[2, 2]]),
  ],
  5,
)

test('window, the worked example: uses a b c b a, window of two variables', () => {
  const [a, b] = windowSwaps(abcba, 4, 6)
  assert.equal([b!.swapped, a!.swapped, a!.timing?.[0]?.swapInAt], [[false], [true], 3])
})

test('window: values are prefetched as early as memory allows; a wider window keeps more', () => {
  assert.equal(
    windowSwaps(abcba, 100, 100).map((t) => t.swapped),
    [[false], [false], []],
  )
  // Four pages: c and b fill call 2, so a comes beside b at call 3.
  assert.is(windowSwaps(abcba, 100, 4)[0]!.timing?.[0]?.swapInAt, 3)
  // No window: everything swapped, and comes with its use.
  assert.equal(
    windowSwaps(abcba, 0, 100).map((t) => [t.swapped, t.timing?.[0]?.swapInAt]),
    [
      [[true], 4],
      [[true], 3],
      [[], undefined],
    ],
  )
})

test('a value is prefetched only into pages that no call before its use needs', () => {
  const tight = byHand(
    [
      plannedStays(0, 2, [
        [0, 0],
        [6, 6],
      ]),
      plannedStays(1, 3, [[3, 4]]),
    ],
    7,
  )
  const wish = [{ index: 0, gap: 0, earliest: 2 }]
  assert.is(prefetched(tight, wish, 4)[0]!.timing?.[0]?.swapInAt, 5)
  assert.is(prefetched(tight, wish, 5)[0]!.timing?.[0]?.swapInAt, 2)
})

// ---------------------------------------------------------------- paper 2

test('tflms: levels are longest paths; the worked example', () => {
  const level = new Map(five.ops.map((o, i) => [`${o.layer} ${o.kind}`, levels(five)[i]!]))
  assert.equal(
    ['c1 conv2d', 'c5 conv2d', 'c5 conv2d_bwd_weights', 'c3 conv2d_bwd_weights'].map((k) => level.get(k)),
    [1, 5, 7, 9],
  )
  const l = eachUseLayout(five, machine)
  const at = (threshold: number, ahead: number, groupby = 0) => new Tflms(l).candidate({ threshold, ahead, groupby })
  const swapped = (threshold: number): readonly string[] =>
    gone(l, at(threshold, 0).fit(0))
      .map(([label]) => label)
      .filter((x) => x.startsWith('c'))
  assert.equal([swapped(6), swapped(8), swapped(9)], [['c1', 'c2'], ['c1'], []])
  // c1 is needed by c2's weight gradient, at level 10: two levels ahead of it, the level of c4's is over.
  const come = (ahead: number): number => timingOf(l, at(8, ahead).fit(0), 'c1')!.swapInAt!
  const needed = callAt(l, 'c2', 'conv2d_bwd_weights')
  assert.is(come(0), needed)
  assert.ok(come(2) < come(1) && come(1) < needed)
  assert.ok(levels(five)[l.calls[come(2) - 1]!.op]! <= 8)
})

test('tflms: looking further ahead and a higher threshold never need less', () => {
  const t = new Tflms(eachUseLayout(five, machine))
  const least = (threshold: number, ahead: number): number => t.candidate({ threshold, ahead, groupby: 0 }).least
  for (let x = 0; x < 12; x++) assert.ok(least(x, 0) <= least(x + 1, 0) && least(2, x) <= least(2, x + 1))
})

// ---------------------------------------------------------------- paper 4

test('dymem: a branch ends before the next one begins', () => {
  const s = new Sketch([1, 4, 8, 8])
  const a = s.conv(s.image, 'fork', 4)
  const [b1, c1] = [s.conv(a, 'b1', 4), s.conv(a, 'c1', 4)]
  const [c2, b2] = [s.conv(c1, 'c2', 4), s.conv(b1, 'b2', 4)]
  const graph = trained(s, s.op('add', {}, [b2, c2], 'join'))
  const order = depthFirst(graph)
  assert.equal(order.map((id) => graph.ops[id]!.layer).slice(0, 6), ['fork', 'b1', 'b2', 'c1', 'c2', 'join'])
  assert.equal(
    [...order].sort((x, y) => x - y),
    forwardOps(graph).map((o) => o.id),
    'each forward op once',
  )
})

test('dymem: swaps out may last until the backward pass; no more than two convolutions are fetched for', () => {
  const [c] = candidates(dymem())
  const planned = c!.fit(1000)
  const start = (layer: string): number =>
    layerRuns(c!.layout)
      .runs.filter((r) => r.layer === layer)
      .at(-1)!.first
  // c3's backward reads c2: it comes when c4's begins, beside c4's own input, and not with c5's.
  assert.equal(timingOf(c!.layout, planned, 'c2'), { swappedOutBy: turningPoint(c!.layout), swapInAt: start('c4') })
  const [none] = candidates(dymem({ convolutions: 0 }))
  assert.is(timingOf(none!.layout, none!.fit(1000), 'c2')!.swapInAt, callAt(none!.layout, 'c3', 'conv2d_bwd_weights'))
  const [barriers] = candidates(dymem({ barriers: true }))
  assert.is(timingOf(barriers!.layout, barriers!.fit(1000), 'c2')!.swappedOutBy, callAt(barriers!.layout, 'c3', 'conv2d') + 1)
})

// ---------------------------------------------------------------- baselines

test('vdnn: while one layer runs backward, the next one that convolves gets its input; each layer waits for its copies', () => {
  for (const planner of [vdnnAll(), vdnnConv()]) {
    const [c] = candidates(planner)
    const { layout } = c!
    const run = layerRuns(layout)
      .runs.filter((r) => r.layer === 'c4')
      .at(-1)!
    assert.equal(timingOf(layout, c!.fit(1000), 'c2'), {
      swappedOutBy: callAt(layout, 'c3', 'conv2d') + 1,
      swapInAt: run.first,
      swappedInBy: run.end,
    })
  }
  const [free] = candidates(vdnnAll({ barriers: false, prefetch: false }))
  assert.equal(timingOf(free!.layout, free!.fit(1000), 'c2'), { swapInAt: callAt(free!.layout, 'c3', 'conv2d_bwd_weights') })
})

test('vdnn-conv swaps outputs that no convolution reads; vdnn++ tries thresholds and every other value', () => {
  const s = new Sketch([2, CHANNELS, 8, 8])
  const graph = trained(s, conv(s, s.maxPool(conv(s, s.image, 'a'), 'pool', 1), 'b'))
  const names = (planner: Planner) => candidates(planner, graph).map((c) => gone(c.layout, c.fit(1000)).map(([label]) => label))
  assert.equal([...names(vdnnAll())[0]!].sort(), ['a', 'b', 'image', 'pool', 'target'])
  assert.equal(names(vdnnConv())[0], ['image', 'pool'])
  const plus = candidates(vdnnPlus()).map((c) => gone(c.layout, c.fit(1000)).length)
  assert.equal([plus[0], plus[1]], [5, 3])
  assert.is(candidates(vdnnPlus({ thresholds: false, halves: false })).length, 1)
})

test('superneurons: the cache evicts the least recently used output of a convolution, and only if memory is short', () => {
  const [c] = candidates(superneurons())
  assert.equal(gone(c!.layout, c!.fit(inCorePages)), [])
  assert.equal(gone(c!.layout, c!.fit(inCorePages - 1)), [['c1', 2]])
  const [eager] = candidates(superneurons({ cache: false, prefetch: false }))
  assert.ok(gone(eager!.layout, eager!.fit(inCorePages)).length >= 4)
})

test('TFLMS levels of recomputed ops are those of their second run: their inputs may leave until then', () => {
  const graph = trainingGraph('resnet18', [4, 3, 128, 128])
  const { droppable } = recomputableOf(graph, machine)
  const l = recomputing(graph, machine, droppable).layout()
  const [at, own] = [callLevels(l), levels(graph)]
  let reached = 0
  let again = 0
  l.calls.forEach((c, p) => {
    const isAgain = p >= turningPoint(l) && graph.ops[c.op]!.phase === 'forward'
    assert.is(at[p], isAgain ? Math.max(own[c.op]!, reached) : own[c.op])
    if (isAgain && at[p]! > own[c.op]!) again++
    if (p >= turningPoint(l)) reached = Math.max(reached, at[p]!)
  })
  assert.ok(again > 10)
})

test('on a slow link, the hybrid of TFLMS is faster than TFLMS by its saved transfers', () => {
  const graph = trainingGraph('resnet20-cifar', [128, 3, 32, 32])
  const { outBytesPerSecond, inBytesPerSecond } = named.link
  const slow = {
    ...named,
    link: { ...named.link, outBytesPerSecond: outBytesPerSecond / 16, inBytesPerSecond: inBytesPerSecond / 16 },
  }
  const [swapped, hybrid] = ['swap:tflms', 'hybrid:tflms'].map((strategy) => {
    const plan = compile(graph, { strategy, machine: slow, budgetBytes: mib(100), algorithms: 'fixed' })
    if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
    return simulate(plan.right, slow.link).makespanSeconds
  })
  assert.ok(swapped! / hybrid! > 1.15, `${swapped! / hybrid!}`)
})

test.run()
