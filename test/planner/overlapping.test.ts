// The next step's input, loaded while a step ends: the wait of a step, its memory, and steps without a gain.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile, type Work } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import { isForNext } from '../../staging/plan/ahead'
import type { Plan } from '../../staging/plan/plan'
import { inCorePages, scheduled } from '../../staging/planner/fastest'
import { machines } from '../../staging/sim/machines'
import { outcomeOf, simulate } from '../../staging/sim/simulate'
import type { Timeline } from '../../staging/sim/timeline'
import { overlapping } from '../../staging/planner/overlapping'
import { type Candidate, swappingOnDemand } from '../../staging/schedule/candidate'
import { inCoreSegments } from '../../staging/schedule/incore'
import { layOut } from '../../staging/schedule/layout'
import { homesOf } from '../../staging/search/lower'
import { problemOf } from '../../staging/search/problem'
import { FULL } from '../full'
import { trainingGraph } from '../golden/golden'
import { Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const v100 = machines['v100-pcie-16g']!
const linkOf = (inBytesPerSecond: number): Machine => ({ ...v100, link: { ...v100.link, inBytesPerSecond } })

interface Step {
  readonly plan: Plan
  readonly timeline: Timeline
  readonly work: Readonly<Record<Work, number>>
}

const stepOf = (graph: Graph, machine: Machine, strategy: string, pages: number): Step => {
  const work = { offered: 0, 'laid out': 0, simulated: 0 }
  const count = (w: Work): void => {
    work[w]++
  }
  const plan = compile(graph, { strategy, machine, budgetBytes: bytesOf(pages), count })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.peakPages <= pages)
  return { plan: plan.right, timeline: simulate(plan.right, machine.link), work }
}

const loadedAhead = ({ residencies, calls }: Plan): number => residencies.filter((r) => isForNext(r, calls.length)).length
const waits = ({ timeline }: Step): number => timeline.stallSeconds.data / timeline.makespanSeconds

test('a step in core waits for none of its input', () => {
  for (const [name, batch] of [
    ['alexnet', 256],
    ['efficientnet-b0', 32],
  ] as const) {
    const graph = trainingGraph(name, [batch, 3, 224, 224])
    const whole = stepOf(graph, v100, 'in-core', 8000)
    const overlapped = stepOf(graph, v100, 'auto', 8000)
    assert.ok(waits(whole) > 0.03, `${name}: ${waits(whole)}`)
    assert.is(waits(overlapped), 0, name)
    assert.is(overlapped.timeline.computeSeconds, whole.timeline.computeSeconds)
    assert.equal(overlapped.plan.segments, whole.plan.segments)
    assert.ok(loadedAhead(overlapped.plan) > 0)
  }
})

test('a sample that is read in bands is loaded once', () => {
  const sizes = [
    [8, 512],
    [1, 2048],
  ] as const
  const loads = sizes.map(([batch, side]) => {
    const graph = trainingGraph('resnet18', [batch, 3, side, side])
    const { plan } = stepOf(graph, linkOf(2e9), 'auto', 8000)
    const input = graph.values.find((v) => v.role === 'input')!
    const isInput = ({ storage }: (typeof plan.residencies)[number]): boolean =>
      plan.storages[storage]!.cells.some((c) => plan.cells[c]!.values.includes(input.id))
    const pages = new Map<number, number>()
    for (const r of plan.residencies)
      if (isInput(r) && r.swapIn?.from === 'source') pages.set(r.from, (pages.get(r.from) ?? 0) + 1)
    return Math.max(...pages.values())
  })
  assert.equal(loads, [2, 1])
})

test('the largest memory of a timeline is the peak of the plan', () => {
  const { plan, timeline } = stepOf(trainingGraph('resnet18', [32, 3, 224, 224]), v100, 'auto', 4000)
  assert.is(Math.max(...timeline.memory.map((m) => m.pages)), plan.peakPages)
})

test('in less memory than in-core takes, too', () => {
  const graph = trainingGraph(FULL ? 'convnext-tiny' : 'resnet18', [32, 3, 224, 224])
  const half = Math.ceil(inCorePages(graph, v100) / 2)
  const overlapped = stepOf(graph, v100, 'auto', half)
  assert.ok(loadedAhead(overlapped.plan) > 0)
  assert.ok(waits(overlapped) < 0.003, `${waits(overlapped)}`)
})

test('where the input is there at once, a step that fits is in-core', () => {
  const { plan, work } = stepOf(trainingGraph('alexnet', [256, 3, 224, 224]), linkOf(1e13), 'auto', 8000)
  assert.is(plan.strategy, 'in-core')
  assert.equal(work, { offered: 1, 'laid out': 1, simulated: 1 })
})

test('a budget without room for two inputs has the plan without overlap', () => {
  const graph = trainingGraph('alexnet', [256, 3, 224, 224])
  const least = inCorePages(graph, v100)
  const { plan } = stepOf(graph, linkOf(1e9), 'auto', least)
  assert.ok(plan.peakPages <= least)
})

/** Nine weights of 2.25 MiB, all of them in the lower tier. */
const atHome = (() => {
  const s = new Sketch([1, 256, 16, 16])
  let x = s.image
  for (let k = 0; k < 9; k++) x = s.relu(s.conv(x, `c${k}`, 256, 3, undefined, false), `r${k}`)
  const graph = trained(s, x)
  const p = problemOf(graph, v100)
  const persistents = homesOf(p, new Uint8Array(p.units.length).fill(1))
  return swappingOnDemand(layOut(graph, inCoreSegments(graph), v100, { packing: 'dense', persistents }), v100)
})()

test('parameters of the lower tier are loaded in the step before, if the step waits for them', () => {
  const machine = { ...v100, link: { ...v100.link, inBytesPerSecond: 1e11, outBytesPerSecond: 1e11 } }
  const { graph } = atHome.layout
  const pages = atHome.least + 20
  const secondsOf = (c: Candidate): number => {
    const plan = scheduled(c, 'auto', { machine, budgetBytes: bytesOf(pages) })
    return plan ? outcomeOf(plan, machine.link).makespanSeconds : Infinity
  }
  const alone = secondsOf(atHome)
  const offered = overlapping(graph, machine, pages, atHome, alone)
  let [least, best]: [number, Candidate] = [alone, atHome]
  let seconds = Infinity
  for (let next = offered.next(seconds); !next.done; next = offered.next(seconds)) {
    seconds = secondsOf(next.value)
    if (seconds < least) [least, best] = [seconds, next.value]
  }
  assert.ok(least < 0.98 * alone, `${least} of ${alone}`)
  const crossing = best.fit(pages).filter((t) => t.kind === 'home' && t.ahead !== undefined)
  assert.ok(crossing.length > 0)
  // A weight that the last calls update cannot leave and return before the step ends.
  assert.ok(crossing.every(({ stays }) => stays[stays.length - 1]!.last < atHome.layout.calls.length - 1))
})

test.run()
