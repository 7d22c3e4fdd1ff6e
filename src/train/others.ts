// The answers of the other ranks to the leader before planning: the rates of exchanges, and the times of calls on their machines. In: an engine's
// ranks. Out: a network, times; at a rank that does not lead, answers, until the leader has a plan or ends. Invariant: one rank of each machine times
// calls: a machine's kept times are those of undisturbed calls, for any asker, and the others of the machine have its answers. Worked example: ranks
// 0 and 1 on one machine, 2 and 3 on another: 2 answers with its times of the calls that 0 has asked its own machine for.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Algorithms } from '../../staging/plan/plan'
import type { DeviceName, Precision } from '../../staging/devices'
import type { NamedNetwork } from '../../staging/sim/networks'
import type { SpillwayError } from '../errors/errors'
import { deviceFailed, orThrow } from '../errors/exceptions'
import type { LocalMachine, MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import type { AskedCall, Elsewhere, Answer } from '../machine/slowest'
import { fitted, timedExchanges } from './network'
import { fromLeader, gathered, type Rank } from '../ranks/rank'
import type { Staged } from '../stage/stage'

/** One rank's answer about its machine's times. */
export interface AnswerBy extends Answer {
  readonly rank: number
}

/** The others, as the leader asks them. */
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
export type Word =
  | { readonly what: 'network'; readonly device: DeviceName }
  | {
      readonly what: 'times'
      readonly device: string
      readonly precision: Precision
      readonly algorithms?: Algorithms | undefined
    }
  | { readonly what: 'plan'; readonly threads: number; readonly plans: readonly string[] }
  | { readonly what: 'end'; readonly code: number }
export type LastWord = Extract<Word, { readonly what: 'plan' | 'end' }>

/** By where each rank's times are kept: the first rank of each machine but the leader's. */
export const timingRanks = (kept: readonly string[]): readonly number[] =>
  kept.flatMap((name, rank) => (name !== kept[0] && kept.indexOf(name) === rank ? [rank] : []))

/** Those of processes. */
export const otherProcesses = (rank: Rank, threads: number): Others => {
  const say = (word: Word): Promise<Word> => fromLeader(rank, word)
  return {
    network: async (device) => {
      await say({ what: 'network', device })
      return fitted(rank.ranks, await timedExchanges(rank, device, threads))
    },
    answers: async ({ device, precision, compared }, algorithms, calls) => {
      await say({ what: 'times', device: device.name, precision, algorithms })
      const timing = timingRanks(await gathered(rank, compared?.kept ?? ''))
      if (timing.length === 0) return []
      await fromLeader(rank, calls)
      const all = await gathered<Answer | null>(rank, null)
      return timing.map((r) => ({ rank: r, ...all[r]! }))
    },
  }
}

/** Those of threads, which share the leader's machine. */
export const otherThreads = (all: readonly Rank[], threads: number): Others => ({
  network: async (device) => {
    const [timed] = await Promise.all(all.map((rank) => timedExchanges(rank, device, threads)))
    return fitted(all.length, timed!)
  },
  answers: () => Promise.resolve([]),
})

/** As a rank that does not lead, with its own number of threads: its answers before there is a plan. */
export const answering = async (rank: Rank, o: MachineOptions, threads: number): Promise<LastWord> => {
  for (;;) {
    const word = await fromLeader<Word>(rank)
    if (word.what === 'plan' || word.what === 'end') return word
    if (word.what === 'network') {
      await timedExchanges(rank, word.device, threads)
      continue
    }
    const { precision, algorithms, device } = word
    const { compared, saveProfile } = orThrow(machineNamed(device, { ...ofItsOwn(o), threads, precision, algorithms }))
    const timing = timingRanks(await gathered(rank, compared?.kept ?? ''))
    if (timing.length === 0) continue
    const calls = await fromLeader<readonly AskedCall[]>(rank)
    await gathered(rank, compared && timing.includes(rank.rank) ? compared.answer(calls) : null)
    saveProfile()
  }
}

/** The options of a machine's own measurements. */
const ofItsOwn = ({ spill, hostMemory, spillWritesPerStep, measure, throttle }: MachineOptions): MachineOptions => ({
  spill,
  hostMemory,
  spillWritesPerStep,
  measure,
  throttle,
})

/** Plans with other times may ask for other calls; after these rounds, few are left. */
const MOST_ROUNDS = 3
/** By less than this nobody need look for a slow machine. */
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

/**
 * A plan with the times of the slowest: `ask` plans with this machine's own, then anew with the others' answers as long as some machine is slower
 * than expected.
 */
export const plannedWith =
  <A extends { readonly staged: Staged }>(
    others: Others,
    note: (text: string) => void,
    algorithms: Algorithms | undefined,
    ask: (elsewhere?: Elsewhere) => Either<SpillwayError, A>,
  ): TaskEither<SpillwayError, A> =>
  async () => {
    let elsewhere: Elsewhere | undefined
    let words: string | undefined
    for (let round = 0; ; round++) {
      const found = ask(elsewhere)
      if (E.isLeft(found)) return found
      const { compared } = found.right.staged.machine
      const calls = round < MOST_ROUNDS ? (compared?.asked() ?? []) : []
      let next: Elsewhere | undefined
      if (compared && calls.length > 0)
        try {
          const answers = await others.answers(found.right.staged.machine, algorithms, calls)
          next = answers.length > 0 ? compared.knowing(calls, answers) : undefined
          words ??= slowText(answers, compared.answer(calls))
        } catch (e) {
          return E.left(deviceFailed(e))
        }
      if (!next) {
        if (words !== undefined) note(words)
        return found
      }
      elsewhere = next
    }
  }
