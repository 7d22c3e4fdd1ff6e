// The places of cells: packing by lifetime never overlaps live cells, and wastes little; the cells that share a storage.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ALIGN_BYTES, alignUp, bytesOf, mib, PAGE_BYTES } from '../../staging/core/bytes'
import { Gaps } from '../../staging/memory/gaps'
import { type Lifetime, packByLifetime, place, SMALL_BYTES } from '../../staging/memory/place'
import { expand } from '../../staging/plan/expand'
import type { Call, Cell, CellScope } from '../../staging/plan/plan'
import type { Box } from '../../staging/core/box'
import { Sketch } from '../graph/sketch'
import { forwardOps } from '../../staging/tile/segments'
import { grid, segmentsOf, trained } from '../tile/trained'

const alive = (a: Lifetime, b: Lifetime): boolean => a.first <= b.last && b.first <= a.last

test('the worked example: c takes the bytes of a', () => {
  const p = packByLifetime([
    { bytes: 128, first: 0, last: 3 },
    { bytes: 64, first: 2, last: 5 },
    { bytes: 128, first: 5, last: 8 },
  ])
  assert.equal(p, { offsets: [0, 128, 0], bytes: 192 })
})

test('a value that fills a gap is placed there', () => {
  const p = packByLifetime([
    { bytes: 320, first: 0, last: 1 },
    { bytes: 256, first: 2, last: 9 },
    { bytes: 192, first: 0, last: 9 },
    { bytes: 64, first: 2, last: 4 },
  ])
  // The 64 bytes fit between the end of item 1 (256) and the start of item 2 (320).
  assert.equal(p, { offsets: [0, 0, 320, 256], bytes: 512 })
})

test('lifetimes that only touch at one call are alive together there', () => {
  assert.equal(
    packByLifetime([
      { bytes: 64, first: 0, last: 3 },
      { bytes: 64, first: 3, last: 5 },
    ]),
    { offsets: [0, 64], bytes: 128 },
  )
})

const lifetime: fc.Arbitrary<Lifetime> = fc
  .record({ bytes: fc.integer({ min: 1, max: 5000 }), first: fc.nat({ max: 30 }), length: fc.nat({ max: 12 }) })
  .map(({ bytes, first, length }) => ({ bytes, first, last: first + length }))

test('packing never overlaps live items, is aligned, and stays near the bytes that are alive at once', () => {
  let worst = 0
  let [packed, bound] = [0, 0]
  fc.assert(
    fc.property(fc.array(lifetime, { minLength: 1, maxLength: 40 }), (items) => {
      const { offsets, bytes } = packByLifetime(items)
      const end = (i: number): number => offsets[i]! + alignUp(items[i]!.bytes, ALIGN_BYTES)
      for (let i = 0; i < items.length; i++) {
        assert.is(offsets[i]! % ALIGN_BYTES, 0)
        for (let j = 0; j < i; j++)
          if (alive(items[i]!, items[j]!))
            assert.ok(end(i) <= offsets[j]! || end(j) <= offsets[i]!, `items ${j} and ${i} overlap`)
      }
      assert.is(bytes, Math.max(...items.map((_, i) => end(i))))
      const live = Array.from({ length: 45 }, (_, p) =>
        items.filter((x) => x.first <= p && p <= x.last).reduce((n, x) => n + alignUp(x.bytes, ALIGN_BYTES), 0),
      )
      assert.ok(bytes >= Math.max(...live))
      worst = Math.max(worst, bytes / Math.max(...live))
      packed += bytes
      bound += Math.max(...live)
    }),
    { numRuns: 300, seed: 12 },
  )
  assert.ok(packed <= 1.01 * bound, `${(packed / bound).toFixed(3)} of the lower bound on average`)
  assert.ok(worst <= 1.2, `${worst.toFixed(3)} of the lower bound at worst`)
})

