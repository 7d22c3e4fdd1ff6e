// timeout 900
// Plans in tiles give the gradients of plans without tiles. Cases are random networks with norms and branches, with random recomputation, tile
// sizes and budgets, down to the smallest budget. On `ref` (double) gradients agree to 1e-9; on `cpu` within 1e-4. Every plan is verified.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import * as E from 'fp-ts/Either'
import type { Graph } from '../../staging/graph/graph'
import { type Segment, tilesOf } from '../../staging/plan/plan'
import { opCosts } from '../../staging/schedule/chain'
import { jointOf, jointSegments, type Limits } from '../../staging/schedule/joint'
import { keepAll } from '../../staging/search/decisions'
import { Lowering } from '../../staging/search/lower'
import { Model } from '../../staging/search/model'
import { type Loop, mayRepeat, problemOf } from '../../staging/search/problem'
import { isTiled, runsOf, segmentsOf } from '../../staging/tile/segments'
import type { TileError } from '../../staging/tile/slices'
import { FULL } from '../full'
import { compareWith } from './compare'
import { type Recipe, recipes } from './networks'
import { planOfSegments } from './plans'

interface Case {
  readonly recipe: Recipe
  /** True for dropped values. The list repeats over all values that may be dropped. */
  readonly goes: readonly boolean[]
  /** True if each loop has decisions of its own. The list repeats over loops and ops. */
  readonly apart: boolean
  readonly repeats: readonly boolean[]
  /** True if loops also end between blocks. */
  readonly cuts: boolean
  readonly limits: Limits
  /** Bytes of weights and their gradients that a loop holds. */
  readonly whole: number | undefined
  /** How many times fewer bands the i-th loop has than its limit says, again and again. */
  readonly fewer: readonly number[]
  readonly squeeze: number
}
const limit = fc.constantFrom(1, 500, 5000, 1e9)
const cases: fc.Arbitrary<Case> = fc.record({
  recipe: recipes,
  goes: fc.array(fc.boolean(), { minLength: 1, maxLength: 5 }),
  apart: fc.boolean(),
  cuts: fc.boolean(),
  repeats: fc.array(fc.boolean(), { minLength: 1, maxLength: 7 }),
  limits: fc.record({ forward: limit, backward: limit }),
  whole: fc.constantFrom(undefined, 1, 500),
  fewer: fc.array(fc.constantFrom(1, 2, 3), { minLength: 1, maxLength: 4 }),
  squeeze: fc.constantFrom(0, 0.5, 1),
})

/** Each loop on a grid of its own. */
const onOwnGrids = (graph: Graph, segments: readonly Segment[], fewer: Case['fewer']): E.Either<TileError, readonly Segment[]> =>
  segmentsOf(
    graph,
    runsOf(graph, segments).map((r, i) =>
      isTiled(r.grid) ? { ...r, grid: { ...r.grid, H: Math.ceil(r.grid.H / fewer[i % fewer.length]!) } } : r,
    ),
  )

const RUNS = FULL ? 400 : 12

for (const [device, tolerance] of [
  ['ref', 1e-9],
  ['cpu', 1e-4],
] as const)
  test(`values that loops recompute in tiles agree with kept values on ${device}`, async () => {
    let [compared, again, decided, owned] = [0, 0, 0, 0]
    await fc.assert(
      fc.asyncProperty(cases, async ({ recipe, goes, apart, repeats, cuts, limits, whole, fewer, squeeze }) => {
        const worst = await compareWith(device, recipe, tolerance, (graph, machine) => {
          const onGrids = (made: E.Either<TileError, readonly Segment[]>): ReturnType<typeof planOfSegments> => {
            const own = E.isRight(made) ? onOwnGrids(graph, made.right, fewer) : made
            if (E.isRight(own) && E.isRight(made) && own.right.some((s, i) => tilesOf(s.grid) < tilesOf(made.right[i]!.grid)))
              owned++
            return planOfSegments(graph, own, squeeze, machine)
          }
          if (apart) {
            decided++
            const wholeBytes = whole ?? Infinity
            const p = problemOf(graph, machine, 0)
            const bits = (l: Loop | undefined, i: number): Uint8Array =>
              Uint8Array.from(graph.ops, ({ id }) =>
                l && mayRepeat(p.atomOf, l, id) && repeats[(3 * i + id) % repeats.length]! ? 1 : 0,
              )
            const model = new Model(p, 1e9)
            const kept = keepAll(p, p.endsFor(cuts, wholeBytes), 0, 1e9, 0)
            model.load(kept)
            model.load({
              ...kept,
              repeats: model.loops.map(bits),
              tileBytes: Float64Array.from(model.loops, (l) => limits[l?.phase ?? 'forward']),
            })
            const lowered = new Lowering(model).segments()
            if (!lowered) throw new Error('loops that cannot be in tiles are not')
            return onGrids(E.right(lowered.segments))
          }
          const joint = jointOf(graph, opCosts(graph, machine), 0)
          const gone = new Set(joint.droppable.filter((_, i) => goes[i % goes.length]))
          if (gone.size > 0) again++
          return onGrids(jointSegments(joint, gone, { ...limits, ...(whole === undefined ? {} : { whole }) }))
        })
        if (worst !== undefined) compared++
        assert.ok(worst === undefined || worst <= 1, `${worst} times what is allowed`)
      }),
      { numRuns: RUNS * 2, seed: 20240615, interruptAfterTimeLimit: 400_000 },
    )
    assert.ok(compared >= RUNS, `only ${compared} cases could be tiled`)
    assert.ok(again >= RUNS / 3, `only ${again} cases let something go`)
    assert.ok(owned >= RUNS / 4, `in only ${owned} cases a loop had a grid of its own`)
    assert.ok(decided >= RUNS / 2, `in only ${decided} cases loops decided for themselves`)
  })

test.run()
