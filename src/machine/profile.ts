// The measured profile of this machine, kept between processes. In: what the addon measures. Out: call times and link
// speeds, in ~/.cache/spillway (XDG_CACHE_HOME), one file a machine and build of the addon. Invariant: a file that cannot
// be read, or is of another version, is measured anew; one that cannot be written is done without.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync } from 'node:fs'
import { cpus, homedir, totalmem } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import * as t from 'io-ts'
import { writeWholeText } from '../files'
import type { Measurements } from './timing'

const VERSION = 1

const positive = new t.Type<number>('Positive', (u): u is number => typeof u === 'number' && u > 0 && Number.isFinite(u),
  (u, c) => (typeof u === 'number' && u > 0 && Number.isFinite(u) ? t.success(u) : t.failure(u, c)), t.identity)
const profileCodec = t.strict({
  format: t.literal('spillway-profile'),
  version: t.literal(VERSION),
  machine: t.string,
  copyBytesPerSecond: positive,
  seconds: t.record(t.string, positive),
})

export interface Profile { readonly copyBytesPerSecond: number; readonly measurements: Measurements }

export const cacheFolder = (): string => join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'spillway')

/** What the times depend on. */
const machineText = (build: string, threads: number): string =>
  `${cpus()[0]?.model ?? 'unknown'} x ${cpus().length}, ${threads} threads, ${Math.round(totalmem() / 2 ** 30)} GiB, ${build}`

const fileOf = (machine: string): string =>
  join(cacheFolder(), `profile-${createHash('sha256').update(machine).digest('hex').slice(0, 16)}.json`)

const stored = (machine: string): Profile | undefined => {
  try {
    const read = profileCodec.decode(JSON.parse(readFileSync(fileOf(machine), 'utf8')))
    if (isLeft(read) || read.right.machine !== machine) return undefined
    return { copyBytesPerSecond: read.right.copyBytesPerSecond, measurements: new Map(Object.entries(read.right.seconds)) }
  } catch {
    return undefined
  }
}

export interface KeptProfile extends Profile { readonly save: () => void }

/** The profile as kept, or a new one with its link measured; `save` writes what was measured since. */
export const openProfile = (build: string, threads: number, measureCopy: () => number): KeptProfile => {
  const machine = machineText(build, threads)
  const { copyBytesPerSecond, measurements } = stored(machine) ?? { copyBytesPerSecond: measureCopy(), measurements: new Map<string, number>() }
  return {
    copyBytesPerSecond, measurements,
    save: () => {
      // Another process may have measured meanwhile: what both know, both keep.
      for (const [k, v] of stored(machine)?.measurements ?? []) if (!measurements.has(k)) measurements.set(k, v)
      const profile: t.TypeOf<typeof profileCodec> = {
        format: 'spillway-profile', version: VERSION, machine, copyBytesPerSecond, seconds: Object.fromEntries(measurements),
      }
      try {
        mkdirSync(cacheFolder(), { recursive: true })
        writeWholeText(fileOf(machine), `${JSON.stringify(profile, null, 1)}\n`)
      } catch { /* a read-only home only costs the next process a few seconds */ }
    },
  }
}
