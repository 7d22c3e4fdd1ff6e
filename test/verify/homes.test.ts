// Plans with large parameters at home in the lower tier: sound ones pass, and each way of losing an update is refused.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { compileSegments, paged } from '../../staging/compile'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import { isForNext } from '../../staging/plan/ahead'
import { toTape } from '../../staging/plan/tape'
import { fitted } from '../../staging/planner/fastest'
import { ahead } from '../../staging/planner/overlapping'
import { swappingOnDemand } from '../../staging/schedule/candidate'
import { inCoreSegments } from '../../staging/schedule/incore'
import { layOut } from '../../staging/schedule/layout'
import { homesOf } from '../../staging/search/lower'
import { problemOf } from '../../staging/search/problem'
import { verify } from '../../staging/verify/verify'
import type { Ref } from '../../staging/ops/op'
import { machines } from '../../staging/sim/machines'
import { trained } from '../tile/trained'
import { Sketch } from '../graph/sketch'
import type { MutablePlan } from './draft'
import { allResident, refuses, removeCall, repeatCall } from './refused'

const machine = machines['v100-pcie-16g']!

/** Three convolutions whose weights take 2.25 MiB each, in the least memory. */
const made = (() => {
  const s = new Sketch([1, 256, 4, 4])
  const conv = (x: Ref, name: string): Ref => s.conv(x, name, 256, 3, undefined, false)
  const graph = trained(s, conv(s.relu(conv(s.relu(conv(s.image, 'a'), 'ra'), 'b'), 'rb'), 'c'))
  const planned = (budgetBytes: number) =>
    compileSegments(graph, inCoreSegments(graph), { strategy: 'by hand', budgetBytes, machine })
  const refused = planned(PAGE_BYTES)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  const plan = planned(refused.left.smallestBytes)
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.is(plan.right.peakPages, pagesIn(refused.left.smallestBytes))
  return plan.right
})()
const plan = (): MutablePlan => structuredClone(made) as MutablePlan

const homeOf = (p: MutablePlan, label: string) => p.storages.find((s) => s.label === label)!
const residencies = (p: MutablePlan, label: string) => p.residencies.filter((r) => r.storage === homeOf(p, label).id)
/** The residency of its update: the one that goes home. */
const updated = (p: MutablePlan, label: string) => residencies(p, label).find((r) => r.swapOut)!

test('weights are loaded from their homes, and only written ones are saved back', () => {
  for (const label of ['a.weight', 'b.weight', 'c.weight']) {
    const all = residencies(plan(), label)
    assert.ok(all.length >= 1 && all.every((r) => r.swapIn?.from === 'tier'), label)
    assert.is(all.filter((r) => r.swapOut).length, 1, label)
  }
})

refuses(
  'the last write does not come home',
  'lost',
  plan,
  (p) => void delete updated(p, 'b.weight').swapOut,
  /are not copied to their home/,
)
refuses('the copy home starts before the last write', 'leaving', plan, (p) => {
  const r = updated(p, 'b.weight')
  r.swapOut!.start = r.swapIn!.ready + 1
})
refuses(
  'it is not swapped in from its home',
  'arriving',
  plan,
  (p) => void delete residencies(p, 'a.weight')[0]!.swapIn,
  /the step before does not load/,
)
refuses('it is read before it is there', 'arriving', plan, (p) => {
  const r = residencies(p, 'b.weight')[0]!
  r.swapIn!.ready++
  r.release = Math.max(r.release, r.swapIn!.ready + 1)
})
refuses(
  'two are at home in the same bytes',
  'tier',
  plan,
  (p) => {
    homeOf(p, 'b.weight').home = homeOf(p, 'a.weight').home!
  },
  /the homes of .* overlap/,
)
refuses('a home passes the end of the tier', 'tier', plan, (p) => {
  homeOf(p, 'c.weight').home = p.tierBytes
})
refuses(
  'a residency goes elsewhere',
  'tier',
  plan,
  (p) => {
    updated(p, 'c.weight').tierOffset! += 4096
  },
  /its home is at/,
)
refuses(
  'an activation has a home',
  'structure',
  plan,
  (p) => {
    const other = p.storages.find((s) => s.cells.some((c) => p.cells[c]!.scope !== 'persistent') && s.home === undefined)!
    other.home = p.tierBytes
    p.tierBytes += 16 * PAGE_BYTES
  },
  /has a home, but is not whole parameters/,
)
refuses(
  'something else is swapped over a home',
  'tier',
  plan,
  (p) => {
    const other = p.residencies.find((r) => p.storages[r.storage]!.home === undefined && r.swapOut && r.tierOffset !== undefined)
    // Nothing else needs to leave here: then a fed one is said to.
    const r = other ?? p.residencies.find((x) => p.storages[x.storage]!.home === undefined && x.swapIn?.from === 'source')!
    r.tierOffset = homeOf(p, 'a.weight').home!
  },
  /over the home of 'a.weight'/,
)

