// `spillway models`: the zoo. Out: name, parameters, layers and default input of each network.
import * as E from 'fp-ts/Either'
import { right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { elaborate } from '../../dsl'
import { zoo, type ZooEntry } from '../zoo'
import { elementsOf } from '../../staging/core/box'
import { certain } from '../../staging/core/certain'
import { lossText } from '../../staging/ops/loss'
import { showCount, showShape } from '../report/format'
import { stepWith } from '../stage/prepare'
import type { Done, Output } from './output'

interface Row {
  readonly name: string
  readonly parameters: number
  readonly layers: number
  readonly input: readonly number[]
  readonly loss: string
}

const rowOf = (entry: ZooEntry): Row => {
  const { graph, objectives, layers } = pipe(
    entry.build(),
    E.chainW((model) => stepWith(model, entry)),
    E.chainW((step) => elaborate(step, entry.name)),
    certain(`the zoo network ${entry.name} builds`),
  )
  return {
    name: entry.name,
    parameters: graph.values.reduce((n, v) => n + (v.role === 'param' ? elementsOf(v.shape) : 0), 0),
    layers: layers.length,
    input: entry.defaultInput,
    loss: entry.loss === undefined ? objectives.map((o) => o.name).join(', ') : lossText(entry.loss),
  }
}

const line = (name: string, parameters: string, layers: string, input: string, loss: string): string =>
  `${name.padEnd(28)}${parameters.padStart(14)}${layers.padStart(8)}  ${input.padEnd(14)}${loss}`

export const listModels = (out: Output): Done => {
  const rows = zoo.map(rowOf)
  const lines = rows.map((r) => line(r.name, showCount(r.parameters), String(r.layers), showShape(r.input), r.loss))
  return right(out.answer({ models: rows }, [line('name', 'parameters', 'layers', 'input', 'loss'), ...lines].join('\n')))
}
