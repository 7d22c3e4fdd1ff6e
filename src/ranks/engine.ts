// The relation of this process to others. In: the command line's words, the environment of mpirun and srun. Out: the engine of their exchanges, or
// nothing if it is alone; or an error. Invariant: nothing is loaded here. Worked example: OMPI_COMM_WORLD_SIZE=4, OMPI_COMM_WORLD_RANK=2: MPI, four
// ranks.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'

export const ENGINES = ['mpi', 'threads'] as const
export type EngineName = (typeof ENGINES)[number]

export interface EngineAsked {
  readonly engine?: EngineName | undefined
  readonly ranks?: number | undefined
}

/** The starter's facts of this process. */
export interface Started {
  readonly rank: number
  readonly ranks: number
  /** The number of these on this machine. */
  readonly here: number
  /** Which of these it is. */
  readonly at: number
  readonly by: 'mpirun' | 'srun'
}

export type Engine = { readonly kind: 'threads'; readonly ranks: number } | ({ readonly kind: 'mpi' } & Started)

type Env = Readonly<Record<string, string | undefined>>
/** Variables of OpenMPI, of MPICH and its kin, of Slurm. */
const STARTERS = [
  {
    size: 'OMPI_COMM_WORLD_SIZE',
    rank: 'OMPI_COMM_WORLD_RANK',
    here: 'OMPI_COMM_WORLD_LOCAL_SIZE',
    at: 'OMPI_COMM_WORLD_LOCAL_RANK',
    by: 'mpirun',
  },
  { size: 'PMI_SIZE', rank: 'PMI_RANK', here: 'MPI_LOCALNRANKS', at: 'MPI_LOCALRANKID', by: 'mpirun' },
  { size: 'SLURM_STEP_NUM_TASKS', rank: 'SLURM_PROCID', here: 'SLURM_TASKS_PER_NODE', at: 'SLURM_LOCALID', by: 'srun' },
] as const

const count = (text: string | undefined): number | undefined => {
  const n = Number.parseInt(text ?? '', 10)
  return Number.isSafeInteger(n) && n >= 0 ? n : undefined
}

export const startedBy = (env: Env): Started | undefined => {
  for (const s of STARTERS) {
    const [ranks, rank] = [count(env[s.size]), count(env[s.rank])]
    if (ranks === undefined || rank === undefined) continue
    const here = Math.max(1, count(env[s.here]) ?? 1)
    return { rank, ranks, here, at: count(env[s.at]) ?? rank % here, by: s.by }
  }
  return undefined
}

const HOW = 'mpirun -n 4 npx spillway train …'

export const engineFor = ({ engine, ranks }: EngineAsked, env: Env): Either<SpillwayError, Engine | undefined> => {
  const started = startedBy(env)
  if (engine === 'threads') {
    if (ranks === undefined) return E.left(usage('--engine threads needs a number of ranks: --ranks 2'))
    if (started && started.ranks > 1)
      return E.left(usage(`--engine threads needs one process, but ${started.by} started ${started.ranks}`))
    return E.right(ranks === 1 ? undefined : { kind: 'threads', ranks })
  }
  if (ranks !== undefined) return E.left(usage(`--ranks needs --engine threads; with MPI, mpirun sets the number: ${HOW}`))
  if (started && started.ranks > 1) return E.right({ kind: 'mpi', ...started })
  return engine === 'mpi' && !started ? E.left(usage(`--engine mpi needs processes started by MPI: ${HOW}`)) : E.right(undefined)
}