// ---------------------------------------------------------------- homes that share pages

/** Six convolutions whose weights take 144 KiB each, all in the lower tier, in the least memory. */
const together = (() => {
  const s = new Sketch([1, 64, 4, 4])
  let x: Ref = s.image
  for (let k = 0; k < 6; k++) x = s.relu(s.conv(x, `c${k}`, 64, 3, undefined, false), `r${k}`)
  const graph = trained(s, x)
  const p = problemOf(graph, machine)
  const persistents = homesOf(p, new Uint8Array(p.units.length).fill(1))
  const c = swappingOnDemand(layOut(graph, inCoreSegments(graph), machine, { packing: 'dense', persistents }), machine)
  const planned = fitted(c, { strategy: 'by hand', budgetBytes: bytesOf(c.least), machine })
  if (isLeft(planned)) throw new Error(renderError(planned.left))
  return paged(planned.right)
})()
const shared = (): MutablePlan => structuredClone(together) as MutablePlan
const sharedHomes = (p: MutablePlan) => p.storages.filter((s) => s.home !== undefined)
/** The storage of the weights. */
const weights = (p: MutablePlan) => sharedHomes(p).find((s) => s.label.startsWith('c0.weight'))!

test('small weights share pages of the lower tier', () => {
  assert.is(verify(together)._tag, 'Right')
  assert.equal(
    sharedHomes(shared()).map((s) => s.cells.length),
    [6, 6],
  )
})

refuses(
  'the last write to a shared page does not come home',
  'lost',
  shared,
  (p) => {
    const last = p.residencies.filter((r) => r.storage === weights(p).id && r.swapOut)
    delete last[last.length - 1]!.swapOut
  },
  /are not copied to their home/,
)
refuses(
  'two weights of a home overlap',
  'structure',
  shared,
  (p) => {
    const { cells } = weights(p)
    Object.assign(p.places[cells[1]!]!, { offset: p.places[cells[0]!]!.offset })
  },
  /side by side/,
)
refuses(
  'a home ends behind its last weight',
  'structure',
  shared,
  (p) => {
    weights(p).bytes += 4096
  },
  /bytes for/,
)

// ---------------------------------------------------------------- homes that are loaded for the next step

/** Weights of the first plan, loaded again after their update. The link is fast, so they return before the step ends. */
const loadedAhead = (() => {
  const { graph } = made
  const link = { ...machine.link, inBytesPerSecond: 1e12, outBytesPerSecond: 1e12, latencySeconds: 0 }
  const p = problemOf(graph, machine)
  const persistents = homesOf(p, new Uint8Array(p.units.length).fill(1))
  const c = swappingOnDemand(layOut(graph, inCoreSegments(graph), machine, { packing: 'dense', persistents }), machine)
  const o = { strategy: 'by hand', budgetBytes: bytesOf(c.least + 2), machine: { ...machine, link } }
  const planned = fitted(ahead(c, link, { fed: 0, home: 2 }), o)
  if (isLeft(planned)) throw new Error(renderError(planned.left))
  return paged(planned.right)
})()
const crossing = (): MutablePlan => structuredClone(loadedAhead) as MutablePlan
/** The load of b's weight for the next step, and its residencies of this step. */
const ofWeight = (p: MutablePlan) => {
  const all = residencies(p, 'b.weight')
  return {
    load: all.find((r) => isForNext(r, p.calls.length))!,
    first: all.find((r) => !r.swapIn)!,
    last: all.find((r) => r.swapOut)!,
  }
}
const without = (p: MutablePlan, r: MutablePlan['residencies'][number]): void =>
  void p.residencies.splice(p.residencies.indexOf(r), 1)

test('weights are loaded for the next step after their update', () => {
  assert.is(verify(loadedAhead)._tag, 'Right')
  const { load, last } = ofWeight(crossing())
  assert.is(load.swapIn!.from, 'tier')
  assert.ok(load.acquire >= last.release)
})

