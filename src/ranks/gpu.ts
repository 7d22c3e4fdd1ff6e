// Which GPU is a rank's: of those of its machine the one of its place there. In: what started the process, CUDA_VISIBLE_DEVICES. Out: the same
// with one GPU in it. Invariant: it is said before CUDA looks, and once: one that is named alone is the process's already (Slurm does so).
// Worked example: 4 ranks here, CUDA_VISIBLE_DEVICES=4,5,6,7: the third has 6.
import { isMainThread } from 'node:worker_threads'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'
import { type Started, startedBy } from './engine'

type Env = Readonly<Record<string, string | undefined>>
const VISIBLE = 'CUDA_VISIBLE_DEVICES'

/** What CUDA is to see. */
export const gpuOf = ({ at, here }: Pick<Started, 'at' | 'here'>, { [VISIBLE]: named }: Env): Either<SpillwayError, string> => {
  const all = named?.split(',').map((one) => one.trim())
  if (!all) return E.right(`${at}`)
  if (all.length === 1) return E.right(all[0]!)
  return all.length >= here && all[at] !== undefined
    ? E.right(all[at])
    : E.left(usage(`${VISIBLE}=${named} lists ${all.length} GPUs for ${here} ranks on this machine; each rank needs its own`))
}

/** Of several processes; what does not fit is refused where a device is asked for. */
export const takeOwnGpu = (env: NodeJS.ProcessEnv = process.env): void => {
  const started = startedBy(env)
  if (!isMainThread || !started || started.ranks < 2) return
  const own = gpuOf(started, env)
  if (E.isRight(own)) env[VISIBLE] = own.right
}
