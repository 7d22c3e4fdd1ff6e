// Where something will be written. In: a path, and what comes there. Out: nothing, or in words why it cannot come there; free room.
// Invariant: nothing is made or changed: what is asked for is known before anything begins.
import { accessSync, constants, lstatSync, statfsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import { attempt } from '../errors/exceptions'
import { oddity } from './whole'

const statOf = (path: string) => attempt(() => statSync(path))
const isDangling = (path: string): boolean => statOf(path) === undefined && attempt(() => lstatSync(path)) !== undefined

/** The folder itself, or what of it is there already. */
export const existingPart = (folder: string): string => {
  const at = resolve(folder)
  return statOf(at) !== undefined || isDangling(at) || at === dirname(at) ? at : existingPart(dirname(at))
}

const refusal = (what: string, path: string, why: string): Either<SpillwayError, never> =>
  E.left(usage(`${what} ${path} cannot be written: ${why}`))

const writable = (what: string, path: string, folder: string): Either<SpillwayError, void> => {
  const stat = statOf(folder)
  if (stat === undefined) return refusal(what, path, `${folder} ${isDangling(folder) ? 'is a broken link' : 'does not exist'}`)
  if (!stat.isDirectory()) return refusal(what, path, `${folder} is not a folder`)
  return pipe(
    E.tryCatch(
      () => accessSync(folder, constants.W_OK | constants.X_OK),
      (e) => ((e as NodeJS.ErrnoException).code === 'EROFS' ? 'is on a read-only file system' : 'is not writable'),
    ),
    E.orElse((why): Either<SpillwayError, void> => refusal(what, path, `folder ${folder} ${why}`)),
  )
}

/** A folder that is there, or can be made. */
export const folderPlace = (what: string, path: string | undefined): Either<SpillwayError, void> =>
  path === undefined ? E.right(undefined) : writable(what, path, existingPart(path))

/** A file of a folder that is there. */
export const filePlace = (what: string, path: string | undefined): Either<SpillwayError, void> => {
  if (path === undefined) return E.right(undefined)
  if (path === '') return E.left(usage(`${what}: the name is empty`))
  const stat = statOf(path)
  const odd = stat && oddity(stat)
  return odd === undefined ? writable(what, path, dirname(resolve(path))) : refusal(what, path, odd)
}

/** What a file system has left for us, and its number. */
export interface FreeRoom {
  readonly device: number
  readonly bytes: number
  /** Of what there is in all. */
  readonly size: number
}

export const freeRoom = (path: string): FreeRoom | undefined =>
  attempt(() => {
    const at = existingPart(path)
    const { bavail, blocks, bsize } = statfsSync(at)
    return { device: statSync(at).dev, bytes: bavail * bsize, size: blocks * bsize }
  })
