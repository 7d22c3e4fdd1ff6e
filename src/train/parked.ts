// A run's state while its device is somebody else's. In: an open session. Out: its parameters and states, in the host's memory, or in a
// file of the spill folder where there is one. Invariant: the bytes that were read are those that are given back; the file goes.
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { readRange, temporaryName } from '../files/whole'
import { tierOf } from '../machine/tier'
import type { ModelState, StateReader, StateStore } from './weights'

interface Closed {
  readonly close: () => void
}
export interface Parked extends StateReader, Closed {
  readonly giveBack: (to: StateStore) => Either<SpillwayError, void>
}

const namesOf = ({ weights, optimizer }: ModelState): readonly string[] => [...weights, ...optimizer].map((v) => v.name)

const copied = (names: readonly string[], from: StateReader, to: StateStore): Either<SpillwayError, void> =>
  pipe(
    names,
    E.traverseArray((name) =>
      pipe(
        from.read(name),
        E.flatMap((bytes) => to.write(name, bytes)),
      ),
    ),
    E.asUnit,
  )

const inMemory = (names: readonly string[], from: StateReader): Either<SpillwayError, StateReader & Closed> =>
  pipe(
    names,
    E.traverseArray((name) => E.map((bytes: Uint8Array) => [name, bytes] as const)(from.read(name))),
    E.map((held) => new Map(held)),
    E.map((held) => ({ read: (name: string) => E.right(held.get(name)!), close: () => held.clear() })),
  )

/** One value after the other, in a file without a name: it ends with the process. */
const inFile = (path: string, names: readonly string[], from: StateReader): Either<SpillwayError, StateReader & Closed> =>
  onFile(
    'output',
    path,
  )(() => {
    const places = new Map<string, { readonly at: number; readonly bytes: number }>()
    const fd = openSync(path, 'wx+', 0o600)
    rmSync(path)
    const close = (): void => closeSync(fd)
    let end = 0
    for (const name of names) {
      const bytes = from.read(name)
      if (E.isLeft(bytes)) {
        close()
        return bytes
      }
      for (let n = 0; n < bytes.right.length; ) n += writeSync(fd, bytes.right, n, bytes.right.length - n, end + n)
      places.set(name, { at: end, bytes: bytes.right.length })
      end += bytes.right.length
    }
    const read = (name: string): Either<SpillwayError, Uint8Array> => {
      const { at, bytes } = places.get(name)!
      return onFile('output', path)(() => E.right(readRange(fd, at, bytes)!))
    }
    return E.right({ read, close })
  })

export const park = (state: ModelState, session: StateReader, spill: string | undefined): Either<SpillwayError, Parked> => {
  const names = namesOf(state)
  const tier = tierOf(spill)
  return pipe(
    tier.kind === 'disk' ? inFile(temporaryName(join(tier.folder, 'state')), names, session) : inMemory(names, session),
    E.map(({ read, close }) => ({ read, close, giveBack: (to) => copied(names, { read }, to) })),
  )
}
