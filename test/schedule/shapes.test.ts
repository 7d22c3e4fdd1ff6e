// Planners read the same kinds of objects by the million: V8 does so fast only where those of a kind have few shapes. An object that spreads
// another and then adds to it has a shape of its own, each time. In: plans with homes, with tiles. Out: shapes, counted by the engine.
import { isLeft } from 'fp-ts/Either'
import { setFlagsFromString } from 'node:v8'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { graphOf, machine } from '../../bench/lab/steps'
import { compile } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Graph, withFewObjectShapes } from '../../staging/graph/graph'
import type { Plan } from '../../staging/plan/plan'

setFlagsFromString('--allow-natives-syntax')
const isOfOneShape = new Function('a', 'b', 'return %HaveSameMap(a, b)') as (a: object, b: object) => boolean

const shapes = (objects: readonly object[]): number => {
  const seen: object[] = []
  for (const o of objects) if (!seen.some((s) => isOfOneShape(s, o))) seen.push(o)
  return seen.length
}

const on = machine('v100-pcie-16g')
const graph = graphOf('resnet18', on, 16, 128)!

test('the count finds objects that spread another one and add to it', () => {
  const attrs = Array.from({ length: 30 }, (_, i) => ({ eps: 1, count: i }))
  assert.is(shapes(attrs), 1)
  assert.ok(shapes(attrs.map((a, i) => ({ ...a, slope: i }))) > 1)
})

test('values, ops and their attributes have few shapes', () => {
  assert.ok(shapes(graph.values) <= 3, `values have ${shapes(graph.values)}`)
  assert.is(shapes(graph.ops), 1)
  const kinds = new Set(graph.ops.map((op) => op.kind))
  const attrs = shapes(graph.ops.map((op) => op.attrs))
  assert.ok(attrs <= kinds.size, `attributes of ${kinds.size} kinds have ${attrs}`)
  assert.is(fingerprint(withFewObjectShapes(graph)), fingerprint(graph))
})

const lying = (of: Graph, strategy: string, budget: number): Plan => {
  const plan = compile(of, { strategy, machine: on, budgetBytes: mib(budget) })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  const { calls, cells, storages, places, residencies } = plan.right
  assert.is(shapes(calls.flatMap((c) => [...c.ins, ...c.outs])), 1)
  assert.ok(shapes(calls) <= 3, `calls have ${shapes(calls)}`)
  assert.is(shapes(cells), 1)
  assert.is(shapes(places), 1)
  assert.ok(shapes(storages) <= 2, `storages have ${shapes(storages)}`)
  assert.ok(shapes(residencies) <= 8, `residencies have ${shapes(residencies)}`)
  return plan.right
}

test('calls with parameters at home, their operands and places have one hidden class each', () => {
  assert.ok(lying(graph, 'auto', 120).storages.some((s) => s.home !== undefined))
})

test('and of tiles', () => {
  assert.ok(lying(graphOf('vgg11-features', on, 8, 128)!, 'tiled', 192).calls.some((c) => c.tile > 0))
})

test('lists of calls and segments have one kind in V8, or two if they may be empty, however hot their function is', () => {
  for (let i = 0; i < 2; i++) compile({ ...graph }, { strategy: 'auto', machine: on, budgetBytes: mib(120) })
  const { calls, segments, graph: planned } = lying({ ...graph }, 'auto', 120)
  assert.is(shapes(planned.ops.map((op) => op.ins)), 1)
  assert.ok(shapes(calls.flatMap((c) => [c.ins, c.outs])) <= 2)
  assert.ok(shapes(segments.flatMap((s) => s.body.flatMap((step) => (step.slices ? [step.slices] : [])))) <= 1)
  assert.is(shapes(segments.map((s) => s.body)), 1)
})

test.run()
