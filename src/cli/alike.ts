// Compares the inputs of processes that share a command. In: the weights' file, the other inputs that must be equal, by their words. Out: nothing, or
// the first rank that differs from rank 0, and its difference.
import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { gather, type Rank } from '../ranks/rank'
import { differenceIn, collective } from '../train/ranks/orders'

const BLOCK = 2 ** 24
const hashOf = (path: string): Either<SpillwayError, string> =>
  onFile(
    'weights',
    path,
  )(() => {
    const [hash, block, fd] = [createHash('sha256'), new Uint8Array(BLOCK), openSync(path, 'r')]
    try {
      for (let n = readSync(fd, block); n > 0; n = readSync(fd, block)) hash.update(block.subarray(0, n))
    } finally {
      closeSync(fd)
    }
    return E.right(hash.digest('hex'))
  })

/** All ranks come here at once. */
export const alike = (rank: Rank, weights: string, facts: Readonly<Record<string, string>>): TaskEither<SpillwayError, void> =>
  pipe(
    TE.fromEither(hashOf(weights)),
    TE.flatMap((hash) => collective(() => gather(rank, { weights: hash, ...facts }))),
    TE.flatMapEither((all) => {
      const difference = differenceIn(all)
      return difference === undefined ? E.right(undefined) : E.left<SpillwayError>({ tag: 'DeviceFailed', reason: difference })
    }),
  )
