// Elaboration of a step: one forward graph and its objectives. A net that is applied again reads the same parameters. In: a step. Out: the graph and
// objectives for the passes, and the layers by name in their order; or a GraphError. Invariant: the first application of a net declares its
// parameters, later ones share them; their layers are called '#2', ...
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import type { Detached, ElaboratedStep, Objective, Term } from '../staging/grad/objective'
import { GraphBuilder } from '../staging/graph/builder'
import type { Op, ValueId } from '../staging/graph/graph'
import { elementsOf } from '../staging/core/box'
import { once } from '../staging/core/remember'
import type { LossEntry } from '../staging/ops/losses'
import { lossEntry } from '../staging/ops/losscalls'
import type { Optimizer } from '../staging/ops/optimizer'
import { opDef } from '../staging/ops/registry'
import type { Ref } from '../staging/ops/op'
import { trainedBy, type Updates } from '../staging/ops/updates'
import { analyse, type LayerReport } from './analyse'
import { COMBINATIONS, type Combining } from './combined'
import { invalid } from './decode'
import { takesBytes } from './fedbytes'
import { countedIn, fold, type Nameless } from './fold'
import { LEGAL_NETS, netUnapplied } from './messages'
import type { Net, Shape } from './net'
import { type Mask, maskOf } from './masks'
import { algebraOf, randomKeys } from './netgraph'
import {
  type Applied,
  type Combined,
  type DetachedTensor,
  type Fed,
  isFed,
  isTensor,
  type LossTerm,
  madeOf,
  partsOf,
  type StepObjective,
  type Tensor,
  tensorsOf,
  termsOf,
  type TrainingStep,
} from './step'

/**
 * A step as a graph, with the report of every layer.
 *
 * @example const layerNames = (e: Elaborated) => e.layers.map((l) => l.name)
 */
export interface Elaborated extends ElaboratedStep {
  readonly step: TrainingStep
  /** The report of every layer of every application, in execution order. */
  readonly layers: readonly LayerReport[]
}

