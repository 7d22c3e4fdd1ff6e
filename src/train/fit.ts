// `fit`: the run of `train` as events that come one after the other. In: a model, its staged plan, settings. Out: an async iterable. Invariant:
// nothing runs before the first event is requested; leaving the loop ends the run within a step, and then the device, the files and the checkpoint
// folder are free. Back-pressure: steps continue while an event is looked at, and the run waits when it is AHEAD steps before its reader.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Trainable } from '../../dsl'
import { knownIn } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import type { SpillwayError } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import type { PlanFor } from '../stage/mode'
import type { Staged } from '../stage/staged'
import { scriptTask } from './ranks/script'
import type { FitEvent, Listener } from './events'
import { type Endless, TRAIN, TRAIN_KEYS, type TrainOptions } from './options'
import type { TrainResult } from './result'

import { answerOf } from './trainer'

/** The most steps that nobody has looked at yet. */
const AHEAD = 64

const FIT_KEYS = optionsFor<TrainOptions>()('fit', ...TRAIN_KEYS.keys)
const FIT = { ...TRAIN, ...FIT_KEYS }

/** Events between a run and its reader, in order. */
class Queue {
  private readonly held: FitEvent[] = []
  private isOver = false
  private wakeReader = (): void => {}
  private wakeRun = (): void => {}

  readonly listener: Listener = {
    emit: (event) => {
      this.held.push(event)
      this.wakeReader()
    },
    taken: async () => {
      while (this.held.length > 0 && !this.isOver) await new Promise<void>((resolve) => (this.wakeRun = resolve))
    },
    ahead: AHEAD,
  }

  /** Undefined when the run is over and all is taken. */
  async next(): Promise<FitEvent | undefined> {
    if (this.held.length === 0) this.wakeRun()
    while (this.held.length === 0 && !this.isOver) await new Promise<void>((resolve) => (this.wakeReader = resolve))
    return this.held.shift()
  }

  /** No more is told, or nobody takes any more. */
  end(): void {
    this.isOver = true
    this.wakeReader()
    this.wakeRun()
  }
}

/**
 * Trains like `train` and yields events: `start`, `step`, `epoch`, `evaluation`, `checkpoint` and `end`.
 * Leaving the loop ends the run within a step; the last checkpoint stays. It throws the errors of `train`.
 *
 * @param model The model or step.
 * @param plan The plan, as `stage` returns it.
 * @param options Length, data, schedule, checkpoints and output files.
 * @example
 * for await (const event of fit(net, plan, { epochs: 30, data: 'slides/' })) {
 *   if (event.kind === 'epoch') console.log(event.epoch, event.loss)
 *   if (event.kind === 'epoch' && event.loss < 0.1) break
 * }
 */
export async function* fit<P extends Staged, const O extends TrainOptions>(
  model: Trainable,
  plan: PlanFor<'train', P>,
  options: Known<O, typeof FIT_KEYS, Endless<O>>,
): AsyncGenerator<FitEvent, void, void> {
  const o: TrainOptions = orThrow(knownIn(FIT)(options as O))
  const left = new AbortController()
  const leave = (): void => left.abort()
  if (o.signal?.aborted) leave()
  o.signal?.addEventListener('abort', leave)
  const queue = new Queue()
  const running = scriptTask(model, plan as P, { ...o, signal: left.signal }, queue.listener)().finally(() => queue.end())
  // A reader that has left gets no error; otherwise it is thrown below.
  running.catch(() => {})
  try {
    for (let event = await queue.next(); event; event = await queue.next()) yield event
    answerOf(o)(await running)
  } finally {
    o.signal?.removeEventListener('abort', leave)
    leave()
    queue.end()
    await running.catch((): Either<SpillwayError, TrainResult | undefined> => E.right(undefined))
  }
}
