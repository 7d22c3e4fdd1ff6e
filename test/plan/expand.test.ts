// Segments unrolled into calls: copies where a kernel wants no gaps, bands zeroed once, moments counted, cells no larger
// and no longer alive than their calls.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { alignUp } from '../../staging/core/bytes'
import { type Box, elementsOf, extentOf, shapeOf } from '../../staging/core/box'
import { valueBytes, type Graph } from '../../staging/graph/graph'
import { expand } from '../../staging/plan/expand'
import { isDense } from '../../staging/plan/tileboxes'
import { type Grid, type Segment, UNTILED, type Unrolled } from '../../staging/plan/plan'
import { assemble, forwardOps } from '../../staging/tile/segments'
import { splitAt } from '../../staging/tile/cuts'
import { Sketch } from '../graph/sketch'
import { grid, opNamed, segmentsOf, trained, valueNamed } from '../tile/trained'

const machine = {
  seconds: () => 1,
  workspace: (kind: string, _: unknown, s: { readonly ins: readonly (readonly number[])[] }) =>
    kind.startsWith('conv2d') ? elementsOf(s.ins[0]!) : 0,
}
const free = { seconds: () => 1, workspace: () => 0 }
const chain = (batch: number): Graph => {
  const s = new Sketch([batch, 2, 16, 16])
  return trained(s, s.conv(s.relu(s.conv(s.image, 'c1', 4), 'r1'), 'c2', 4))
}
/** The kinds of a segment's calls, tile by tile. */
const kindsOf = (x: Unrolled, segment: number): string[][] => {
  const tiles = new Map<number, string[]>()
  for (const c of x.calls) if (c.segment === segment) tiles.set(c.tile, [...(tiles.get(c.tile) ?? []), c.kind])
  return [...tiles.values()]
}
/** [c1 r1 c2] in a grid, the rest of the step whole. */
const forwardTiled = (g: Graph, over: Grid): readonly Segment[] => {
  const ids = forwardOps(g).map((o) => o.id)
  return segmentsOf(g, [
    { ops: ids.slice(0, 3), grid: over },
    { ops: ids.slice(3), grid: UNTILED },
  ])
}

test('dense boxes are one run of memory, channels-last', () => {
  const held: Box = [
    [0, 2],
    [0, 3],
    [0, 8],
    [0, 5],
  ]
  assert.ok(isDense(held, held))
  assert.ok(
    isDense(held, [
      [1, 2],
      [0, 3],
      [0, 8],
      [0, 5],
    ]),
    'a sample',
  )
  assert.ok(
    isDense(held, [
      [1, 2],
      [0, 3],
      [2, 6],
      [0, 5],
    ]),
    'rows of a sample',
  )
  assert.ok(
    isDense(held, [
      [1, 2],
      [0, 3],
      [4, 5],
      [1, 3],
    ]),
    'pixels of a row',
  )
  assert.not(
    isDense(held, [
      [0, 2],
      [0, 3],
      [2, 6],
      [0, 5],
    ]),
    'rows of two samples',
  )
  assert.not(
    isDense(held, [
      [1, 2],
      [0, 3],
      [2, 4],
      [1, 3],
    ]),
    'columns of two rows',
  )
  assert.not(
    isDense(held, [
      [0, 2],
      [0, 3],
      [4, 5],
      [0, 5],
    ]),
    'a row of two samples',
  )
  assert.not(
    isDense(held, [
      [0, 1],
      [0, 2],
      [0, 1],
      [0, 1],
    ]),
    'some channels',
  )
})

test('the worked example: columns are gathered and scattered, rows of one image are read in place', () => {
  const g = chain(1)
  const columns = expand(g, forwardTiled(g, grid(1, 1, 2)), free)
  assert.equal(kindsOf(columns, 0), [
    ['copy', 'conv2d', 'relu', 'conv2d', 'copy'],
    ['copy', 'conv2d', 'relu', 'conv2d', 'copy'],
  ])
  const [gather, c1, r1, c2, scatter] = columns.calls
  assert.equal(gather!.ins[0]!.box, [
    [0, 1],
    [0, 2],
    [0, 16],
    [0, 10],
  ])
  assert.equal(gather!.outs[0]!.held, gather!.ins[0]!.box)
  assert.equal(c1!.ins[0], gather!.outs[0])
  assert.is(r1!.outs[0]!.cell, c1!.outs[0]!.cell, 'in place')
  assert.equal(columns.cells[r1!.outs[0]!.cell]!.values, [valueNamed(g, 'c1'), valueNamed(g, 'r1')])
  assert.equal(
    [scatter!.ins[0]!.cell, scatter!.outs[0]!.box],
    [
      c2!.outs[0]!.cell,
      [
        [0, 1],
        [0, 4],
        [0, 16],
        [0, 8],
      ],
    ],
  )
  assert.is(columns.cells[scatter!.outs[0]!.cell]!.scope, 'whole')
  const rows = expand(g, forwardTiled(g, grid(1, 2, 1)), free)
  assert.equal(kindsOf(rows, 0), [
    ['conv2d', 'relu', 'conv2d'],
    ['conv2d', 'relu', 'conv2d'],
  ])
  assert.equal(rows.calls[3]!.ins[0]!.box, [
    [0, 1],
    [0, 2],
    [6, 16],
    [0, 16],
  ])
  assert.equal(
    rows.calls[5]!.outs[0]!.box,
    [
      [0, 1],
      [0, 4],
      [8, 16],
      [0, 16],
    ],
    'straight into the whole',
  )
  const batch = expand(chain(2), forwardTiled(chain(2), grid(1, 2, 1)), free)
  assert.equal(kindsOf(batch, 0)[0], ['copy', 'conv2d', 'relu', 'conv2d', 'copy'], 'rows of two images are not one run')
})

