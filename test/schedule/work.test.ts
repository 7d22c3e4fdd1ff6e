// The work of planning, in counts: layouts and simulations of `auto` among its candidates, and its questions to the machine. Seconds depend on the
// machine's other work; counts do not.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { graphOf, machine as stated } from '../../bench/lab/steps'
import { compile, type Work } from '../../staging/compile'
import { bytesOf, mib } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import { inCoreLayout } from '../../staging/schedule/incore'
import { leastPages } from '../../staging/schedule/stays'
import { machines } from '../../staging/sim/machines'
import { outcomeOf } from '../../staging/sim/simulate'
import { fewOrAll } from '../full'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const inCorePages = (graph: Graph): number => {
  const layout = inCoreLayout(graph, machine)
  return leastPages(layout.planned, layout.calls.length)
}

interface Done {
  readonly strategy: string
  readonly work: Readonly<Record<Work, number>>
  /** How often the machine was asked for the seconds of a call. */
  readonly asked: number
}

const planned = (graph: Graph, strategy: string, pages: number): Done => {
  const work = { offered: 0, 'laid out': 0, simulated: 0 }
  let asked = 0
  const counting: Machine = {
    ...machine,
    seconds: (kind, attrs, shapes) => {
      asked++
      return machine.seconds(kind, attrs, shapes)
    },
  }
  const count = (w: Work): void => {
    work[w]++
  }
  const plan = compile(graph, { strategy, machine: counting, budgetBytes: bytesOf(pages), count })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  return { strategy: plan.right.strategy, work, asked }
}

test('a step that fits is one candidate, laid out and simulated once; where it waits for its input, a few more', () => {
  const graph = trainingGraph('resnet18', [4, 3, 64, 64])
  const { strategy, work } = planned(graph, 'auto', 2 * inCorePages(graph))
  assert.is(strategy, 'auto')
  // Images with targets, and images alone, which cannot be faster.
  assert.equal(work, { offered: 3, 'laid out': 3, simulated: 2 })
})

test('tiles that compute more than the best takes end no list: finer ones may compute less', () => {
  const on = stated('v100-pcie-16g')
  const graph = graphOf('vgg13-bn', on, 128, 224)!
  const seconds = (strategy: string): number => {
    const plan = compile(graph, { strategy, machine: on, budgetBytes: mib(5890) })
    if (isLeft(plan)) throw new Error(renderError(plan.left))
    return outcomeOf(plan.right, on.link).makespanSeconds
  }
  assert.ok(seconds('auto') < seconds('tiled'))
})

/** The search simulates few of the plans that its model prices. */
const MOST_LAID_OUT = 80

test('under a third of its memory, the search lays few plans out', () => {
  for (const name of fewOrAll(['googlenet'], ['resnet50', 'densenet121', 'googlenet'])) {
    const graph = trainingGraph(name, [32, 3, 224, 224])
    const { work } = planned(graph, 'auto', Math.floor(inCorePages(graph) / 3))
    assert.ok(work['laid out'] <= MOST_LAID_OUT, `${name}: ${work['laid out']} of ${work.offered} candidates laid out`)
  }
})

test('the machine times a call over whole values once for all schedules', () => {
  const graph = trainingGraph('resnet18', [4, 3, 64, 64])
  for (const strategy of ['checkpoint:optimal', 'checkpoint:sqrt', 'hybrid:tflms']) {
    const { work, asked } = planned(graph, strategy, inCorePages(graph))
    assert.ok(work['laid out'] > 1, `${strategy} has several schedules`)
    // A hybrid asks again for the few ops that it may recompute.
    assert.ok(asked < 1.1 * graph.ops.length, `${strategy} asks ${asked} times about ${graph.ops.length} ops`)
  }
})

test.run()