test('the lowest gap is the same however much is placed: as one look at everything after the other finds it', () => {
  const sizes = fc.oneof(fc.constant(1), fc.constant(8), fc.nat({ max: 40 }))
  const item = fc.tuple(sizes, fc.nat({ max: 300 }), fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 700 })))
  fc.assert(
    fc.property(fc.array(item, { minLength: 1, maxLength: 400, size: 'max' }), (items) => {
      const gaps = new Gaps(1001)
      const placed: { at: number; end: number; first: number; last: number }[] = []
      for (const [size, first, length] of items) {
        const last = first + length
        let lowest = 0
        for (const p of placed) {
          if (p.last < first || p.first > last) continue
          if (lowest + size <= p.at) break
          lowest = Math.max(lowest, p.end)
        }
        const at = gaps.lowestFree(size, first, last)
        assert.is(at, lowest)
        gaps.put(at, size, first, last)
        const behind = placed.findIndex((p) => p.at > at)
        placed.splice(behind < 0 ? placed.length : behind, 0, { at, end: at + size, first, last })
      }
    }),
    { numRuns: 60, seed: 5 },
  )
})

// ---------------------------------------------------------------- storages

const cellOf = (id: number, scope: CellScope, bytes: number, over: Partial<Cell> = {}): Cell => ({
  id,
  label: `cell${id}`,
  scope,
  values: [id],
  bytes,
  segment: -1,
  first: 0,
  last: 0,
  ...over,
})

test('dense: small values take the rest of the last page of the parameters; homes share pages in sectors', () => {
  const cells = [
    cellOf(0, 'persistent', 5000),
    cellOf(1, 'persistent', 9000),
    cellOf(2, 'persistent', PAGE_BYTES - 4096),
    cellOf(3, 'whole', 1000, { first: 0, last: 3 }),
    cellOf(4, 'whole', 4000, { first: 1, last: 2 }),
  ]
  const at = place(
    cells,
    [],
    'dense',
    new Map([
      [0, 0],
      [1, 0],
    ]),
  )
  assert.equal(
    at.storages.map((s) => [s.label, s.cells, s.bytes, s.home]),
    [
      ['parameters and state', [2, 4], PAGE_BYTES - 4096 + 4032, undefined],
      ['small values', [3], 1024, undefined],
      ['cell0 … cell1', [0, 1], 8192 + 9000, 0],
    ],
  )
  assert.equal(
    [0, 1].map((c) => at.places[c]!.offset),
    [0, 8192],
  )
})

test('persistents share one storage for ever; small values share one by lifetime; large ones have their own', () => {
  const cells = [
    cellOf(0, 'persistent', 100),
    cellOf(1, 'persistent', bytesOf(5)),
    cellOf(2, 'whole', SMALL_BYTES - 4, { first: 0, last: 1 }),
    cellOf(3, 'workspace', SMALL_BYTES - 4, { first: 2, last: 2 }),
    cellOf(4, 'whole', SMALL_BYTES, { first: 0, last: 2 }),
    cellOf(5, 'fed', 12),
    cellOf(6, 'workspace', mib(3), { first: 1, last: 1 }),
  ]
  const { storages, places } = place(cells, [])
  assert.equal(
    storages.map((s) => [s.label, s.cells, s.bytes]),
    [
      ['parameters and state', [0, 1], bytesOf(5) + 128],
      ['small values', [2, 3], alignUp(SMALL_BYTES - 4, ALIGN_BYTES)],
      ['cell4', [4], SMALL_BYTES],
      ['cell5', [5], 12],
      ['cell6', [6], mib(3)],
    ],
  )
  assert.equal(places[3], { storage: 1, offset: 0 }, 'the scratch takes the bytes of the value that is gone')
  assert.equal(
    storages.map((s) => s.id),
    [0, 1, 2, 3, 4],
  )
})

/** Within one tile: from the first to the last call of the tile that touches a cell; one entry for each tile. */
const livesByTile = (
  cells: readonly Cell[],
  calls: readonly Call[],
  segment: number,
): ReadonlyMap<number, readonly (readonly [number, number])[]> => {
  const lives = new Map<number, [number, number][]>()
  const tiles = [...new Set(calls.filter((c) => c.segment === segment).map((c) => c.tile))]
  for (const tile of tiles) {
    const mine = new Map<number, [number, number]>()
    calls.forEach((c, p) => {
      if (c.segment !== segment || c.tile !== tile) return
      const touched = [...c.ins, ...c.outs].map((v) => v.cell).concat(c.workspace ? [c.workspace.cell] : [])
      for (const t of touched) if (cells[t]!.segment === segment) mine.set(t, [mine.get(t)?.[0] ?? p, p])
    })
    for (const [c, l] of mine) lives.set(c, [...(lives.get(c) ?? []), l])
  }
  return lives
}

