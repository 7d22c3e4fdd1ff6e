// The border of exceptions and values; no other code of ours catches or throws. In: calls into the file system, the addon, a user's file. Out:
// Either; and for scripts, the other way round. Invariant: only their expected errors become values: a fault of our own stays an exception.
import * as E from 'fp-ts/Either'
import { constUndefined } from 'fp-ts/function'
import type { TaskEither } from 'fp-ts/TaskEither'
import { type FileKind, type SpillwayError, SpillwayException } from './errors'

const fileFailed =
  (kind: FileKind, file: string) =>
  (e: unknown): SpillwayError => {
    const { code, message } = e as NodeJS.ErrnoException
    if (typeof code !== 'string') throw e
    // The folder of an output may be missing: then the file itself is not.
    return code === 'ENOENT' && kind !== 'output'
      ? { tag: 'FileMissing', kind, file }
      : { tag: 'FileRefused', kind, file, reason: message }
  }

/** An error of the file system, as a value: a missing file is the call's fault, any other the file's. */
export const onFile =
  (kind: FileKind, file: string) =>
  <A>(f: () => E.Either<SpillwayError, A>): E.Either<SpillwayError, A> =>
    E.flatten(E.tryCatch(f, fileFailed(kind, file)))

/** Errors while an output is written: those of the file system and refusals, as values. */
export const onWriting =
  <A>(file: string, f: () => Promise<A>): TaskEither<SpillwayError, A> =>
  async () => {
    try {
      return E.right(await f())
    } catch (e) {
      return E.left(e instanceof SpillwayException ? e.error : fileFailed('output', file)(e))
    }
  }

/** Among the files that a device reads, only data are first checked there. */
export const deviceFailed = (e: unknown): SpillwayError => {
  if (e instanceof SpillwayException) return e.error
  const { message: reason, file } = E.toError(e) as Error & { readonly file?: unknown }
  return typeof file === 'string' ? { tag: 'FileRefused', kind: 'data', file, reason } : { tag: 'DeviceFailed', reason }
}

/** An error of a device or the addon, as a value. */
export const onDevice = <A>(f: () => A): E.Either<SpillwayError, A> => E.tryCatch(f, deviceFailed)

/** A refusal of ours that a function throws, as a value. */
export const onRefusal = <A>(f: () => A): E.Either<SpillwayError, A> =>
  E.tryCatch(f, (e) => {
    if (e instanceof SpillwayException) return e.error
    throw e
  })

/** An error of a device that times calls during planning, as a value. */
export const whilePlanning = <A>(plan: () => E.Either<SpillwayError, A>): E.Either<SpillwayError, A> => E.flatten(onRefusal(plan))

/** An optional value: undefined if it cannot be had. */
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

/** For scripts: the answer, or the error as a SpillwayException. */
export const orThrow = <A>(answer: E.Either<SpillwayError, A>): A => {
  if (E.isLeft(answer)) throw new SpillwayException(answer.left)
  return answer.right
}
