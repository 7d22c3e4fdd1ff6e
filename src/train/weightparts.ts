// Parameters and states that a plan has in parts of rows (staging/graph/weightparts.ts). In: a plan's graph, a session. Out: a store of the whole
// ones, by their own names. Invariant: files, digests and initial values are those of a plan with whole weights.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { onceFor } from '../../staging/core/remember'
import { type Graph, isPersistent, type Value, valueBytes } from '../../staging/graph/graph'
import { cutsIn } from '../../staging/graph/weightparts'
import type { SpillwayError } from '../errors/errors'
import type { StateStore } from './weights'

const partsOf = onceFor(cutsIn)

const joined = (arrays: readonly Uint8Array[]): Uint8Array => {
  const whole = new Uint8Array(arrays.reduce((n, a) => n + a.length, 0))
  let at = 0
  for (const array of arrays) {
    whole.set(array, at)
    at += array.length
  }
  return whole
}

const written = (store: StateStore, parts: readonly Value[], bytes: Uint8Array): Either<SpillwayError, void> => {
  let at = 0
  return pipe(
    parts,
    E.traverseArray((v) => {
      const from = at
      at += valueBytes(v)
      return store.write(v.name, bytes.subarray(from, at))
    }),
    E.asUnit,
  )
}

/** The store of whole values over that of a plan's own values. */
export const withWholeWeights = (graph: Graph, store: StateStore): StateStore => {
  const parts = partsOf(graph)
  if (parts.size === 0) return store
  return {
    read: (name) => {
      const of = parts.get(name)
      return of
        ? pipe(
            of,
            E.traverseArray((v) => store.read(v.name)),
            E.map(joined),
          )
        : store.read(name)
    },
    write: (name, bytes) => {
      const of = parts.get(name)
      return of ? written(store, of, bytes) : store.write(name, bytes)
    },
  }
}

/** The start of a parameter or state: its name on the device, and the elements of the whole that it has. */
export interface Beginning {
  readonly name: string
  readonly of: string
  readonly first: number
}

export const beginningsIn = (graph: Graph): readonly Beginning[] =>
  graph.values.filter(isPersistent).map(({ name, cut }) => ({ name, of: cut?.of ?? name, first: cut?.first ?? 0 }))
