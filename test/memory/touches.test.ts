// Which pages of a storage each segment touches: bytes of views, parts of banded values, stays.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bytesOf } from '../../staging/core/bytes'
import { type Box, fullBox } from '../../staging/core/box'
import { place } from '../../staging/memory/place'
import { bytesTouched, eachPart, type Parts, type PageStays, touches } from '../../staging/memory/touches'
import { expand } from '../../staging/plan/expand'
import type { Graph } from '../../staging/graph/graph'
import { type Segment, UNTILED, type Unrolled } from '../../staging/plan/plan'
import { forwardOps } from '../../staging/tile/segments'
import { Sketch } from '../graph/sketch'
import { grid, segmentsOf, trained, valueNamed } from '../tile/trained'

const full: Box = [
  [0, 2],
  [0, 3],
  [0, 10],
  [0, 7],
]
const view = (box: Box, held = full) => ({ cell: 0, value: 0, held, box })

test('bytes from the first to the last element of a box, channels innermost', () => {
  assert.equal(bytesTouched(view(full), [2, 3, 10, 7], 'f32'), [0, 2 * 3 * 10 * 7 * 4])
  // Rows 2 and 3 of sample 1: 10 + 2 rows of 7 * 3 elements lie before.
  assert.equal(
    bytesTouched(
      view([
        [1, 2],
        [0, 3],
        [2, 4],
        [0, 7],
      ]),
      [2, 3, 10, 7],
      'f32',
    ),
    [12 * 21 * 4, 14 * 21 * 4],
  )
  // Columns 2 to 4 of row 5 of sample 0.
  assert.equal(
    bytesTouched(
      view([
        [0, 1],
        [0, 3],
        [5, 6],
        [2, 5],
      ]),
      [2, 3, 10, 7],
      'f32',
    ),
    [(5 * 21 + 6) * 4, (5 * 21 + 15) * 4],
  )
  assert.equal(
    bytesTouched(
      view([
        [0, 1],
        [0, 3],
        [5, 6],
        [2, 5],
      ]),
      [2, 3, 10, 7],
      'f64',
    ),
    [(5 * 21 + 6) * 8, (5 * 21 + 15) * 8],
  )
  // Inside a tile that holds rows 4 to 7, columns 1 to 6.
  assert.equal(
    bytesTouched(
      view(
        [
          [0, 1],
          [0, 3],
          [5, 7],
          [2, 4],
        ],
        [
          [0, 1],
          [0, 3],
          [4, 8],
          [1, 7],
        ],
      ),
      [2, 3, 10, 7],
      'f32',
    ),
    [(18 + 3) * 4, (2 * 18 + 3 + 6) * 4],
  )
})

test('values that are no images are touched whole, or by rows', () => {
  const held = fullBox([2, 64, 1, 1])
  assert.equal(bytesTouched(view(held, held), [2, 64], 'f64'), [0, 1024])
  assert.equal(bytesTouched(view([[1, 2], ...held.slice(1)] as unknown as Box, held), [2, 64], 'f64'), [512, 1024])
  const one = fullBox([1, 1, 1, 1])
  assert.equal(bytesTouched(view(one, one), [], 'f32'), [0, 4])
})

const laidOut = (g: Graph, segments: readonly Segment[], cut: Parts = 'usual') => {
  const x: Unrolled = expand(g, segments, { seconds: () => 1, workspace: () => 0 })
  const placement = place(x.cells, x.calls)
  const parts: PageStays[] = []
  for (const p of touches(g, segments, x.calls, placement, 'segment', cut))
    eachPart(p, (from, to) => parts.push({ storage: p.storage, from, to, stays: p.stays }))
  const of = (name: string): readonly PageStays[] => {
    const cell = x.cells.find((c) => c.scope !== 'local' && c.values.includes(valueNamed(g, name)))!
    return parts.filter((c) => c.storage === placement.places[cell.id]!.storage)
  }
  return { ...x, ...placement, parts, of }
}

