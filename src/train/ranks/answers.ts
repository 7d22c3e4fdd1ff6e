// The answers of the other ranks to the leader before planning: the rates of exchanges, and the times of calls on their machines. In: an engine's
// ranks. Out: a network, times; at a rank that does not lead, answers, until the leader has a plan or ends. Invariant: one rank of each machine times
// calls: a machine's kept times are those of undisturbed calls, for any asker, and the others of the machine have its answers. Worked example: ranks
// 0 and 1 on one machine, 2 and 3 on another: 2 answers with its times of the calls that 0 has asked its own machine for.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Algorithms } from '../../../staging/plan/plan'
import type { DeviceName, Precision } from '../../../staging/devices'
import type { NamedNetwork } from '../../../staging/sim/networks'
import type { SpillwayError } from '../../errors/errors'
import { deviceFailed, orThrow } from '../../errors/exceptions'
import type { LocalMachine, MachineOptions } from '../../machine/localmachine'
import { machineNamed } from '../../machine/machine'
import type { AskedCall, Elsewhere, Answer } from '../../machine/slowest'
import { fitNetwork, timeExchanges } from './network'
import { fromLeader, gather, type Rank } from '../../ranks/rank'
import type { Staged } from '../../stage/staged'

/** One rank's answer about its machine's times. */
export interface AnswerBy extends Answer {
  readonly rank: number
}

/** Requests of the leader to the other ranks. */
export interface Others {
  readonly network: (device: DeviceName) => Promise<NamedNetwork>
  /** For each machine other than the leader's own. */
  readonly answers: (
    machine: LocalMachine,
    algorithms: Algorithms | undefined,
    calls: readonly AskedCall[],
  ) => Promise<readonly AnswerBy[]>
}

/** The leader's next request. */
export type Request =
  | { readonly what: 'network'; readonly device: DeviceName }
  | {
      readonly what: 'times'
      readonly device: string
      readonly precision: Precision
      readonly algorithms?: Algorithms | undefined
    }
  | { readonly what: 'plan'; readonly threads: number; readonly plans: readonly string[] }
  | { readonly what: 'end'; readonly code: number }
export type LastRequest = Extract<Request, { readonly what: 'plan' | 'end' }>

/** Returns the first rank of each machine except the leader's. `kept` holds, for each rank, the file with its machine's times. */
export const timingRanks = (kept: readonly string[]): readonly number[] =>
  kept.flatMap((name, rank) => (name !== kept[0] && kept.indexOf(name) === rank ? [rank] : []))

/** The other ranks, if each is a process. */
export const otherProcesses = (rank: Rank, threads: number): Others => {
  const say = (word: Request): Promise<Request> => fromLeader(rank, word)
  return {
    network: async (device) => {
      await say({ what: 'network', device })
      return fitNetwork(rank.ranks, await timeExchanges(rank, device, threads))
    },
    answers: async ({ device, precision, compared }, algorithms, calls) => {
      await say({ what: 'times', device: device.name, precision, algorithms })
      const timing = timingRanks(await gather(rank, compared?.kept ?? ''))
      if (timing.length === 0) return []
      await fromLeader(rank, calls)
      const all = await gather<Answer | null>(rank, null)
      return timing.map((r) => ({ rank: r, ...all[r]! }))
    },
  }
}

/** The other ranks, if each is a thread on the leader's machine. */
export const otherThreads = (all: readonly Rank[], threads: number): Others => ({
  network: async (device) => {
    const [timed] = await Promise.all(all.map((rank) => timeExchanges(rank, device, threads)))
    return fitNetwork(all.length, timed!)
  },
  answers: () => Promise.resolve([]),
})

/** Answers the leader's requests until it has a plan or ends. `threads` is the count of this rank. */
export const answerLeader = async (rank: Rank, o: MachineOptions, threads: number): Promise<LastRequest> => {
  for (;;) {
    const word = await fromLeader<Request>(rank)
    if (word.what === 'plan' || word.what === 'end') return word
    if (word.what === 'network') {
      await timeExchanges(rank, word.device, threads)
      continue
    }
    const { precision, algorithms, device } = word
    const { compared, saveProfile } = orThrow(machineNamed(device, { ...measuringOptions(o), threads, precision, algorithms }))
    const timing = timingRanks(await gather(rank, compared?.kept ?? ''))
    if (timing.length === 0) continue
    const calls = await fromLeader<readonly AskedCall[]>(rank)
    await gather(rank, compared && timing.includes(rank.rank) ? compared.answer(calls) : null)
    saveProfile()
  }
}

/** Options that a rank's own measurements depend on. */
const measuringOptions = ({ spill, hostMemory, spillWritesPerStep, measure, throttle }: MachineOptions): MachineOptions => ({
  spill,
  hostMemory,
  spillWritesPerStep,
  measure,
  throttle,
})

/** A plan with new times may contain other calls, which need new times. Limit of such rounds. */
const MOST_ROUNDS = 3
/** A rank is reported as slow from this factor on. */
const CLEARLY = 1.1

const sum = (of: readonly (number | null)[]): number => of.reduce<number>((n, s) => n + (s ?? 0), 0)
const slowText = (answers: readonly AnswerBy[], own: Answer): string | undefined => {
  const by = answers.map((t) => ({
    rank: t.rank,
    times: sum(t.seconds) / sum(own.seconds.map((s, i) => (t.seconds[i] === null ? 0 : s))),
  }))
  const [slowest] = by.sort((a, b) => b.times - a.times)
  return slowest && slowest.times > CLEARLY
    ? `rank ${slowest.rank} is the slowest, ${slowest.times.toFixed(1)} times slower than rank 0; the plan uses its times`
    : undefined
}

/** Plans with the times of the slowest rank: first with this machine's own times, then with answers, until no machine is slower than expected. */
export const planWithAnswers =
  <A extends { readonly staged: Staged }>(
    others: Others,
    note: (text: string) => void,
    algorithms: Algorithms | undefined,
    ask: (elsewhere?: Elsewhere) => Either<SpillwayError, A>,
  ): TaskEither<SpillwayError, A> =>
  async () => {
    let elsewhere: Elsewhere | undefined
    let slowNote: string | undefined
    for (let round = 0; ; round++) {
      const planned = ask(elsewhere)
      if (E.isLeft(planned)) return planned
      const { compared } = planned.right.staged.machine
      const calls = round < MOST_ROUNDS ? (compared?.requested() ?? []) : []
      let next: Elsewhere | undefined
      if (compared && calls.length > 0)
        try {
          const answers = await others.answers(planned.right.staged.machine, algorithms, calls)
          next = answers.length > 0 ? compared.knowing(calls, answers) : undefined
          slowNote ??= slowText(answers, compared.answer(calls))
        } catch (e) {
          return E.left(deviceFailed(e))
        }
      if (!next) {
        if (slowNote !== undefined) note(slowNote)
        return planned
      }
      elsewhere = next
    }
  }
