// timeout 400
// Where nothing fits, tiles finer than the usual ones: the smallest budget of a large image is not that of a set number of tiles.
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, model, relu, seq } from '../../dsl'
import type { Staged } from '../../src/stage/staged'
import { tryStage } from '../../src/stage/stage'
import { compile, compileSegments } from '../../staging/compile'
import { bytesOf, mib, PAGE_BYTES } from '../../staging/core/bytes'
import { certain } from '../../staging/core/certain'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import { tilesOf, UNTILED } from '../../staging/plan/plan'
import { callsPlannedIn } from '../../staging/core/planningmemory'
import type { Planner } from '../../staging/schedule/candidate'
import { opCosts } from '../../staging/schedule/chain'
import { fineTiles } from '../../staging/schedule/finetiles'
import { jointOf, jointSegments } from '../../staging/schedule/joint'
import { jointFinest } from '../../staging/schedule/jointsearch'
import { machines } from '../../staging/sim/machines'
import { segmentsOf } from '../../staging/tile/segments'
import { gateTest } from '../full'
import { trainingGraph } from '../golden/golden'
import { Sketch } from '../graph/sketch'
import { machine, stepOn, worstOf } from '../property/compare'
import { trained } from '../tile/trained'

const large = model([1, 3, 8192, 8192], seq(conv2d('a', 192, 3), relu(), conv2d('b', 1, 3)))
const staged = (budget: number, strategy: 'tiled' | 'auto') => tryStage(large, { machine: 'v100-pcie-16g', strategy, budget })
const most = ({ plan }: Staged): number => Math.max(...plan.segments.map((s) => tilesOf(s.grid)))

const STRATEGIES = process.env['SPILLWAY_FULL'] ? (['tiled', 'auto'] as const) : (['tiled'] as const)
for (const strategy of STRATEGIES)
  test(`${strategy}: a smallest budget below that of 512 tiles, which works`, () => {
    const refused = staged(PAGE_BYTES, strategy)
    if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
    const { smallestBytes } = refused.left
    const plan = staged(smallestBytes, strategy)
    if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
    assert.ok(most(plan.right) > 512, `${most(plan.right)} tiles`)
    assert.is(bytesOf(plan.right.plan.peakPages), smallestBytes)
  })

const finest: Planner = (graph, on) => right(jointFinest(graph, on, callsPlannedIn()))

/** Two norms at 384x384: values of 9 MiB, which do not fit a budget of a few pages even one by one. */
const twoNorms = (): Graph => {
  const s = new Sketch([1, 3, 384, 384])
  const first = s.relu(s.norm(s.conv(s.image, 'c1', 16, 3, undefined, false), 'n1'), 'r1')
  const second = s.relu(s.norm(s.conv(first, 'c2', 16, 3, undefined, false), 'n2'), 'r2')
  return trained(s, s.conv(second, 'c3', 2, 3))
}

test('tiles for fewer pages take fewer pages, and compute the result of whole values', async () => {
  const graph = twoNorms()
  const on = machine('cpu')
  const whole = certain('it is legal')(
    segmentsOf(graph, [{ phase: 'forward', group: 0, grid: UNTILED, ops: graph.ops.map((o) => o.id) }]),
  )
  const o = { strategy: 'auto', machine: on, method: { planner: finest } }
  const refused = compile(graph, { ...o, budgetBytes: PAGE_BYTES })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  const { smallestBytes } = refused.left
  const fine = certain('the smallest works')(compile(graph, { ...o, budgetBytes: smallestBytes }))
  assert.is(bytesOf(fine.peakPages), smallestBytes)
  assert.ok(fine.peakPages <= 16, `${fine.peakPages} pages`)
  assert.ok(fine.segments.filter((s) => tilesOf(s.grid) > 1).length > 2, 'loops over many tiles')
  const plain = certain('there is room')(
    compileSegments(graph, whole, { strategy: 'by hand', machine: on, budgetBytes: mib(256) }),
  )
  const { worst, name } = worstOf(await stepOn('cpu', plain), await stepOn('cpu', fine), 1e-4, () => 0)
  assert.ok(worst <= 1, `${name}: ${worst} times what is allowed`)
})

