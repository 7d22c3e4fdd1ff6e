// A step before its gradients: a forward graph, and what is minimised in it, objectives with parameters and optimizers of
// their own. In: nothing. Out: the types, and what is wrong with a list of objectives in words. All objectives are measured
// on the weights that the step began with; their updates follow, in order.
import { isLeft } from 'fp-ts/Either'
import type { GraphError } from '../core/errors'
import type { Graph, ValueId } from '../graph/graph'
import { type Loss, lossEntry } from '../ops/loss'
import type { Optimizer } from '../ops/optimizer'
import { optimizerFault } from './optimizer'

/** weight * loss(of, to). */
export interface Term {
  /** What the loss is reported as. */
  readonly name: string
  readonly loss: Loss
  readonly of: ValueId
  /** A computed or fed value, or a number that stands for every element of one. */
  readonly to: { readonly value: ValueId; readonly detached: boolean } | { readonly constant: number }
  readonly weight: number
}

export interface Objective {
  readonly name: string
  readonly optimizer: Optimizer
  readonly params: ReadonlySet<ValueId>
  readonly terms: readonly Term[]
}

/** The op that makes `reader` takes `input` as a constant. */
export interface Detached {
  readonly reader: ValueId
  readonly input: ValueId
}

/** What elaboration gives, and what the passes begin with. */
export interface ElaboratedStep {
  readonly graph: Graph
  readonly objectives: readonly Objective[]
  readonly detached: readonly Detached[]
}

/** The same step of another graph, in which its values have other numbers. */
export const renumbered = (s: ElaboratedStep, graph: Graph, at: (v: ValueId) => ValueId): ElaboratedStep => ({
  graph,
  objectives: s.objectives.map((o) => ({
    ...o,
    params: new Set([...o.params].map(at)),
    terms: o.terms.map((t) => ({
      ...t,
      of: at(t.of),
      to: 'constant' in t.to ? t.to : { ...t.to, value: at(t.to.value) },
    })),
  })),
  detached: s.detached.map((d) => ({ reader: at(d.reader), input: at(d.input) })),
})

/** What losses read, and both ends of the edges at which gradients end. */
export const heldValues = (s: ElaboratedStep): ReadonlySet<ValueId> =>
  new Set([
    ...s.objectives.flatMap((o) => o.terms.flatMap((t) => ('constant' in t.to ? [t.of] : [t.of, t.to.value]))),
    ...s.detached.flatMap((d) => [d.reader, d.input]),
  ])

const invalid = (objective: string, reason: string, legal: string): GraphError => ({
  tag: 'ObjectiveInvalid',
  objective,
  reason,
  legal,
})

const termFault = (graph: Graph, o: Objective, t: Term): GraphError | undefined => {
  const known = lossEntry(t.loss)
  if (isLeft(known)) return known.left
  const { labels, symmetric } = known.right
  if (!Number.isFinite(t.weight)) return invalid(o.name, `the weight of '${t.name}' is ${t.weight}`, 'a finite number')
  if ('constant' in t.to) {
    if (labels) return invalid(o.name, `'${t.name}' compares classes with ${t.to.constant}`, 'a fed tensor of class labels')
    return Number.isFinite(t.to.constant)
      ? undefined
      : invalid(o.name, `'${t.name}' compares with ${t.to.constant}`, 'a finite number')
  }
  const target = graph.values[t.to.value]!
  if (target.role === 'activation' && !t.to.detached && !labels && !symmetric)
    return invalid(o.name, `the target of '${t.name}' is computed`, 'a fed or detached target')
  return undefined
}

export const objectivesFault = (graph: Graph, objectives: readonly Objective[]): GraphError | undefined => {
  const owner = new Map<ValueId, string>()
  const names = new Set<string>()
  const losses = new Set<string>()
  for (const o of objectives) {
    if (names.has(o.name)) return { tag: 'DuplicateName', name: o.name, role: 'objective' }
    names.add(o.name)
    for (const t of o.terms) {
      if (losses.has(t.name)) return { tag: 'DuplicateName', name: t.name, role: 'loss' }
      losses.add(t.name)
    }
    if (o.terms.length === 0) return invalid(o.name, 'it has no losses', 'at least one')
    for (const p of o.params) {
      if (owner.has(p))
        return invalid(
          o.name,
          `parameter '${graph.values[p]!.name}' is trained by objective '${owner.get(p)}' already`,
          'one objective for each parameter',
        )
      owner.set(p, o.name)
    }
    const fault = optimizerFault(o.optimizer) ?? o.terms.map((t) => termFault(graph, o, t)).find((f) => f !== undefined)
    if (fault) return fault
  }
  return undefined
}
