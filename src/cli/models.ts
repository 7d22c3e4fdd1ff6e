// `spillway models`: the zoo. Out: name, parameters, layers and default input of each network.
import { isLeft, right } from 'fp-ts/Either'
import { elaborate, elaborateStep } from '../../dsl'
import { zoo, type ZooEntry, type ZooStep, zooSteps } from '../zoo'
import { elementsOf } from '../../staging/core/box'
import { showCount, showShape } from '../report/format'
import type { Done, Output } from './output'

interface Row {
  readonly name: string
  readonly parameters: number
  readonly layers: number
  readonly input: readonly number[]
  readonly loss: string
}

const rowOf = (entry: ZooEntry): Row => {
  const model = entry.build()
  const graph = isLeft(model) ? model : elaborate(model.right, entry.name)
  if (isLeft(model) || isLeft(graph)) throw new Error(`the zoo's ${entry.name} does not build`)
  return {
    name: entry.name,
    parameters: graph.right.graph.values.reduce((n, v) => n + (v.role === 'param' ? elementsOf(v.shape) : 0), 0),
    layers: model.right.layers.length,
    input: entry.defaultInput,
    loss: entry.loss,
  }
}

const stepRowOf = (entry: ZooStep): Row => {
  const step = entry.build()
  const elaborated = isLeft(step) ? step : elaborateStep(step.right, entry.name)
  if (isLeft(elaborated)) throw new Error(`the zoo's ${entry.name} does not build`)
  const { graph, objectives } = elaborated.right
  return {
    name: entry.name,
    parameters: graph.values.reduce((n, v) => n + (v.role === 'param' ? elementsOf(v.shape) : 0), 0),
    layers: new Set(graph.ops.map((o) => o.layer)).size,
    input: entry.defaultInput,
    loss: objectives.map((o) => o.name).join(', '),
  }
}

const line = (name: string, parameters: string, layers: string, input: string, loss: string): string =>
  `${name.padEnd(28)}${parameters.padStart(14)}${layers.padStart(8)}  ${input.padEnd(14)}${loss}`

export const listModels = (out: Output): Done => {
  const rows = [...zoo.map(rowOf), ...zooSteps.map(stepRowOf)]
  out.answer(
    { models: rows },
    [
      line('name', 'parameters', 'layers', 'input', 'loss'),
      ...rows.map((r) => line(r.name, showCount(r.parameters), String(r.layers), showShape(r.input), r.loss)),
    ].join('\n'),
  )
  return right(undefined)
}
