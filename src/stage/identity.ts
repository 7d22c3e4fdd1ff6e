// What makes two runs the same run. In: a staged plan, a seed, data. Out: RunIdentity for checkpoints, and whether a plan
// belongs to a model. Invariant: the strategy and the budget are no part of it: with the same algorithms, plans that do not
// tile continue each other bit for bit.
import { resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Loss, Trainable } from '../../dsl'
import { lossNames, LOSSES } from '../../staging/grad/loss'
import { fingerprint } from '../../staging/graph/fingerprint'
import type { Graph } from '../../staging/graph/graph'
import type { Plan } from '../../staging/plan/plan'
import type { RunIdentity } from '../train/checkpoint'
import { type SpillwayError, usage } from '../errors/errors'
import type { LocalMachine } from '../machine/machine'
import { prepare } from './prepare'
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

/** The forward part by its layers: operators, attributes, shapes; not the numbers of its values. */
const forwardText = (g: Graph): string =>
  JSON.stringify(
    g.ops
      .filter((o) => o.phase === 'forward')
      .map((o) => [
        o.kind,
        o.layer,
        Object.entries(o.attrs).sort(),
        [...o.ins, ...o.outs].map((v) => [g.values[v]!.shape, g.values[v]!.dtype]),
      ]),
  )

/** The loss of a plan's graph: it decides which values are stored narrow. */
const lossOf = (g: Graph): Loss | undefined => {
  const kind = g.ops.find((o) => o.phase === 'loss')?.kind
  return lossNames.find((name) => LOSSES[name].kind === kind)
}

/** A step says all of its graph; with what a model's output is compared, and by what it is trained, its plan has decided. */
const sameGraph = (model: Trainable, now: Graph, then: Graph): boolean =>
  model.kind === 'step' ? fingerprint(now) === fingerprint(then) : forwardText(now) === forwardText(then)

/** The plan, if it is of this model, and not of another version of it: for its machine the same passes make the same graph. */
export const belonging = (model: Trainable, plan: Plan, machine: LocalMachine): Either<SpillwayError, Plan> => {
  const { graph } = plan
  return pipe(
    prepare(model, machine, { name: graph.name, ...(model.kind === 'model' ? { loss: lossOf(graph) } : {}) }),
    E.filterOrElse(
      (now) => sameGraph(model, now.graph, graph),
      () =>
        usage(`the plan was staged for model '${graph.name}', and this is another one, or another version of it: stage it again`),
    ),
    E.map(() => plan),
  )
}
