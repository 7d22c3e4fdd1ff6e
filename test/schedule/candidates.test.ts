// The candidates of planners: every one works exactly from its own least on, lists do not depend on a budget; the layout's facts of planned stays and
// of held pages.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import type { Graph } from '../../staging/graph/graph'
import { tilesOf } from '../../staging/plan/plan'
import type { Candidate } from '../../staging/schedule/candidate'
import { inCoreSegments } from '../../staging/schedule/incore'
import { swapUntil } from '../../staging/schedule/belady'
import { jointFinest } from '../../staging/schedule/jointsearch'
import { cutInto, heldAt, heldAtSwappingAll, type Layout, layOut, packedAs } from '../../staging/schedule/layout'
import { scheduleSwaps } from '../../staging/schedule/swaptimes'
import { canSwap, leastPages, occupancy, heldSwappingAll, tightestCall, tightestSwappingAll } from '../../staging/schedule/stays'
import { planners } from '../../staging/planner/strategies'
import { machines } from '../../staging/sim/machines'
import { samePad, Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const machine = machines['v100-pcie-16g']!
const CHANNELS = 16384

/** Values of two pages each; few tiles to try. */
const network = (): Graph => {
  const s = new Sketch([2, CHANNELS / 2, 8, 8])
  const conv = (x: typeof s.image, layer: string) =>
    s.conv(x, layer, CHANNELS / 2, 3, { ...samePad(3), groups: CHANNELS / 2 }, false)
  const x = s.relu(conv(s.image, 'a'), 'ra')
  const y = s.relu(s.norm(conv(x, 'b'), 'n'), 'rb')
  return trained(s, s.op('add', {}, [conv(y, 'c'), x], 'sum'))
}
const graph = network()

const all = (strategy: string): readonly Candidate[] => {
  const listed = planners[strategy]!.planner(graph, machine)
  if (isLeft(listed)) throw new Error(`${strategy} lists nothing`)
  const out: Candidate[] = []
  for (let c = listed.right.next(false); !c.done; c = listed.right.next(false)) out.push(c.value)
  return out
}

test('every candidate of every planner has a schedule from its least on and none below', () => {
  for (const strategy of Object.keys(planners)) {
    const candidates = all(strategy)
    assert.ok(candidates.length > 0, strategy)
    for (const c of candidates) {
      const works = (pages: number): boolean => scheduleSwaps(c.fit(pages), c.layout.calls, pages, machine.link) !== null
      assert.not(works(c.least - 1), `${strategy} below ${c.least}`)
      for (const pages of [c.least, c.least + 1, c.least + 5])
        assert.ok(works(pages), `${strategy} at ${pages}, least ${c.least}`)
    }
  }
})

test('the lists: one in-core plan, one to swap, checkpoints by number of blocks, tiles by size and shape', () => {
  assert.is(all('in-core').length, 1)
  assert.is(all('swap:greedy').length, 1)
  const blocks = all('checkpoint:sqrt').map((c) => c.layout.segments.filter((s) => s.phase === 'forward').length)
  assert.is(blocks[0], 2)
  assert.equal(
    blocks,
    [...blocks].sort((a, b) => a - b),
  )
  assert.ok(new Set(blocks).size > 1)
  const grids = all('tiled').map((c) =>
    c.layout.segments.map((s) => `${s.grid.B}x${s.grid.H}x${s.grid.W}:${s.body.length}`).join(),
  )
  assert.is(new Set(grids).size, grids.length, 'no tiling twice')
  assert.ok(all('tiled').every((c) => c.layout.segments.some((s) => tilesOf(s.grid) > 1)))
})

// ---------------------------------------------------------------- layout

const layout = () => layOut(graph, inCoreSegments(graph), machine)

test('planned stays: parameters for ever, fed from their source, small values together, large values on their own; nothing leaves yet', () => {
  const l = layout()
  const kinds = new Map(l.planned.map((t) => [l.storages[t.storage]!.label, t.kind]))
  assert.equal(
    ['parameters and state', 'image', 'target', 'small values', 'a'].map((label) => kinds.get(label)),
    ['persistent', 'fed', 'fed', 'small', 'value'],
  )
  for (const t of l.planned) {
    assert.is(t.swapped.length, t.stays.length - 1)
    assert.not(t.swapped.includes(true))
    assert.is(t.kind === 'persistent', l.storages[t.storage]!.label === 'parameters and state')
  }
  // A value that is computed in place has the label of the cell's first.
  const cell = l.cells.find((c) => c.label === 'a')!
  assert.equal(cell.values.map((v) => graph.values[v]!.name).slice(0, 2), ['a', 'ra'])
})

test('values packed by lifetime have their own names, as far as they fill pages', () => {
  const l = packedAs(layout(), 'tight')
  const { call, pages } = tightestCall(l.planned, l.calls.length)
  const held = heldAt(l, l.planned, call)
  assert.is(
    held.reduce((n, h) => n + h.pages, 0),
    pages,
  )
  assert.is(l.storages.filter((s) => s.label === 'a').length, 0)
  const alive = l.cells.filter((c) => c.scope === 'whole' && c.first <= call && call <= c.last && c.bytes >= PAGE_BYTES)
  assert.ok(alive.length > 0)
  for (const c of alive)
    assert.ok(
      held.some((h) => h.label === c.label && h.pages >= pagesIn(c.bytes)),
      c.label,
    )
})

test('the values on the device at the worst call: all of them, largest first', () => {
  const l = layout()
  const { call, pages } = tightestCall(l.planned, l.calls.length)
  const held = heldAt(l, l.planned, call)
  assert.is(
    held.reduce((n, h) => n + h.pages, 0),
    pages,
  )
  assert.is(pages, leastPages(l.planned, l.calls.length))
  assert.equal(
    held.map((h) => h.pages),
    held.map((h) => h.pages).sort((a, b) => b - a),
  )
  // A swapped value is absent between its stays.
  const gone = l.planned.map((t) => (l.storages[t.storage]!.label === 'a' ? { ...t, swapped: t.swapped.map(() => true) } : t))
  const a = l.planned.find((t) => l.storages[t.storage]!.label === 'a')!
  const idle = a.stays[0]!.last + 1
  assert.ok(a.stays.length > 1 && idle < a.stays[1]!.first, 'a has a gap')
  assert.ok(heldAt(l, l.planned, idle).some((h) => h.label === 'a'))
  assert.not(heldAt(l, gone, idle).some((h) => h.label === 'a'))
})

test('alike parts have the pages and the least memory of each part, in tiles as in-core', () => {
  const s = new Sketch([1, 8, 1024, 512])
  const conv = (x: typeof s.image, layer: string) => s.conv(x, layer, 8, 3, samePad(3))
  const graph = trained(s, s.relu(conv(s.relu(conv(s.image, 'a'), 'ra'), 'b'), 'rb'))
  const tiled: Layout[] = []
  const finest = jointFinest(graph, machine, 1e5)
  for (let next = finest.next(false); !next.done; next = finest.next(false)) tiled.push(next.value.layout)
  assert.ok(tiled.some((l) => l.segments.some((s) => tilesOf(s.grid) > 1) && l.planned.length > l.alike.length))
  for (const l of [layout(), ...tiled]) {
    const count = l.calls.length
    assert.equal(
      heldSwappingAll(l.alike, count, () => false),
      occupancy(l.planned, count),
    )
    const leaving = swapUntil(l.planned, l.calls, 0)
    const tightest = tightestSwappingAll(l.alike, count)
    assert.equal(tightest, tightestCall(leaving, count))
    assert.equal(heldAtSwappingAll(l, tightest.call, canSwap), heldAt(l, leaving, tightest.call))
    const cut = cutInto(l, 1)
    assert.ok(cut.planned.every((t) => !canSwap(t) || t.to - t.from === 1))
    assert.equal(occupancy(cut.planned, count), occupancy(l.planned, count))
  }
})

test.run()
