// The doctor's view of a machine. In: paths and commands. Out: the present parts, or undefined; nothing throws. A report is a pure function of a
// probe, so a test can describe a machine without oneDNN or with a GPU.
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as J from 'fp-ts/Json'
import type * as t from 'io-ts'
import { decodedOr } from '../../staging/core/codecs'
import { addonFile, type Prebuilt, prebuilt } from '../device/native'
import { attempt } from '../errors/exceptions'

export interface Probe {
  readonly read: (file: string) => string | undefined
  readonly list: (folder: string) => readonly string[]
  readonly exists: (file: string) => boolean
  /** The addon that belongs here, where it is built. */
  readonly addon: () => string | undefined
  /** The contents of the platform package, if there is one. */
  readonly prebuilt: () => Prebuilt | undefined
  /** Standard output when the command ends well, else why it did not. */
  readonly run: (command: string, args: readonly string[]) => Either<string, string>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cores: number
  readonly nodeVersion: string
  readonly folder: string
  readonly freeDiskBytes: (folder: string) => number | undefined
  /** Returns true if files there can be read and written past the page cache. */
  readonly directIo: (folder: string) => boolean
}

const tryDirect = (folder: string): boolean => {
  const file = path.join(folder, `.spillway-doctor-${process.pid}.tmp`)
  const { O_CREAT, O_RDWR, O_DIRECT } = fs.constants
  const opened = attempt(() => fs.openSync(file, O_CREAT | O_RDWR | (O_DIRECT ?? 0), 0o600))
  if (opened !== undefined) fs.closeSync(opened)
  attempt(() => fs.rmSync(file, { force: true }))
  return opened !== undefined && O_DIRECT !== undefined
}

const run: Probe['run'] = (command, args) => {
  const { status, signal, stdout, stderr, error } = spawnSync(command, [...args], { encoding: 'utf8', timeout: 20_000 })
  if (status === 0) return E.right(stdout)
  const words = (stderr ?? '')
    .split('\n')
    .find((line) => /error/i.test(line))
    ?.trim()
  return E.left(words ?? error?.message ?? (signal ? `ended by ${signal}` : `exit code ${status}`))
}

export const thisMachine = (): Probe => ({
  read: (file) => attempt(() => fs.readFileSync(file, 'utf8')),
  list: (folder) => attempt(() => fs.readdirSync(folder)) ?? [],
  exists: fs.existsSync,
  addon: addonFile,
  prebuilt,
  run,
  env: process.env,
  cores: os.availableParallelism(),
  nodeVersion: process.versions.node,
  folder: process.cwd(),
  freeDiskBytes: (folder) =>
    attempt(() => {
      const s = fs.statfsSync(folder)
      return s.bavail * s.bsize
    }),
  directIo: tryDirect,
})

/** The output of a command, or nothing. */
export const wordsOf: (answer: Either<string, string>) => string = E.getOrElse(() => '')

/** The JSON answer of a Node process of its own: a crash of an addon or a driver ends only that one. */
export const answerOf = <A>(probe: Probe, codec: t.Decoder<unknown, A>, question: readonly string[]): Either<string, A> =>
  pipe(
    probe.run(process.execPath, question),
    E.flatMap((text) => E.mapLeft(() => 'unexpected output')(J.parse(text))),
    E.flatMap(decodedOr(codec, 'unexpected output')),
  )

/** The path of a command for the shell. */
export const onPath = (probe: Probe, command: string, ...alsoIn: readonly string[]): string | undefined =>
  [...(probe.env.PATH ?? '').split(':').filter(Boolean), ...alsoIn]
    .map((folder) => path.join(folder, command))
    .find((file) => probe.exists(file))

/** The loader's path for a library whose name begins like this. */
export const sharedLibrary = (probe: Probe, prefix: string): string | undefined => {
  const cache = pipe(
    probe.run('/sbin/ldconfig', ['-p']),
    E.alt(() => probe.run('ldconfig', ['-p'])),
  )
  const line = wordsOf(cache)
    .split('\n')
    .find((entry) => entry.trim().startsWith(prefix))
  return line?.split('=> ')[1]?.trim()
}
