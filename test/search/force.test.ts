// timeout 1200
// The search against brute force, on graphs of at most eight ops, updates aside: `auto` is nearly as fast as the fastest of all decisions. All are
// simulated: every split into loops, every set of recomputed ops, tiles in powers of two. Parameters stay on the device. Cases with too many
// decisions are left out.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import type { Graph, OpId } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Ref } from '../../staging/ops/op'
import { scheduled } from '../../staging/planner/fastest'
import { resident } from '../../staging/schedule/candidate'
import { inCoreLayout } from '../../staging/schedule/incore'
import { keepAll } from '../../staging/search/decisions'
import { PREFETCH_RESERVE } from '../../staging/search/limits'
import { Lowering } from '../../staging/search/lower'
import { Model } from '../../staging/search/model'
import { mayRepeat, type Problem, problemOf } from '../../staging/search/problem'
import { machines } from '../../staging/sim/machines'
import { outcomeOf } from '../../staging/sim/simulate'
import { fewOrAll } from '../full'
import { Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const v100 = machines['v100-pcie-16g']!
const CHANNELS = 4096
const MOST_OPS = 8
const MOST_PLANS = 3000
/** The default outside of tests. */
const EFFORT = 5
/** Nearly all plans are this near to the fastest one, and all are that near. */
const NEAR = 1.01
const NEAR_ENOUGH = 1.05
const LAYERS = ['relu', 'add', 'pool'] as const

const networkOf = (layers: readonly (typeof LAYERS)[number][], batch: number): Graph => {
  const s = new Sketch([batch, CHANNELS, 16, 16], 'random')
  const attrs = { groups: CHANNELS }
  const pool = { kernelH: 2, kernelW: 2, strideH: 2, strideW: 2, padTop: 0, padLeft: 0, ceil: 0 }
  const made: Ref[] = [s.image]
  layers.forEach((kind, i) => {
    const [x, name] = [made[i]!, `l${i}`]
    const other = made.find((y) => s.b.shape(y).join() === s.b.shape(x).join())!
    const by = {
      relu: () => s.relu(x, name),
      add: () => s.op('add', {}, [x, other], name),
      pool: () => s.op('max_pool', pool, [x], name),
    }
    made.push(by[kind]())
  })
  return trained(s, s.conv(made.at(-1)!, 'last', CHANNELS, 1, attrs, false))
}

const machineOf = (faster: number): Machine => ({
  ...v100,
  link: {
    ...v100.link,
    outBytesPerSecond: faster * v100.link.outBytesPerSecond,
    inBytesPerSecond: faster * v100.link.inBytesPerSecond,
  },
})

/** All ways to choose one of each list. */
const product = <A>(lists: readonly (readonly A[])[]): readonly (readonly A[])[] =>
  lists.reduce<readonly (readonly A[])[]>((all, list) => all.flatMap((way) => list.map((a) => [...way, a])), [[]])

/** All splits of the atoms into loops. */
const splits = (p: Problem, from = 0): readonly (readonly number[])[] => {
  if (from === p.atoms) return [[]]
  const ends = Array.from({ length: p.atoms - from }, (_, k) => from + 1 + k).filter((to) => p.loopOf(from, to))
  return ends.flatMap((to) => splits(p, to).map((rest) => [to, ...rest]))
}

/** All sets of ops that a loop can recompute: each op has a reader in the loop. */
const repeatsOf = ({ p, bodies, loops }: Model, i: number): readonly Uint8Array[] => {
  const found = new Map<string, Uint8Array>()
  const visit = (bits: Uint8Array): void => {
    const { ops } = bodies.of(loops[i]!, bits)
    if (found.has(ops.join())) return
    found.set(ops.join(), bits)
    const makers = new Set(ops.flatMap((op) => p.ins[op]!.map((v): OpId => p.maker[v]!)))
    for (const op of makers)
      if (op >= 0 && !ops.includes(op) && mayRepeat(p.atomOf, loops[i]!, op)) visit(bits.map((bit, k) => (k === op ? 1 : bit)))
  }
  visit(new Uint8Array(p.graph.ops.length))
  return [...found.values()]
}

/** The seconds of the fastest plan, or undefined if there are too many. */
const byForce = (graph: Graph, machine: Machine, pages: number): number | undefined => {
  const p = problemOf(graph, machine)
  const model = new Model(p, bytesOf(pages))
  const lowering = new Lowering(model)
  const plans = splits(p).flatMap((ends) => {
    const kept = keepAll(p, ends, 0, Infinity, PREFETCH_RESERVE)
    model.load(kept)
    const choices = model.heads.map((i) => {
      const { tiles, most } = model.loops[i]!
      const counts = [1, 2, 4, 8].filter((n) => n === 1 || (tiles && n <= most.B))
      return repeatsOf(model, i).flatMap((bits) => counts.map((count) => ({ i, bits, count })))
    })
    return choices.reduce((n, list) => n * list.length, 1) > MOST_PLANS
      ? [undefined]
      : product(choices).map((loops) => ({ kept, loops }))
  })
  if (plans.length > MOST_PLANS || plans.includes(undefined)) return undefined
  let least = Infinity
  for (const { kept, loops } of plans as Exclude<(typeof plans)[number], undefined>[]) {
    model.load(kept)
    for (const { i, bits } of loops) model.setBits(i, bits)
    model.settle(p.atoms - 1)
    for (const { i, count } of loops) if (count > 1) model.setTileBytes(i, model.bytesFor(i, count))
    model.settle(p.atoms - 1)
    const lowered = lowering.segments()
    const candidate = lowered && lowering.candidate(lowered)
    const plan = candidate && scheduled(candidate, 'auto', { machine, budgetBytes: bytesOf(pages) })
    if (plan) least = Math.min(least, outcomeOf(plan, machine.link).makespanSeconds)
  }
  return least
}

interface Case {
  readonly layers: readonly (typeof LAYERS)[number][]
  readonly batch: number
  readonly faster: number
  readonly share: number
}

/** The time over that of the fastest plan, or undefined if the budget is too small or there are too many plans. */
const ratioOf = ({ layers, batch, faster, share }: Case): number | undefined => {
  const machine = machineOf(faster)
  const graph = networkOf(layers, batch)
  assert.ok(graph.ops.filter((op) => op.phase !== 'update').length <= MOST_OPS)
  const pages = Math.floor(share * resident(inCoreLayout(graph, machine)).least)
  const plan = compile(graph, { strategy: 'auto', machine, budgetBytes: bytesOf(pages), effort: EFFORT })
  if (isLeft(plan)) return undefined
  const best = byForce(graph, machine, pages)
  return best === undefined ? undefined : outcomeOf(plan.right, machine.link).makespanSeconds / best
}

const pairs = product([LAYERS, LAYERS])
const all = product<Case[keyof Case]>([
  [...LAYERS.map((layer) => [layer]), ...pairs],
  [2, 4, 8],
  [1, 4, 16],
  [0.5, 0.65, 0.8],
]).map(([layers, batch, faster, share]) => ({ layers, batch, faster, share }) as Case)

test('in small graphs, the search is nearly as fast as the best of all decisions', () => {
  const few: readonly Case[] = [
    { layers: ['relu'], batch: 2, faster: 1, share: 0.65 },
    { layers: ['add'], batch: 2, faster: 1, share: 0.5 },
    { layers: ['pool'], batch: 4, faster: 1, share: 0.65 },
  ]
  const ratios = fewOrAll(few, all).flatMap((c) => {
    const ratio = ratioOf(c)
    if (ratio !== undefined) assert.ok(ratio <= NEAR_ENOUGH, `${JSON.stringify(c)}: ${ratio} times the best`)
    return ratio ?? []
  })
  const near = ratios.filter((ratio) => ratio <= NEAR).length
  assert.ok(ratios.length >= few.length && near >= 0.9 * ratios.length, `${near} of ${ratios.length} within 1 %`)
})

test.run()
