// `spillway models`: the zoo. Out: name, parameters, layers and default input of each network.
import * as E from 'fp-ts/Either'
import { right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { elaborate } from '../../dsl'
import { zoo, type ZooEntry } from '../zoo'
import { elementsOf } from '../../staging/core/box'
import { certain } from '../../staging/core/certain'
import { lossText } from '../../staging/ops/losses'
import { showCount, showShape } from '../report/format'
import { textTable } from '../report/texttable'
import { type Done, type Output, terminalWidth } from './output'

interface Row {
  readonly name: string
  readonly parameters: number
  readonly layers: number
  readonly input: readonly number[]
  readonly loss: string
}

/** A network knows its layers and parameters; those of a step's networks are in its graph. */
const countsOf = (entry: ZooEntry) =>
  pipe(
    entry.build(),
    E.chain((built) =>
      built.kind === 'model'
        ? E.right({ parameters: built.parameters, layers: built.layers.length, objectives: [] })
        : pipe(
            elaborate(built, entry.name),
            E.map(({ graph, objectives, layers }) => ({
              parameters: graph.values.reduce((n, v) => n + (v.role === 'param' ? elementsOf(v.shape) : 0), 0),
              layers: layers.length,
              objectives,
            })),
          ),
    ),
    certain(`the zoo network ${entry.name} builds`),
  )

const rowOf = (entry: ZooEntry): Row => {
  const { objectives, ...counts } = countsOf(entry)
  const loss = entry.loss === undefined ? objectives.map((o) => o.name).join(', ') : lossText(entry.loss)
  return { name: entry.name, ...counts, input: entry.defaultInput, loss }
}

const COLUMNS = [
  { head: 'name' },
  { head: 'parameters', right: true, drop: 2 },
  { head: 'layers', right: true, drop: 1 },
  { head: 'input' },
  { head: 'loss', cut: true },
] as const

export const listModels = (out: Output): Done => {
  const rows = zoo.map(rowOf)
  const texts = rows.map((r) => [r.name, showCount(r.parameters), String(r.layers), showShape(r.input), r.loss])
  return right(out.answer({ models: rows }, textTable(COLUMNS, texts, terminalWidth(out)).lines.join('\n')))
}
