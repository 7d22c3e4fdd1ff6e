// Elaboration of a step: one forward graph in which a net that is applied again reads the same parameters, and what is to be
// minimised in it. In: a step. Out: what the passes begin with, and the layers by name in their order; or a GraphError.
// Invariant: the first application of a net declares its parameters, later ones share them; their layers are called '#2', ...
import { type Either, exists, isLeft, left, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import type { Detached, ElaboratedStep, Objective, Term } from '../staging/grad/objective'
import { GraphBuilder } from '../staging/graph/builder'
import type { Graph, ValueId } from '../staging/graph/graph'
import { elementsOf } from '../staging/core/box'
import { lossEntry } from '../staging/ops/loss'
import { opDef } from '../staging/ops/registry'
import type { Ref } from '../staging/ops/op'
import { analyse, type LayerReport } from './analyse'
import { COMBINATIONS, type Combining } from './combined'
import { fold, type Nameless } from './fold'
import type { Net, Shape } from './net'
import { algebraOf, randomKeys } from './netgraph'
import {
  type Applied,
  type Combined,
  type DetachedTensor,
  type Fed,
  isFed,
  type LossTerm,
  madeOf,
  type StepObjective,
  type Tensor,
  termsOf,
  type TrainingStep,
} from './step'

export interface Elaborated extends ElaboratedStep {
  readonly step: TrainingStep
  /** Every layer of every application, in execution order. */
  readonly layers: readonly LayerReport[]
}

interface Made {
  readonly ref: Ref
  readonly detached: boolean
}
type Result<T> = Either<GraphError, T>

const refused = (at: string, reason: string): Either<GraphError, never> => left({ tag: 'ModelInvalid', at, reason })

class StepElaboration {
  private readonly graph: GraphBuilder
  private readonly made = new Map<Tensor, Made>()
  private readonly uses = new Map<Net, number>()
  private readonly params = new Map<Net, Set<ValueId>>()
  private readonly detached: Detached[] = []
  private readonly layers: LayerReport[] = []
  private readonly nameless: Nameless = new Map()
  /** Nameless layers before a net was first applied: applied again, its layers are numbered as then. */
  private readonly before = new Map<Net, Nameless>()
  private readonly keys = randomKeys()
  private readonly combinations = new Map<Combining, number>()
  /** Fed tensors that only losses read, and whether they hold classes. */
  private readonly targets = new Map<Tensor, boolean>()

  constructor(
    private readonly step: TrainingStep,
    name: string,
  ) {
    this.graph = new GraphBuilder(name)
    const terms = termsOf(step)
    const inputs = madeOf(terms.flatMap((t) => (typeof t.to === 'number' || isFed(t.to) ? [t.of] : [t.of, t.to])))
    for (const t of terms)
      if (typeof t.to !== 'number' && isFed(t.to) && !inputs.has(t.to))
        this.targets.set(
          t.to,
          pipe(
            lossEntry(t.loss),
            exists((e) => e.labels === true),
          ),
        )
  }

  run(): Result<Elaborated> {
    const terms: Term[][] = []
    for (const o of this.step.objectives) {
      const own = this.termsOf(o)
      if (isLeft(own)) return own
      terms.push([...own.right])
    }
    const objectives: Objective[] = []
    for (const [i, o] of this.step.objectives.entries()) {
      const params = this.paramsOver(o)
      if (isLeft(params)) return params
      objectives.push({ name: o.name, optimizer: o.optimizer, params: params.right, terms: terms[i]! })
    }
    const graph = this.graph.build()
    return right({ step: this.step, graph, objectives, detached: this.detached, layers: inOrderOf(graph, this.layers) })
  }

  private termsOf(o: StepObjective): Result<readonly Term[]> {
    const terms: Term[] = []
    // Where there is one objective, its losses go by their own names.
    const scope = this.step.objectives.length === 1 ? '' : `${o.name}.`
    for (const [name, list] of Object.entries(o.losses))
      for (const [i, t] of list.entries()) {
        const term = this.term(`${scope}${name}${list.length > 1 ? `.${i}` : ''}`, t)
        if (isLeft(term)) return term
        terms.push(term.right)
      }
    return right(terms)
  }

  private term(name: string, t: LossTerm): Result<Term> {
    const of = this.tensor(t.of)
    if (isLeft(of)) return of
    const common = { name, loss: t.loss, of: of.right.ref, weight: t.weight }
    if (typeof t.to === 'number') return right({ ...common, to: { constant: t.to } })
    const to = this.tensor(t.to)
    return isLeft(to) ? to : right({ ...common, to: { value: to.right.ref, detached: to.right.detached } })
  }

  private paramsOver(o: StepObjective): Result<ReadonlySet<ValueId>> {
    const params = new Set<ValueId>()
    for (const net of o.over) {
      const own = this.params.get(net)
      if (!own)
        return left({
          tag: 'ObjectiveInvalid',
          objective: o.name,
          reason: `a net of kind '${net.kind}' that it trains is applied to nothing that a loss reads`,
          legal: 'nets that the step applies',
        })
      own.forEach((p) => params.add(p))
    }
    return right(params)
  }

  private tensor(t: Tensor): Result<Made> {
    const known = this.made.get(t)
    if (known) return right(known)
    const made = this.make(t)
    if (!isLeft(made)) this.made.set(t, made.right)
    return made
  }

  private make(t: Tensor): Result<Made> {
    switch (t.kind) {
      case 'fed': {
        const { name, shape } = t as Fed
        const classes = this.targets.get(t)
        const leaf =
          classes === undefined
            ? this.graph.input(name, shape)
            : this.graph.target(name, shape, classes ? 'i32' : this.graph.dtype)
        return map((ref: Ref) => ({ ref, detached: false }))(this.graph.checked(leaf))
      }
      case 'applied':
        return this.applied(t as Applied)
      case 'joined':
      case 'added':
      case 'multiplied':
        return this.combined(t as Combined)
      case 'detached': {
        const of = this.tensor((t as DetachedTensor).of)
        return isLeft(of) ? of : right({ ref: of.right.ref, detached: true })
      }
    }
  }

  /** Runs `make`; whatever op it appends that reads a detached one of these takes it as a constant. */
  private reading(xs: readonly Made[], make: () => Result<Ref>): Result<Made> {
    const before = this.graph.written.length
    const y = make()
    if (isLeft(y)) return y
    const held = new Set(xs.filter((x) => x.detached).map((x) => x.ref as number))
    for (const op of this.graph.written.slice(before))
      for (const v of op.ins) if (held.has(v)) this.detached.push({ reader: op.outs[0]!, input: v })
    return right({ ref: y.right, detached: held.has(y.right) })
  }

  private combined({ kind, parts }: Combined): Result<Made> {
    const made: Made[] = []
    for (const p of parts) {
      const x = this.tensor(p)
      if (isLeft(x)) return x
      made.push(x.right)
    }
    const count = (this.combinations.get(kind) ?? 0) + 1
    this.combinations.set(kind, count)
    const layer = `${kind}${count === 1 ? '' : count}`
    const twice = made.some((m) => m.detached && made.some((other) => other.ref === m.ref && !other.detached))
    if (twice) return refused(layer, 'it takes one tensor as it is and detached; legal is either')
    const [first, ...others] = made.map((m) => this.graph.shape(m.ref) as unknown as Shape)
    const { op, ft, attrs } = COMBINATIONS[kind]
    const y = this.reading(made, () =>
      map((outs: readonly Ref[]) => outs[0]!)(
        this.graph.op(
          op,
          attrs(first!, others),
          made.map((m) => m.ref),
          layer,
        ),
      ),
    )
    if (isLeft(y)) return y
    const output = this.graph.shape(y.right.ref) as unknown as Shape
    const facts = { kind: op, ft, sums: [], named: false, parameters: 0, state: 0 } as const
    this.layers.push({ ...facts, name: layer, called: layer, input: first!, output, bytes: 4 * elementsOf(output) })
    return y
  }

  private applied({ net, to }: Applied): Result<Made> {
    const x = this.tensor(to)
    if (isLeft(x)) return x
    const nameless = this.before.get(net) ?? new Map(this.nameless)
    this.before.set(net, nameless)
    const analysis = analyse(net, this.graph.shape(x.right.ref) as unknown as Shape, new Map(nameless))
    if (isLeft(analysis)) return analysis
    const use = (this.uses.get(net) ?? 0) + 1
    this.uses.set(net, use)
    const suffix = use === 1 ? '' : `#${use}`
    this.layers.push(...analysis.right.layers.map((l) => ({ ...l, name: `${l.name}${suffix}`, called: `${l.called}${suffix}` })))
    const before = this.graph.written.length
    const algebra = algebraOf(this.graph, this.keys, suffix)
    const make = (): Result<Ref> => fold(algebra, net, x.right.ref, use === 1 ? this.nameless : new Map(nameless))
    const y = this.reading([x.right], use === 1 ? make : () => this.graph.sharing(make))
    if (isLeft(y)) return y
    const ops = this.graph.written.slice(before)
    const keeps = use > 1 ? ops.find((op) => opDef(op.kind).update) : undefined
    if (keeps)
      return refused(
        keeps.layer,
        'its net is applied twice, and its running statistics can move once a step; legal are frozen norms and norms of each image',
      )
    const params = this.params.get(net) ?? new Set()
    for (const op of ops) for (const v of op.ins) if (this.graph.value(v as Ref).role === 'param') params.add(v)
    this.params.set(net, params)
    return y
  }
}

/** In the order of the ops that they made; a layer that made none stands behind the one before it. */
const inOrderOf = (graph: Graph, layers: readonly LayerReport[]): readonly LayerReport[] => {
  const first = new Map<string, number>()
  for (const op of graph.ops) if (!first.has(op.layer)) first.set(op.layer, op.id)
  const placed: { readonly layer: LayerReport; readonly at: number }[] = []
  for (const layer of layers) placed.push({ layer, at: first.get(layer.name) ?? placed[placed.length - 1]?.at ?? -1 })
  return placed.sort((a, b) => a.at - b.at).map((p) => p.layer)
}

export const elaborate = (s: TrainingStep, name = 'step'): Result<Elaborated> =>
  s.objectives.length === 0 ? refused('step', 'it has no objectives') : new StepElaboration(s, name).run()