refuses('no step loads the weight', 'arriving', crossing, (p) => without(p, ofWeight(p).load), /the step before does not load/)
refuses(
  'the weight comes from the data',
  'structure',
  crossing,
  (p) => {
    ofWeight(p).load.swapIn!.from = 'source'
  },
  /not one fed/,
)
refuses(
  'it is loaded from elsewhere',
  'tier',
  crossing,
  (p) => {
    ofWeight(p).load.tierOffset = homeOf(p, 'a.weight').home!
  },
  /its home is at/,
)
/** In a page that nothing else has. */
const loadEarly = (p: MutablePlan): void => {
  const { load, first } = ofWeight(p)
  without(p, load)
  const [page, count] = [p.peakPages, load.to - load.from]
  p.peakPages += count
  p.budgetBytes += bytesOf(10)
  for (const r of [load, first]) r.runs = [{ page, count }]
  load.acquire = first.release
  p.residencies.splice(
    p.residencies.findIndex((r) => r.acquire > load.acquire),
    0,
    load,
  )
}
refuses('it is loaded before its update', 'tier', crossing, loadEarly, /still being swapped in/)
refuses('it begins the step in other pages', 'arriving', crossing, (p) => {
  ofWeight(p).load.runs = structuredClone(residencies(p, 'c.weight').find((r) => isForNext(r, p.calls.length))!.runs)
})

const refusedTape = (name: string, edit: (p: MutablePlan) => void, words: RegExp): void =>
  test(`the reader refuses: ${name}`, () => {
    const p = crossing()
    edit(p)
    assert.throws(() => new (loadNative().Session)(toTape(p), { device: 'cpu' }), words)
  })

refusedTape('a weight that is not loaded', (p) => without(p, ofWeight(p).load), /begins the step, but is not filled for the next/)
refusedTape('a home that is written after it was loaded', loadEarly, /has read these tier bytes for the next step/)

// ---------------------------------------------------------------- updates by rows

/** A dense layer of 1000 times 8448 weights, 32.2 MiB: its update is a loop over three parts. */
const dense = (() => {
  const s = new Sketch([1, 8448, 1, 1])
  const graph = trained(s, s.linear(s.image, 'fc', 1000))
  const planned = (budgetBytes: number) =>
    compileSegments(graph, inCoreSegments(graph), { strategy: 'by hand', budgetBytes, machine })
  const refused = planned(PAGE_BYTES)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  const plan = planned(refused.left.smallestBytes)
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  return plan.right
})()
const byRows = (): MutablePlan => structuredClone(dense) as MutablePlan
const updates = (p: MutablePlan) =>
  p.calls.filter((c) => c.kind === 'sgd' && p.graph.values[c.ins[0]!.value]!.name === 'fc.weight')

test('a large weight is updated by rows: it is never there with its gradient and its momentum', () => {
  const boxes = updates(byRows()).map((c) => c.ins.map((v) => v.box[0]))
  const [first, second, last] = [
    [0, 336],
    [336, 672],
    [672, 1000],
  ]
  assert.equal(
    boxes,
    [first, second, last].map((rows) => [rows, rows, rows]),
  )
  const weight = 4 * 1000 * 8448
  assert.ok(dense.peakPages * PAGE_BYTES < 2.5 * weight, `${dense.peakPages} pages`)
})

const at = (p: MutablePlan, n: number): number => p.calls.indexOf(updates(p)[n]!)
const inMemory = (p: MutablePlan): MutablePlan =>
  allResident(Object.assign(p, { storages: p.storages.map(({ home: _, ...s }) => s) }))
const resident = (): MutablePlan => inMemory(byRows())
refuses('some rows are updated twice', 'updated', resident, (p) => repeatCall(p, at(p, 1)), /was updated by call/)
refuses('some rows are not updated', 'times', resident, (p) => removeCall(p, at(p, 1)), /does not update B\[336,672\)/)
/** The n-th operand has these rows. */
const take = (c: MutablePlan['calls'][number], n: number, rows: [number, number]): void => {
  const { box, ...view } = c.ins[n]!
  c.ins[n] = { ...view, box: [rows, box[1], box[2], box[3]] }
}
refuses('the rows of a gradient are others', 'halo', resident, (p) => take(updates(p)[1]!, 1, [0, 336]), /for B\[336,672\)/)
refuses(
  'an op that is no update takes rows',
  'halo',
  resident,
  (p) => take(p.calls.find((c) => c.kind === 'linear')!, 1, [0, 336]),
  /must be whole/,
)

test.run()
