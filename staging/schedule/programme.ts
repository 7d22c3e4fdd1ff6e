// A bound that no plan beats, as a linear programme. In: a training graph with norms, a machine, a budget. Out: the programme in CPLEX's
// LP format, for any solver. The last statistics of the batch part the step in two: all that leads to them has run over the whole batch
// before, the backward runs after. At that point each part of a value that the backward reads is on the device, in the lower tier, or
// computed again later, from what is there or computed again itself. Working sets are left out; tiles take no less than the whole, and what
// ranks exchange may go beside all of it.
// Worked example, one value of 12 GB that is made again in 0.5 s, half of which fits, a link of 12 GB/s: min of 0.5 s out and in, 0.25 s.
import { ROW_EXCHANGES } from '../graph/bands'
import { valueBytes, type Graph, isPersistent, type Op, type ValueId } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { COLLECTIVES } from '../graph/ranks'
import { SMALL_BYTES } from '../memory/place'
import { sigmaDelta } from '../ops/op'
import { forwardOps } from '../tile/segments'
import { operandsOf } from '../tile/slices'
import { opCosts } from './chain'
import { makersOf } from './rerun'

/** The last op of the forward that sums up the batch and is read in the forward; null where there is none, or several losses. */
const barrierOf = (graph: Graph): Op | null => {
  if (graph.values.filter((v) => v.role === 'loss').length !== 1) return null
  const forward = forwardOps(graph)
  const read = new Set(forward.filter((op) => op.phase === 'forward').flatMap((op) => op.ins))
  const sums = forward.filter(
    (op) => op.phase === 'forward' && op.outs.some((v) => graph.values[v]!.role === 'stat' && read.has(v)),
  )
  const loss = forward.find((op) => op.phase === 'loss')
  const leading = loss ? leadingTo(graph, loss) : new Set<Op>()
  return sums.filter((op) => leading.has(op) && sumsTheBatch(graph, op)).at(-1) ?? null
}

/** Statistics of each image are complete with the image. */
const sumsTheBatch = (graph: Graph, op: Op): boolean => operandsOf(graph, op).outs.every((o) => o.access === null)

/** An op and all that it needs of the step. */
const leadingTo = (graph: Graph, last: Op): ReadonlySet<Op> => {
  const makers = makersOf(graph)
  const found = new Set<Op>()
  const pending = [last]
  for (let op = pending.pop(); op; op = pending.pop()) {
    if (found.has(op)) continue
    found.add(op)
    for (const v of op.ins) if (makers.has(v)) pending.push(makers.get(v)!)
  }
  return found
}

/** Whether a part of the result needs as large a part of an input: not where windows lie apart. */
const needsAsMuch = (graph: Graph, op: Op, input: number): boolean => {
  const access = operandsOf(graph, op).ins[input]!.access
  return (
    access !== null &&
    (['B', 'H', 'W'] as const).every((d) => access[d].tag === 'all' || (sigmaDelta(access[d])?.delta ?? -1) >= 0)
  )
}

const sum = (terms: readonly (readonly [factor: number, name: string])[]): string =>
  terms.map(([factor, name]) => `${factor < 0 ? '-' : '+'} ${Math.abs(factor)} ${name}`).join('\n   ')

const isExchange = ({ kind }: Op): boolean => COLLECTIVES.includes(kind) || ROW_EXCHANGES.includes(kind)

/** Null where nothing parts the step. Sizes in MiB, times in milliseconds. */
export const programmeOf = (graph: Graph, machine: Machine, budgetBytes: number): string | null => {
  const barrier = barrierOf(graph)
  if (!barrier) return null
  const costs = opCosts(graph, machine)
  const seconds = (op: Op): number => (isExchange(op) ? 0 : costs[op.id]!.seconds)
  const makers = makersOf(graph)
  const before = leadingTo(graph, barrier)
  const ms = (ops: Iterable<Op>): number => [...ops].reduce((n, op) => n + 1e3 * seconds(op), 0)
  const size = (v: ValueId): number => valueBytes(graph.values[v]!) / 2 ** 20
  const isActivation = (v: ValueId): boolean => graph.values[v]!.role === 'activation'
  const values = [...before].flatMap((op) => op.outs).filter(isActivation)
  const has = new Set(values)
  const read = new Set(graph.ops.filter((op) => op.phase === 'backward').flatMap((op) => op.ins))
  // Large ones may be away then.
  const persistent = graph.values
    .filter((v) => isPersistent(v) && valueBytes(v) < SMALL_BYTES)
    .reduce((n, v) => n + size(v.id), 0)
  const again = [...before].filter((op) => op.outs.some(isActivation))
  const backward = graph.ops.filter((op) => op.phase === 'backward')
  const [out, into] = [machine.link.outBytesPerSecond, machine.link.inBytesPerSecond].map((rate) => rate / 1e3 / 2 ** 20) as [
    number,
    number,
  ]
  const there = (v: ValueId): readonly (readonly [number, string])[] => [
    [1, `k${v}`],
    [1, `m${v}`],
    [1, `a${makers.get(v)!.id}`],
  ]
  const remade = again.map((op) => [1e3 * seconds(op), `a${op.id}`] as const)
  const moved = (rate: number) => values.map((v) => [size(v) / rate, `m${v}`] as const)
  const negative = (terms: readonly (readonly [number, string])[]) => terms.map(([f, name]) => [-f, name] as const)
  const constraints = [
    `${sum([
      [1, 'T'],
      [-1, 'T1'],
      [-1, 'T2'],
    ])} >= 0`, // prettier-ignore
    `${sum([[1, 'T'], ...negative(remade)])} >= ${ms(graph.ops)}`,
    `T1 >= ${ms(before)}`,
    `${sum([[1, 'T1'], ...negative(moved(out))])} >= 0`,
    `${sum([[1, 'T2'], ...negative(remade)])} >= ${ms(backward)}`,
    `${sum([[1, 'T2'], ...negative(moved(into))])} >= 0`,
    `${sum(values.map((v) => [size(v), `k${v}`] as const))} <= ${Math.max(0, budgetBytes / 2 ** 20 - persistent)}`,
    ...values.filter((v) => read.has(v)).map((v) => `${sum(there(v))} >= 1`),
    ...again.flatMap((op) =>
      op.ins.flatMap((v, i) =>
        has.has(v) && needsAsMuch(graph, op, i) ? [`${sum([...there(v), [-1, `a${op.id}`]])} >= 0`] : [],
      ),
    ),
  ]
  const bounds = [...values.flatMap((v) => [`k${v} <= 1`, `m${v} <= 1`]), ...again.map((op) => `a${op.id} <= 1`)]
  return `Minimize\n T\nSubject To\n ${constraints.join('\n ')}\nBounds\n ${bounds.join('\n ')}\nEnd\n`
}
