// Images decoded by threads of their own. In: the work, the number of threads. Out: a Reader. Invariant: a sample does not depend on its reader; a
// thread has at most two queued samples, so that none waits behind a slow one while others are idle.
import { extname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { SpillwayException } from '../errors/errors'
import { openGate, stopGate } from './gate'
import { imageReader, imageTypes, type ImageWork } from './imagereader'
import type { Answered, Asked, Begun } from './imageworker'
import type { PlaceArray, PlaceType } from './places'
import type { Reader } from './readers'

const WORKER = join(__dirname, `imageworker${extname(__filename)}`)
const MOST_UNDER_WAY = 2
/** Milliseconds that threads have for the samples that they are at. */
const LAST_SAMPLES = 10_000

interface Waiting extends Asked {
  readonly done: () => void
  readonly failed: (error: unknown) => void
}
interface Hand {
  readonly worker: Worker
  readonly under: Map<number, Waiting>
}

/** Ends the threads of each open pool: the process may end while they read. */
const open = new Set<() => void>()
process.on('exit', () => open.forEach((close) => close()))

const pooled = (work: ImageWork, workers: number): Reader => {
  let hands: readonly Hand[] | undefined
  let queue: Waiting[] = []
  let tasks = 0
  const gate = openGate()
  const close = (): void => {
    stopGate(gate, LAST_SAMPLES)
    for (const hand of hands ?? []) void hand.worker.terminate()
    queue = []
    open.delete(close)
  }
  const serve = (): void => {
    for (const hand of hands ?? [])
      while (hand.under.size < MOST_UNDER_WAY && queue.length > 0) {
        const waiting = queue.shift()!
        hand.under.set(waiting.task, waiting)
        const { task, place, at } = waiting
        hand.worker.postMessage({ task, place, at } satisfies Asked)
      }
  }
  const answered = (hand: Hand, { task, refused, broken }: Answered): void => {
    const waiting = hand.under.get(task)!
    hand.under.delete(task)
    if (refused) waiting.failed(new SpillwayException(refused))
    else if (broken !== undefined) waiting.failed(broken)
    else waiting.done()
    serve()
  }
  const died = (hand: Hand, error: unknown): void => {
    for (const waiting of [...hand.under.values(), ...queue]) waiting.failed(error)
    hand.under.clear()
    queue = []
  }
  const started = (arrays: readonly PlaceArray[]): Hand => {
    const types = imageTypes(work)
    const shared = arrays.map((a, i) => ({ type: types[i] as PlaceType, memory: a.buffer as unknown as SharedArrayBuffer }))
    const worker = new Worker(WORKER, { workerData: { gate, work, arrays: shared } satisfies Begun })
    worker.unref()
    const hand: Hand = { worker, under: new Map() }
    worker.on('message', (a: Answered) => answered(hand, a))
    worker.on('error', (e) => died(hand, e))
    return hand
  }
  return {
    inTurn: false,
    types: () => Promise.resolve(imageTypes(work)),
    read: (place, _, arrays, at) =>
      new Promise<void>((done, failed) => {
        if (!hands) {
          open.add(close)
          hands = Array.from({ length: workers }, () => started(arrays))
        }
        queue.push({ task: tasks++, place, at, done, failed })
        serve()
      }),
    close,
  }
}

/** Without threads of their own, images are read on the thread that asks. */
export const imagesBy = (work: ImageWork, workers: number): Reader => (workers === 0 ? imageReader(work) : pooled(work, workers))
