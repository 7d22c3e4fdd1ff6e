// `stage` in a thread of its own, so that the caller can do something else meanwhile. In: a model or a step, options and a signal. Out: a promise of
// `stage`'s result. Invariant: the plan has the bytes of `stage`; an aborted signal rejects at once, with its reason.
import { extname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { asTrainable, type CheckedOptions, type NamesIn, type Trainable } from '../../dsl'
import { SpillwayException, usage } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { signal, withValues } from '../../staging/core/values'
import { UPDATES } from '../../staging/ops/updates'
import { machineNamed } from '../machine/machine'
import { ownRates } from '../machine/ownmachines'
import { takeOwnGpu } from '../ranks/gpu'
import type { ModeOf } from './mode'
import { ownStrategy } from './ownstrategies'
import { type AnyLayer, type AnyModel, machineOptionsOf, STAGE_VALUES, type StageOptions } from './stageoptions'
import { type Staged, withFacts } from './staged'
import type { Answered, Asked } from './worker'

/**
 * Options of `stageAsync`.
 *
 * @example const options: StageAsyncOptions = { budget: gib(4), signal: AbortSignal.timeout(60_000) }
 */
export interface StageAsyncOptions<L extends string = AnyLayer, M extends Trainable = AnyModel> extends StageOptions<L, M> {
  /**
   * Stops planning; the promise rejects with the reason of the signal.
   *
   * @example stageAsync(net, { signal: AbortSignal.timeout(10_000) })
   */
  readonly signal?: AbortSignal | undefined
}

// biome-ignore format: a list
const STAGE_ASYNC_KEYS = optionsFor<StageAsyncOptions>()(
  'stageAsync', 'budget', 'loss', 'optimizer', ...UPDATES.keys, 'strategy', 'effort', 'machine', 'tiles', 'checkpoints', 'spill', 'hostMemory', 'spillWritesPerStep', 'algorithms', 'measure', 'precision', 'ranks', 'bands', 'norms', 'shard', 'network', 'allocator', 'resumes', 'mode', 'as', 'name', 'signal',
)
const STAGE_ASYNC = withValues(STAGE_ASYNC_KEYS, { ...STAGE_VALUES, signal })

const WORKER = join(__dirname, `worker${extname(__filename)}`)

/** The thread ends with its answer, with an exception, or when nobody waits for it any more. */
const inThread = (requested: Asked, signal: AbortSignal | undefined): Promise<Answered> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    takeOwnGpu()
    const worker = new Worker(WORKER, { workerData: requested })
    const onAbort = (): void => {
      reject(signal?.reason)
      void worker.terminate()
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => signal?.removeEventListener('abort', onAbort))
  })

/**
 * Plans like `stage`, in a thread of its own, so that the caller stays responsive. It rejects with a
 * `SpillwayException`.
 *
 * @param model The model, or a step with several objectives.
 * @param options The options of `stage`, and a `signal`.
 * @example const planned = await stageAsync(net, { budget: gib(4), signal: AbortSignal.timeout(60_000) })
 */
export function stageAsync<M extends Trainable>(model: M): Promise<Staged<M, 'train'>>
/**
 * Plans like `stage`, in a thread of its own, so that the caller stays responsive. It rejects with a
 * `SpillwayException`.
 *
 * @param model The model, or a step with several objectives.
 * @param options The options of `stage`, and a `signal`.
 * @example const planned = await stageAsync(net, { budget: gib(4), signal: AbortSignal.timeout(60_000) })
 */
export function stageAsync<M extends Trainable, const O extends (StageAsyncOptions<NamesIn<M>, M> & object) | undefined>(
  model: M,
  options: CheckedOptions<M, O, typeof STAGE_ASYNC_KEYS>,
): Promise<Staged<M, ModeOf<O>>>
export async function stageAsync<M extends Trainable>(model: M, o: StageAsyncOptions = {}): Promise<Staged<M>> {
  const { signal, ...rest } = orThrow(knownIn(STAGE_ASYNC)(o))
  if (ownStrategy(rest.strategy))
    throw new SpillwayException(
      usage(`strategy '${rest.strategy}' is a function, which cannot move to a worker thread: use stage`),
    )
  // Plain data: a network of the zoo is a function.
  const plain = orThrow(asTrainable(model))
  const answered = await inThread({ model: plain, options: rest, machines: ownRates() }, signal)
  return pipe(
    answered,
    E.flatMap((staged) =>
      pipe(
        machineNamed(rest.machine ?? 'cpu', { ...machineOptionsOf(rest), shard: staged.plan.graph.shard }),
        E.map((machine) => withFacts({ ...staged, machine, model })),
      ),
    ),
    orThrow,
  )
}
