// Where exceptions and values meet; nothing else of ours catches or throws. In: calls into the file system, the addon, a
// user's file. Out: Either; and for scripts, the other way round. Invariant: only what these may rightly throw becomes a
// value: a fault of our own goes on as the exception that it is.
import * as E from 'fp-ts/Either'
import { constUndefined } from 'fp-ts/function'
import type { TaskEither } from 'fp-ts/TaskEither'
import { type FileKind, type SpillwayError, SpillwayException } from './errors'

const fileFailed =
  (kind: FileKind, file: string) =>
  (e: unknown): SpillwayError => {
    const { code, message } = e as NodeJS.ErrnoException
    if (typeof code !== 'string') throw e
    // What we write may lack its folder: then it is not the file that is missing.
    return code === 'ENOENT' && kind !== 'output'
      ? { tag: 'FileMissing', kind, file }
      : { tag: 'FileRefused', kind, file, reason: message }
  }

/** What the file system refuses, as a value: a file that is not there is the call's fault, anything else the file's. */
export const onFile =
  (kind: FileKind, file: string) =>
  <A>(f: () => E.Either<SpillwayError, A>): E.Either<SpillwayError, A> =>
    E.flatten(E.tryCatch(f, fileFailed(kind, file)))

/** Of the files that a device reads, data alone are first looked at there. */
export const deviceFailed = (e: unknown): SpillwayError => {
  if (e instanceof SpillwayException) return e.error
  const { message: reason, file } = E.toError(e) as Error & { readonly file?: unknown }
  return typeof file === 'string' ? { tag: 'FileRefused', kind: 'data', file, reason } : { tag: 'DeviceFailed', reason }
}

/** What a device or the addon says that fails, as a value. */
export const onDevice = <A>(f: () => A): E.Either<SpillwayError, A> => E.tryCatch(f, deviceFailed)

/** What a device that fails while it is asked how long calls take says out of the middle of planning, as a value. */
export const whilePlanning = <A>(plan: () => E.Either<SpillwayError, A>): E.Either<SpillwayError, A> =>
  E.flatten(
    E.tryCatch(plan, (e) => {
      if (e instanceof SpillwayException) return e.error
      throw e
    }),
  )

/** What is done without where it cannot be had. */
export const attempt = <A>(f: () => A): A | undefined => E.toUnion(E.tryCatch(f, constUndefined))

/** A resource for as long as it is used, however that ends: an exception goes on, but not past the closing. */
export const using =
  <R, A>(
    open: () => E.Either<SpillwayError, R>,
    close: (resource: R) => void,
    use: (resource: R) => TaskEither<SpillwayError, A>,
  ): TaskEither<SpillwayError, A> =>
  async () => {
    const opened = open()
    if (E.isLeft(opened)) return opened
    try {
      return await use(opened.right)()
    } finally {
      close(opened.right)
    }
  }

/** For what scripts call: the answer, or the error as a SpillwayException. */
export const orThrow = <A>(answer: E.Either<SpillwayError, A>): A => {
  if (E.isLeft(answer)) throw new SpillwayException(answer.left)
  return answer.right
}
