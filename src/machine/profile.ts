// The measured profile of this machine, kept between processes. In: the addon's measurements. Out: call times and link speeds, in ~/.cache/spillway
// (XDG_CACHE_HOME), one file for each machine, build of the addon and number of threads. Invariant: an unreadable file, or one of another version, is
// measured anew; a failed write is ignored.
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { cpus, hostname, totalmem } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import * as t from 'io-ts'
import { positive } from '../../staging/core/codecs'
import { attempt } from '../errors/exceptions'
import { cacheFolder } from '../files/cache'
import { writeWholeText } from '../files/whole'
import type { DeviceInfo } from '../device/native'
import { version } from '../files/version'
import { thisProcessor } from './processor'
import { isQuiet, watched } from './quiet'
import { forgetOldest, type StepTimes } from './steptimes'
import type { Measurements } from './timing'

const VERSION = 7

const linksCodec = t.record(
  t.string,
  t.strict({
    outBytesPerSecond: positive,
    inBytesPerSecond: positive,
    fullDuplex: t.boolean,
    beside: t.strict({ copies: positive, calls: positive }),
  }),
)

const profileCodec = t.strict({
  format: t.literal('spillway-profile'),
  version: t.literal(VERSION),
  machine: t.string,
  /** By lower tier: memory, pinned memory, or the file system of a spill file. */
  links: linksCodec,
  /** Links and calls that were measured beside something else: they serve until the machine is quiet. */
  roughLinks: linksCodec,
  roughSeconds: t.record(t.string, positive),
  /** Times of calls by themselves, and of the last few runs for calls in steps. */
  seconds: t.record(t.string, positive),
  inSteps: t.record(t.string, t.readonlyArray(positive)),
})

export type Speeds = t.TypeOf<typeof profileCodec>['links'][string]
interface Profile {
  readonly links: Map<string, Speeds>
  readonly measurements: Measurements
  readonly roughLinks: Map<string, Speeds>
  readonly rough: Measurements
  readonly inSteps: StepTimes
}

/** The cpu device as far as times depend on it: kernels that were built anew are another one. */
export const cpuBuild = (info: Pick<DeviceInfo, 'oneDnn' | 'build'>): string =>
  `oneDNN ${info.oneDnn ?? 'none'}, spillway ${version()}, build ${info.build}`

/** The basis of the times. */
const machineText = (build: string, threads: number): string =>
  `${thisProcessor()} x ${cpus().length}, ${threads} threads, ${Math.round(totalmem() / 2 ** 30)} GiB, ${build}`

const FILE_NAME = /^profile-[0-9a-f]{16}\.json$/
const fileOf = (machine: string): string =>
  join(cacheFolder(), `profile-${createHash('sha256').update(machine).digest('hex').slice(0, 16)}.json`)

/** Each build has a file of its own: those of the builds that measured last stay beside this one. */
const MOST_OTHERS = 11
const removeOldest = (folder: string, own: string): void => {
  const others = readdirSync(folder)
    .filter((name) => FILE_NAME.test(name))
    .map((name) => join(folder, name))
    .filter((file) => file !== own)
  const written = new Map(others.map((file) => [file, statSync(file).mtimeMs]))
  for (const file of others.sort((a, b) => written.get(b)! - written.get(a)!).slice(MOST_OTHERS)) rmSync(file, { force: true })
}

const stored = (machine: string): Profile | undefined => {
  const read = profileCodec.decode(attempt((): unknown => JSON.parse(readFileSync(fileOf(machine), 'utf8'))))
  if (isLeft(read) || read.right.machine !== machine) return undefined
  const { links, seconds, roughLinks, roughSeconds, inSteps } = read.right
  return {
    links: new Map(Object.entries(links)),
    measurements: new Map(Object.entries(seconds)),
    roughLinks: new Map(Object.entries(roughLinks)),
    rough: new Map(Object.entries(roughSeconds)),
    inSteps: new Map(Object.entries(inSteps)),
  }
}

const withRough = (known: ReadonlyMap<string, unknown>, rough: ReadonlyMap<string, unknown>): string =>
  rough.size === 0 ? `${known.size}` : `${known.size} + ${rough.size} rough`

/** The kept facts of a machine, in words. */
export const profileWords = (build: string, threads: number): string => {
  const machine = machineText(build, threads)
  const profile = stored(machine)
  const known = profile
    ? `${withRough(profile.measurements, profile.rough)} call times, ${profile.inSteps.size} in steps, and ` +
      `${withRough(profile.links, profile.roughLinks)} links in ${fileOf(machine)}`
    : 'nothing measured yet'
  return `${machine}: ${known}`
}

export interface KeptProfile {
  /** For this machine alone. */
  readonly name: string
  readonly measurements: Measurements
  /** Those beside which something else ran. */
  readonly rough: Measurements
  /** Times from steps (steptimes.ts). */
  readonly inSteps: StepTimes
  /** The speed of a link, measured when it is not known, or `stated` until there is time to measure it. */
  readonly link: (tier: string, measure: () => Speeds, stated?: Speeds) => Speeds
  /** The known rates of a link that cannot be measured now. */
  readonly known: (tier: string) => Speeds | undefined
  /** Measures stated rates, if there are enough seconds for it. */
  readonly measureLinks: (seconds: number) => void
  /** Seconds that measuring links took. */
  readonly linkSeconds: () => number
  /** Returns true if a link was measured. */
  readonly isNew: () => boolean
  /** Writes the new measurements. */
  readonly save: () => void
}

