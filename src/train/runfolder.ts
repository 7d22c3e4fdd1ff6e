// The folder of a run: `runs/NAME` with the record, weights, logs and page. In: the start of a run, its listener. Out: the same with the
// places in the folder; recipe.json at the start and at the end. Invariant: a run never writes into the folder of another run.
// Worked example: the first run `resnet18` writes runs/resnet18, the second runs/resnet18-2; --resume finds the folder of its checkpoints.
import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { dataFacts } from '../data/facts'
import { errorText, type SpillwayError } from '../errors/errors'
import { attempt, onFile } from '../errors/exceptions'
import { commandArgs } from '../files/configured'
import { ourselves } from '../files/lock'
import { version } from '../files/version'
import { BEST_FILE, LAST_FILE, PAGE_FILE, runsFolder } from '../files/runs'
import { showSize } from '../report/format'
import { optionsIn } from '../stage/identity'
import type { Listener } from './events'
import { metricOf } from './measured'
import { type Measurement, standing } from './measurement'
import { seedOf, type TrainOptions } from './options'
import { recipeOf, type TrainResult } from './result'
import { placeAt, placeFrom, readRecord, type Recorded, type RunRecord, type RunResult, writeRecord } from './runrecord'
import { scheduleText } from './schedules'
import type { Start } from './start'

/** Options that name places. The record has them apart from the others. */
const PLACES = ['save', 'saveBest', 'log', 'tensorboard', 'report', 'trace', 'checkpointDir'] as const

// ---------------------------------------------------------------- the folder

/** The folder of the run whose checkpoints are in this directory. */
const resumed = ({ resume, checkpointDir }: TrainOptions): string | undefined =>
  resume && checkpointDir !== undefined
    ? (attempt(() => readdirSync(runsFolder())) ?? [])
        .map((name) => join(runsFolder(), name))
        .find((folder) => {
          const record = readRecord(folder)
          const place = E.isRight(record) ? record.right.places['checkpointDir'] : undefined
          return place !== undefined && resolve(placeAt(folder, place)) === resolve(checkpointDir)
        })
    : undefined

/** Creates the first free folder: NAME, NAME-2, NAME-3. */
const created = (name: string): string => {
  mkdirSync(runsFolder(), { recursive: true })
  for (let n = 1; ; n++) {
    const path = join(runsFolder(), n === 1 ? name : `${name}-${n}`)
    if (existsSync(path)) continue
    // Another run may have taken the name meanwhile.
    if (attempt(() => mkdirSync(path) ?? path) !== undefined) return path
    if (!existsSync(path)) mkdirSync(path)
  }
}

/** Removes the folder of a run that ended before its first step. */
const abandoned = (folder: string): void => {
  attempt(() => rmSync(folder, { recursive: true }))
  // Fails while other runs have folders there.
  attempt(() => rmdirSync(runsFolder()))
}

/** The options with the places in the folder that no option names. */
const placedIn = (folder: string, o: TrainOptions): TrainOptions => ({
  ...o,
  save: o.save ?? join(folder, LAST_FILE),
  ...(o.evaluate ? { saveBest: o.saveBest ?? join(folder, BEST_FILE) } : {}),
  log: o.log ?? folder,
  tensorboard: o.tensorboard ?? folder,
  report: o.report ?? join(folder, PAGE_FILE),
})

// ---------------------------------------------------------------- the record

const isPlain = (value: unknown): boolean =>
  ['string', 'number', 'boolean'].includes(typeof value) ||
  (Array.isArray(value) ? value.every(isPlain) : isObject(value) && Object.values(value).every(isPlain))
const isObject = (value: unknown): value is object =>
  value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype

/** Options that shape the results: those of the training graph, of the plan, and of the run. */
const optionsOf = ({ staged: { plan }, options: o, length }: Start): RunRecord['options'] => {
  const { run: _run, resume: _resume, data: _data, evaluate, schedule: _schedule, ...others } = o
  const own = Object.entries(others).filter(([key, value]) => isPlain(value) && !(PLACES as readonly string[]).includes(key))
  return {
    ...optionsIn(plan.graph),
    strategy: plan.strategy,
    budgetBytes: plan.budgetBytes,
    algorithms: plan.algorithms,
    ...(plan.precision === undefined ? {} : { precision: plan.precision }),
    ...Object.fromEntries(own),
    seed: seedOf(o),
    schedule: scheduleText(o, length.steps),
    ...(evaluate ? { evaluateEvery: evaluate.every, evaluateWeights: evaluate.weights } : {}),
  }
}

/** The facts of a record that do not depend on its folder. */
export const recordedOf = (start: Start): Recorded => {
  const { staged, options: o, circumstances } = start
  return {
    product: version(),
    command: [basename(process.argv[1] ?? 'node'), ...commandArgs()],
    options: optionsOf(start),
    machine: { device: staged.machine.device.name, ...circumstances },
    data: dataFacts(o.data),
    ...(o.evaluate ? { evaluation: dataFacts(o.evaluate.data) } : {}),
  }
}

