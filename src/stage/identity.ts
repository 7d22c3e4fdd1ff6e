// What makes two runs the same run. In: a staged plan, a seed, data. Out: RunIdentity for checkpoints, and whether a plan
// belongs to a model. Invariant: the strategy and the budget are no part of it: with the same algorithms, plans that do not
// tile continue each other bit for bit.
import { resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { not } from 'fp-ts/Predicate'
import { elaborate, elaborateStep, type Trainable } from '../../dsl'
import { hashText } from '../../staging/core/fnv'
import { fingerprint } from '../../staging/graph/fingerprint'
import { rewritten } from '../../staging/grad/rewrite/rewrites'
import type { Graph, Op } from '../../staging/graph/graph'
import { opDef } from '../../staging/ops/registry'
import type { Plan } from '../../staging/plan/plan'
import type { RunIdentity } from '../train/checkpoint'
import { type SpillwayError, usage } from '../errors/errors'
import type { StagedPlan } from './stage'

export const identityOf = (staged: StagedPlan, seed: number, data: string, weights: string | undefined): RunIdentity => ({
  model: staged.plan.graph.name,
  fingerprint: fingerprint(staged.plan.graph),
  seed,
  data,
  weights: weights === undefined ? 'from the seed' : resolve(weights),
  algorithms: [staged.plan.algorithms, ...(staged.plan.products === undefined ? [] : [staged.plan.products])].join(', '),
  device: staged.machine.device.name,
})

/** What the forward pass makes for the backward alone (the places of maxima) is no part of the model. */
const isForBackward = (g: Graph): ((o: Op) => boolean) => {
  const readers = new Map<number, Set<boolean>>()
  for (const o of g.ops) for (const v of o.ins) readers.set(v, (readers.get(v) ?? new Set()).add(o.phase === 'backward'))
  return (o) => o.outs.every((v) => readers.get(v)?.has(true) && !readers.get(v)!.has(false))
}

const isCast = (o: Op): boolean => opDef(o.kind).narrow === 'always'

/** The forward part of a graph by its layers: operators, attributes, shapes; not value numbers or types, nor casts between those. */
const forwardHash = (g: Graph): string =>
  hashText(
    JSON.stringify(
      g.ops
        .filter((o) => o.phase === 'forward' && !isCast(o))
        .filter(not(isForBackward(g)))
        .map((o) => [
          o.kind,
          o.layer,
          Object.entries(o.attrs).sort(),
          o.ins.map((v) => g.values[v]!.shape),
          o.outs.map((v) => g.values[v]!.shape),
        ]),
    ),
  )

/** The graphs that a plan of this model may have been made from. */
const formsOf = (model: Trainable, name: string): Either<SpillwayError, readonly Graph[]> =>
  model.kind === 'step'
    ? pipe(
        elaborateStep(model, name),
        E.map(({ graph }) => [graph]),
      )
    : pipe(
        elaborate(model, name),
        E.map(({ graph, output }) => [graph, rewritten(graph, output).graph]),
      )

/** The plan, if it is of this model: not of another one, nor of another version of it. */
export const belonging = (model: Trainable, plan: Plan): Either<SpillwayError, Plan> =>
  pipe(
    formsOf(model, plan.graph.name),
    E.filterOrElse(
      (forms) => forms.some((g) => forwardHash(g) === forwardHash(plan.graph)),
      () =>
        usage(
          `the plan was staged for model '${plan.graph.name}', and this is another one, or another version of it: stage it again`,
        ),
    ),
    E.map(() => plan),
  )
