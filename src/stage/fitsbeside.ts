// The answers of `fits` on two threads: images beside batches. In: the questions. Out: a promise of all answers. Invariant: they are those of `fitsOf`,
// which answers on one thread: for steps of several networks, and on a computer of one core.
import { availableParallelism } from 'node:os'
import { extname, join } from 'node:path'
import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import type { Either } from 'fp-ts/Either'
import type { SpillwayError } from '../errors/errors'
import type { MachineOptions } from '../machine/localmachine'
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

const inThread = (asked: Asked): Promise<Answered> =>
  new Promise((resolve, reject) => {
    takeOwnGpu()
    new Worker(WORKER, { workerData: asked, resourceLimits: heap() }).once('message', resolve).once('error', reject)
  })

/** The machine by its name and options: its functions stay in their thread. */
export const fitsBeside = async (o: FitsAsked, name: string, options: MachineOptions): Promise<Either<SpillwayError, Fits>> => {
  const { budgetBytes, effort, upTo, prepared } = o
  const { base, own } = o.subject
  if (prepared.model.kind === 'step' || availableParallelism() < 2) return fitsOf(o)
  const { net } = prepared.model
  const images = inThread({ net, base, own, machine: { name, options }, budgetBytes, effort, upTo })
  const [step, batches] = [askedOf(o), batchesOf(o)]
  return fitsFrom(budgetBytes, step, batches, await images)
}
