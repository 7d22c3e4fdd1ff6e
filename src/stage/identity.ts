// The identity of a run. In: a staged plan, a seed, data. Out: RunIdentity for checkpoints, and a check that a plan belongs to a model. Invariant:
// the strategy and the budget are no part of it: with the same algorithms, plans that do not tile continue each other bit for bit.
import { isDeepStrictEqual } from 'node:util'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { elaborate, type Elaborated, type Trainable } from '../../dsl'
import { trainingGraph } from '../../staging/compile'
import type { Loss } from '../../staging/ops/losses'
import { lossBy } from '../../staging/ops/lossofgraph'
import { type Optimizer, optimizerBy } from '../../staging/ops/optimizer'
import { fingerprint } from '../../staging/graph/fingerprint'
import type { Graph } from '../../staging/graph/graph'
import { bandsOf } from '../../staging/graph/bands'
import { asOne, ranksOf } from '../../staging/graph/ranks'
import type { Plan } from '../../staging/plan/plan'
import type { RunIdentity } from '../train/checkpoint'
import { type SpillwayError, usage } from '../errors/errors'
import type { LocalMachine } from '../machine/localmachine'
import { type Own, stepWith } from './prepare'
import type { Staged } from './staged'

const ranksText = (g: Graph): string => {
  const [ranks, bands] = [ranksOf(g), bandsOf(g)]
  return bands === ranks ? `${ranks} bands` : bands === 1 ? `${ranks} ranks` : `${ranks} ranks in ${bands} bands`
}

export const identityOf = (staged: Staged, seed: number, data: string, weights: string | undefined): RunIdentity => ({
  model: staged.plan.graph.name,
  fingerprint: fingerprint(asOne(staged.plan.graph)),
  seed,
  data,
  weights: weights ?? 'from the seed',
  algorithms: [
    staged.plan.algorithms,
    ...(staged.plan.precision === undefined ? [] : [staged.plan.precision]),
    ...(staged.plan.graph.norms === undefined ? [] : ['local norms']),
    ...(ranksOf(staged.plan.graph) === 1 ? [] : [ranksText(staged.plan.graph)]),
  ].join(', '),
  device: staged.machine.device.name,
})

/** The optimizers of a step, each once. */
export const optimizersIn = (graph: Graph): readonly Optimizer[] => {
  const own = graph.ops.flatMap(({ kind, attrs }) => optimizerBy(kind, attrs) ?? [])
  return graph.trainedBy ? [graph.trainedBy.optimizer] : own.filter((o, i) => own.findIndex((p) => isDeepStrictEqual(o, p)) === i)
}

/** The learning rates of all updates. */
export const ratesIn = (graph: Graph): readonly number[] =>
  graph.ops.flatMap(({ kind, attrs }) => optimizerBy(kind, attrs)?.lr ?? [])

const optionText = (u: unknown): string => (typeof u === 'string' ? u : JSON.stringify(u))

/** Options that the training graph depends on, by name, as text. A refused resume names those that differ. */
export const optionsIn = (graph: Graph): Readonly<Record<string, string>> => {
  const whole = asOne(graph)
  const [batch, , height, width] = whole.values.find((v) => v.role === 'input')!.shape
  const loss = lossIn(graph)
  const optimizers = optimizersIn(graph)
  const { kind: optimizer, ...numbers } = optimizers.length === 1 ? optimizers[0]! : { kind: optionText(optimizers) }
  const { optimizer: _, ...updates } = graph.trainedBy ?? { optimizer: undefined }
  const options: Readonly<Record<string, unknown>> = {
    batch,
    image: `${height}x${width}`,
    loss,
    optimizer,
    ...numbers,
    ...updates,
  }
  return Object.fromEntries(Object.entries(options).flatMap(([k, v]) => (v === undefined ? [] : [[k, optionText(v)]])))
}

const RANKS = /, (\d+) (?:ranks|bands)(?: in \d+ bands)?$/
/** How many shared a run's batches. */
export const ranksIn = ({ algorithms }: RunIdentity): number => Number(RANKS.exec(algorithms)?.[1] ?? 1)

/** The same run, shared by as many as another. */
export const onRanksOf = (other: RunIdentity, own: RunIdentity): RunIdentity => ({
  ...own,
  algorithms: own.algorithms.replace(RANKS, '') + (RANKS.exec(other.algorithms)?.[0] ?? ''),
})

/** A model's parts that its plan sets: its target, and its optimizer. */
const ownOf = (graph: Graph): Own => ({
  loss: lossIn(graph),
  ...(graph.trainedBy ?? {
    optimizer: graph.ops.filter((o) => o.phase === 'update').flatMap(({ kind, attrs }) => optimizerBy(kind, attrs) ?? [])[0],
  }),
})

/** The loss that a model is trained by. */
export const lossIn = (graph: Graph): Loss | undefined => lossBy(graph)

/** The step of a model or a step that a plan is of, if it is of this one. */
export const elaboratedFor = (model: Trainable, { graph }: Plan): Either<SpillwayError, Elaborated> =>
  pipe(
    stepWith(model, ownOf(graph)),
    E.flatMap((step) => elaborate(step, graph.name)),
  )

/** The plan, if it is of this model, and not of another version of it: for its machine the same passes make the same graph. */
export const belonging = (model: Trainable, plan: Plan, machine: LocalMachine): Either<SpillwayError, Elaborated> => {
  const { graph } = plan
  return pipe(
    elaboratedFor(model, plan),
    E.bindTo('step'),
    E.bindW('now', ({ step }) => trainingGraph(step, machine)),
    E.filterOrElseW(
      ({ now }) => fingerprint(now) === fingerprint(graph),
      () => usage(`the plan is for model '${graph.name}', but this model differs: stage it again`),
    ),
    E.map(({ step }) => step),
  )
}
