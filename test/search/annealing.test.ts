// The model of the search agrees with a fresh model after any changes, and with the simulator after a correction. The search beats its seeds.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isLeft } from 'fp-ts/Either'
import { compile, type Work } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { randomFrom } from '../../staging/core/random'
import type { Graph } from '../../staging/graph/graph'
import { computeSeconds } from '../../staging/schedule/bound'
import { type Candidate, resident } from '../../staging/schedule/candidate'
import { inCoreLayout } from '../../staging/schedule/incore'
import { heldSwappingAll } from '../../staging/schedule/stays'
import { anneal } from '../../staging/search/anneal'
import { calibrate } from '../../staging/search/calibrate'
import { keepAll } from '../../staging/search/decisions'
import { Lowering } from '../../staging/search/lower'
import { Model } from '../../staging/search/model'
import { Chooser, move } from '../../staging/search/moves'
import { type Problem, problemOf } from '../../staging/search/problem'
import { refine } from '../../staging/search/search'
import { seeds } from '../../staging/search/seeds'
import { machines } from '../../staging/sim/machines'
import { outcomeOf } from '../../staging/sim/simulate'
import { scheduled } from '../../staging/planner/fastest'
import { trainingGraph } from '../golden/golden'
import type { Ref } from '../../staging/ops/op'
import { Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'
import { gateTest } from '../full'

const machine = machines['v100-pcie-16g']!
const NEARLY = 1e-9
const graph = trainingGraph('resnet18', [16, 3, 224, 224])
const pagesIn = (g: Graph, share: number): number => Math.floor(resident(inCoreLayout(g, machine)).least / share)

/** Parameters in the lower tier. */
const AWAY = 1

const modelOf = (p: Problem, pages: number): Model => new Model(p, bytesOf(pages))
const p18 = problemOf(graph, machine)

test('after any changes the price is that of the same decisions priced afresh', () => {
  const pages = pagesIn(graph, 3)
  for (const seed of [0, 2, 4, 6]) {
    const model = modelOf(p18, pages)
    model.load(seeds(p18, model)[seed]!)
    const random = randomFrom(7)
    const chooser = new Chooser(model)
    let taken = 0
    for (let k = 0; k < 400; k++) {
      const before = model.price()
      const undo = move(model, chooser, random)
      if (!undo) continue
      if (k % 3 === 0) {
        undo()
        assert.is(model.price(), before)
        continue
      }
      chooser.note()
      taken++
      if (k % 20 !== 1) continue
      const again = modelOf(p18, pages).load(model.decisions)
      assert.ok(Math.abs(again - model.price()) <= NEARLY * again, `${again} and ${model.price()} after ${k} changes`)
    }
    assert.ok(taken > 100)
  }
})

test('a limit ends the price early, and a lower price is the same without it', () => {
  const model = modelOf(p18, pagesIn(graph, 3))
  const price = model.load(seeds(p18, model)[0]!)
  assert.is(model.price(price), price)
  assert.is(model.price(price * (1 - NEARLY)), Infinity)
  assert.is(model.price(0), Infinity)
})

test('joined atoms are the loops of the step, and a split loop has all of its ops', () => {
  const longest = p18.endsFor(false, Infinity)
  const ops = (ends: readonly number[]): readonly number[] =>
    ends.flatMap((to, k) => {
      const { ops: own, after } = p18.loopOf(k === 0 ? 0 : ends[k - 1]!, to)!
      return [...own, ...after]
    })
  const atoms = Array.from({ length: p18.atoms }, (_, k) => k + 1)
  assert.ok(longest.length < atoms.length)
  assert.equal(
    [...ops(longest)].sort((a, b) => a - b),
    graph.ops.map((op) => op.id),
  )
  assert.equal(
    [...ops(atoms)].sort((a, b) => a - b),
    graph.ops.map((op) => op.id),
  )
  // Statistics of a norm are complete only when their loop ends.
  assert.is(p18.loopOf(0, p18.atoms), null)
  longest.slice(0, -1).forEach((to, k) => assert.is(p18.loopOf(k === 0 ? 0 : longest[k - 1]!, to + 1), null))
})

test('nothing is gained where all fits: the price is the compute of the step', () => {
  const model = new Model(p18, 1e15)
  const price = model.load(keepAll(p18, p18.endsFor(false, Infinity), AWAY, 1e15, 0))
  // Beside the computing only the input and the parameters come, and parameters go home.
  assert.ok(price >= p18.graphSeconds && price < 1.2 * p18.graphSeconds, `${price} of ${p18.graphSeconds}`)
})

test('annealing keeps the best that it has seen, and the same seed finds the same', () => {
  const p = p18
  const found = [1, 1, 2].map((random) => {
    const model = modelOf(p, pagesIn(graph, 3))
    const before = model.load(seeds(p, model)[0]!)
    const best = anneal(model, { work: 60_000, hot: p.meanSeconds, cold: p.meanSeconds / 100 }, randomFrom(random))
    const after = model.load(best)
    assert.ok(after < 0.95 * before, `${after} of ${before}`)
    return after
  })
  assert.is(found[0], found[1])
})

/** The simulated seconds of a candidate, Infinity if it does not fit. */
const simulated = (candidate: Candidate, pages: number): number => {
  const plan = scheduled(candidate, 'auto', { machine, budgetBytes: bytesOf(pages) })
  return plan ? outcomeOf(plan, machine.link).makespanSeconds : Infinity
}

test('after a correction by a layout, the model and the simulator agree within a tenth', () => {
  const pages = pagesIn(graph, 2)
  const p = p18
  const model = modelOf(p, pages)
  model.load(seeds(p, model)[0]!)
  model.load(anneal(model, { work: 200_000, hot: p.meanSeconds, cold: p.meanSeconds / 100 }, randomFrom(1)))
  const lowering = new Lowering(model)
  const lowered = lowering.segments()!
  const candidate = lowering.candidate(lowered)
  calibrate(model, candidate.layout, lowered.loopOf)
  const [said, found] = [model.price(), simulated(candidate, pages)]
  assert.ok(Math.abs(said / found - 1) < 0.1, `${said} by the model, ${found} by the simulator`)
})

test('the working set of a loop in bands has the rows that two bands share', () => {
  // A row of a value has 2 MiB. Chains of 3 x 3 convolutions in one loop share several.
  const s = new Sketch([1, 64, 8192, 8192])
  const chain = (x: Ref, name: string): Ref => s.conv(s.conv(s.conv(x, `${name}1`, 64), `${name}2`, 64), `${name}3`, 64)
  const p = problemOf(trained(s, chain(chain(s.image, 'a'), 'b')), machine)
  const model = new Model(p, 128 * 2 ** 20)
  model.load(seeds(p, model)[0]!)
  const lowering = new Lowering(model)
  const { segments, loopOf, ...others } = lowering.segments()!
  const { calls, alike } = lowering.candidate({ segments, loopOf, ...others }).layout
  const held = heldSwappingAll(alike, calls.length)
  const most = new Map<number, number>()
  calls.forEach(({ segment }, k) => most.set(loopOf[segment]!, Math.max(most.get(loopOf[segment]!) ?? 0, bytesOf(held[k]!))))
  const inBands = [...most].filter(([i]) => i >= 0 && model.tiles[i]! > 1)
  assert.is(inBands.length, 2)
  for (const [i, bytes] of inBands) {
    const expected = model.alwaysBytes + model.holds(i)
    assert.ok(Math.abs(bytes / expected - 1) < 0.05, `${bytes} bytes in the layout, ${expected} by the model`)
  }
})

test('the search finds a plan that is faster than all seeds', () => {
  const g = trainingGraph('resnet50', [32, 3, 224, 224])
  const pages = pagesIn(g, 8)
  const p = problemOf(g, machine)
  const model = modelOf(p, pages)
  const lowering = new Lowering(model)
  const seed = Math.min(
    ...seeds(p, model).map((d) => {
      model.load(d)
      return simulated(lowering.candidate(lowering.segments()!), pages)
    }),
  )
  const search = refine(g, machine, pages, Infinity, { work: 6e5, calls: 12_000 })
  let best = Infinity
  for (let next = search.next(); !next.done; ) {
    const seconds = simulated(next.value, pages)
    best = Math.min(best, seconds)
    next = search.next(seconds)
  }
  assert.ok(seed < Infinity && best < 0.9 * seed, `${best} seconds, ${seed} by the best seed`)
})

test('if a step takes little longer than its compute, nothing is searched', () => {
  const compute = computeSeconds(inCoreLayout(graph, machine))
  assert.is(refine(graph, machine, pagesIn(graph, 2), 1.005 * compute).next().done, true)
})

gateTest('a deep network in an eighth of its memory is faster than by mixtures of stages, in a plan that verify accepts', () => {
  const g = trainingGraph('resnet34', [32, 3, 224, 224])
  const compute = computeSeconds(inCoreLayout(g, machine))
  const plan = compile(g, { strategy: 'auto', machine, budgetBytes: bytesOf(pagesIn(g, 8)), effort: 0.5 })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  const ratio = outcomeOf(plan.right, machine.link).makespanSeconds / compute
  assert.ok(ratio < 1.45, `${ratio}`)
})

test('more effort simulates more plans, and the fastest one is not slower', () => {
  const g = trainingGraph('resnet34', [32, 3, 224, 224])
  const [less, more] = [0.1, 0.8].map((effort) => {
    let simulated = 0
    const o = { strategy: 'auto', machine, budgetBytes: bytesOf(pagesIn(g, 8)), effort }
    const count = (work: Work): void => {
      if (work === 'simulated') simulated++
    }
    const plan = compile(g, { ...o, count })
    if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
    return { simulated, seconds: outcomeOf(plan.right, machine.link).makespanSeconds }
  })
  assert.ok(more!.simulated > less!.simulated && more!.seconds <= less!.seconds, JSON.stringify([less, more]))
})

test.run()
