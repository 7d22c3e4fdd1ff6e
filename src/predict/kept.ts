// A predictor that stays open: one device session with its weights serves many calls. In: a model, its plan, weights. Out: a function from
// pictures to predictions. Invariant: one session is open at a time, so the budget holds. Calls run one after the other. A call that fails
// closes the session, and the next call opens a new one.
// Worked example: photos of 300 x 200 and 640 x 480 for a U-Net: the second call opens the session of its own plan; both plans are kept.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Model } from '../../dsl'
import { knownIn } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import { withValues } from '../../staging/core/values'
import { type Data, folder } from '../data/data'
import { type SpillwayError, usage } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import { givenBoth } from '../stage/given'
import { checkedMode, type PlanFor } from '../stage/mode'
import type { Staged } from '../stage/staged'
import { filesOf } from '../train/beforehand'
import type { DeviceLimits, DeviceSession, Feeding } from '../train/device'
import { descriptionOf, type LoadingOptions, loadingOf } from '../train/loading'
import { RUN_VALUES, withNotes } from '../train/options'
import type { WeightedOptions } from './options'
import { paddedBy } from './padding'
import type { Kept, NamedPicture } from './group'
import { all, type InSession, type Predicted, predicted } from './predictor'
import { formOf, readyOf } from './ready'
import { openWeighted } from './weighted'

/**
 * Options of `openPredictor`.
 *
 * @example const options: PredictorOptions = { weights: 'weights.safetensors', threads: 4 }
 */
export interface PredictorOptions extends WeightedOptions, DeviceLimits, LoadingOptions {
  /**
   * Number of threads that decode images. Default 0: the main thread, which suits few pictures per call.
   *
   * @example openPredictor(net, plan, { weights: 'weights.safetensors', workers: 2 })
   */
  readonly workers?: number | undefined
}

export const PREDICTOR_KEYS = optionsFor<PredictorOptions>()(
  'openPredictor',
  'weights',
  'weightsSkip',
  'weightsStrip',
  'spill',
  'threads',
  'throttle',
  'hostMemory',
  'onNote',
  'workers',
)
const PREDICTOR = withValues(
  PREDICTOR_KEYS,
  {
    weights: RUN_VALUES.weights,
    weightsSkip: RUN_VALUES.weightsSkip,
    weightsStrip: RUN_VALUES.weightsStrip,
    spill: RUN_VALUES.spill,
    threads: RUN_VALUES.threads,
    throttle: RUN_VALUES.throttle,
    hostMemory: RUN_VALUES.hostMemory,
    onNote: RUN_VALUES.onNote,
    workers: RUN_VALUES.workers,
  },
  { required: ['weights'] },
)

/**
 * Pictures of one call: the bytes of image files, a path, or the result of `folder`, `files` or `source`.
 *
 * @example const pictures: Pictures = [new Uint8Array(0)]
 */
export type Pictures = string | Data | Uint8Array | readonly Uint8Array[]

/**
 * A predictor that keeps its device and its weights between calls.
 *
 * @example
 * const classOf = async (p: Predictor, jpeg: Uint8Array) => (await p.predict(jpeg)).ranked?.[0]?.class
 */
export interface Predictor {
  /** Predicts pictures. Calls that overlap run one after the other. */
  readonly predict: (pictures: Pictures) => Promise<Predicted>
  /** Frees the device after the last call. */
  readonly close: () => Promise<void>
}

/** The open session, with the feed of its current data. */
interface Open {
  readonly staged: Staged
  readonly session: DeviceSession
  readonly feeding: Feeding
}

/** Sessions in turn: that of the last plan stays open. */
const sessions = (o: PredictorOptions) => {
  let open: Open | undefined
  const close = (): void => {
    open?.feeding.feed?.close()
    open?.session.dispose()
    open = undefined
  }
  const openFor = (staged: Staged): Either<SpillwayError, Open> => {
    if (open?.staged === staged) return E.right(open)
    close()
    const feeding: Feeding = {}
    return pipe(
      openWeighted(staged, o.weights, o, feeding),
      E.map((session) => {
        open = { staged, session, feeding }
        return open
      }),
    )
  }
  const within: InSession = (staged, use) => async () => {
    const found = openFor(staged)
    if (E.isLeft(found)) return found
    const { session, feeding } = found.right
    let isDone = false
    try {
      const answer = await use(session)()
      isDone = E.isRight(answer)
      return answer
    } finally {
      // The next call has other data.
      feeding.feed?.close()
      delete feeding.feed
      if (!isDone) close()
    }
  }
  return { within, close }
}