test('cells are as large as the largest tile and live from the first to the last call that touches them', () => {
  const g = chain(3)
  for (const over of [grid(2, 3, 1), grid(1, 5, 3), grid(3, 1, 1)]) {
    const x = expand(g, forwardTiled(g, over), machine)
    const need = new Array<number>(x.cells.length).fill(0)
    const first = new Array<number>(x.cells.length).fill(-1)
    const last = new Array<number>(x.cells.length).fill(-1)
    x.calls.forEach((c, p) => {
      const touch = (cell: number, bytes: number): void => {
        need[cell] = Math.max(need[cell]!, bytes)
        if (first[cell]! < 0) first[cell] = p
        last[cell] = p
      }
      for (const v of [...c.ins, ...c.outs]) {
        const value = g.values[v.value]!
        touch(v.cell, value.shape.length === 4 ? 4 * elementsOf(shapeOf(v.held)) : valueBytes(value))
      }
      if (c.workspace) touch(c.workspace.cell, c.workspace.bytes)
    })
    x.cells.forEach((c, i) => {
      assert.is(c.id, i)
      if (first[i]! >= 0) assert.equal([c.bytes, c.first, c.last], [need[i], first[i], last[i]], c.label)
    })
    assert.ok(x.cells.some((c) => c.scope === 'workspace' && c.segment === 0))
  }
  const whole = expand(g, forwardTiled(g, UNTILED), machine).cells.filter((c) => c.scope === 'workspace')
  assert.is(whole.length, 6, 'two convolutions, one of them again, a data gradient, two weight gradients')
  assert.ok(
    whole.every((c) => c.segment === -1 && c.first === c.last),
    'scratch of one call each',
  )
})

test("scratch is the machine's, in whole lines, queried once for each shape", () => {
  const g = chain(1)
  let asked = 0
  const seconds = (): number => {
    asked++
    return 2
  }
  const x = expand(g, forwardTiled(g, grid(1, 8, 1)), { seconds, workspace: (kind) => (kind === 'conv2d' ? 65 : 0) })
  assert.ok(x.calls.every((c) => c.seconds === 2))
  assert.equal([...new Set(x.calls.filter((c) => c.kind === 'conv2d').map((c) => c.workspace?.bytes))], [alignUp(65, 64)])
  // Border tiles are smaller than inner ones, so c1, r1 and c2 have a few shapes each over eight tiles.
  assert.ok(asked < x.calls.length, `${asked} questions for ${x.calls.length} calls`)
})

// ---------------------------------------------------------------- sums over tiles

const networks: Readonly<Record<string, () => Graph>> = {
  overlap: () => {
    const s = new Sketch([2, 2, 19, 13])
    return trained(s, s.conv(s.conv(s.image, 'a', 3), 'b', 3, 5))
  },
  'gaps of a stride': () => {
    const s = new Sketch([2, 2, 19, 13])
    return trained(s, s.conv(s.conv(s.image, 'a', 3, 1), 'b', 3, 1, { strideH: 3, strideW: 2 }))
  },
  'halos wider than tiles': () => {
    const s = new Sketch([1, 2, 12, 9])
    return trained(
      s,
      s.conv(s.conv(s.image, 'a', 3), 'b', 3, 7, {
        padTop: 6,
        padBottom: 6,
        padLeft: 6,
        padRight: 6,
        dilationH: 2,
        dilationW: 2,
      }),
    )
  },
  'norms and pooling': () => {
    const s = new Sketch([2, 2, 16, 12])
    const x = s.maxPool(s.norm(s.conv(s.image, 'a', 3), 'n'), 'p', 3, { strideH: 2, strideW: 2, ceil: 1 })
    return trained(s, s.linear(s.op('flatten', {}, [s.globalPool(s.conv(x, 'b', 3), 'g')], 'flat'), 'fc', 4), 'cross-entropy')
  },
}

