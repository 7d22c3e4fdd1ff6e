import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { callFlops, factsOf, gapOf, liveBytes, opFlops, planJson, segmentFlops, swapBound } from '../../src/report/facts'
import { repeatedCalls } from '../../staging/plan/repeated'
import { bytesOf } from '../../staging/core/bytes'
import type { Call, Cell, Plan, View } from '../../staging/plan/plan'
import { chainPlan, LINK, play, stagingOf } from './plans'

/** The fields that `plan --json` promises. */
const PROMISED = [
  'model',
  'input',
  'parameters',
  'strategy',
  'allocator',
  'machine',
  'budgetBytes',
  'peakBytes',
  'liveBytes',
  'inCoreBytes',
  'hostBytes',
  'diskBytes',
  'computeSeconds',
  'makespanSeconds',
  'boundSeconds',
  'gap',
  'recomputeSeconds',
  'haloRatio',
  'bytesOut',
  'bytesIn',
  'segments',
  'instructions',
  'planningSeconds',
  'measuringSeconds',
  'callTimes',
] as const

const VALUE = 16 * 512 * 512 * 4

test('plan --json has every field that the design names', () => {
  const plan = chainPlan({ layers: 4, size: 512, recompute: true, swap: true })
  const json = planJson(plan, play(plan), stagingOf(plan)) as Record<string, unknown>
  for (const key of PROMISED) assert.ok(json[key] !== undefined, `${key} is missing`)
  assert.is(JSON.parse(JSON.stringify(json)).peakBytes, bytesOf(plan.peakPages))
})

test('parameters are counted from the graph, and persistent bytes hold them', () => {
  const facts = factsOf(chainPlan({ layers: 4, size: 64 }), stagingOf(chainPlan({ layers: 4, size: 64 })))
  assert.is(facts.parameters, 4 * 16 * 16 * 9)
  assert.is(facts.persistentBytes, 4 * 4 * 16 * 16 * 9)
  assert.equal(facts.input, [1, 16, 64, 64])
})

test('live bytes of a chain kept whole: all activations, the incoming gradient and its successor', () => {
  const plan = chainPlan({ layers: 4, size: 512 })
  // Worst at the first conv2d_bwd_data: image, conv0..conv3, dy, dx; conv3's output is gone after the loss, and so is the target.
  const weights = 4 * 16 * 16 * 9 * 4
  const dw = 16 * 16 * 9 * 4
  const atLossGradient = 5 * VALUE + VALUE + VALUE + weights
  const atFirstBackward = 4 * VALUE + 2 * VALUE + weights + dw
  assert.is(liveBytes(plan), Math.max(atLossGradient, atFirstBackward))
})

test('live bytes never exceed the peak, and swapping lowers them', () => {
  const kept = chainPlan({ layers: 6, size: 512 })
  const moved = chainPlan({ layers: 6, size: 512, swap: true })
  for (const plan of [kept, moved]) assert.ok(liveBytes(plan) <= bytesOf(plan.peakPages))
  assert.is(liveBytes(kept) - liveBytes(moved), VALUE)
})

test('values that share a storage count from first to last touch, rounded up to 64 bytes', () => {
  const plan = chainPlan({ layers: 2, size: 64 })
  const shared: Plan = {
    ...plan,
    calls: plan.calls.map((c) => ({ ...c, ins: [], outs: [] })),
    cells: [
      { id: 0, label: 'a', scope: 'whole', values: [0], bytes: 65, segment: -1, first: 0, last: 2 },
      { id: 1, label: 'b', scope: 'whole', values: [], bytes: 10, segment: -1, first: 2, last: 3 },
      { id: 2, label: 'c', scope: 'whole', values: [1], bytes: 1000, segment: -1, first: 4, last: 4 },
      { id: 3, label: 'w', scope: 'persistent', values: [2], bytes: 1, segment: -1, first: 1, last: 1 },
    ],
    storages: [
      { id: 0, label: 'arena', bytes: 2048, cells: [0, 1, 2] },
      { id: 1, label: 'w', bytes: 64, cells: [3] },
    ],
    places: [
      { storage: 0, offset: 0 },
      { storage: 0, offset: 128 },
      { storage: 0, offset: 192 },
      { storage: 1, offset: 0 },
    ],
    residencies: [{ storage: 0, from: 0, to: 1, acquire: 0, release: 5, runs: [{ page: 0, count: 1 }] }],
  }
  assert.is(liveBytes(shared), 1024 + 64)
  assert.is(liveBytes({ ...shared, cells: shared.cells.map((c) => (c.id === 2 ? { ...c, bytes: 1 } : c)) }), 128 + 64 + 64)
})

