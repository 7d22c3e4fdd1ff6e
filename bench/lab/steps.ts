// The common part of the experiments: training graphs of zoo networks on named machines, and one planned step. In: names and shapes. Out: graphs; for
// each strategy and budget the case that `compare` reports. Missing networks and strategies give null.
import * as E from 'fp-ts/Either'
import { isLeft, isRight } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { caseOf, type FeasibleCase } from '../../src/stage/sweep'
import type { LocalMachine } from '../../src/machine/localmachine'
import { machineNamed } from '../../src/machine/machine'
import { prepare } from '../../src/stage/prepare'
import { zooEntry } from '../../src/zoo'
import { type CompileOptions, compile } from '../../staging/compile'
import { certain } from '../../staging/core/certain'
import type { Graph } from '../../staging/graph/graph'
import { replay } from '../../staging/memory/allocators/replay'
import type { Plan } from '../../staging/plan/plan'
import { strategies } from '../../staging/planner/strategies'
import { simulate } from '../../staging/sim/simulate'

export const GIB = 1024 ** 3
export const MIB = 1024 ** 2

export const machine = (name: string): LocalMachine => certain(name)(machineNamed(name, {}))

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

/** A plan of a strategy, or of a variant of it; null if none fits. */
export const planOf = (
  graph: Graph,
  on: LocalMachine,
  strategy: string,
  budgetBytes = on.memoryBytes,
  method?: CompileOptions['method'],
): Plan | null => {
  const plan = compile(graph, { strategy, budgetBytes, machine: on, ...(method ? { method } : {}) })
  return isRight(plan) ? plan.right : null
}

/** Simulated seconds of a plan; null without a plan. */
export const secondsOf = (plan: Plan | null, on: LocalMachine): number | null => plan && simulate(plan, on.link).makespanSeconds

export const rounded = (x: number | undefined | null, digits = 3): number | null =>
  x === undefined || x === null || !Number.isFinite(x) ? null : Number(x.toPrecision(digits))

/** Stored numbers have this many digits. */
export const stored = (x: number | undefined | null): number | null => rounded(x, 5)

export const percent = (x: number, digits = 1): string => `${(100 * x).toFixed(digits)} %`

/** A step relative to the bound of its budget. */
export const gap = (seconds: number | null | undefined, bound: number | null | undefined): string | null =>
  seconds && bound ? (seconds / bound).toFixed(2) : null

export const median = (xs: readonly number[]): number | null =>
  xs.length ? rounded([...xs].sort((a, b) => a - b)[xs.length >> 1]) : null

/** The same machine behind a link with a share of its rate. */
export const linked = (on: LocalMachine, share: number): LocalMachine => {
  const { outBytesPerSecond, inBytesPerSecond } = on.link
  return { ...on, link: { ...on.link, outBytesPerSecond: share * outBytesPerSecond, inBytesPerSecond: share * inBytesPerSecond } }
}

/** Norms, rectifiers and convolutions each by itself, as frameworks without fused operators run them. */
export const unfused = (on: LocalMachine): LocalMachine => ({ ...on, device: { ...on.device, fused: false } })

/** The largest budget, in steps of a GiB, with which a caching best-fit pool holds no more than the device has; null if no plan does. */
export const onBestFit = (
  graph: Graph,
  on: LocalMachine,
  strategy: string,
  method?: CompileOptions['method'],
): { readonly budget: number; readonly plan: Plan } | null => {
  for (let budget = on.memoryBytes; budget > GIB; budget -= GIB) {
    const plan = planOf(graph, on, strategy, budget, method)
    if (!plan) return null
    if (replay(plan, 'best-fit').peakBytes <= on.memoryBytes) return { budget, plan }
  }
  return null
}

/** Stored seconds have five digits. */
const ROUNDING = 1e-4

/** Says at which rows other methods are faster than `auto` in the same budget, and by how much. */
export const besideAuto = (
  methods: readonly string[],
  rows: readonly { readonly at: number; readonly seconds: readonly (number | null)[] }[],
): string => {
  const place = methods.indexOf('auto')
  const found = rows.flatMap(({ at, seconds }) => {
    const auto = seconds[place]
    return methods.flatMap((method, i) => {
      const other = seconds[i]
      return auto && other && other < auto * (1 - ROUNDING) ? [{ at, method, gain: auto / other - 1 }] : []
    })
  })
  if (found.length === 0) return 'No other method is faster than `auto` here.'
  const worst = [...new Set(found.map((f) => f.method))].map((method) => {
    const own = found.filter((f) => f.method === method)
    const most = own.reduce((a, b) => (b.gain > a.gain ? b : a))
    return `\`${method}\` at ${own.map((f) => f.at).join(', ')} (by ${percent(most.gain, 2)} at most)`
  })
  return `**Faster than \`auto\` in the same budget**: ${worst.join('; ')}.`
}
