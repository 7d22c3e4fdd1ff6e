// A step from outside: a model file, perhaps through another copy of this package. In: unknown, the caller's sizes. Out: TrainingStep, every field,
// net and tensor checked; or its error, with the path. Sizes apply to every fed tensor: the batch to all, height and width to those as large as the
// first. Equal objects stay one object.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { decodedOr, tuple, whole } from '../staging/core/codecs'
import type { GraphError } from '../staging/core/errors'
import { once } from '../staging/core/remember'
import { optimizerCodec, UPDATES, updatesCodec } from '../staging/ops/updates'
import { analyse } from './analyse'
import { type Combining, combinedShape } from './combined'
import { decodeNet, invalid, misfit, onlyFields, show } from './decode'
import { fieldFault } from './layers/codecs'
import type { InputOverride } from './model'
import type { Net, Shape } from './net'
import {
  type Applied,
  type Combined,
  type DetachedTensor,
  type Fed,
  fedTo,
  type LossTerm,
  type StepObjective,
  type Tensor,
  type TrainingStep,
} from './step'
import type { Loss } from './training'

type Result<T> = Either<GraphError, T>

// ---------------------------------------------------------------- fields: what nets and tensors are, the decoder below says

const nameCodec = t.refinement(t.string, (name) => name !== '', 'a name')
const sizeCodec = t.refinement(whole, (n) => n >= 1, 'a size')
const shapeCodec = tuple(sizeCodec, sizeCodec, sizeCodec, sizeCodec)

const stepCodec = t.type({ objectives: t.UnknownArray })
const objectiveCodec = t.type({
  name: nameCodec,
  over: t.UnknownArray,
  /** Its numbers are judged where objectives are. */
  optimizer: optimizerCodec,
  updates: t.union([updatesCodec, t.undefined]),
  losses: t.record(t.string, t.UnknownArray),
})
/** The names of losses are judged where objectives are. */
const lossCodec = t.union([t.string, t.type({ kind: t.string })]) as unknown as t.Type<Loss, unknown, unknown>
const termCodec = t.type({ loss: lossCodec, of: t.unknown, to: t.unknown, weight: t.number })
const partsCodec = (legal: (count: number) => boolean) => t.type({ parts: t.refinement(t.UnknownArray, (p) => legal(p.length)) })
const tensorCodecs = {
  fed: t.type({ name: nameCodec, shape: shapeCodec }),
  applied: t.type({ net: t.unknown, to: t.unknown }),
  joined: partsCodec((n) => n > 0),
  added: partsCodec((n) => n > 1),
  multiplied: partsCodec((n) => n === 2),
  detached: t.type({ of: t.unknown }),
}
const kindCodec = t.type({ kind: t.keyof(tensorCodecs) })

const fieldsOf =
  <P extends t.Props>(codec: t.TypeC<P>, what: string, at: string, also: readonly string[] = []) =>
  (u: unknown): Result<t.TypeOf<t.TypeC<P>>> =>
    pipe(
      codec.decode(u),
      E.mapLeft((errors) => misfit(fieldFault(errors), what, at)),
      E.tap(() => onlyFields(u as object, { of: what, keys: [...Object.keys(codec.props), ...also] }, at)),
    )
/** The fields of every tensor, beside its own. */
const TENSOR = ['kind', 'shape']

// ---------------------------------------------------------------- what they hold

/** Objects that were the same stay the same. */
class Decoder {
  private readonly nets = new Map<unknown, Net>()
  private readonly tensors = new Map<unknown, Tensor>()
  private first: Shape | undefined

  constructor(private readonly sizes: InputOverride) {}

  step(u: unknown): Result<TrainingStep> {
    return pipe(
      u,
      fieldsOf(stepCodec, 'a step', 'step', ['kind']),
      E.flatMap(({ objectives }) =>
        E.traverseReadonlyArrayWithIndex((i, o) => this.objective(o, `step.objectives[${i}]`))(objectives),
      ),
      E.map((objectives) => ({ kind: 'step', objectives })),
    )
  }

