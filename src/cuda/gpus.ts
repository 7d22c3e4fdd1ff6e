// The GPUs of this machine, as nvidia-smi lists them. In: a way to run it. Out: name, memory, driver, link and compute capability of each, and the
// reason why a GPU or a driver is too old for the plugin. Invariant: the oldest architecture is the first of native/cuda/architectures.txt.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { packageFolder } from '../files/version'
import type { Places } from './libraries'

export interface Gpu {
  readonly name: string
  readonly mebibytes: string
  readonly driver: string
  readonly link: string
  /** '8.6'; undefined if nvidia-smi is too old to report it. */
  readonly capability: string | undefined
}

/** The driver's branch for the plugin's CUDA version, 13. */
export const LEAST_DRIVER = 580

const FIELDS = 'name,memory.total,driver_version,pcie.link.gen.max,pcie.link.width.max'

export const gpusOf = ({ run }: Pick<Places, 'run'>): readonly Gpu[] => {
  const requested = (fields: string): E.Either<string, string> =>
    run('nvidia-smi', [`--query-gpu=${fields}`, '--format=csv,noheader,nounits'])
  const lines = pipe(
    requested(`${FIELDS},compute_cap`),
    E.alt(() => requested(FIELDS)),
    E.getOrElse(() => ''),
  )
  return lines
    .split('\n')
    .map((line) => line.split(',').map((field) => field.trim()))
    .flatMap(([name, mebibytes, driver, generation, width, capability]) =>
      name && mebibytes && driver ? [{ name, mebibytes, driver, link: `PCIe ${generation} x${width}`, capability }] : [],
    )
}

/** 75 for compute capability 7.5. */
export const architectures = (root = packageFolder()): readonly number[] =>
  readFileSync(join(root, 'native', 'cuda', 'architectures.txt'), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(Number)

/** Generations by their first compute capability, the newest first. */
const GENERATIONS: readonly (readonly [from: number, name: string])[] = [
  [100, 'Blackwell'],
  [90, 'Hopper'],
  [89, 'Ada'],
  [80, 'Ampere'],
  [75, 'Turing'],
  [70, 'Volta'],
  [60, 'Pascal'],
  [50, 'Maxwell'],
]

const numberOf = (capability: string): number => Math.round(Number(capability) * 10)
const nameOf = (architecture: number): string => GENERATIONS.find(([from]) => architecture >= from)?.[1] ?? 'older than Maxwell'

/** 'Ampere, sm_86' */
export const generationText = ({ capability }: Gpu): string | undefined =>
  capability === undefined ? undefined : `${nameOf(numberOf(capability))}, sm_${numberOf(capability)}`

/** The reason why the plugin does not run on a GPU; undefined if it does. */
export const refusalOf = (gpu: Gpu, least = architectures()[0]!): string | undefined =>
  gpu.capability !== undefined && numberOf(gpu.capability) < least
    ? `${gpu.name} (${generationText(gpu)}) is too old: ${nameOf(least)} (sm_${least}) or newer is needed`
    : undefined

/** The same for a driver, by its version. */
export const driverRefusal = (version: string): string | undefined =>
  Number.parseInt(version, 10) < LEAST_DRIVER
    ? `the driver ${version} is too old: CUDA 13 needs ${LEAST_DRIVER} or newer`
    : undefined