test('the locals of a tile count only where that tile touches them, and workspace only where a call uses it', () => {
  const plan = chainPlan({ layers: 2, size: 64 })
  const box = plan.calls[0]!.ins[0]!.box
  const view = (cell: number): View => ({ cell, value: 0, held: box, box })
  const call = (tile: number, cells: readonly number[], scratch = false): Call => ({
    ...plan.calls[0]!,
    tile,
    ins: cells.map(view),
    outs: [],
    workspace: scratch ? { cell: 2, bytes: 640 } : null,
  })
  const local = (id: number, bytes: number): Cell => ({
    id,
    label: '',
    scope: 'local',
    values: [0],
    bytes,
    segment: 0,
    first: 0,
    last: 5,
  })
  const tiled = (calls: readonly Call[]): Plan => ({
    ...plan,
    calls,
    residencies: [],
    cells: [local(0, 6400), local(1, 640), { ...local(2, 640), scope: 'workspace' }],
    storages: [{ id: 0, label: 'tiles', bytes: 7680, cells: [0, 1, 2] }],
    places: [0, 6400, 7040].map((offset) => ({ storage: 0, offset })),
  })
  // a and b never meet in one tile: the larger alone is the most.
  assert.is(liveBytes(tiled([call(0, [0]), call(0, [1], true), call(1, [0]), call(1, [1])])), 6400)
  // Here b is made while a is still needed.
  assert.is(liveBytes(tiled([call(0, [0]), call(0, [1], true), call(0, [0]), call(1, [1])])), 6400 + 640 + 640)
})

test('an op that an earlier segment computed is a recomputation; tiles of one segment are not', () => {
  const tiled = chainPlan({ layers: 4, size: 64, tiles: 4 })
  assert.not.ok(repeatedCalls(tiled).some(Boolean))
  const again = chainPlan({ layers: 4, size: 64, recompute: true })
  const repeated = again.calls.filter((_, i) => repeatedCalls(again)[i])
  assert.equal(
    repeated.map((c) => [c.segment, again.graph.ops[c.op]!.layer]),
    [
      [1, 'conv0'],
      [1, 'conv1'],
    ],
  )
  const facts = factsOf(again, stagingOf(again))
  assert.ok(Math.abs(facts.recomputeSeconds - repeated.reduce((n, c) => n + c.seconds, 0)) < 1e-12)
  assert.equal(facts.segments, { tiled: 0, recompute: 1 })
})

test('the halo ratio is one untiled, and counts the rows that tiles compute twice', () => {
  const untiled = chainPlan({ layers: 3, size: 64 })
  assert.is(factsOf(untiled, stagingOf(untiled)).haloRatio, 1)
  const plan = chainPlan({ layers: 3, size: 64, tiles: 2 })
  const { done, whole } = segmentFlops(plan)[0]!
  // Two tiles of 32 rows: the last layer exact, the one before with one row more each, the first with two.
  const rows = 64 + 66 + 68
  assert.ok(Math.abs(done / whole - rows / (3 * 64)) < 1e-9, `${done / whole}`)
  assert.is(whole, opFlops(plan.graph, 0) * 3)
  assert.is(callFlops(plan, { ...plan.calls[0]!, op: -1, kind: 'copy' }), 0)
})

test('the bound of swapping: the compute, or the transfers of bytes that do not fit', () => {
  const plan = { ...chainPlan({ layers: 4, size: 64 }), budgetBytes: bytesOf(10) + 5 }
  const staging = { ...stagingOf(plan), inCore: { peakBytes: bytesOf(110), computeSeconds: 0.1 } }
  assert.is(swapBound(plan, staging), bytesOf(2 * 100) / LINK.outBytesPerSecond)
  assert.is(swapBound(plan, { ...staging, inCore: { ...staging.inCore, computeSeconds: 1 } }), 1)
  assert.is(swapBound({ ...plan, budgetBytes: bytesOf(200) }, staging), 0.1)
})

test('the gap is the share above the bound; without a bound there is none', () => {
  const step = { makespanSeconds: 1.5 }
  assert.is(gapOf({ bound: { seconds: 1.2, isCompute: false } }, step)?.toFixed(6), '0.250000')
  assert.is(gapOf({ bound: { seconds: 1.5, isCompute: true } }, step), 0)
  assert.is(gapOf({ bound: undefined }, step), undefined)
  const plan = chainPlan({ layers: 4, size: 64 })
  const { boundSeconds, gap } = planJson(plan, play(plan), { ...stagingOf(plan), bound: undefined })
  assert.equal([boundSeconds, gap], [null, null])
})

test('traffic counts saves, loads from the tier, and fed values separately', () => {
  const plan = chainPlan({ layers: 4, size: 512, swap: true })
  const { traffic } = factsOf(plan, stagingOf(plan))
  assert.equal(traffic, { out: VALUE, in: VALUE, fed: 2 * VALUE, handedOut: 0 })
})

test.run()