  private objective(u: unknown, at: string): Result<StepObjective> {
    return pipe(
      u,
      fieldsOf(objectiveCodec, 'an objective', at),
      E.tap(({ updates = {} }) => onlyFields(updates, UPDATES, `${at}.updates`)),
      E.bindTo('own'),
      E.bind('over', ({ own }) => E.traverseArray((n) => this.net(n))(own.over)),
      E.bind('losses', ({ own }) =>
        E.traverseArray(([k, terms]: readonly [string, readonly unknown[]]) => this.terms(k, terms, `${at}.losses.${k}`))(
          Object.entries(own.losses),
        ),
      ),
      E.map(({ own: { name, optimizer, updates = {} }, over, losses }) => ({
        name,
        over,
        optimizer,
        updates,
        losses: Object.fromEntries(losses),
      })),
    )
  }

  private terms(name: string, terms: readonly unknown[], at: string): Result<readonly [string, readonly LossTerm[]]> {
    return pipe(
      terms,
      E.traverseReadonlyArrayWithIndex((i, u) => this.term(u, `${at}[${i}]`)),
      E.map((decoded) => [name, decoded]),
    )
  }

  private term(u: unknown, at: string): Result<LossTerm> {
    return pipe(
      u,
      fieldsOf(termCodec, 'a loss', at),
      E.bindTo('own'),
      E.bind('of', ({ own }) => this.tensor(own.of, `${at}.of`)),
      E.bind(
        'to',
        ({ own }): Result<Tensor | number> => (typeof own.to === 'number' ? E.right(own.to) : this.tensor(own.to, `${at}.to`)),
      ),
      E.map(({ own: { loss, weight }, of, to }) => ({ loss, of, to, weight })),
    )
  }

  private net(u: unknown): Result<Net> {
    return once(this.nets, u, decodeNet)
  }

  private tensor(u: unknown, at: string): Result<Tensor> {
    const legal = `${show(u)} is not a tensor of a step; allowed: fed, apply, joined, add, multiply, detach`
    return once(this.tensors, u, () =>
      pipe(
        u,
        decodedOr(kindCodec, legal),
        E.mapLeft((reason) => invalid(at, reason)),
        E.flatMap(({ kind }) => this[kind](u, at)),
      ),
    )
  }

  private fed(u: unknown, at: string): Result<Tensor> {
    return pipe(
      u,
      fieldsOf(tensorCodecs.fed, 'a fed tensor', at, TENSOR),
      E.map(({ name, shape }): Fed => {
        this.first ??= shape
        const { batch, height, width } = this.sizes
        const alike = shape[2] === this.first[2] && shape[3] === this.first[3]
        const [b, c, h, w] = shape
        return { kind: 'fed', name, shape: [batch ?? b, c, alike ? (height ?? h) : h, alike ? (width ?? w) : w] }
      }),
    )
  }

  private applied(u: unknown, at: string): Result<Tensor> {
    return pipe(
      u,
      fieldsOf(tensorCodecs.applied, 'a net that is applied', at, TENSOR),
      E.bindTo('own'),
      E.bind('net', ({ own }) => this.net(own.net)),
      E.bind('to', ({ own }) => this.tensor(own.to, at)),
      E.tap(({ net, to }) => fedTo(net, to)),
      E.bind('analysis', ({ net, to }) => analyse(net, to.shape)),
      E.map(({ net, to, analysis }): Applied => ({ kind: 'applied', net, to, shape: analysis.output })),
    )
  }

  private readonly joined = this.combined('joined')
  private readonly added = this.combined('added')
  private readonly multiplied = this.combined('multiplied')

  private combined(kind: Combining): (u: unknown, at: string) => Result<Tensor> {
    return (u, at) =>
      pipe(
        u,
        fieldsOf(tensorCodecs[kind], `${kind} tensors`, at, TENSOR),
        E.flatMap((own) => E.traverseReadonlyArrayWithIndex((i, p) => this.tensor(p, `${at}.parts[${i}]`))(own.parts)),
        E.bindTo('parts'),
        E.bind('shape', ({ parts }) =>
          E.mapLeft((reason: string) => invalid(at, reason))(
            combinedShape(
              kind,
              parts.map((p) => p.shape),
            ),
          ),
        ),
        E.map(({ parts, shape }): Combined => ({ kind, parts, shape })),
      )
  }

  private detached(u: unknown, at: string): Result<Tensor> {
    return pipe(
      u,
      fieldsOf(tensorCodecs.detached, 'a detached tensor', at, TENSOR),
      E.flatMap((own) => this.tensor(own.of, at)),
      E.map((of): DetachedTensor => ({ kind: 'detached', of, shape: of.shape })),
    )
  }
}

export const decodeStep = (u: unknown, sizes: InputOverride = {}): Result<TrainingStep> => new Decoder(sizes).step(u)
