// The answers of `fits` on two threads: images beside batches. In: the questions. Out: a promise of all answers. Invariant: they are those of `fitsOf`,
// which answers on one thread: for steps of several networks, and on a computer of one core.
import { availableParallelism } from 'node:os'
import { extname, join } from 'node:path'
import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import type { Either } from 'fp-ts/Either'
import type { SpillwayError } from '../errors/errors'
import { takeOwnGpu } from '../ranks/gpu'
import { askedOf, batchesOf, type Fits, type FitsAsked, fitsFrom, fitsOf } from './fits'
import type { Answered, Asked } from './fitsworker'

const WORKER = join(__dirname, `fitsworker${extname(__filename)}`)

/** V8 gives a thread little room for young objects, and then collects these layouts for a third of the time. The whole heap is that of the main thread. */
const YOUNG_MIB = 96
const heap = () => ({
  maxYoungGenerationSizeMb: YOUNG_MIB,
  maxOldGenerationSizeMb: getHeapStatistics().heap_size_limit / 2 ** 20 - YOUNG_MIB,
})

/** Waits for the answers of the thread. */
type Images = () => Promise<Answered>

/** A thread that answers for images. The machine crosses by its name and options: its functions stay in their thread. */
export interface ImagesThread {
  readonly ask: (requested: Asked) => Images
}

/** It starts before the model is built, and loads its modules meanwhile. It does not keep the process alive until its answers are awaited. */
export const imagesThread = (): ImagesThread | undefined => {
  if (availableParallelism() < 2) return undefined
  takeOwnGpu()
  const worker = new Worker(WORKER, { resourceLimits: heap() })
  const answered = new Promise<Answered>((resolve, reject) => worker.once('message', resolve).once('error', reject))
  answered.catch(() => {})
  worker.unref()
  return {
    ask: (asked) => {
      worker.postMessage(asked)
      return () => {
        worker.ref()
        return answered
      }
    },
  }
}

export const fitsBeside = async (o: FitsAsked, images?: Images): Promise<Either<SpillwayError, Fits>> => {
  if (!images) return fitsOf(o)
  const [step, batches] = [askedOf(o), batchesOf(o)]
  return fitsFrom(o.budgetBytes, step, batches, await images())
}
