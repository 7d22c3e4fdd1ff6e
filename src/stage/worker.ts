// The thread of `stageAsync`'s staging. In: a model or a step as plain data, and options. Out, as one message: the result of `tryStage`, without the
// machine, whose functions stay in their thread.
import { parentPort, workerData } from 'node:worker_threads'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { asTrainable } from '../../dsl'
import type { SpillwayError } from '../errors/errors'
import { type MachineRates, registerMachine } from '../machine/ownmachines'
import type { Staged } from './staged'
import type { StageOptions } from './stageoptions'
import { tryStage } from './stage'

export interface Asked {
  readonly model: unknown
  readonly options: StageOptions
  /** Those that were registered. */
  readonly machines: ReadonlyMap<string, MachineRates>
}
export type Answered = E.Either<SpillwayError, Pick<Staged, 'plan' | 'timeline' | 'staging'>>

const { model, options, machines } = workerData as Asked
for (const [name, rates] of machines) registerMachine(name as never, rates)

const answered: Answered = pipe(
  asTrainable(model),
  E.flatMap((m) => tryStage(m, options as object)),
  E.map(({ plan, timeline, staging }) => ({ plan, timeline, staging })),
)
parentPort?.postMessage(answered)