test('a loop whose smallest tile exceeds the pages becomes two loops', () => {
  const graph = twoNorms()
  const on = machines['v100-pcie-16g']!
  const whole = certain('it is legal')(
    segmentsOf(graph, [{ phase: 'forward', group: 0, grid: UNTILED, ops: graph.ops.map((o) => o.id) }]),
  )
  const joint = jointOf(graph, opCosts(graph, on))
  const tiles = fineTiles(
    graph,
    on,
    certain('it is legal')(jointSegments(joint, new Set(), { forward: Infinity, backward: Infinity })),
    'resident',
  )!
  assert.is(fineTiles(graph, on, whole, 'resident'), null, 'one loop over a whole step is none')
  const counts = [16, 8, 1].map((pages) => {
    const { least, likely, calls, segments } = tiles(pages)
    assert.ok(least <= likely)
    return { likely, calls, segments: certain('grids were looked at')(segments()).length }
  })
  assert.ok(counts[0]!.likely <= 16 && counts[1]!.likely <= 8, JSON.stringify(counts))
  assert.ok(counts[1]!.calls > counts[0]!.calls && counts[2]!.segments > counts[0]!.segments, JSON.stringify(counts))
})

test('the size of tiles depends on the memory of their plan', () => {
  const graph = twoNorms()
  const refusal = (mostCalls: number) => {
    const method = { planner: () => right([].values()), finest: jointFinest }
    const refused = compile(graph, { strategy: 'auto', machine: machine('cpu'), budgetBytes: PAGE_BYTES, method, mostCalls })
    if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
    return refused.left
  }
  const [all, some] = [refusal(1e6), refusal(100)]
  assert.is(all.tooMany, undefined)
  assert.ok(all.smallestBytes < some.smallestBytes, `${all.smallestBytes} and ${some.smallestBytes}`)
  const { calls, most } = some.tooMany!
  assert.ok(calls > most && most === 100)
  assert.match(
    renderError(some),
    new RegExp(
      `; finer tiles need ${calls} calls per step, but the heap has room to plan 100: NODE_OPTIONS=--max-old-space-size=\\d+ is enough$`,
    ),
  )
})

test('tiles that are read off others are of windows that fit them, where strides leave rows over', () => {
  const half = { strideH: 2, strideW: 2, padTop: 1, padLeft: 1, padBottom: 1, padRight: 1 }
  for (const side of [89, 90, 91, 97]) {
    const s = new Sketch([1, 3, side, side])
    const first = s.relu(s.conv(s.image, 'c1', 4, 3, half), 'r1')
    const graph = trained(s, s.conv(s.relu(s.conv(first, 'c2', 4, 3, half), 'r2'), 'c3', 2, 3))
    // The device refuses to tell the scratch of a call that is none.
    const refused = compile(graph, {
      strategy: 'auto',
      machine: machine('cpu'),
      budgetBytes: PAGE_BYTES,
      method: { planner: () => right([].values()), finest: jointFinest },
    })
    assert.ok(isLeft(refused) && refused.left.tag === 'BudgetInfeasible', JSON.stringify(refused))
  }
})

gateTest(
  'a dense block whose layers each add half a page: they lie side by side, so that norms of all of them touch few pages',
  () => {
    const on = machines['v100-pcie-16g']!
    const graph = trainingGraph('densenet201', [32, 3, 224, 224])
    const plan = compile(graph, { strategy: 'auto', machine: on, budgetBytes: mib(100), method: { planner: finest } })
    assert.ok(!isLeft(plan), 'it fits 100 MiB')
  },
)

test.run()