interface Made {
  readonly ref: Ref
  readonly detached: boolean
  /** The pixels that count, if they are those of a mask. */
  readonly mask?: Mask | undefined
}
type Result<T> = Either<GraphError, T>

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
    const inputs = madeOf(terms.flatMap(({ of, to }) => (isTensor(to) && !isFed(to) ? [of, to] : [of])))
    for (const { to, loss } of terms)
      if (isTensor(to) && isFed(to) && !inputs.has(to))
        this.targets.set(to, E.exists((e: LossEntry) => e.labels === true)(lossEntry(loss)))
  }

  /** All losses come before all updates: an objective may train nets that the losses of another one apply. */
  run(): Result<Elaborated> {
    const { step, detached } = this
    return pipe(
      step.objectives,
      E.traverseArray((o) => this.termsOf(o)),
      E.chain(E.traverseReadonlyArrayWithIndex((i, terms) => this.objective(step.objectives[i]!, terms))),
      E.map((objectives) => ({ step, graph: this.graph.build(), objectives, detached, layers: this.layers })),
    )
  }

  private termsOf(o: StepObjective): Result<readonly Term[]> {
    // With one objective, its losses have their own names.
    const scope = this.step.objectives.length === 1 ? '' : `${o.name}.`
    return pipe(
      Object.entries(o.losses).flatMap(([name, list]) =>
        list.map((t, i) => [list.length > 1 ? `${name}.${i}` : name, t] as const),
      ),
      E.traverseArray(([name, t]) => this.term(`${scope}${name}`, t)),
    )
  }

  private term(name: string, { loss, of, to, weight }: LossTerm): Result<Term> {
    const target = (): Result<Term['to']> =>
      isTensor(to) ? E.map(({ ref, detached }: Made) => ({ value: ref, detached }))(this.tensor(to)) : E.right({ constant: to })
    return pipe(
      this.tensor(of),
      E.bindTo('made'),
      E.bind('to', target),
      E.bind('mask', ({ made }) => maskOf(made.mask, this.graph.shape(made.ref), name)),
      E.map(({ made, to, mask }) => ({ name, loss, of: made.ref, to, weight, ...mask })),
    )
  }

  private objective({ name, optimizer, over, updates }: StepObjective, terms: readonly Term[]): Result<Objective> {
    const unread = (net: Net): GraphError => ({
      tag: 'ObjectiveInvalid',
      objective: name,
      reason: netUnapplied(net.kind),
      legal: LEGAL_NETS,
    })
    return pipe(
      over,
      E.traverseArray((net) => E.fromNullable(unread(net))(this.params.get(net))),
      E.map((own) => [...new Set(own.flatMap((params) => [...params]))]),
      E.chain((own) => this.trained(optimizer, updates, own)),
      E.map((params) => ({ name, optimizer, updates, params, terms })),
    )
  }

  /** The optimizer and updates of each of these parameters, without the frozen ones. */
  private trained(optimizer: Optimizer, updates: Updates, own: readonly ValueId[]): Result<Objective['params']> {
    const nameOf = (v: ValueId): string => this.graph.value(v as Ref).name
    const isMatrix = (v: ValueId): boolean => this.graph.value(v as Ref).shape.length > 1
    return pipe(
      trainedBy(
        optimizer,
        updates,
        own.map((v) => ({ name: nameOf(v), isMatrix: isMatrix(v) })),
      ),
      E.map((by) => new Map(own.flatMap((v) => (by.has(nameOf(v)) ? [[v, by.get(nameOf(v))!] as const] : [])))),
    )
  }

  private tensor(t: Tensor): Result<Made> {
    return once(this.made, t, () => this.make(t))
  }

  private make(t: Tensor): Result<Made> {
    switch (t.kind) {
      case 'fed':
        return E.map((ref: Ref) => ({ ref, detached: false }))(this.fed(t as Fed))
      case 'applied':
        return this.applied(t as Applied)
      case 'joined':
      case 'added':
      case 'multiplied':
        return this.combined(t as Combined)
      case 'detached':
        return E.map((made: Made) => ({ ...made, detached: true }))(this.tensor((t as DetachedTensor).of))
    }
  }

  private fed(t: Fed): Result<Ref> {
    const classes = this.targets.get(t)
    const bytes = this.bytesOf(t)
    if (E.isLeft(bytes)) return bytes
    return this.graph.checked(
      classes === undefined
        ? this.graph.input(t.name, t.shape, bytes.right ? 'u8' : this.graph.dtype)
        : this.graph.target(t.name, t.shape, classes ? 'i32' : this.graph.dtype),
    )
  }

  /** Returns true if nets take it as bytes: then all of its readers do. */
  private bytesOf(t: Fed): Result<boolean> {
    const all = tensorsOf(this.step)
    const readers = [
      ...all.filter((r) => partsOf(r).includes(t)),
      ...termsOf(this.step).filter(({ of, to }) => of === t || to === t),
    ]
    const inBytes = readers.filter((r) => 'net' in r && takesBytes((r as Applied).net))
    return inBytes.length === 0 || inBytes.length === readers.length
      ? E.right(inBytes.length > 0)
      : E.left(
          invalid(
            `fed '${t.name}'`,
            'a net that begins with fromBytes reads it as bytes, but another reads it as numbers; feed it twice, under two names',
          ),
        )
  }

  /** Runs `make`. Every op that it appends reads the detached ones among these as constants. */
  private reading(xs: readonly Made[], make: () => Result<Ref>): Result<Made> {
    const before = this.graph.written.length
    return pipe(
      make(),
      E.map((ref) => {
        const held = new Set(xs.filter((x) => x.detached).map((x) => x.ref as number))
        for (const op of this.graph.written.slice(before))
          for (const v of op.ins) if (held.has(v)) this.detached.push({ reader: op.outs[0]!, input: v })
        return { ref, detached: held.has(ref) }
      }),
    )
  }

  private combined({ kind, parts }: Combined): Result<Made> {
    return pipe(
      parts,
      E.traverseArray((p) => this.tensor(p)),
      E.chain((made) => this.combination(kind, made)),
    )
  }

  private combination(kind: Combining, made: readonly Made[]): Result<Made> {
    const count = countedIn(this.combinations, kind)
    const name = `${kind}${count === 1 ? '' : count}`
    const twice = made.some((m) => m.detached && made.some((other) => other.ref === m.ref && !other.detached))
    if (twice) return E.left(invalid(name, 'it takes one tensor both plain and detached; use one of them'))
    const refs = made.map((m) => m.ref)
    const [input, ...others] = refs.map((ref) => this.shapeOf(ref))
    const { op, ft, attrs } = COMBINATIONS[kind]
    return pipe(
      this.reading(made, () => this.graph.one(op, attrs(input!, others), refs, name)),
      E.map((y) => {
        const output = this.shapeOf(y.ref)
        const numbers = { bytes: 4 * elementsOf(output), parameters: 0, state: 0 }
        this.layers.push({ name, called: name, kind: op, ft, sums: [], named: false, input: input!, output, ...numbers })
        return y
      }),
    )
  }

  private shapeOf(r: Ref): Shape {
    return this.graph.shape(r) as unknown as Shape
  }

  private applied({ net, to }: Applied): Result<Made> {
    return pipe(
      this.tensor(to),
      E.bindTo('x'),
      E.bind('nameless', () => once(this.before, net, () => E.right(new Map(this.nameless)))),
      E.bind('analysis', ({ x, nameless }) => analyse(net, this.shapeOf(x.ref), new Map(nameless))),
      E.chain(({ x, nameless, analysis }) => this.application(net, x, nameless, analysis.layers)),
    )
  }

  private application(net: Net, x: Made, nameless: Nameless, layers: readonly LayerReport[]): Result<Made> {
    const use = countedIn(this.uses, net)
    const suffix = use === 1 ? '' : `#${use}`
    this.layers.push(...layers.map((l) => ({ ...l, name: `${l.name}${suffix}`, called: `${l.called}${suffix}` })))
    const before = this.graph.written.length
    const masks = new Map<Ref, Mask>()
    const algebra = algebraOf({ graph: this.graph, randomKey: this.keys, mode: 'train', suffix, masks })
    const make = (): Result<Ref> => fold(algebra, net, x.ref, use === 1 ? this.nameless : new Map(nameless))
    return pipe(
      this.reading([x], use === 1 ? make : () => this.graph.sharing(make)),
      E.tap(() => this.keeping(net, use, this.graph.written.slice(before))),
      E.map((made) => ({ ...made, mask: masks.get(made.ref) })),
    )
  }

  /** Notes which parameters a net has, by the ops of its application. */
  private keeping(net: Net, use: number, ops: readonly Op[]): Result<unknown> {
    const keeps = use > 1 ? ops.find((op) => opDef(op.kind).update) : undefined
    if (keeps)
      return E.left(
        invalid(
          keeps.layer,
          'its net is applied twice, but running statistics can change once per step; allowed: frozen norms, and norms per image',
        ),
      )
    const params = ops.flatMap((op) => op.ins.filter((v) => this.graph.value(v as Ref).role === 'param'))
    return E.right(this.params.set(net, new Set([...(this.params.get(net) ?? []), ...params])))
  }
}

/**
 * Returns the forward graph of a step: each layer becomes one or more operators. Or the reason for a refusal.
 *
 * @param s The step.
 * @param name Name of the graph. Default 'step'.
 * @example
 * const answer = elaborate(objectives, 'gan')
 * if (answer._tag === 'Right') console.log(answer.right.layers.length)
 */
export const elaborate = (s: TrainingStep, name = 'step'): Result<Elaborated> =>
  s.objectives.length === 0 ? E.left(invalid('step', 'it has no objectives')) : new StepElaboration(s, name).run()
