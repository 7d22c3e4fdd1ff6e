// A step before its gradients: a forward graph, and objectives with their parameters and optimizers. In: nothing. Out: the types, and a check of a
// list of objectives. All objectives are measured on the weights at the start of the step. Their updates follow, in order.
import { chain, type Either, left, right, traverseArray } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../core/errors'
import type { Graph, ValueId } from '../graph/graph'
import type { Loss, LossEntry } from '../ops/losses'
import { lossEntry, readsTarget } from '../ops/losscalls'
import type { Optimizer } from '../ops/optimizer'
import type { Updates } from '../ops/updates'
import { checkedOptimizer } from './optimizer'

/** A term of an objective: weight * loss(of, to). */
export interface Term {
  /** The reported name of the loss. */
  readonly name: string
  readonly loss: Loss
  readonly of: ValueId
  /** A computed or fed value, or a number that replaces each element of one. */
  readonly to: { readonly value: ValueId; readonly detached: boolean } | { readonly constant: number }
  readonly weight: number
  /** 1 for the pixels that count and 0 for the others. Without a mask, all pixels count. */
  readonly mask?: ValueId
}

export interface Objective {
  readonly name: string
  readonly optimizer: Optimizer
  readonly updates: Updates
  /** Its trained parameters, and the optimizer of each. */
  readonly params: ReadonlyMap<ValueId, Optimizer>
  readonly terms: readonly Term[]
}

/** The op that makes `reader` reads `input` as a constant. */
export interface Detached {
  readonly reader: ValueId
  readonly input: ValueId
}

/** The result of elaboration, and the input of the passes. */
export interface ElaboratedStep {
  readonly graph: Graph
  readonly objectives: readonly Objective[]
  readonly detached: readonly Detached[]
}

/** Returns the same step for another graph, where `at` maps the values. */
export const renumbered = (s: ElaboratedStep, graph: Graph, at: (v: ValueId) => ValueId): ElaboratedStep => ({
  graph,
  objectives: s.objectives.map((o) => ({
    ...o,
    params: new Map([...o.params].map(([p, by]) => [at(p), by])),
    terms: o.terms.map((t) => ({
      ...t,
      of: at(t.of),
      to: 'constant' in t.to ? t.to : { ...t.to, value: at(t.to.value) },
      ...(t.mask === undefined ? {} : { mask: at(t.mask) }),
    })),
  })),
  detached: s.detached.map((d) => ({ reader: at(d.reader), input: at(d.input) })),
})

/** Returns the values that passes must keep: inputs of losses, masks, outputs, and both ends of the edges where gradients end. */
export const heldValues = (s: ElaboratedStep): ReadonlySet<ValueId> =>
  new Set([
    ...s.objectives.flatMap((o) =>
      o.terms.flatMap((t) => [t.of, ...('constant' in t.to ? [] : [t.to.value]), ...(t.mask === undefined ? [] : [t.mask])]),
    ),
    ...s.detached.flatMap((d) => [d.reader, d.input]),
    ...s.graph.values.flatMap((v) => (v.role === 'output' ? [v.id] : [])),
  ])

const wrong = ({ name }: Objective, reason: string, legal: string): Either<GraphError, never> =>
  left({ tag: 'ObjectiveInvalid', objective: name, reason, legal })

const checkedTerm =
  (graph: Graph, o: Objective) =>
  ({ name, loss, weight, to, mask }: Term): Either<GraphError, LossEntry> =>
    pipe(
      lossEntry(loss),
      chain((entry) => {
        const { labels, shares, symmetric } = entry
        if (!Number.isFinite(weight)) return wrong(o, `the weight of '${name}' is ${weight}`, 'a finite number')
        if ('constant' in to) {
          if (mask !== undefined) return wrong(o, `'${name}' compares pixels of a mask with ${to.constant}`, 'a fed tensor')
          if (labels) return wrong(o, `'${name}' compares class labels with ${to.constant}`, 'a fed tensor of class labels')
          if (readsTarget(loss)) return wrong(o, `'${name}' compares with ${to.constant}, but reads a target`, 'a fed tensor')
          if (shares) return wrong(o, `'${name}' compares shares of classes with ${to.constant}`, 'a tensor of shares')
          return Number.isFinite(to.constant)
            ? right(entry)
            : wrong(o, `'${name}' compares with ${to.constant}`, 'a finite number')
        }
        return graph.values[to.value]!.role === 'activation' && !to.detached && !labels && !symmetric
          ? wrong(o, `the target of '${name}' is computed`, 'a fed or detached target')
          : right(entry)
      }),
    )

/** Adds a new name, or returns an error if the name is not new. */
const newIn = (names: Set<string>, name: string, role: string): Either<GraphError, unknown> =>
  names.has(name) ? left({ tag: 'DuplicateName', name, role }) : right(names.add(name))

export const checkedObjectives = (graph: Graph, objectives: readonly Objective[]): Either<GraphError, unknown> => {
  const [names, losses] = [new Set<string>(), new Set<string>()]
  const owner = new Map<ValueId, string>()
  const owned = (o: Objective) => (p: ValueId) =>
    owner.has(p)
      ? wrong(
          o,
          `parameter '${graph.values[p]!.name}' is already trained by objective '${owner.get(p)}'`,
          'one objective for each parameter',
        )
      : right(owner.set(p, o.name))
  const checked = (o: Objective): Either<GraphError, unknown> =>
    pipe(
      newIn(names, o.name, 'objective'),
      chain(() => traverseArray((t: Term) => newIn(losses, t.name, 'loss'))(o.terms)),
      chain((terms) =>
        terms.length === 0 ? wrong(o, 'it has no losses', 'at least one') : traverseArray(owned(o))([...o.params.keys()]),
      ),
      chain(() => traverseArray(checkedOptimizer)([...new Set([o.optimizer, ...o.params.values()])])),
      chain(() => traverseArray(checkedTerm(graph, o))(o.terms)),
    )
  return traverseArray(checked)(objectives)
}
