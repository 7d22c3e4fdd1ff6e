// timeout 600
// Each loop on a grid of its own: what that gains on plans of every kind, which loops are asked about together, and how much is laid out.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { CallShapes } from '../../staging/ops/op'
import { type Grid, tilesOf } from '../../staging/plan/plan'
import type { Candidate, Improver, Method } from '../../staging/schedule/candidate'
import { inCore } from '../../staging/schedule/incore'
import { ownGrids } from '../../staging/planner/owngrids'
import { overfullCalls } from '../../staging/schedule/stays'
import { forwardPieces, inTiles, tiled } from '../../staging/schedule/tiled'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const normed = trainingGraph('resnet18', [16, 3, 112, 112])
const plain = trainingGraph('vgg11-features', [4, 3, 224, 224])

/** The step in a number of pages. Every plan is verified. */
const planned = (graph: Graph, pages: number, method: Method) => {
  const plan = compile(graph, { strategy: 'auto', machine, budgetBytes: bytesOf(pages), method })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.peakPages <= pages)
  return { seconds: simulate(plan.right, machine.link).makespanSeconds, plan: plan.right }
}

for (const [name, graph, pages, share, method] of [['tiles alone', plain, 100, 0.99, { planner: tiled() }]] as const)
  test(`${name}: faster, with fewer tiles in some loops`, () => {
    const before = planned(graph, pages, method)
    const after = planned(graph, pages, { ...method, improvers: [ownGrids] })
    assert.ok(after.seconds < share * before.seconds, `${after.seconds} for ${before.seconds}`)
    assert.ok(after.plan.calls.length < before.plan.calls.length)
    const tiles = [before, after].map((p) => p.plan.segments.map((s) => tilesOf(s.grid)))
    const fewer = tiles[0]!.filter((n, i) => tiles[1]![i]! < n).length
    assert.ok(fewer > 0)
  })

const sameGrid = (a: Grid, b: Grid): boolean => a.B === b.B && a.H === b.H && a.W === b.W

const bestOf = (graph: Graph, on = machine): Candidate => {
  const n = forwardPieces(graph, on).pieces.length
  return inTiles(graph, on, [
    { from: 0, to: 6, grid: { B: 4, H: 2, W: 1 } },
    { from: 6, to: n, grid: { B: 4, H: 2, W: 1 } },
  ])!
}

/** The requests, by the grid of each loop, if the answer is this. */
const asked = (best: Candidate, answer: (tiles: number) => number, pages = 10_000): readonly (readonly Grid[])[] => {
  const all: (readonly Grid[])[] = []
  const improver = ownGrids(plain, machine, pages, best, 1)
  for (let next = improver.next(Infinity); !next.done; ) {
    const grids = next.value.layout.segments.map((s) => s.grid)
    all.push(grids)
    next = improver.next(answer(grids.reduce((n, g) => n + tilesOf(g), 0)))
  }
  return all
}

test('the worked example: all loops together, then either half, then each', () => {
  const best = bestOf(plain)
  const loops = best.layout.segments.map((s) => s.grid)
  const many = loops.filter((g) => tilesOf(g) > 1).length
  // Nothing is faster: each change is tried on all, on halves, and on each.
  const changed = asked(best, () => Infinity).map((grids) => grids.filter((g, i) => !sameGrid(g, loops[i]!)).length)
  assert.is(changed[0], many)
  assert.is(changed[1], Math.floor(many / 2))
  assert.is(Math.min(...changed), 1)
  // Fewer tiles are faster: one look for each halving, and none is left.
  const quick = asked(best, (tiles) => tiles / 1e6)
  assert.equal(
    quick.slice(0, 3).map((grids) => Math.max(...grids.map(tilesOf))),
    [4, 2, 1],
  )
})

test('a grid whose loop alone exceeds the pages is not laid out', () => {
  const best = bestOf(plain)
  const refused = asked(best, () => Infinity, Math.floor(0.8 * best.least))
  const free = asked(best, () => Infinity)
  assert.ok(refused.length < free.length, `${refused.length} of ${free.length}`)
})

test('a loop that needs too many pages is not tried again with tiles of that size or larger', () => {
  const best = bestOf(plain)
  const full: { readonly loop: number; readonly grid: Grid }[] = []
  const isLarger = (a: Grid, b: Grid): boolean => a.B <= b.B && a.H <= b.H && a.W <= b.W
  const improver = ownGrids(plain, machine, best.least, best, 1)
  for (let next = improver.next(Infinity); !next.done; next = improver.next(Infinity)) {
    const { segments, alike, calls } = next.value.layout
    const again = full.find(({ loop, grid }) => isLarger(segments[loop]!.grid, grid))
    assert.is(again, undefined, JSON.stringify(again))
    for (const p of overfullCalls(alike, calls.length, best.least)) {
      const loop = calls[p]!.segment
      full.push({ loop, grid: segments[loop]!.grid })
    }
  }
  assert.ok(full.length > 0)
})

test('a plan without loops is unchanged', () => {
  const whole = inCore(normed, machine)
  if (isLeft(whole)) throw new Error(renderError(whole.left))
  assert.equal(
    asked(whole.right.next(false).value as Candidate, () => Infinity),
    [],
  )
})

test('where calls on wide rows take longer, tiles become narrower', () => {
  const wide = (s: CallShapes): boolean => s.ins[0]?.length === 4 && s.ins[0][3]! > 120
  const narrow: Machine = {
    ...machine,
    seconds: (kind, attrs, s) => machine.seconds(kind, attrs, s) * (wide(s) ? 2 : 1),
  }
  const grid = { B: 4, H: 4, W: 1 }
  const best = inTiles(plain, narrow, [{ from: 0, to: forwardPieces(plain, narrow).pieces.length, grid }])!
  const time = (c: Candidate): number => c.layout.calls.reduce((n, call) => n + call.seconds, 0)
  let least = { seconds: time(best), columns: 1 }
  const improver: ReturnType<Improver> = ownGrids(plain, narrow, 10_000, best, least.seconds)
  for (let next = improver.next(Infinity); !next.done; ) {
    const c = next.value
    // As if there were room for bands, and no fewer of them.
    const bands = c.layout.segments.filter((s) => tilesOf(s.grid) > 1).every((s) => tilesOf(s.grid) >= 16)
    const seconds = bands ? time(c) : Infinity
    if (seconds < least.seconds) least = { seconds, columns: Math.max(...c.layout.segments.map((s) => s.grid.W)) }
    next = improver.next(seconds)
  }
  assert.ok(least.columns > 1, `${least.columns}`)
})

test.run()