/** Two layers on 256x256; each channel's plane is 256 KiB, so 8 channels fill a page and 80 fill ten. */
const wide = (): Graph => {
  const s = new Sketch([1, 1, 256, 256])
  return trained(s, s.conv(s.conv(s.image, 'a', 80, 1), 'b', 8, 1))
}

test('untiled: one part a storage, one stay a segment', () => {
  const g = wide()
  const { of, calls } = laidOut(g, segmentsOf(g, [{ ops: forwardOps(g).map((o) => o.id), grid: UNTILED }]))
  assert.equal(
    calls.map((c) => c.kind),
    [
      'conv2d',
      'conv2d',
      'mse',
      'mse_bwd',
      'conv2d_bwd_weights',
      'sgd',
      'conv2d_bwd_data',
      'sgd',
      'conv2d_bwd_weights',
      'sgd',
      'sgd',
    ],
  )
  const [a] = of('a')
  assert.is(of('a').length, 1)
  assert.equal([a!.from, a!.to], [0, 10])
  assert.equal(
    a!.stays.map((st) => [st.segment, st.first, st.last, st.lastWrite]),
    [
      [0, 0, 1, 0],
      [1, 4, 4, -1],
    ],
  )
})

test('a value of many gigabytes is cut into a thousand parts, however many pages it has', () => {
  const s = new Sketch([1, 1, 8192, 8192])
  const g = trained(s, s.conv(s.conv(s.image, 'a', 64, 1), 'b', 8, 1))
  const ops = forwardOps(g).map((o) => o.id)
  const bands = segmentsOf(g, [
    { ops: ops.slice(0, 1), grid: grid(1, 16, 1) },
    { ops: ops.slice(1), grid: grid(1, 16, 1) },
  ])
  const parts = laidOut(g, bands).of('a')
  assert.equal([parts.length, parts[0]!.to - parts[0]!.from, parts[1023]!.to], [1024, 8, 8192])
  // A band of sixteen is 64 parts, which its tile alone writes.
  assert.equal(
    [0, 63, 64].map((i) => parts[i]!.stays[0]!.first),
    [0, 0, 1],
  )
})

test('the worked example: ten pages written in five bands and read in five', () => {
  const g = wide()
  const ops = forwardOps(g).map((o) => o.id)
  // Group a | b loss in five bands of 51.2 rows each.
  const segments = segmentsOf(g, [
    { ops: ops.slice(0, 1), grid: grid(1, 5, 1) },
    { ops: ops.slice(1), grid: grid(1, 5, 1) },
  ])
  const { of, calls } = laidOut(g, segments)
  const parts = of('a')
  assert.equal(
    parts.map((c) => [c.from, c.to]),
    [
      [0, 2],
      [2, 4],
      [4, 6],
      [6, 8],
      [8, 10],
    ],
  )
  for (const [k, c] of parts.entries()) {
    assert.equal(
      c.stays.map((st) => st.segment),
      [0, 1],
    )
    const [write, read] = c.stays
    assert.ok(write!.lastWrite >= 0 && read!.lastWrite < 0)
    // Bands are of 51 or 52 rows and parts of 51.2: a part meets its band, and at most a row of a neighbour's.
    const tiles = new Set([write, read].flatMap((st) => [calls[st!.first]!.tile, calls[st!.last]!.tile]))
    assert.ok(tiles.has(k), `part ${k} is touched in tiles ${[...tiles]}`)
    for (const t of tiles) assert.ok(Math.abs(t - k) <= 1)
  }
})

test('with fine parts, each page of a small band is a part, and a tile holds fewer pages', () => {
  const g = wide()
  const ops = forwardOps(g).map((o) => o.id)
  // Bands of 36 or 37 rows have 1.4 pages, so they touch two or three.
  const segments = segmentsOf(g, [
    { ops: ops.slice(0, 1), grid: grid(1, 7, 1) },
    { ops: ops.slice(1), grid: grid(1, 7, 1) },
  ])
  const heldBy = (cut: Parts): { readonly parts: readonly PageStays[]; readonly most: number } => {
    const { of, calls } = laidOut(g, segments, cut)
    const parts = of('a')
    const heldAt = (k: number): number =>
      parts.reduce((n, p) => n + (p.stays.some((s) => s.first <= k && k <= s.last) ? p.to - p.from : 0), 0)
    return { parts, most: Math.max(...calls.map((c, k) => (c.segment === 0 ? heldAt(k) : 0))) }
  }
  const fine = heldBy('fine')
  assert.equal(
    fine.parts.map((p) => [p.from, p.to]),
    Array.from({ length: 10 }, (_, k) => [k, k + 1]),
  )
  assert.is(fine.most, 3)
  assert.is(heldBy('usual').most, 4)
})

