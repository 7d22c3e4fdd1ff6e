// The choice of segments against every way to cut a few pieces; halos and working sets of real pieces.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { tilesOf } from '../../staging/plan/plan'
import { opCosts } from '../../staging/schedule/chain'
import { machines } from '../../staging/sim/machines'
import { piecesOf } from '../../staging/tile/pieces'
import { type Pieces, segmentation, segmentCost, type PieceRun } from '../../staging/tile/segmentation'
import { Sketch } from '../graph/sketch'
import { trained } from './trained'

// ---------------------------------------------------------------- brute force

const drafts = fc.array(
  fc.record({
    newRun: fc.boolean(),
    tiles: fc.integer({ min: 1, max: 6 }),
    crossing: fc.nat(20),
    forward: fc.integer({ min: 1, max: 9 }),
    backward: fc.nat(9),
    halo: fc.nat(3),
    work: fc.integer({ min: 1, max: 12 }),
  }),
  { minLength: 1, maxLength: 7 },
)

/** Halos grow with the later part of the segment. */
const piecesFrom = (ds: typeof drafts extends fc.Arbitrary<infer T> ? T : never): Pieces => {
  let run = 0
  const pieces = ds.map((d) => {
    run += d.newRun ? 1 : 0
    return { run, most: { B: 1, H: d.tiles, W: d.tiles } }
  })
  const stretch = (i: number, j: number): PieceRun => {
    const part = ds.slice(i, j + 1)
    const sum = (f: (d: (typeof ds)[number], later: number) => number): number =>
      part.reduce(
        (n, d, k) =>
          n +
          f(
            d,
            part.slice(k + 1).reduce((m, x) => m + x.halo, 0),
          ),
        0,
      )
    const halo = sum((d, later) => (d.forward * later) / 10)
    return {
      forwardSeconds: sum((d) => d.forward),
      backwardSeconds: sum((d) => d.backward),
      calls: part.length,
      haloH: halo,
      haloW: halo,
      haloBoth: halo / 10,
      workBytes: sum((d) => d.work),
      bandBytes: 0,
      crossingBytes: j === ds.length - 1 ? 0 : ds[j]!.crossing,
    }
  }
  return { pieces, span: stretch, spanReused: stretch, forwards: 2, launchSeconds: 0.01 }
}

/** Every way to cut n pieces. */
const cuttings = (n: number): readonly (readonly (readonly [number, number])[])[] =>
  n === 0 ? [[]] : Array.from({ length: n }, (_, from) => cuttings(from).map((c) => [...c, [from, n - 1] as const])).flat()

test('no way to cut costs less than the one chosen', () => {
  fc.assert(
    fc.property(
      drafts,
      fc.integer({ min: 3, max: 40 }),
      fc.constantFrom(0, 0.1, 1),
      fc.boolean(),
      (ds, limitBytes, secondsPerCrossingByte, bandsOnly) => {
        const p = piecesFrom(ds)
        const rules = { limitBytes, secondsPerCrossingByte, bandsOnly }
        const price = (cuts: readonly (readonly [number, number])[]): number =>
          cuts.reduce((n, [i, j]) => n + (segmentCost(p, i, j, rules)?.seconds ?? Infinity), 0)
        const best = Math.min(...cuttings(ds.length).map(price))
        const chosen = segmentation(p, rules)
        assert.equal(
          chosen.map((s) => s.from),
          [0, ...chosen.slice(0, -1).map((s) => s.to)],
        )
        assert.is(chosen[chosen.length - 1]!.to, ds.length)
        // If some piece cannot be made small enough there is no price; every other case is the cheapest.
        if (!Number.isFinite(best)) return
        const mine = price(chosen.map((s) => [s.from, s.to - 1] as const))
        assert.ok(Math.abs(mine - best) <= 1e-9 * best, `${mine} for ${best}`)
        for (const s of chosen)
          if (tilesOf(s.grid) > 1) {
            assert.is(p.pieces[s.from]!.run, p.pieces[s.to - 1]!.run, 'tiles stay inside a run')
            assert.ok(p.span(s.from, s.to - 1).workBytes <= limitBytes * tilesOf(s.grid))
          }
      },
    ),
    { numRuns: process.env['SPILLWAY_FULL'] === '1' ? 2000 : 300 },
  )
})

// ---------------------------------------------------------------- real pieces

const machine = machines['v100-pcie-16g']!
const LAUNCH = 6e-6

test('two 3x3 convolutions: the first pays a halo of two rows for each further tile, the second none', () => {
  const s = new Sketch([1, 8, 100, 50], 'two')
  const g = trained(s, s.relu(s.conv(s.relu(s.conv(s.image, 'a', 8), 'ra'), 'b', 8), 'rb'))
  const costs = opCosts(g, machine)
  const p = piecesOf(g, costs, LAUNCH)
  const all = p.span(0, p.pieces.length - 1)
  const at = (layer: string, phase: string): number =>
    g.ops.filter((o) => o.layer === layer && o.phase === phase).reduce((n, o) => n + costs[o.id]!.seconds, 0)
  // Everything before b's window: a and its rectifier, forward twice and backward once.
  const before = g.ops.filter((o) => o.phase === 'forward' && o.id < g.ops.find((x) => x.layer === 'b')!.id).map((o) => o.layer)
  const expected = [...new Set(before)].reduce((n, layer) => n + 2 * at(layer, 'forward') + at(layer, 'backward'), 0)
  assert.ok(Math.abs(all.haloH - (expected * 2) / 100) < 1e-12)
  assert.ok(Math.abs(all.haloW - (expected * 2) / 50) < 1e-12)
  const last = p.pieces.length - 1
  assert.is(p.span(last, last).haloH, 0)
})

test('a longer stretch costs and holds more; nothing is tiled beyond its smallest image', () => {
  const s = new Sketch([2, 4, 32, 32])
  let x = s.image
  for (const i of [1, 2, 3]) x = s.maxPool(s.relu(s.conv(x, `c${i}`, 8), `r${i}`), `p${i}`, 2)
  const p = piecesOf(trained(s, x), opCosts(trained(s, x), machine), LAUNCH)
  const n = p.pieces.length
  for (let i = 1; i < n; i++) {
    const [longer, shorter] = [p.span(i - 1, n - 1), p.span(i, n - 1)]
    assert.ok(
      longer.forwardSeconds > shorter.forwardSeconds && longer.workBytes >= shorter.workBytes && longer.haloH >= shorter.haloH,
    )
  }
  assert.ok(p.pieces.every((x) => x.most.B <= 2 && x.most.H <= 32 && x.most.W <= 32))
  assert.is(p.pieces[n - 1]!.most.H, 4)
})

test.run()
