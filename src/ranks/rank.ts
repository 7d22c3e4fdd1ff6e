// One of several processes that train together, or of a number of threads. In: an engine's communicator. Out: the exchanges of a run with the others.
// Invariant: all ranks make the same calls in the same order; rank 0 leads: it plans, reads checkpoints and writes all files.
import { deserialize, serialize } from 'node:v8'
import { bandsOf } from '../../staging/graph/bands'
import type { Graph } from '../../staging/graph/graph'
import { slicesOf } from '../../staging/graph/ranks'
import type { Share } from '../data/order'
import type { NativeCommunicator } from '../device/native'

export interface Rank {
  readonly rank: number
  readonly ranks: number
  readonly communicator: NativeCommunicator
  /** The seconds of its longest step. */
  readonly pace: { seconds: number }
  /** The rank with the least memory, if that is clearly less than the leader's. */
  readonly least?: { readonly rank: number; readonly bytes: number }
}

export const rankOf = (communicator: NativeCommunicator): Rank => ({
  rank: communicator.rank,
  ranks: communicator.size,
  communicator,
  pace: { seconds: 0 },
})

/** Seconds that a rank waits for others while steps run, where somebody says how many. */
export const statedPatience = ({ SPILLWAY_PATIENCE }: NodeJS.ProcessEnv = process.env): number | undefined => {
  const seconds = Number(SPILLWAY_PATIENCE ?? 0)
  return seconds > 0 ? seconds : undefined
}

export const isLeader = (rank: Rank | undefined): boolean => rank === undefined || rank.rank === 0
/** A rank's part of each batch: its images, or those with its band. */
export const shareIn = (graph: Graph, rank = 0): Share => ({ rank: Math.floor(rank / bandsOf(graph)), of: slicesOf(graph) })

const NOTHING = new Uint8Array(0)

/** The leader's bytes, at every rank. */
export const broadcast = async ({ rank, communicator }: Rank, own: Uint8Array = NOTHING): Promise<Uint8Array> =>
  (await communicator.exchange(rank === 0 ? own : NOTHING))[0]!

/** Each rank's value, at every rank. */
export const gather = async <A>({ communicator }: Rank, own: A): Promise<readonly A[]> =>
  (await communicator.exchange(new TextEncoder().encode(JSON.stringify(own)))).map(
    (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as A,
  )

/** The leader's, at every rank. */
export const fromLeader = async <A>(rank: Rank, own?: A): Promise<A> =>
  JSON.parse(new TextDecoder().decode(await broadcast(rank, new TextEncoder().encode(JSON.stringify(own ?? null))))) as A

/** Each rank's value, at every rank: typed arrays and maps, too. */
export const exchange = async <A>({ communicator }: Rank, own: A): Promise<readonly A[]> =>
  (await communicator.exchange(Uint8Array.from(serialize(own)))).map((bytes) => deserialize(bytes) as A)

/** As the native interpreter has it while steps run. */
const LEAST_PATIENCE = 600
const PATIENT_STEPS = 20
/** Time for the message of a failure, here or in a script. */
const LAST_WORDS_MS = 2000

/** A missing rank hangs. */
export const withPatience = async <A>(rank: Rank, meeting: Promise<A>): Promise<A> => {
  const seconds = statedPatience() ?? Math.max(LEAST_PATIENCE, PATIENT_STEPS * rank.pace.seconds)
  const hangs = `rank ${rank.rank} waited ${seconds.toFixed(0)} s for other ranks: one of them hangs or is much slower (SPILLWAY_PATIENCE=SECONDS sets a longer wait)`
  let timer: NodeJS.Timeout | undefined
  const tooLong = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(hangs))
      // A wait for the others does not end: this process would not exit by itself.
      setTimeout(() => rank.communicator.abort(1), LAST_WORDS_MS)
    }, seconds * 1000)
  })
  try {
    return await Promise.race([meeting, tooLong])
  } finally {
    clearTimeout(timer)
  }
}