const addMissing = <A>(to: Map<string, A>, from: ReadonlyMap<string, A> | undefined): void => {
  for (const [k, v] of from ?? []) if (!to.has(k)) to.set(k, v)
}

/** Takes from the file the entries that another process has learnt meanwhile. */
const takeLearnt = (known: StepTimes, inFile: StepTimes, from: StepTimes | undefined): void => {
  for (const [k, ours] of from ?? []) if (known.get(k) === inFile.get(k)) known.set(k, ours)
}

/** Measurements of a link on a busy machine, before the best of them must do. */
const ATTEMPTS = 3
/** A thread that shares its processor with one other takes twice as long: a larger factor is other work. */
const MOST_BESIDE = 2

/** Other work of a machine only lowers a rate. */
const better = (a: Speeds, b: Speeds): Speeds => ({
  outBytesPerSecond: Math.max(a.outBytesPerSecond, b.outBytesPerSecond),
  inBytesPerSecond: Math.max(a.inBytesPerSecond, b.inBytesPerSecond),
  fullDuplex: a.fullDuplex || b.fullDuplex,
  beside: { copies: Math.min(a.beside.copies, b.beside.copies), calls: Math.min(a.beside.calls, b.beside.calls) },
})

/** The speeds of a link, and whether nothing else ran while they were measured: only then they are worth keeping. */
export const speedsOf = (
  measure: () => Speeds,
  watch: typeof watched = watched,
): { readonly speeds: Speeds; readonly quiet: boolean } => {
  let best: Speeds | undefined
  for (let i = 0; i < ATTEMPTS; i++) {
    const { answer, quiet } = watch(measure)
    if (quiet) return { speeds: answer, quiet }
    best = best ? better(best, answer) : answer
  }
  const { copies, calls } = best!.beside
  return {
    speeds: { ...best!, beside: { copies: Math.min(copies, MOST_BESIDE), calls: Math.min(calls, MOST_BESIDE) } },
    quiet: false,
  }
}

/** The seconds for measuring a link on a busy machine. */
const LINK_SECONDS = 6

export const openProfile = (build: string, threads: number, quietNow: () => boolean = isQuiet): KeptProfile => {
  const machine = machineText(build, threads)
  const { links, measurements, roughLinks, rough, inSteps }: Profile = stored(machine) ?? {
    links: new Map(),
    measurements: new Map(),
    roughLinks: new Map(),
    rough: new Map(),
    inSteps: new Map(),
  }
  let linksMeasured = false
  let linkSeconds = 0
  const stated = new Map<string, () => Speeds>()
  const measured = (tier: string, measure: () => Speeds): Speeds => {
    const began = performance.now()
    const { speeds, quiet } = speedsOf(measure)
    linkSeconds += (performance.now() - began) / 1000
    const into = quiet ? links : roughLinks
    into.set(tier, speeds)
    if (quiet) roughLinks.delete(tier)
    linksMeasured = true
    return speeds
  }
  let inFile: StepTimes = new Map(inSteps)
  return {
    name: `${hostname()}:${fileOf(machine)}`,
    measurements,
    rough,
    inSteps,
    isNew: () => linksMeasured,
    linkSeconds: () => linkSeconds,
    link: (tier, measure, unmeasured) => {
      const known = links.get(tier) ?? (unmeasured || linksMeasured || !quietNow() ? roughLinks.get(tier) : undefined)
      if (known) return known
      if (unmeasured) stated.set(tier, measure)
      return unmeasured ?? measured(tier, measure)
    },
    known: (tier) => links.get(tier) ?? roughLinks.get(tier),
    measureLinks: (seconds) => {
      for (const [tier, measure] of seconds > LINK_SECONDS ? stated : []) measured(tier, measure)
      if (linksMeasured) stated.clear()
    },
    save: () => {
      // Another process may have measured meanwhile: the files keep the measurements of both.
      const meanwhile = stored(machine)
      addMissing(measurements, meanwhile?.measurements)
      addMissing(links, meanwhile?.links)
      addMissing(rough, meanwhile?.rough)
      addMissing(roughLinks, meanwhile?.roughLinks)
      for (const k of measurements.keys()) rough.delete(k)
      for (const k of links.keys()) roughLinks.delete(k)
      takeLearnt(inSteps, inFile, meanwhile?.inSteps)
      forgetOldest(inSteps)
      inFile = new Map(inSteps)
      const profile: t.TypeOf<typeof profileCodec> = {
        format: 'spillway-profile',
        version: VERSION,
        machine,
        links: Object.fromEntries(links),
        seconds: Object.fromEntries(measurements),
        roughLinks: Object.fromEntries(roughLinks),
        roughSeconds: Object.fromEntries(rough),
        inSteps: Object.fromEntries(inSteps),
      }
      // A read-only home only costs the next process a few seconds.
      attempt(() => {
        mkdirSync(cacheFolder(), { recursive: true })
        writeWholeText(fileOf(machine), `${JSON.stringify(profile, null, 1)}\n`, 'replace')
        removeOldest(cacheFolder(), fileOf(machine))
      })
    },
  }
}
