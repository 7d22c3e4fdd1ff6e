// `spillway compare MODEL`: every strategy over a sweep of budgets, from the smallest that any can work with to in-core.
// Out: a table, or JSON: for each case what `plan` says of it, or that no plan fits.
import { isLeft, left, right } from 'fp-ts/Either'
import { ALLOCATORS, allocatorNamed } from '../../staging/memory/allocators/replay'
import { strategies } from '../../staging/schedule/strategies'
import { unknownName } from '../errors/errors'
import { writeWholeText } from '../files/whole'
import { machineNamed } from '../machine/machine'
import { showPercent, showRatio, showSeconds, showSize } from '../report/format'
import { trainingGraph } from '../stage/stage'
import { comparisonPlot } from './compare/plot'
import { type Case, compareGraph } from '../stage/sweep'
import { modelNamed } from './model'
import { optimizerOf, overrideOf } from './options'
import type { Done, Output } from './output'
import type { StagingOptions } from './stage'

export interface CompareOptions extends StagingOptions {
  readonly strategies?: readonly string[]
  readonly budgets?: number
  readonly allocators?: readonly string[]
  /** Where the plot goes. */
  readonly plot?: string
}

const rowText = (c: Case): string => {
  const head = `${showSize(c.budgetBytes).padStart(11)}  ${c.strategy.padEnd(18)}`
  if (!c.feasible)
    return `${head}  does not fit${c.smallestBytes !== undefined && Number.isFinite(c.smallestBytes) ? `: needs ${showSize(c.smallestBytes)}` : ''}`
  return (
    `${head}${showSize(c.peakBytes).padStart(11)}${showSeconds(c.makespanSeconds).padStart(12)}${showRatio(c.makespanSeconds / c.lowerBoundSeconds).padStart(9)}` +
    `${showSize(c.bytesOut).padStart(12)}${showSeconds(c.recomputeSeconds).padStart(12)}${showSeconds(c.planningSeconds).padStart(12)}` +
    (c.meanUnusable === undefined ? '' : `  ${c.allocator}, unusable free space ${showPercent(c.meanUnusable)}`)
  )
}
const HEAD = `${'budget'.padStart(11)}  ${'strategy'.padEnd(18)}${'peak'.padStart(11)}${'step'.padStart(12)}${'bound'.padStart(9)}${'out'.padStart(12)}${'recompute'.padStart(12)}${'planning'.padStart(12)}`

export const compareModel = (modelText: string, o: CompareOptions, out: Output): Done => {
  const wanted = o.strategies ?? strategies
  const unknown = wanted.find((s) => !strategies.includes(s))
  if (unknown !== undefined) return left(unknownName('strategy', unknown, strategies))
  const unheard = o.allocators?.find((a) => isLeft(allocatorNamed(a)))
  if (unheard !== undefined) return left(unknownName('allocator', unheard, ALLOCATORS))
  const named = modelNamed(modelText, overrideOf(o))
  if (isLeft(named)) return named
  const machine = machineNamed(o.machine ?? 'cpu', { spill: o.spill, algorithms: o.algorithms })
  if (isLeft(machine)) return machine
  const graph = trainingGraph(named.right.model, named.right.name, o.loss ?? named.right.loss, optimizerOf(o), machine.right)
  if (isLeft(graph)) return graph
  out.say(HEAD)
  const { algorithms, spill, allocators, budgets = 8 } = o
  const sweep = { strategies: wanted, budgets, algorithms, spill, allocators }
  const compared = compareGraph(graph.right, machine.right, sweep, (c) => out.say(rowText(c)))
  if (o.plot !== undefined) writeWholeText(o.plot, comparisonPlot(compared))
  out.answer({ ...compared, model: named.right.name }, o.plot === undefined ? '' : `plot ${o.plot}`)
  return right(undefined)
}
