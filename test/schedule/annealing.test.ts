// The model of the search agrees with a fresh model after any changes, and with the simulator after a correction. The search beats its seeds.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isLeft } from 'fp-ts/Either'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { randomFrom } from '../../staging/core/random'
import type { Graph } from '../../staging/graph/graph'
import { computeSeconds } from '../../staging/schedule/bound'
import { type Candidate, resident } from '../../staging/schedule/candidate'
import { inCoreLayout } from '../../staging/schedule/incore'
import { anneal, move } from '../../staging/schedule/annealing/anneal'
import { calibrate } from '../../staging/schedule/annealing/calibrate'
import { Lowering } from '../../staging/schedule/annealing/lower'
import { Model } from '../../staging/schedule/annealing/model'
import { alwaysBytes, type Problem, problemOf } from '../../staging/schedule/annealing/problem'
import { refine } from '../../staging/schedule/annealing/search'
import { seeds } from '../../staging/schedule/annealing/seeds'
import { machines } from '../../staging/sim/machines'
import { outcomeOf } from '../../staging/sim/simulate'
import { scheduled } from '../../staging/schedule/search'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const NEARLY = 1e-9
const graph = trainingGraph('resnet18', [16, 3, 224, 224])
const pagesIn = (g: Graph, share: number): number => Math.floor(resident(inCoreLayout(g, machine)).least / share)

const problem = (g: Graph, pages: number, cuts = false): { readonly p: Problem; readonly room: number } => {
  const room = bytesOf(pages) - alwaysBytes(g, 'home')
  return { p: problemOf(g, machine, { persistents: 'home', wholeBytes: room / 8, cuts }), room }
}

test('after any changes the price is that of the same decisions priced afresh', () => {
  for (const cuts of [false, true]) {
    const { p, room } = problem(graph, pagesIn(graph, 3), cuts)
    const model = new Model(p, room)
    model.load(seeds(p, model)[0]!)
    const random = randomFrom(7)
    let taken = 0
    for (let k = 0; k < 400; k++) {
      const before = model.price()
      const undo = move(model, random)
      if (!undo) continue
      if (k % 3 === 0) {
        undo()
        assert.is(model.price(), before)
        continue
      }
      taken++
      if (k % 20 !== 1) continue
      const fresh = new Model(p, room)
      const again = fresh.load(model.decisions)
      assert.ok(Math.abs(again - model.price()) <= NEARLY * again, `${again} and ${model.price()} after ${k} changes`)
    }
    assert.ok(taken > 100)
  }
})

test('nothing is gained where all fits: the price is the compute of the step', () => {
  const { p } = problem(graph, pagesIn(graph, 1))
  const model = new Model(p, 1e15)
  const bits = p.loops.map(() => new Uint8Array(p.graph.ops.length))
  const price = model.load({ repeats: bits, tileBytes: new Float64Array(p.loops.length).fill(1e15), prefetchRoom: 0 })
  const compute = p.loops.reduce((n, l) => n + l.seconds + l.afterSeconds, 0)
  // Beside the computing only the input and the parameters come, and parameters go home.
  assert.ok(price >= compute && price < 1.2 * compute, `${price} of ${compute}`)
})

test('annealing keeps the best that it has seen, and the same seed finds the same', () => {
  const { p, room } = problem(graph, pagesIn(graph, 3))
  const found = [1, 1, 2].map((random) => {
    const model = new Model(p, room)
    const before = model.load(seeds(p, model)[0]!)
    const best = anneal(model, { steps: 800, hot: p.meanSeconds, cold: p.meanSeconds / 100 }, randomFrom(random))
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
  const { p, room } = problem(graph, pages)
  const model = new Model(p, room)
  model.load(seeds(p, model)[0]!)
  model.load(anneal(model, { steps: 3000, hot: p.meanSeconds, cold: p.meanSeconds / 100 }, randomFrom(1)))
  const lowering = new Lowering(model)
  const { segments, loopOf } = lowering.segments()!
  const candidate = lowering.candidate(segments, model.prefetchRoom)
  calibrate(model, candidate.layout, loopOf)
  const [said, found] = [model.price(), simulated(candidate, pages)]
  assert.ok(Math.abs(said / found - 1) < 0.1, `${said} by the model, ${found} by the simulator`)
})

test('the search finds a plan that is faster than all seeds', () => {
  const g = trainingGraph('resnet50', [32, 3, 224, 224])
  const pages = pagesIn(g, 8)
  const { p, room } = problem(g, pages)
  const model = new Model(p, room)
  const lowering = new Lowering(model)
  const seed = Math.min(
    ...seeds(p, model).map((d) => {
      model.load(d)
      return simulated(lowering.candidate(lowering.segments()!.segments, d.prefetchRoom), pages)
    }),
  )
  const search = refine(g, machine, pages, Infinity, { prices: 2e5, stepsPerDecision: 40, calls: 6000 })
  let best = Infinity
  for (let next = search.next(); !next.done; ) {
    const seconds = simulated(next.value, pages)
    best = Math.min(best, seconds)
    next = search.next(seconds)
  }
  assert.ok(seed < Infinity && best < 0.9 * seed, `${best} seconds, ${seed} by the best seed`)
})

test('where a step hardly takes longer than its compute, nothing is looked for', () => {
  const compute = computeSeconds(inCoreLayout(graph, machine))
  assert.is(refine(graph, machine, pagesIn(graph, 2), 1.005 * compute).next().done, true)
})

test('a deep network in an eighth of its memory is faster than by mixtures of stages, in a plan that verify accepts', () => {
  const g = trainingGraph('resnet34', [32, 3, 224, 224])
  const compute = computeSeconds(inCoreLayout(g, machine))
  const plan = compile(g, { strategy: 'auto', machine, budgetBytes: bytesOf(pagesIn(g, 8)) })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  const ratio = outcomeOf(plan.right, machine.link).makespanSeconds / compute
  assert.ok(ratio < 1.45, `${ratio}`)
})

test.run()
