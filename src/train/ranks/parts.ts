// The divided values between steps: states of optimizers. In: a rank's session. Out: the whole, on request (checkpoints, averages); a rank's part of
// a whole value in a file. Invariant: files equal one process's, for any division. Worked example, 5 elements, 2 ranks: parts [0 1 2] and [3 4 0],
// whole [0 1 2 3 4].
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { elementsOf } from '../../../staging/core/box'
import { onceFor } from '../../../staging/core/remember'
import { dtypeBytes, type Graph, isPersistent, type Value, valueBytes } from '../../../staging/graph/graph'
import type { SpillwayError } from '../../errors/errors'
import type { Rank } from '../../ranks/rank'
import type { StateReader, StateStore } from '../weights'

/** By name. */
export const partsIn = onceFor(
  ({ values }: Graph): ReadonlyMap<string, Value> =>
    new Map(values.filter((v) => isPersistent(v) && v.part).map((v) => [v.name, v])),
)

/** Returns a rank's part of a whole value, with zeros behind the last element. */
export const partOf = (whole: Uint8Array, v: Value, rank: number): Uint8Array => {
  const part = new Uint8Array(valueBytes(v))
  part.set(whole.subarray(rank * part.length, (rank + 1) * part.length))
  return part
}

const joinParts = (parts: readonly Uint8Array[], v: Value): Uint8Array => {
  const whole = new Uint8Array(elementsOf(v.part!) * dtypeBytes[v.dtype])
  parts.forEach((part, r) => {
    const at = r * part.length
    if (at < whole.length) whole.set(part.subarray(0, whole.length - at), at)
  })
  return whole
}

/** By name, for the divided values. */
export type Whole = ReadonlyMap<string, Uint8Array>

/** Returns the state with whole values in place of the leader's parts. */
export const withWhole = (whole: Whole, store: StateReader): StateReader =>
  whole.size === 0
    ? store
    : {
        read: (name) => {
          const bytes = whole.get(name)
          return bytes ? E.right(bytes) : store.read(name)
        },
      }

/** Returns a store that takes whole values: it writes the leader's part, and keeps the whole for the other ranks. */
export const cuttingStore = <S extends StateStore>(store: S, graph: Graph, kept: Map<string, Uint8Array>): S => {
  const parts = partsIn(graph)
  if (parts.size === 0) return store
  return {
    ...store,
    write: (name, bytes) => {
      const v = parts.get(name)
      if (!v) return store.write(name, bytes)
      kept.set(name, bytes)
      return store.write(name, partOf(bytes, v, 0))
    },
  }
}

/** Joins the parts of these values at the leader, one value after the other. Every rank calls it; only the leader gets the values. */
export const exchangeParts = async (
  { rank, communicator }: Rank,
  graph: Graph,
  names: readonly string[],
  store: StateReader,
): Promise<Either<SpillwayError, Whole>> => {
  const whole = new Map<string, Uint8Array>()
  for (const name of names) {
    const own = store.read(name)
    if (E.isLeft(own)) return own
    const all = await communicator.exchange(own.right)
    if (rank === 0) whole.set(name, joinParts(all, partsIn(graph).get(name)!))
  }
  return E.right(whole)
}