const inMemory = (pictures: readonly Uint8Array[]): readonly NamedPicture[] => {
  const digits = String(Math.max(0, pictures.length - 1)).length
  return pictures.map((bytes, i) => {
    const name = `picture-${String(i).padStart(digits, '0')}`
    return { name, file: { name, bytes } }
  })
}

/** The data of a call, and its pictures, if they are in memory. */
const dataOf = (
  pictures: Pictures,
): Either<SpillwayError, readonly [data: string | Data, held: readonly NamedPicture[] | undefined]> => {
  const held =
    pictures instanceof Uint8Array ? [pictures] : Array.isArray(pictures) ? (pictures as readonly Uint8Array[]) : undefined
  if (held === undefined) return E.right([pictures as string | Data, undefined])
  if (held.length === 0 || !held.every((bytes) => bytes instanceof Uint8Array))
    return E.left(usage('predict takes a path, data, or one or more image files as Uint8Array'))
  return E.right([folder('pictures'), inMemory(held)])
}

const predictedBy = (
  model: Model,
  staged: Staged,
  o: PredictorOptions,
  kept: Kept,
  within: InSession,
  pictures: Pictures,
): TaskEither<SpillwayError, Predicted> =>
  pipe(
    TE.fromEither(dataOf(pictures)),
    TE.flatMap(([data, held]) =>
      readyOf(model, staged, { ...o, workers: o.workers ?? 0, data }, undefined, { ...kept, pictures: held }),
    ),
    TE.flatMap((ready) =>
      pipe(
        all(ready, () => Promise.resolve(E.right(undefined)), within),
        // A sample of the shared pages, as in `predict`, would take longer than a small call.
        TE.map((done) => predicted(done, ready.description?.classes, process.memoryUsage.rss())),
      ),
    ),
  )

/** Checks the call once, before the first prediction. */
const checked = (model: Model, staged: Staged, o: PredictorOptions): Either<SpillwayError, Kept> =>
  pipe(
    givenBoth(model, staged),
    E.flatMap(() => knownIn(PREDICTOR)(o)),
    E.flatMap(() => checkedMode(staged, 'predict')),
    E.filterOrElse(
      () => !staged.machine.simulated,
      () => usage(`a plan for the simulated machine '${staged.machine.name}' cannot run`),
    ),
    E.flatMap(() => formOf(model, staged)),
    E.tap(() => filesOf({ weights: o.weights, ...loadingOf(o) })(staged.plan.graph)),
    E.map((form) => ({
      form,
      description: descriptionOf(o.weights),
      pad: paddedBy(model),
      plans: new Map<string, Staged>(),
    })),
  )

/**
 * Opens a predictor that keeps the device, the plan and the weights between calls, e.g. for a service.
 *
 * @param model The model.
 * @param plan A plan with the mode 'predict'.
 * @param options Weights, and how the plan runs.
 * @example
 * const plan = stage(net, { mode: 'predict', as: 'probabilities', budget: mib(256) })
 * const p = await openPredictor(net, plan, { weights: 'weights.safetensors' })
 * const { ranked } = await p.predict('photos/')
 * await p.close()
 */
export const openPredictor = async <P extends Staged, const O extends PredictorOptions>(
  model: Model,
  plan: PlanFor<'predict', P>,
  options: Known<O, typeof PREDICTOR_KEYS>,
): Promise<Predictor> => {
  const kept = orThrow(checked(model, plan, options as O))
  const o: PredictorOptions = withNotes(options as O)
  const { within, close } = sessions(o)
  let isClosed = false
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = <A>(work: () => Promise<A>): Promise<A> => {
    const next = last.then(work)
    last = next.catch(() => {})
    return next
  }
  return {
    predict: (pictures) =>
      isClosed
        ? Promise.reject(new Error('the predictor is closed'))
        : inTurn(async () => orThrow(await predictedBy(model, plan, o, kept, within, pictures)())),
    close: () => {
      isClosed = true
      return inTurn(async () => close())
    },
  }
}