/** Every way to cut and tile that the tiler accepts, unrolled. */
function* unrolled(): Generator<{
  readonly name: string
  readonly g: Graph
  readonly segments: readonly Segment[]
  readonly x: Unrolled
}> {
  for (const [name, make] of Object.entries(networks)) {
    const g = make()
    const ids = forwardOps(g).map((o) => o.id)
    for (const cut of ids.keys())
      for (const over of [grid(1, 3, 1), grid(2, 2, 3), grid(1, 1, 4), grid(1, 5, 2)]) {
        const parts = splitAt(ids, cut ? [cut] : [])
        for (const grids of [
          [over, over],
          [over, UNTILED],
        ]) {
          const built = assemble(
            g,
            parts.map((ops, i) => ({ ops, grid: grids[i]! })),
          )
          if (!isLeft(built)) yield { name, g, segments: built.right, x: expand(g, built.right, free) }
        }
      }
  }
}

/** The pixels of a box as 'b,h,w'. */
const pixels = (box: Box): string[] => {
  const out: string[] = []
  for (let b = box[0][0]; b < box[0][1]; b++)
    for (let h = box[2][0]; h < box[2][1]; h++) for (let w = box[3][0]; w < box[3][1]; w++) out.push(`${b},${h},${w}`)
  return out
}

test('sums of tiles are zeroed once, whole, before the first addition', () => {
  let sums = 0
  for (const { name, g, segments, x } of unrolled())
    for (const [s, seg] of segments.entries())
      for (const k of seg.keeps.filter((keep) => keep.merge === 'sum')) {
        const zeroed = new Set<string>()
        for (const c of x.calls) {
          if (c.segment !== s || c.outs[0]?.value !== k.value) continue
          const parts = pixels(c.outs[0].box)
          if (c.kind === 'fill')
            for (const p of parts) {
              assert.not(zeroed.has(p), `${name}: '${g.values[k.value]!.name}' is zeroed twice at ${p}`)
              zeroed.add(p)
            }
          if (c.kind === 'merge_sum')
            assert.ok(
              parts.every((p) => zeroed.has(p)),
              `${name}: a tile adds to '${g.values[k.value]!.name}' before it is zero`,
            )
        }
        const shape = g.values[k.value]!.shape
        assert.is(
          zeroed.size,
          elementsOf([shape[0]!, shape[2] ?? 1, shape[3] ?? 1]),
          `${name}: all of '${g.values[k.value]!.name}'`,
        )
        sums++
      }
  assert.ok(sums > 150, `${sums} sums`)
})

test('tiles write each element once', () => {
  let written = 0
  for (const { name, g, segments, x } of unrolled())
    for (const [s, seg] of segments.entries())
      for (const k of seg.keeps.filter((keep) => !keep.merge)) {
        const times = new Map<string, number>()
        for (const c of x.calls) {
          const out = c.segment === s && c.outs.find((v) => v.value === k.value && x.cells[v.cell]!.scope === 'whole')
          if (out) for (const p of pixels(out.box)) times.set(p, (times.get(p) ?? 0) + 1)
        }
        const shape = g.values[k.value]!.shape
        assert.is(
          times.size,
          elementsOf([shape[0]!, shape[2] ?? 1, shape[3] ?? 1]),
          `${name}: all of '${g.values[k.value]!.name}'`,
        )
        assert.ok(
          [...times.values()].every((n) => n === 1),
          `${name}: '${g.values[k.value]!.name}' once`,
        )
        written++
      }
  assert.ok(written > 40, `${written} values`)
})

test('moments are merged with the number of elements behind each side', () => {
  const g = networks['norms and pooling']!()
  const stats = opNamed(g, 'n:bn_stats')
  const ids = forwardOps(g).map((o) => o.id)
  const segments = segmentsOf(g, [
    { ops: ids.slice(0, 2), grid: grid(2, 3, 2) },
    { ops: ids.slice(2), grid: UNTILED },
  ])
  const merges = expand(g, segments, free).calls.filter((c) => c.kind === 'merge_moments')
  assert.is(merges.length, 12)
  let behind = 0
  for (const m of merges) {
    assert.is(m.attrs['countY'], behind)
    behind += m.attrs['countX']!
  }
  assert.is(behind, 2 * 16 * 12)
  const boxes = expand(g, segments, free)
    .calls.filter((c) => c.op === stats.id)
    .map((c) => c.ins[0]!.box)
  assert.equal(
    merges.map((m) => m.attrs['countX']),
    boxes.map((b) => extentOf(b[0]) * extentOf(b[2]) * extentOf(b[3])),
  )
})

test.run()
