// The planners' own plans: valid on random networks, grids and budgets; refused as soon as any one thing is left out.
// Seeds are fixed; SPILLWAY_RUNS multiplies the number of networks.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { mib } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import { compile, compileSegments } from '../../staging/compile'
import { certain } from '../../staging/core/certain'
import type { Plan } from '../../staging/plan/plan'
import { type Run, segmentsOf } from '../../staging/tile/segments'
import { strategies } from '../../staging/planner/strategies'
import { machines } from '../../staging/sim/machines'
import { verify } from '../../staging/verify/verify'
import type { Ref } from '../../staging/ops/op'
import type { Graph, Op } from '../../staging/graph/graph'
import { Sketch } from '../graph/sketch'
import type { Block, Recipe } from '../property/networks'
import { trained } from '../tile/trained'
import { cases, groupsOf, planOf, trainingOf } from '../property/plans'
import { FULL } from '../full'
import { removeCall } from './refused'
import type { MutablePlan } from './draft'

const machine = machines['v100-pcie-16g']!
const times = Number(process.env['SPILLWAY_RUNS'] ?? (FULL ? 1 : 0.5))
const mustVerify = (plan: Plan): void => {
  const v = verify(plan)
  if (isLeft(v)) throw new Error(renderError(v.left))
}

test("each strategy's plans pass the verifier", () => {
  fc.assert(
    fc.property(cases, fc.constantFrom(...strategies), ({ recipe }, strategy) => {
      const plan = compile(trainingOf(recipe), { strategy, budgetBytes: mib(32), machine })
      if (isRight(plan)) return mustVerify(plan.right)
      if (plan.left.tag !== 'BudgetInfeasible') throw new Error(renderError(plan.left))
    }),
    { numRuns: 60 * times, seed: 11 },
  )
})

test('tiled plans on forced grids verify', () => {
  let tiled = 0
  fc.assert(
    fc.property(cases, ({ recipe, tiling }) => {
      const graph = trainingOf(recipe)
      const plan = planOf(graph, groupsOf(graph, tiling), tiling.squeeze, machine)
      if (!plan) return
      if (plan.calls.some((c) => c.tile > 0)) tiled++
      mustVerify(plan)
    }),
    { numRuns: 80 * times, seed: 12 },
  )
  assert.ok(tiled > 50 * times, `only ${tiled} plans had several tiles`)
})

/** If tiles need one another's slice to the last row, a later one finds the result of an earlier one. */
const alreadyDone = (calls: readonly MutablePlan['calls'][number][], call: MutablePlan['calls'][number]): boolean => {
  const what = (c: typeof call): string => JSON.stringify([c.op, c.ins, c.outs])
  return call.op >= 0 && calls.slice(0, calls.indexOf(call)).some((c) => c.segment === call.segment && what(c) === what(call))
}

/** A rectifier that a pooling and another rectifier read: its gradient is a sum. */
const forked = (): Graph => {
  const s = new Sketch([1, 2, 10, 6])
  const pool = (x: Ref, layer: string): Ref =>
    s.op('max_pool', { kernelH: 2, kernelW: 2, strideH: 2, strideW: 2, padTop: 0, padLeft: 0, ceil: 0 }, [x], layer)
  const x = s.relu(s.norm(s.conv(s.image, 'a', 4, 3), 'n'), 'r')
  return trained(s, s.op('add', {}, [pool(x, 'p'), pool(s.relu(x, 'b'), 'q')], 'sum'))
}

test('one tile may hold a final sum of gradients, and the next one only some summands of a row', () => {
  const graph = forked()
  const ids = (is: (o: Op) => boolean): readonly number[] => graph.ops.filter(is).map((o) => o.id)
  const loop = ids(
    (o) => ['max_pool_bwd', 'conv2d_bwd_data', 'grad_sum', 'relu_bwd', 'bn_bwd_reduce'].includes(o.kind) && o.layer !== 'q',
  )
  const rest = (later: boolean): readonly number[] =>
    ids((o) => o.phase !== 'forward' && o.phase !== 'loss' && !loop.includes(o.id) && o.id > loop[loop.length - 1]! === later)
  const is = (phase: Op['phase']) => (id: number) => graph.ops[id]!.phase === phase
  const again = loop.filter((id) => ['grad_sum', 'relu_bwd'].includes(graph.ops[id]!.kind) && graph.ops[id]!.layer === 'r')
  const run = (phase: Run['phase'], ops: readonly number[], H = 1): Run => ({
    phase,
    group: 0,
    grid: { B: 1, H, W: 1 },
    ops: [...ops],
  })
  const segments = certain('the runs are legal')(
    segmentsOf(graph, [
      run(
        'forward',
        ids((o) => o.phase === 'forward' || o.phase === 'loss'),
      ),
      run('backward', rest(false).filter(is('backward'))),
      run('backward', loop, 3),
      // The sum is computed again, so its summands are whole.
      run('backward', [...rest(false).filter(is('update')), ...again, ...rest(true)]),
    ]),
  )
  // Three tiles of the pooled rows are not those of the rows: row 3 gets its two summands in two tiles.
  const plan = compileSegments(graph, segments, { strategy: 'by-hand', machine, budgetBytes: mib(32) })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  const called = plan.right.calls.filter((c) => c.kind === 'bn_bwd_reduce')
  assert.is(called.length, 3)
})

