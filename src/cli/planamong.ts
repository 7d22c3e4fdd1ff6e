// Rank 0's planning for all processes of the start. In: the options of staging, the facts of the other ranks. Out: a plan for the least memory, the
// slowest machine and the network between them. Invariant: if a plan is there, or its times are stated, no rank is asked for anything.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { isDevice } from '../../staging/devices'
import { MEASURED } from '../../staging/sim/networks'
import type { SpillwayError } from '../errors/errors'
import type { LocalMachine, MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import type { Rank } from '../ranks/rank'
import { showSize } from '../report/format'
import type { Staged } from '../stage/staged'
import { type Others, planWithAnswers } from '../train/ranks/answers'
import { collective } from '../train/ranks/orders'
import type { StagingOptions } from './stage'

interface Leader {
  readonly rank: Rank
  readonly others: Others
  readonly note: (text: string) => void
}

/** The ranks' facts, in place of options. */
type Heard = Pick<StagingOptions, 'budget' | 'network' | 'over' | 'elsewhere'>

/** Without a budget, the least one of all ranks. */
const leastBudget = ({ rank: { least }, note }: Leader, { budget }: StagingOptions): Heard => {
  if (!least || budget !== undefined) return {}
  note(`the budget is ${showSize(least.bytes)}, the memory of rank ${least.rank}, which has the least (--budget sets another)`)
  return { budget: least.bytes }
}

/** Without a named network, that of machines with measured times, too. */
const measuredNetwork = ({ others }: Leader, o: StagingOptions): TaskEither<SpillwayError, Heard> => {
  const { machine = 'cpu', network } = o
  if (!isDevice(machine) || (network ?? MEASURED) !== MEASURED) return TE.right({})
  return pipe(
    network === MEASURED ? TE.right(true) : TE.fromIOEither(() => isTimed(machine, o)),
    TE.flatMap((isMeasured) =>
      isMeasured
        ? pipe(
            collective(() => others.network(machine)),
            TE.map((over): Heard => ({ network: undefined, over })),
          )
        : TE.right({}),
    ),
  )
}
const isTimed = (machine: string, o: MachineOptions): Either<SpillwayError, boolean> =>
  E.map(({ compared }: LocalMachine) => compared !== undefined)(machineNamed(machine, o))

export const plannedAmong = <A extends { readonly staged: Staged }>(
  leader: Leader,
  o: StagingOptions,
  ask: (received: Heard) => Either<SpillwayError, A>,
): TaskEither<SpillwayError, A> =>
  o.plan !== undefined
    ? TE.fromIOEither(() => ask({}))
    : pipe(
        measuredNetwork(leader, o),
        TE.map((over) => ({ ...leastBudget(leader, o), ...over })),
        TE.flatMap((heard) =>
          planWithAnswers(leader.others, leader.note, o.algorithms, (elsewhere) => ask({ ...heard, elsewhere })),
        ),
      )