test('a tile of a large value holds little more than it touches', () => {
  // Each value has 16 GiB, and a band of 16 rows 16 MiB.
  const s = new Sketch([1, 1, 16384, 16384])
  const g = trained(s, s.conv(s.conv(s.image, 'a', 16, 1), 'b', 16, 1))
  const ops = forwardOps(g).map((o) => o.id)
  const segments = segmentsOf(g, [
    { ops: ops.slice(0, 1), grid: grid(1, 1024, 1) },
    { ops: ops.slice(1), grid: grid(1, 1024, 1) },
  ])
  const { of, calls } = laidOut(g, segments)
  const first = calls.findIndex((c) => c.segment === 0)
  const held = of('a').reduce((n, p) => n + (p.stays.some((v) => v.first <= first && first <= v.last) ? p.to - p.from : 0), 0)
  assert.is(bytesOf(held), 16 * 2 ** 20)
  assert.is(of('a').length, 4096)
})

test('a stay is exact: no call of its segment outside it touches the part, its ends do', () => {
  const s = new Sketch([2, 4, 200, 160])
  const x = s.conv(s.image, 'a', 64)
  const g = trained(s, s.relu(s.op('add', {}, [s.conv(x, 'b', 64), x], 'sum'), 'r'))
  const ops = forwardOps(g).map((o) => o.id)
  const segments = segmentsOf(g, [
    { ops: ops.slice(0, 1), grid: grid(2, 4, 1) },
    { ops: ops.slice(1), grid: grid(1, 3, 2) },
  ])
  const { parts, calls, places, storages, cells } = laidOut(g, segments)
  let checked = 0
  for (const c of parts) {
    if (storages[c.storage]!.cells.some((id) => cells[id]!.scope === 'persistent')) continue
    const meets = (p: number): boolean => {
      const call = calls[p]!
      const overlaps = (storage: number, lo: number, hi: number): boolean =>
        storage === c.storage && lo < bytesOf(c.to) && bytesOf(c.from) < hi
      return [...call.ins, ...call.outs].some((v) => {
        const { storage, offset } = places[v.cell]!
        const value = g.values[v.value]!
        const [lo, hi] = bytesTouched(v, value.shape, value.dtype)
        return overlaps(storage, offset + lo, offset + hi)
      })
    }
    const hit = calls.flatMap((call, p) => (meets(p) ? [[call.segment, p] as const] : []))
    const expected = [...new Set(hit.map(([seg]) => seg))].map((seg) => {
      const points = hit.filter(([x2]) => x2 === seg).map(([, p]) => p)
      return [seg, points[0], points[points.length - 1]]
    })
    assert.equal(
      c.stays.map((st) => [st.segment, st.first, st.last]),
      expected,
      `part [${c.from},${c.to}) of '${storages[c.storage]!.label}'`,
    )
    checked++
  }
  assert.ok(checked >= 12, `${checked} parts`)
})

test('parameters are permanent; untouched parts do not exist', () => {
  const g = wide()
  const { parts, storages, cells, calls } = laidOut(g, segmentsOf(g, [{ ops: forwardOps(g).map((o) => o.id), grid: UNTILED }]))
  const persistent = parts.filter((c) => storages[c.storage]!.cells.some((id) => cells[id]!.scope === 'persistent'))
  assert.is(persistent.length, 1)
  assert.equal(persistent[0]!.stays, [{ segment: -1, first: 0, last: calls.length, lastWrite: calls.length }])
  assert.ok(parts.every((c) => c.stays.length > 0))
})

test.run()
