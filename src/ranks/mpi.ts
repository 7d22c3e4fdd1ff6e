// MPI as an engine: compiled where it is first needed against the MPI that is there, and kept in the user's cache. In: mpicxx. Out: the
// engine's file; this process's rank. Invariant: contents name the file, and it is renamed into place whole, so that ranks that all make it at
// once do no harm.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { tryLoadNative } from '../device/native'
import { type SpillwayError, usage } from '../errors/errors'
import { onDevice } from '../errors/exceptions'
import { cacheFolder } from '../files/cache'
import { packageFolder } from '../files/version'
import type { Started } from './engine'
import { type Rank, rankOf } from './rank'

const failed = (reason: string): SpillwayError => ({ tag: 'DeviceFailed', reason })

/** The source of the engine, below native/. */
const SOURCE = 'comm/mpi.cpp'
const SOURCES = [
  SOURCE,
  'comm/calls.hpp',
  'comm/heartbeat.hpp',
  'comm/leftovers.hpp',
  'core/communicator.hpp',
  'core/result.hpp',
] as const

export const GETTING_MPI = 'apt-get install libopenmpi-dev openmpi-bin (or libmpich-dev mpich) on Debian and Ubuntu'

/** The MPI's own compiler; `SPILLWAY_MPICXX` names another. */
const compiler = (): string => process.env['SPILLWAY_MPICXX'] || 'mpicxx'

const build = (into: string): Either<SpillwayError, string> => {
  const native = join(packageFolder(), 'native')
  const fresh = `${into}.${process.pid}.tmp`
  mkdirSync(cacheFolder(), { recursive: true })
  const args = [
    '-std=c++20',
    '-O2',
    '-fPIC',
    '-shared',
    '-pthread',
    '-fvisibility=hidden',
    '-DOMPI_SKIP_MPICXX',
    '-DMPICH_SKIP_MPICXX',
    `-I${native}`,
    join(native, SOURCE),
    '-o',
    fresh,
  ]
  const { status, stderr } = spawnSync(compiler(), args, { encoding: 'utf8' })
  if (status !== 0) return E.left(failed(`${compiler()} could not build the MPI engine: ${stderr.trim().slice(0, 2000)}`))
  renameSync(fresh, into)
  return E.right(into)
}

/** The engine's file, built where it is not there; SPILLWAY_MPI names one that is taken as it is. */
export const mpiEngine = (): Either<SpillwayError, string> => {
  const named = process.env['SPILLWAY_MPI']
  if (named) return E.right(named)
  const shown = spawnSync(compiler(), ['-show'], { encoding: 'utf8' })
  if (shown.status !== 0) return E.left(failed(`MPI is not found (${compiler()} is not on the PATH): ${GETTING_MPI}`))
  const hash = createHash('sha256').update(shown.stdout)
  for (const file of SOURCES) hash.update('\0').update(readFileSync(join(packageFolder(), 'native', file)))
  const into = join(cacheFolder(), `mpi-${hash.digest('hex').slice(0, 16)}.so`)
  return existsSync(into) ? E.right(into) : build(into)
}

export const openMpi = (started: Started): Either<SpillwayError, Rank> =>
  pipe(
    mpiEngine(),
    E.bindTo('file'),
    E.bind('native', tryLoadNative),
    E.flatMap(({ file, native }) => onDevice(() => native.openPluginRank(file))),
    E.filterOrElse(
      (c) => c.size === started.ranks,
      (c) =>
        usage(
          `${started.by} started ${started.ranks} processes, but the MPI of ${compiler()} sees ${c.size}, so these are two different MPIs: set SPILLWAY_MPICXX to the compiler of the first`,
        ),
    ),
    E.map(rankOf),
  )
