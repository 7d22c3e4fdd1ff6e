// A thread that decodes images. In: the work, memory that is shared with the device, then one sample after the other by message. Out: a message when
// the sample is in its place, or with its error. Invariant: samples are read only inside the gate.
import { parentPort, workerData } from 'node:worker_threads'
import { type SpillwayError, SpillwayException } from '../errors/errors'
import { enter, type Gate, leave } from './gate'
import { imageReader, type ImageWork } from './imagereader'
import type { Place } from './order'
import { arrayOn, type PlaceType } from './places'

export interface Begun {
  readonly gate: Gate
  readonly work: ImageWork
  readonly arrays: readonly { readonly type: PlaceType; readonly memory: SharedArrayBuffer }[]
}
export interface Asked {
  readonly task: number
  readonly place: Place
  readonly at: number
}
export interface Answered {
  readonly task: number
  readonly refused?: SpillwayError
  /** An error of our own. */
  readonly broken?: unknown
}

const { gate, work, arrays: shared } = workerData as Begun
const reader = imageReader(work)
const arrays = shared.map(({ type, memory }) => arrayOn(type, memory))
parentPort?.on('message', ({ task, place, at }: Asked) => {
  if (!enter(gate)) return
  const answer = (rest: Omit<Answered, 'task'>): void => {
    parentPort?.postMessage({ task, ...rest } satisfies Answered)
    leave(gate)
  }
  reader.read(place, 0, arrays, at).then(
    () => answer({}),
    (e: unknown) => answer(e instanceof SpillwayException ? { refused: e.error } : { broken: e }),
  )
})
