// `spillway setup cuda`: makes the cuda device usable. It checks the system, finds or builds the plugin, finds or fetches cuDNN and cuBLAS, remembers
// their folders and ends with the doctor's report. Invariant: nothing is fetched or built on a machine that the plugin cannot run on, and
// --dry-run changes nothing.
import { spawnSync } from 'node:child_process'
import * as path from 'node:path'
import type { Either } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { driverRefusal, gpusOf, refusalOf } from '../cuda/gpus'
import { areComplete, findLibraries, foldersOf, LIBRARY_NAMES, type Libraries, remember } from '../cuda/libraries'
import { pluginFile } from '../cuda/plugin'
import { fetchWheels, missingWheels, needText, PYPI, pythonWithPip, WHEELS } from '../cuda/wheels'
import { doctor, reportText } from '../doctor/doctor'
import { type Probe, thisMachine } from '../doctor/probe'
import type { SpillwayError } from '../errors/errors'
import { packageFolder } from '../files/version'
import type { Done, Output } from './output'

export interface SetupOptions {
  readonly dryRun?: boolean
}

const failed = (reason: string): Either<SpillwayError, never> => E.left({ tag: 'SetupFailed', reason })

/** The plugin is compiled on Debian 12, with the C++ library of GCC 12. */
const LEAST_GLIBC = [2, 34] as const

interface System {
  readonly platform: string
  readonly arch: string
  /** Undefined with another C library. */
  readonly glibc: string | undefined
}

export const thisSystem = (): System => {
  const report = process.report?.getReport() as { readonly header?: { readonly glibcVersionRuntime?: string } } | undefined
  return { platform: process.platform, arch: process.arch, glibc: report?.header?.glibcVersionRuntime }
}

const systemRefusal = ({ platform, arch, glibc }: System): string | undefined => {
  if (platform !== 'linux' || arch !== 'x64') return `the cuda device needs Linux on x64; this is ${platform} on ${arch}`
  const [major = 0, minor = 0] = (glibc ?? '0.0').split('.').map(Number)
  return major > LEAST_GLIBC[0] || (major === LEAST_GLIBC[0] && minor >= LEAST_GLIBC[1])
    ? undefined
    : `the cuda device needs glibc ${LEAST_GLIBC.join('.')} or newer (Debian 12, Ubuntu 22.04); this system has ${glibc ? `glibc ${glibc}` : 'another C library'}`
}

/** The reason why no GPU of this machine can run the plugin. Without any GPU there is none: images for other machines are set up, too. */
export const machineRefusal = (probe: Pick<Probe, 'run'>, system: System): string | undefined => {
  const gpus = gpusOf(probe)
  const refusals = gpus.map((gpu) => driverRefusal(gpu.driver) ?? refusalOf(gpu))
  return systemRefusal(system) ?? (refusals.length > 0 && refusals.every((r) => r !== undefined) ? refusals[0] : undefined)
}

// ---------------------------------------------------------------- the plugin

/** Only a checkout has the script. */
const buildScript = (probe: Probe, root: string): string | undefined => {
  const script = path.join(root, 'scripts', 'build-cuda.js')
  return probe.exists(script) ? script : undefined
}

/** Builds the plugin for the GPUs of this machine; without one, for all architectures. */
const built = (probe: Probe, script: string, out: Output): Either<SpillwayError, void> => {
  const own = new Set(gpusOf(probe).flatMap(({ capability }) => (capability ? [`${capability.replace('.', '')}-real`] : [])))
  const args = [script, '--fetch', ...(own.size > 0 ? ['--arch', [...own].join(';')] : [])]
  out.say(
    `building the plugin (about 3 minutes for each architecture): node ${args.map((a) => path.relative(process.cwd(), a) || a).join(' ')}`,
  )
  return spawnSync(process.execPath, args, { stdio: ['ignore', 2, 2] }).status === 0
    ? E.right(undefined)
    : failed('the plugin was not built: the reason is above')
}

/** The plugin's file; undefined where --dry-run leaves out its build. */
const plugin = (probe: Probe, dryRun: boolean, out: Output): Either<SpillwayError, string | undefined> => {
  const root = packageFolder()
  const found = pluginFile(probe, root)
  if (found !== undefined) return E.right(found)
  if (probe.env.SPILLWAY_CUDA) return failed(`SPILLWAY_CUDA names ${probe.env.SPILLWAY_CUDA}, which does not exist`)
  const script = buildScript(probe, root)
  if (script === undefined)
    return failed(
      `the plugin is missing: it is part of the platform package ${probe.prebuilt()?.name ?? '@spillway/linux-x64'} (${probe.prebuilt()?.words ?? 'not installed'})`,
    )
  if (dryRun) return E.right(undefined)
  return E.map(() => pluginFile(probe, root))(built(probe, script, out))
}

// ---------------------------------------------------------------- the libraries

const foundText = (libraries: Libraries): readonly string[] =>
  LIBRARY_NAMES.flatMap((name) => {
    const library = libraries[name]
    return library === undefined ? [] : [`${name}: ${library.file} (${library.origin})`]
  })

const libraries = async (probe: Probe, dryRun: boolean, out: Output): Promise<Either<SpillwayError, Libraries>> => {
  const found = findLibraries(probe)
  if (areComplete(found)) return E.right(found)
  const missing = missingWheels()
  out.say(`cuDNN 9 and cuBLAS are not on this machine. ${needText(missing)}`)
  if (dryRun) return E.right(found)
  const how = { wheels: WHEELS, registry: PYPI, python: pythonWithPip(), say: out.say }
  return E.map(() => findLibraries(probe))(await fetchWheels(how))
}

export const setup = async (part: string, o: SetupOptions, out: Output): Promise<Done> => {
  const probe = thisMachine()
  const refusal = machineRefusal(probe, thisSystem())
  if (refusal !== undefined) return failed(refusal)
  const dryRun = o.dryRun === true
  const file = plugin(probe, dryRun, out)
  if (E.isLeft(file)) return file
  out.say(`plugin: ${file.right ?? 'not built yet'}`)
  const found = await libraries(probe, dryRun, out)
  if (E.isLeft(found)) return found
  for (const line of foundText(found.right)) out.say(line)
  const folders = foldersOf(found.right)
  const answer = { part, plugin: file.right ?? null, libraries: found.right, folders, dryRun }
  if (dryRun) return E.right(out.answer(answer, 'Nothing was changed.'))
  remember(folders)
  const report = doctor(probe)
  return E.right(out.answer({ ...answer, report }, reportText(report)))
}
