// A folder that one process at a time writes into. In: a folder. Out: the lock, or who holds it. Invariant: a process that dies
// leaves nothing that keeps the next one out, on the machine where it ran; another machine's lock is told, not judged.
// Worked example: process 71 is killed; its number is given to another program. The boot and the tick at which 71 began are in the
// lock, and are not that program's: the lock is dead and is taken over.
import { linkSync, readlinkSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { constVoid, pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { decodedOr, parsedJson } from '../../staging/core/codecs'
import type { FolderHolder, SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { readText, temporaryName } from './whole'

/** A process: enough to find out later if it still runs. */
export const holderCodec: t.Type<FolderHolder> = t.strict({
  host: t.string,
  boot: t.string,
  space: t.string,
  pid: t.number,
  began: t.string,
  since: t.string,
})

export const LOCK_FILE = 'lock.json'

const orNothing = (read: () => string): string => E.getOrElse(() => '')(E.tryCatch(read, constVoid))
const textOf = (path: string): string =>
  pipe(
    readText('checkpoint', path),
    E.getOrElse(() => ''),
  )

const bootOf = (): string => textOf('/proc/sys/kernel/random/boot_id').trim()
/** The name space of process numbers: two containers of one name have one each. */
const spaceOf = (): string => orNothing(() => readlinkSync('/proc/self/ns/pid'))
/** The tick at which a process began; '' where there is none, or a dead one that nobody has asked after. */
const beganOf = (pid: number): string => {
  const fields = textOf(`/proc/${pid}/stat`).split(') ').at(-1)!.split(' ')
  return fields[0] === 'Z' ? '' : (fields[19] ?? '')
}

/** This process. */
export const ourselves = (): FolderHolder => ({
  host: hostname(),
  boot: bootOf(),
  space: spaceOf(),
  pid: process.pid,
  began: beganOf(process.pid),
  since: new Date().toISOString(),
})

/** Returns true if the process has ended. A process of another machine is not judged. */
export const isDead = (h: FolderHolder): boolean =>
  h.host === hostname() && (h.boot !== bootOf() || (h.space === spaceOf() && h.began !== beganOf(h.pid)))

/** The holder of the folder; a truncated lock has none. */
const holderIn = (text: string): FolderHolder | undefined =>
  pipe(
    parsedJson(text),
    E.flatMap(decodedOr(holderCodec, 'not a lock')),
    E.getOrElse((): FolderHolder | undefined => undefined),
  )

/** Takes a dead lock out of the way; one that came in its place meanwhile goes back. */
const removeDead = (path: string, dead: string): void => {
  const aside = temporaryName(path)
  renameSync(path, aside)
  if (textOf(aside) !== dead) linkSync(aside, path)
  rmSync(aside)
}

const codeOf = (e: unknown): unknown => (e as NodeJS.ErrnoException).code

/** Puts `mine` in place whole, where no other is. */
const placed = (path: string, mine: string): boolean => {
  const own = temporaryName(path)
  writeFileSync(own, mine, { flag: 'wx' })
  try {
    linkSync(own, path)
    return true
  } catch (e) {
    if (codeOf(e) !== 'EEXIST') throw e
    return false
  } finally {
    rmSync(own)
  }
}

const TRIES = 8

/** A folder held, until it is let go. */
export interface Lock {
  readonly release: () => void
}

/** Checks that no process writes there now: before planning, and again when the folder is locked. */
export const unlocked = (directory: string): Either<SpillwayError, void> => {
  const holder = holderIn(textOf(join(directory, LOCK_FILE)))
  return holder && !isDead(holder) ? E.left({ tag: 'FolderLocked', directory, ...holder }) : E.right(undefined)
}

export const lockFolder = (directory: string): Either<SpillwayError, Lock> =>
  onFile(
    'output',
    directory,
  )(() => {
    const path = join(directory, LOCK_FILE)
    const mine = `${JSON.stringify(holderCodec.encode(ourselves()))}\n`
    for (let i = 0; i < TRIES && !placed(path, mine); i++) {
      const found = textOf(path)
      const holder = holderIn(found)
      if (holder && !isDead(holder)) return E.left({ tag: 'FolderLocked', directory, ...holder })
      try {
        removeDead(path, found)
      } catch (e) {
        // Others may have been quicker.
        if (codeOf(e) !== 'ENOENT' && codeOf(e) !== 'EEXIST') throw e
      }
    }
    return textOf(path) === mine
      ? E.right({ release: () => textOf(path) === mine && rmSync(path, { force: true }) })
      : E.left({ tag: 'FileRefused', kind: 'output', file: path, reason: 'it changed its owner too often; try again' })
  })
