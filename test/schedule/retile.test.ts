// timeout 600
// each of models
// The tiles of the fastest plan made better for one budget: what that gains, and what each of its parts does.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { CallShapes } from '../../staging/ops/op'
import { tilesOf } from '../../staging/plan/plan'
import type { Candidate, Improver } from '../../staging/schedule/candidate'
import { inCore } from '../../staging/schedule/incore'
import { type RetileOptions, retiled } from '../../staging/schedule/retile'
import { forwardPieces, inTiles, tiled } from '../../staging/schedule/tiled'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const normed = trainingGraph('resnet18', [16, 3, 112, 112])
const plain = trainingGraph('vgg11-features', [4, 3, 224, 224])

const smallestPages = (graph: Graph): number => {
  const refused = compile(graph, { strategy: 'tiled', machine, budgetBytes: PAGE_BYTES })
  if (isLeft(refused) && refused.left.tag === 'BudgetInfeasible') return pagesIn(refused.left.smallestBytes)
  throw new Error('a page cannot be enough')
}

/** The step in so many pages: tiles, and what the improver makes of them. Every plan is verified. */
const seconds = (graph: Graph, pages: number, improver?: Improver): number => {
  const method = improver ? { planner: tiled(), improver } : { planner: tiled() }
  const plan = compile(graph, { strategy: 'auto', machine, budgetBytes: bytesOf(pages), method })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.peakPages <= pages)
  return simulate(plan.right, machine.link).makespanSeconds
}

const OFF: RetileOptions = { limits: false, grids: false, shapes: false, borders: false }

for (const [name, graph] of Object.entries({ normed, plain }))
  test(`${name}: no slower than tiles of one limit, and each part gains on its own`, () => {
    const least = smallestPages(graph)
    const gained = { limits: false, grids: false, borders: false, all: false }
    for (const pages of [least, Math.round(1.15 * least), Math.round(1.3 * least)]) {
      const before = seconds(graph, pages)
      assert.is(seconds(graph, pages, retiled(OFF)), before)
      for (const part of ['limits', 'grids', 'borders', 'all'] as const) {
        const after = seconds(graph, pages, retiled(part === 'all' ? {} : { ...OFF, [part]: true }))
        assert.ok(after <= before, `${part} in ${pages} pages: ${after} for ${before}`)
        if (after < 0.999 * before) gained[part] = true
      }
    }
    assert.equal(gained, { limits: true, grids: true, borders: true, all: true })
  })

/** What the improver asks about when every answer is this. */
const asked = (graph: Graph, best: Candidate, o: Partial<RetileOptions>, answer: number): readonly Candidate[] => {
  const candidates: Candidate[] = []
  const improver = retiled(o)(graph, machine, best, 1)
  for (let next = improver.next(Infinity); !next.done; next = improver.next(answer)) candidates.push(next.value)
  return candidates
}

test('the worked example: of two segments in 8 tiles each, every one alone in fewer', () => {
  const n = forwardPieces(plain, machine).pieces.length
  const grid = { B: 4, H: 2, W: 1 }
  const best = inTiles(plain, machine, [
    { from: 0, to: 6, grid },
    { from: 6, to: n, grid },
  ])!
  const refused = asked(plain, best, { ...OFF, grids: true }, Infinity)
  assert.equal(refused.map((c) => c.tiles!.map((s) => tilesOf(s.grid))).sort(), [
    [4, 8],
    [8, 4],
  ])
  const last = asked(plain, best, { ...OFF, grids: true }, 0.5)[0]!
  assert.equal([last.tiles!.length, last.tiles![1]!.to], [2, n])
})

test('segments follow each other without a gap, whatever becomes of their borders', () => {
  const n = forwardPieces(normed, machine).pieces.length
  const whole = { B: 1, H: 1, W: 1 }
  const best = inTiles(normed, machine, [
    { from: 0, to: 2, grid: { B: 4, H: 1, W: 1 } },
    { from: 2, to: 20, grid: whole },
    { from: 20, to: n, grid: whole },
  ])!
  const improver = retiled({ limits: false })(normed, machine, best, 1)
  let seen = 0
  // Every second answer is that it is faster, so that the search moves on.
  for (let next = improver.next(Infinity); !next.done && seen < 60; seen++) {
    const { tiles } = next.value
    assert.is(tiles![0]!.from, 0)
    assert.is(tiles!.at(-1)!.to, n)
    tiles!.forEach((s, i) => {
      assert.ok(s.from < s.to)
      if (i) assert.is(s.from, tiles![i - 1]!.to)
    })
    assert.ok(next.value.layout.calls.length > 0)
    next = improver.next(seen % 2 ? 0.99 ** seen : Infinity)
  }
  assert.ok(seen > 20, `${seen} candidates`)
})

test('a plan that is not tiles alone is left as it is', () => {
  const whole = inCore(normed, machine)
  if (isLeft(whole)) throw new Error(renderError(whole.left))
  const best = whole.right.next(false).value as Candidate
  assert.equal(asked(normed, best, {}, Infinity), [])
})

test.run()

test('where calls on wide rows take longer, tiles become narrower', () => {
  const wide = (s: CallShapes): boolean => s.ins[0]!.length === 4 && s.ins[0]![3]! > 120
  const narrow: Machine = {
    ...machine,
    seconds: (kind, attrs, s) => machine.seconds(kind, attrs, s) * (wide(s) ? 2 : 1),
  }
  const best = inTiles(plain, narrow, [{ from: 0, to: forwardPieces(plain, narrow).pieces.length, grid: { B: 4, H: 4, W: 1 } }])!
  const time = (c: Candidate): number => c.layout.calls.reduce((n, call) => n + call.seconds, 0)
  let least = { seconds: time(best), columns: 1 }
  const improver = retiled({ ...OFF, shapes: true })(plain, narrow, best, least.seconds)
  for (let next = improver.next(Infinity); !next.done; ) {
    const seconds = next.value.computeSeconds! < least.seconds ? time(next.value) : Infinity
    if (seconds < least.seconds) least = { seconds, columns: next.value.tiles![0]!.grid.W }
    next = improver.next(seconds)
  }
  assert.ok(least.columns > 1, `${least.columns}`)
})
