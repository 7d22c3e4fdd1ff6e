// The GPU of a rank: among those of its machine the one with the rank's place there. In: the program that started the process, CUDA_VISIBLE_DEVICES.
// Out: the same with one GPU in it. Invariant: it is set before CUDA reads it, and once: a single named one is the process's already (Slurm does so).
// Worked example: 4 ranks here, CUDA_VISIBLE_DEVICES=4,5,6,7: the third has 6.
import { isMainThread } from 'node:worker_threads'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'
import { type Started, startedBy } from './engine'

type Env = Readonly<Record<string, string | undefined>>
const VISIBLE = 'CUDA_VISIBLE_DEVICES'

/** The value of the variable for CUDA. */
export const gpuOf = ({ at, here }: Pick<Started, 'at' | 'here'>, { [VISIBLE]: named }: Env): Either<SpillwayError, string> => {
  const all = named?.split(',').map((one) => one.trim())
  if (!all) return E.right(`${at}`)
  if (all.length === 1) return E.right(all[0]!)
  return all.length >= here && all[at] !== undefined
    ? E.right(all[at])
    : E.left(usage(`${VISIBLE}=${named} lists ${all.length} GPUs for ${here} ranks on this machine; each rank needs its own`))
}

/** For one of several processes; an error is reported when a device is opened. */
export const takeOwnGpu = (env: NodeJS.ProcessEnv = process.env): void => {
  const started = startedBy(env)
  if (!isMainThread || !started || started.ranks < 2) return
  const own = gpuOf(started, env)
  if (E.isRight(own)) env[VISIBLE] = own.right
}