test('locals of a tiled segment share bytes only where no tile has both alive, at any tile of any shape', () => {
  const s = new Sketch([2, 3, 23, 19])
  const x = s.conv(s.image, 'c0', 8)
  const y = s.conv(s.relu(s.conv(x, 'c1', 8), 'r1'), 'c2', 8, 5)
  const g = trained(s, s.maxPool(s.op('add', {}, [y, x], 'sum'), 'mp', 3, { strideH: 2, strideW: 2, ceil: 1 }))
  let shared = 0
  for (const over of [grid(1, 5, 1), grid(2, 3, 4), grid(1, 1, 7)]) {
    const segments = segmentsOf(g, [{ ops: forwardOps(g).map((o) => o.id), grid: over }])
    const machine = { seconds: () => 1, workspace: (kind: string) => (kind === 'conv2d' ? 1000 : 0) }
    const { cells, calls } = expand(g, segments, machine)
    const { places } = place(cells, calls)
    const lives = livesByTile(cells, calls, 0)
    const locals = cells.filter((c) => c.segment === 0)
    assert.ok(locals.length > 8)
    for (const a of locals)
      for (const b of locals) {
        if (a.id >= b.id) continue
        const [oa, ob] = [places[a.id]!.offset, places[b.id]!.offset]
        const overlap = oa < ob + b.bytes && ob < oa + a.bytes
        if (!overlap) continue
        shared++
        for (const [af, al] of lives.get(a.id)!)
          for (const [bf, bl] of lives.get(b.id)!)
            assert.ok(
              al < bf || bl < af,
              `'${a.label}' and '${b.label}' share bytes and are both alive in a tile of ${JSON.stringify(over)}`,
            )
      }
  }
  assert.ok(shared > 0, 'some bytes are shared')
})

test('sums over tiles are adjacent, in the order of their nesting', () => {
  const s = new Sketch([4, 256, 8, 8])
  const x = s.relu(
    s.conv(s.conv(s.conv(s.image, 'a', 256, 3, undefined, false), 'b', 256, 3, undefined, false), 'c', 256, 3, undefined, false),
    'r',
  )
  const g = trained(s, x)
  const machine = { seconds: () => 1, workspace: () => 0 }
  const { cells, calls } = expand(g, segmentsOf(g, [{ ops: forwardOps(g).map((o) => o.id), grid: grid(4, 1, 1) }]), machine)
  const sums = cells.filter((c) => c.scope === 'whole' && c.bytes === 256 * 256 * 9 * 4)
  const rows = place(cells, calls, 'rows').storages.filter((r) => r.cells.some((c) => sums.some((sum) => sum.id === c)))
  assert.equal(
    rows.map((r) => r.cells.length),
    [3],
    'three gradients of 1.125 pages',
  )
  const lives = rows[0]!.cells.map((c) => cells[c]!)
  for (const [i, c] of lives.entries()) if (i > 0) assert.ok(lives[i - 1]!.first < c.first && c.last < lives[i - 1]!.last)
})

test('tiny locals leave their tile where it takes a page less without them', () => {
  const local = (id: number, bytes: number): Cell => cellOf(id, 'local', bytes, { segment: 0, first: 0, last: 1 })
  const box: Box = [
    [0, 1],
    [0, 1],
    [0, 1],
    [0, 1],
  ]
  const touching = (n: number): Call => ({
    kind: 'relu',
    op: 0,
    segment: 0,
    tile: 0,
    attrs: {},
    ins: [],
    outs: Array.from({ length: n }, (_, cell) => ({ cell, value: cell, held: box, box })),
    workspace: null,
    seconds: 1,
  })
  const storages = (...bytes: readonly number[]) =>
    place(
      bytes.map((b, id) => local(id, b)),
      [touching(bytes.length)],
    ).storages.map((r) => [r.label, r.bytes])
  assert.equal(storages(PAGE_BYTES, 64), [
    ['small values', 64],
    ['tiles of segment 0', PAGE_BYTES],
  ])
  assert.equal(storages(PAGE_BYTES, 8192), [['tiles of segment 0', PAGE_BYTES + 8192]], 'what is not tiny stays')
  assert.equal(storages(PAGE_BYTES - 64, 64), [['tiles of segment 0', PAGE_BYTES]], 'what fits stays')
  assert.equal(storages(64, 64), [['tiles of segment 0', 128]], 'a tile of tiny values only stays together')
})

test.run()
