// The common part of the experiments: training graphs of zoo networks on named machines, and one planned step. In: names and shapes. Out: graphs; for
// each strategy and budget the case that `compare` reports. Missing networks and strategies give null.
import * as E from 'fp-ts/Either'
import { isLeft } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { caseOf, type FeasibleCase } from '../../src/stage/sweep'
import type { LocalMachine } from '../../src/machine/localmachine'
import { machineNamed } from '../../src/machine/machine'
import { prepare } from '../../src/stage/prepare'
import { zooEntry } from '../../src/zoo'
import type { Graph } from '../../staging/graph/graph'
import { strategies } from '../../staging/planner/strategies'

export const full = process.env['SPILLWAY_FULL'] === '1'

export const machine = (name: string): LocalMachine => {
  const found = machineNamed(name, {})
  if (isLeft(found)) throw new Error(JSON.stringify(found.left))
  return found.right
}

/** A network of the zoo, or a step of several objectives, which has its own losses. */
export const graphOf = (name: string, on: LocalMachine, batch: number, height: number, width = height): Graph | null => {
  const entry = zooEntry(name)
  if (!entry) return null
  const prepared = pipe(
    entry.build([batch, entry.defaultInput[1], height, width]),
    E.chainW((model) => prepare(model, on, { name, loss: entry.loss })),
  )
  return isLeft(prepared) ? null : prepared.right.graph
}

export const known = (names: readonly string[]): readonly string[] =>
  names.filter((n) => (strategies as readonly string[]).includes(n))

export const stepOf = (graph: Graph, on: LocalMachine, strategy: string, budget = on.memoryBytes): FeasibleCase | null => {
  const c = caseOf(graph, on, strategy, budget)
  console.log(
    `  ${graph.name} ${c.strategy} ${c.feasible ? `${c.makespanSeconds.toFixed(4)} s, planned in ${c.planningSeconds.toFixed(1)} s` : 'does not fit'}`,
  )
  return c.feasible ? c : null
}

export const rounded = (x: number | undefined | null, digits = 3): number | null =>
  x === undefined || x === null || !Number.isFinite(x) ? null : Number(x.toPrecision(digits))
