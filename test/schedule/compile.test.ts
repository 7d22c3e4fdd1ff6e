// The passes together: working budgets, the words of refused ones, and the chosen plan.
import { type Either, isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf, mib, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { renderError, type StageError } from '../../staging/core/errors'
import { copiesIn } from '../../staging/graph/copied'
import type { Graph } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import { type Plan, tilesOf, UNTILED } from '../../staging/plan/plan'
import { strategies } from '../../staging/planner/strategies'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { GATE } from '../full'
import { trainingGraph } from '../golden/golden'
import { samePad, Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const machine = machines['v100-pcie-16g']!

/** Depthwise convolutions with many channels: values of three pages each, few parameters, and not many tiles to try. */
const CHANNELS = 16384
const SIZE = 8
const depthwise = (s: Sketch, x: Ref, layer: string): Ref =>
  s.conv(x, layer, CHANNELS, 3, { ...samePad(3), groups: CHANNELS }, false)
const networks: Readonly<Record<string, () => Graph>> = {
  chain: () => {
    const s = new Sketch([1, CHANNELS, SIZE, SIZE], 'chain')
    return trained(
      s,
      [1, 2, 3, 4].reduce<Ref>((x, i) => s.relu(depthwise(s, x, `c${i}`), `r${i}`), s.image),
    )
  },
  normed: () => {
    const s = new Sketch([2, CHANNELS / 2, SIZE, SIZE], 'normed')
    const conv = (x: Ref, layer: string): Ref => s.conv(x, layer, CHANNELS / 2, 3, { ...samePad(3), groups: CHANNELS / 2 }, false)
    return trained(
      s,
      [1, 2, 3].reduce<Ref>((x, i) => s.relu(s.norm(conv(x, `c${i}`), `n${i}`), `r${i}`), s.image),
    )
  },
  residual: () => {
    const s = new Sketch([1, CHANNELS, SIZE, SIZE], 'residual')
    const block = (x: Ref, i: number): Ref => {
      const y = depthwise(s, s.relu(depthwise(s, x, `a${i}`), `ra${i}`), `b${i}`)
      return s.relu(s.op('add', {}, [y, x], `sum${i}`), `r${i}`)
    }
    const x = block(s.maxPool(block(depthwise(s, s.image, 'c0'), 1), 'p', 2), 2)
    return trained(s, s.linear(s.op('flatten', {}, [s.globalPool(x, 'pool')], 'flat'), 'fc', 10), 'cross-entropy')
  },
}
/** Every strategy except in-core and the one that chooses among the others. */
const methods = strategies.filter((s) => s !== 'in-core' && s !== 'auto')
const graphs = Object.values(networks).map((make) => make())

const compiled = new Map<string, Either<StageError, Plan>>()
const at = (graph: Graph, strategy: string, pages: number): Either<StageError, Plan> => {
  const key = `${graph.name} ${strategy} ${pages}`
  const known = compiled.get(key) ?? compile(graph, { strategy, machine, budgetBytes: bytesOf(pages), algorithms: 'fixed' })
  compiled.set(key, known)
  return known
}
const planAt = (graph: Graph, strategy: string, pages: number): Plan => {
  const p = at(graph, strategy, pages)
  if (isLeft(p)) throw new Error(`${graph.name}, ${strategy}, ${pages} pages: ${renderError(p.left)}`)
  return p.right
}
type Infeasible = Extract<StageError, { tag: 'BudgetInfeasible' }>
const refusal = (graph: Graph, strategy: string, pages: number): Infeasible => {
  const p = at(graph, strategy, pages)
  if (isRight(p) || p.left.tag !== 'BudgetInfeasible')
    throw new Error(`${graph.name}, ${strategy}: ${pages} pages should not do: ${JSON.stringify(isLeft(p) && p.left)}`)
  return p.left
}
const smallestOf = (graph: Graph, strategy: string): number => pagesIn(refusal(graph, strategy, 1).smallestBytes)

test('the smallest budget that is named works; one page less does not, and names the same', () => {
  for (const graph of GATE ? graphs : graphs.slice(0, 2))
    for (const strategy of strategies) {
      const pages = smallestOf(graph, strategy)
      assert.ok(planAt(graph, strategy, pages).peakPages <= pages)
      const less = refusal(graph, strategy, pages - 1)
      assert.is(less.smallestBytes, bytesOf(pages))
      assert.equal([less.strategy, less.budgetBytes], [strategy, bytesOf(pages - 1)])
    }
})

test('every method needs less than in-core; auto needs no more than any', () => {
  for (const graph of graphs) {
    const inCore = smallestOf(graph, 'in-core')
    // `sft` and `recompute:conv` move nothing. On images this small, tiles that grow both ways hold no less, nor do outputs of convolutions.
    const others = methods.filter((s) => s !== 'sft' && s !== 'recompute:conv').map((s) => smallestOf(graph, s))
    for (const pages of others) assert.ok(pages < inCore, `${graph.name}: ${pages} of ${inCore}`)
    // Only `auto` moves small parameters and splits weights.
    const auto = smallestOf(graph, 'auto')
    assert.ok(auto <= Math.min(...others), `${graph.name}: ${auto} of ${Math.min(...others)}`)
  }
})

test('a strategy that fits a budget fits each larger one, and no plan exceeds its budget', () => {
  const graph = graphs[2]!
  for (const strategy of strategies) {
    const least = smallestOf(graph, strategy)
    const most = smallestOf(graph, 'in-core') + 1
    const stride = strategy === 'in-core' || strategy === 'checkpoint:sqrt' ? 2 : 9
    for (let pages = least - 2; pages <= most; pages += stride) {
      const p = at(graph, strategy, pages)
      assert.is(isRight(p), pages >= least, `${strategy} at ${pages}; the least is ${least}`)
      if (isRight(p)) assert.ok(p.right.peakPages <= pages)
    }
  }
})

test('a budget is whole pages, rounded down', () => {
  const graph = graphs[0]!
  const pages = smallestOf(graph, 'in-core')
  const options = { strategy: 'in-core', machine, algorithms: 'fixed' as const }
  assert.ok(isRight(compile(graph, { ...options, budgetBytes: bytesOf(pages) + PAGE_BYTES - 1 })))
  assert.ok(isLeft(compile(graph, { ...options, budgetBytes: bytesOf(pages) - 1 })))
})

test('the refusal lists the values in the way, largest first, and at most those that exist', () => {
  for (const graph of graphs)
    for (const strategy of strategies) {
      const e = refusal(graph, strategy, 1)
      assert.ok(e.inTheWay.length > 0 && e.inTheWay.length <= 5)
      const sizes = e.inTheWay.map((w) => w.bytes)
      assert.equal(
        sizes,
        [...sizes].sort((a, b) => b - a),
      )
      assert.ok(sizes.reduce((a, b) => a + b, 0) <= e.smallestBytes)
      const words = renderError(e)
      assert.ok(
        words.includes(`(${e.smallestBytes} bytes)`) && words.includes(`'${strategy}'`) && words.includes(e.inTheWay[0]!.label),
        words,
      )
    }
})

test('in-core keeps all values and moves none; other strategies recompute, swap or tile if needed', () => {
  for (const graph of graphs) {
    const inCore = planAt(graph, 'in-core', smallestOf(graph, 'in-core'))
    assert.equal(
      inCore.segments.map((s) => s.phase),
      ['forward', 'backward'],
    )
    assert.ok(inCore.residencies.every((r) => !r.swapOut))
    assert.is(inCore.peakPages, smallestOf(graph, 'in-core'))
    const halfway = (strategy: string): Plan =>
      planAt(graph, strategy, Math.floor((smallestOf(graph, strategy) + inCore.peakPages) / 2))
    assert.ok(halfway('checkpoint:sqrt').segments.some((s) => s.phase === 'recompute'))
    assert.ok(halfway('checkpoint:sqrt').residencies.every((r) => !r.swapOut))
    const greedy = planAt(graph, 'swap:greedy', smallestOf(graph, 'swap:greedy'))
    assert.equal(greedy.segments, inCore.segments)
    assert.ok(greedy.residencies.some((r) => r.swapOut) && greedy.tierBytes > 0)
    assert.ok(halfway('tiled').segments.some((s) => tilesOf(s.grid) > 1))
  }
})

/** In steps of 20 pages, a search in tiles and pages is that much behind the luckiest of 18 others. It does not ask them. */
const NEARLY_ALWAYS = 1.07

test('auto is nearly as fast as any other in simulation, in-core as soon as that fits', () => {
  const seconds = (p: Plan): number => simulate(p, machine.link).makespanSeconds
  for (const graph of graphs) {
    const inCore = smallestOf(graph, 'in-core')
    const [whole, kept] = [planAt(graph, 'auto', inCore), planAt(graph, 'in-core', inCore)]
    if (copiesIn(whole.graph).size > 0) assert.ok(seconds(whole) < seconds(kept))
    else assert.equal(whole.segments, kept.segments)
    const least = Math.min(...methods.map((s) => smallestOf(graph, s)))
    for (const pages of [least, Math.floor((least + inCore) / 2), inCore - 1]) {
      const auto = planAt(graph, 'auto', pages)
      const rivals = methods
        .map((s) => at(graph, s, pages))
        .filter(isRight)
        .map((p) => seconds(p.right))
      assert.ok(rivals.length > 0)
      const ratio = seconds(auto) / Math.min(...rivals)
      assert.ok(ratio <= NEARLY_ALWAYS, `${graph.name} at ${pages} pages: ${ratio}`)
    }
  }
})

test('auto asks the others for this budget even where their lists hold nothing that could win', () => {
  const graph = trainingGraph('resnet32-cifar', [64, 3, 48, 48])
  const seconds = (strategy: string): number => {
    const plan = compile(graph, { strategy, machine, budgetBytes: mib(80), algorithms: 'fixed' })
    return isRight(plan) ? simulate(plan.right, machine.link).makespanSeconds : Infinity
  }
  assert.ok(seconds('auto') <= seconds('checkpoint:optimal'))
})

test('a strategy that does not exist', () => {
  const e = at(graphs[0]!, 'swap:everything', 100)
  if (isRight(e)) throw new Error('an error was expected')
  assert.equal(e.left, { tag: 'UnknownStrategy', got: 'swap:everything', legal: strategies })
})

test('a network without tileable dimensions has a plan, too: values that do not fit leave whole', () => {
  const s = new Sketch([8, 16, 1, 1], 'layers')
  const graph = trained(s, s.linear(s.relu(s.linear(s.image, 'fc1', 32), 'r'), 'fc2', 4), 'cross-entropy')
  assert.equal(
    planAt(graph, 'tiled', 64).segments.map((x) => x.grid),
    [UNTILED, UNTILED],
  )
})

test('a plan states its network, machine and options', () => {
  const plan = planAt(graphs[0]!, 'swap:greedy', 40)
  assert.equal(
    [plan.machine, plan.algorithms, plan.budgetBytes, plan.strategy],
    ['v100-pcie-16g', 'fixed', mib(80), 'swap:greedy'],
  )
  const order = plan.residencies.map((r) => r.acquire)
  assert.equal(
    order,
    [...order].sort((a, b) => a - b),
    'residencies in order of acquire',
  )
})

test.run()