test('a tile that recomputes a sum of gradients for a norm has all summands of the same rows', () => {
  const graph = forked()
  const ids = (is: (o: Op) => boolean): readonly number[] => graph.ops.filter(is).map((o) => o.id)
  const isBehind = (o: Op): boolean => o.kind === 'bn_bwd_data' || o.layer === 'a'
  const again = ids((o) => ['max_pool_bwd', 'grad_sum', 'relu_bwd'].includes(o.kind) && ['p', 'r'].includes(o.layer))
  const run = (phase: Run['phase'], ops: readonly number[], H = 1): Run => ({
    phase,
    group: 0,
    grid: { B: 1, H, W: 1 },
    ops: [...ops],
  })
  const segments = certain('the runs are legal')(
    segmentsOf(graph, [
      run(
        'forward',
        ids((o) => o.phase === 'forward' || o.phase === 'loss'),
      ),
      run(
        'backward',
        ids((o) => o.phase === 'backward' && !isBehind(o)),
      ),
      run('backward', [...again, ...ids((o) => o.phase === 'backward' && isBehind(o))], 3),
      run(
        'backward',
        ids((o) => o.phase === 'update'),
      ),
    ]),
  )
  const plan = compileSegments(graph, segments, { strategy: 'by-hand', machine, budgetBytes: mib(32) })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  // The pieces of five pooled rows begin at rows 0, 2 and 6. Those of ten rows would begin at 0, 3 and 6.
  const sums = plan.right.calls.filter((c) => c.kind === 'grad_sum' && c.segment === 2)
  assert.equal(
    sums.map((c) => c.outs[0]!.box[2]),
    [
      [0, 2],
      [2, 6],
      [6, 10],
    ],
  )
})

test('without any one of its calls a plan is refused', () => {
  fc.assert(
    fc.property(cases, fc.nat(), ({ recipe, tiling }, pick) => {
      const graph = trainingOf(recipe)
      const plan = planOf(graph, groupsOf(graph, tiling), 0, machine)
      fc.pre(plan !== undefined)
      const cut = structuredClone(plan) as MutablePlan
      const gone = cut.calls[pick % cut.calls.length]!
      fc.pre(!alreadyDone(cut.calls, gone))
      removeCall(cut, cut.calls.indexOf(gone))
      assert.ok(isLeft(verify(cut)), `${gone.kind} of segment ${gone.segment}, tile ${gone.tile} was not missed`)
    }),
    { numRuns: 80 * times, seed: 13 },
  )
})

// ---------------------------------------------------------------- pages that move

const conv = (channels: number): Block => ({
  tag: 'conv',
  channels,
  grouped: false,
  bias: true,
  window: { kernel: 3, stride: 1, dilation: 1, pads: [1, 1, 1, 1] },
})
const large: Recipe = {
  image: [2, 3, 256, 256],
  end: 'map',
  fused: false,
  blocks: [conv(8), { tag: 'relu', slope: 0 }, conv(8), { tag: 'norm' }, conv(8), conv(4)],
}

const swapping = (): Plan => {
  const graph = trainingOf(large)
  const tight = compile(graph, { strategy: 'swap:greedy', budgetBytes: mib(2), machine })
  if (!isLeft(tight) || tight.left.tag !== 'BudgetInfeasible') throw new Error('2 MiB cannot be enough')
  const plan = compile(graph, { strategy: 'swap:greedy', budgetBytes: tight.left.smallestBytes, machine })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  return plan.right
}

test('a plan that swaps is valid, and refused without any one of its swaps', () => {
  const plan = swapping()
  mustVerify(plan)
  const moves = plan.residencies.flatMap((r, i) => [
    ...(r.swapOut ? [[i, 'swapOut'] as const] : []),
    ...(r.swapIn ? [[i, 'swapIn'] as const] : []),
  ])
  assert.ok(moves.some(([, m]) => m === 'swapOut') && moves.length > 6, `only ${moves.length} moves`)
  for (const [i, move] of moves) {
    const broken = structuredClone(plan) as MutablePlan
    delete broken.residencies[i]![move]
    assert.ok(isLeft(verify(broken)), `residency ${i} without its ${move} was accepted`)
  }
})

test('a plan that swaps is refused when any stay is shorter, or shares a page', () => {
  const plan = swapping()
  const points = [...plan.calls.keys()]
  const touched = (storage: number, point: number): boolean => {
    const c = plan.calls[point]!
    return [...c.ins, ...c.outs].some((v) => plan.places[v.cell]!.storage === storage)
  }
  let shortened = 0
  for (const [i, r] of plan.residencies.entries()) {
    const last = points.filter((p) => p < r.release && touched(r.storage, p)).at(-1)
    if (last === undefined || last <= r.acquire || r.to - r.from < Math.ceil(plan.storages[r.storage]!.bytes / mib(2))) continue
    const broken = structuredClone(plan) as MutablePlan
    broken.residencies[i]!.release = last
    assert.ok(isLeft(verify(broken)), `residency ${i} released at ${last} was accepted`)
    shortened++
  }
  assert.ok(shortened > 5, `only ${shortened} stays were shortened`)
  for (const [i, r] of plan.residencies.entries()) {
    const other = plan.residencies.find((o, k) => k !== i && o.acquire < r.release && r.acquire < o.release)
    if (!other) continue
    const broken = structuredClone(plan) as MutablePlan
    broken.residencies[i]!.runs[0]!.page = other.runs[0]!.page
    const v = verify(broken)
    assert.ok(isLeft(v) && v.left.rule === 'pages', `residency ${i} on another's page was accepted`)
  }
})

test.run()