const recordOf = (start: Start, folder: string): RunRecord => {
  const { staged, options: o, data, length } = start
  const before = readRecord(folder)
  const places = PLACES.flatMap((name) => (o[name] === undefined ? [] : [[name, placeFrom(folder, o[name])]]))
  return {
    format: 'spillway-run',
    version: 1,
    ...recipeOf(staged, data.described),
    state: 'running',
    began: E.isRight(before) ? before.right.began : new Date().toISOString(),
    holder: ourselves(),
    steps: length.steps,
    ...start.recorded!,
    places: Object.fromEntries(places) as RunRecord['places'],
  }
}

/** Sizes are for people: 'budgetBytes' becomes 'budget'. */
const factOf = (name: string, value: unknown): readonly [name: string, text: string] =>
  name.endsWith('Bytes') && typeof value === 'number'
    ? [name.slice(0, -'Bytes'.length), showSize(value)]
    : [name, typeof value === 'string' ? value : JSON.stringify(value)]

/** The facts of a record by name, as text: for pages, and to compare runs. */
export const factsOf = ({
  command = [],
  options,
  machine,
  data,
  evaluation,
  product = '',
}: Recorded): Readonly<Record<string, string>> => {
  const dataText = ({ place, files, newest, sha256 }: RunRecord['data']): string =>
    files === undefined ? place : `${place} (${files} files, newest ${newest}, sha256 ${sha256})`
  return {
    ...(command.length === 0 ? {} : { command: command.join(' ') }),
    ...Object.fromEntries(Object.entries({ ...options, ...machine }).map(([name, value]) => factOf(name, value))),
    data: dataText(data),
    ...(evaluation ? { evaluation: dataText(evaluation) } : {}),
    version: product,
  }
}

/** JSON has no number for a loss that is not finite. */
const finite = (loss: number | undefined): number | null => (loss !== undefined && Number.isFinite(loss) ? loss : null)

/** The events of a run, as far as the record needs them. */
class Followed {
  private steps: number
  private loss: number | undefined
  private readonly measured: Measurement[]

  constructor(private readonly start: Start) {
    const { from } = start
    this.steps = from?.step ?? 0
    this.loss = from?.losses.at(-1)
    this.measured = [...(from?.measured ?? [])]
  }

  readonly listener = (others: Listener): Listener => ({
    ...others,
    emit: (e) => {
      if (e.kind === 'step') [this.steps, this.loss] = [e.step, e.loss]
      if (e.kind === 'evaluation') this.measured.push({ epoch: e.epoch, step: e.step, metrics: e.metrics })
      others.emit(e)
    },
  })

  get hasSteps(): boolean {
    return this.steps > 0
  }

  result(r?: TrainResult): RunResult {
    const { options } = this.start
    const best = options.evaluate ? standing(this.measured, metricOf(options)).best : undefined
    return {
      steps: this.steps,
      loss: finite(this.loss),
      ...(best ? { best, metric: metricOf(options) } : {}),
      ...(r ? { secondsPerStep: r.secondsPerStep, arenaPeakBytes: r.arenaPeakBytes, weightsSha256: r.weightsSha256 } : {}),
    }
  }
}

type End = Pick<RunRecord, 'state' | 'ending'>

const endOf = (e: SpillwayError): End => ({
  state: e.tag === 'Stopped' || e.tag === 'Cancelled' ? 'stopped' : 'failed',
  ending: errorText(e),
})

// ---------------------------------------------------------------- a run in its folder

/** Performs a run in its folder, if it has one. Its record says at any time if it runs, and how it ended. */
export const withRunFolder = (
  start: Start,
  listener: Listener,
  use: (start: Start, listener: Listener) => TaskEither<SpillwayError, TrainResult>,
): TaskEither<SpillwayError, TrainResult> => {
  const { options: o } = start
  const { run: name } = o
  if (name === undefined) return use(start, listener)
  const perform = ({ folder, isNew }: { folder: string; isNew: boolean }): TaskEither<SpillwayError, TrainResult> => {
    const own: Start = { ...start, options: placedIn(folder, o), folder, recorded: recordedOf(start) }
    const followed = new Followed(own)
    const record = recordOf(own, folder)
    const end = (how: End, result?: TrainResult): Either<SpillwayError, unknown> =>
      followed.hasSteps || !isNew
        ? writeRecord(folder, { ...record, ...how, ended: new Date().toISOString(), result: followed.result(result) })
        : E.right(abandoned(folder))
    return pipe(
      TE.fromEither(writeRecord(folder, record)),
      TE.flatMap(() => async () => {
        try {
          const answer = await use(own, followed.listener(listener))()
          const written = E.isRight(answer) ? end({ state: 'done' }, answer.right) : end(endOf(answer.left))
          return E.isRight(answer) && E.isLeft(written) ? written : answer
        } catch (thrown) {
          end({ state: 'failed', ending: thrown instanceof Error ? thrown.message : String(thrown) })
          throw thrown
        }
      }),
    )
  }
  return pipe(
    TE.fromIOEither(() =>
      onFile(
        'output',
        runsFolder(),
      )(() => {
        const folder = resumed(o)
        return E.right(folder === undefined ? { folder: created(name), isNew: true } : { folder, isNew: false })
      }),
    ),
    TE.flatMap(perform),
  )
}
