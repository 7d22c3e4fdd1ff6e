// timeout 600
// each of models
// Other borders between the segments of a step in tiles: what that gains, and that segments stay without gaps.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import { otherBorders } from '../../staging/planner/borders'
import type { Candidate, Improver } from '../../staging/schedule/candidate'
import { inCore } from '../../staging/schedule/incore'
import { forwardPieces, inTiles, tiled, tiledSmall } from '../../staging/schedule/tiled'
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

/** The step in a number of pages: tiles, after improvers. Every plan is verified. */
const seconds = (graph: Graph, pages: number, improvers: readonly Improver[]): number => {
  const method = { planner: tiled(), small: tiledSmall, improvers }
  const plan = compile(graph, { strategy: 'auto', machine, budgetBytes: bytesOf(pages), method })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.peakPages <= pages)
  return simulate(plan.right, machine.link).makespanSeconds
}

for (const [name, graph] of Object.entries({ normed, plain }))
  test(`${name}: never slower, and faster where much waits`, () => {
    const least = smallestPages(graph)
    const gains = [least, Math.round(1.15 * least), Math.round(1.3 * least)].map((pages) => {
      const before = seconds(graph, pages, [])
      const after = seconds(graph, pages, [otherBorders])
      assert.ok(after <= before, `in ${pages} pages: ${after} for ${before}`)
      return after / before
    })
    assert.ok(Math.min(...gains) < 0.99, gains.join())
  })

/** The requests if every answer is this. */
const asked = (graph: Graph, best: Candidate, answer: number): readonly Candidate[] => {
  const candidates: Candidate[] = []
  const improver = otherBorders(graph, machine, 10_000, best, 1)
  for (let next = improver.next(Infinity); !next.done; next = improver.next(answer)) candidates.push(next.value)
  return candidates
}

test('the worked example: of two segments, both as one, the border on either side, and each in two', () => {
  const n = forwardPieces(plain, machine).pieces.length
  const grid = { B: 4, H: 2, W: 1 }
  const best = inTiles(plain, machine, [
    { from: 0, to: 6, grid },
    { from: 6, to: n, grid },
  ])!
  const borders = asked(plain, best, Infinity).map((c) =>
    c
      .tiles!.slice(1)
      .map((s) => s.from)
      .join(),
  )
  assert.equal(borders.sort(), ['', '3,6', '5', `6,${(6 + n) >> 1}`, '7'].sort())
})

test('segments follow each other without a gap, whatever becomes of their borders', () => {
  const n = forwardPieces(normed, machine).pieces.length
  const whole = { B: 1, H: 1, W: 1 }
  const best = inTiles(normed, machine, [
    { from: 0, to: 2, grid: { B: 4, H: 1, W: 1 } },
    { from: 2, to: 20, grid: whole },
    { from: 20, to: n, grid: whole },
  ])!
  const improver = otherBorders(normed, machine, 10_000, best, 1)
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

test('a plan with other decisions than tiles is unchanged', () => {
  const whole = inCore(normed, machine)
  if (isLeft(whole)) throw new Error(renderError(whole.left))
  const best = whole.right.next(false).value as Candidate
  assert.equal(asked(normed, best, Infinity), [])
})

test.run()
