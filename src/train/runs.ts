// Runs in their folders, for the commands that list and compare them. In: the name of a run, or the path of its folder. Out: its record, its
// state now, and its log. Invariant: nothing is written; a run whose process died without an end counts as failed.
import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { attempt } from '../errors/exceptions'
import { isDead } from '../files/lock'
import { RECIPE_FILE, runsFolder } from '../files/runs'
import { standing } from './measurement'
import { placeAt, readRecord, type RunRecord } from './runrecord'
import { type ReadLog, readLog } from './steplog'

/** A run as the commands show it, in `--json`, too. */
export interface RunSummary {
  readonly name: string
  readonly folder: string
  readonly model: string
  readonly state: RunRecord['state']
  /** Words for the end, if the run did not end as planned. */
  readonly ending?: string
  readonly began: string
  readonly ended?: string
  /** Steps of the whole run, and those that are done. */
  readonly steps: number
  readonly stepsDone: number
  /** Loss of the last step; null if it is not finite or unknown. */
  readonly loss: number | null
  /** The best evaluation so far. */
  readonly best?: { readonly metric: string; readonly value: number; readonly epoch: number; readonly step: number }
  readonly secondsPerStep?: number
  readonly arenaPeakBytes?: number
  readonly weightsSha256?: string
}

export interface Run {
  readonly summary: RunSummary
  readonly record: RunRecord
}

const NO_LOG: ReadLog = { steps: [], evaluations: [] }

const logIn = (folder: string, { places }: RunRecord): ReadLog => {
  const place = places['log']
  return pipe(
    place === undefined ? E.right(NO_LOG) : readLog(placeAt(folder, place)),
    E.getOrElse(() => NO_LOG),
  )
}

/** The steps and evaluations of a run; none if its log is missing. */
export const logOf = ({ summary: { folder }, record }: Run): ReadLog => logIn(folder, record)

const bestIn = ({ evaluations }: ReadLog, metric: string): RunSummary['best'] => {
  const { best } = standing(evaluations, metric)
  return best && { metric, value: best.metrics[metric]!, epoch: best.epoch, step: best.step }
}

type Standing = Pick<RunSummary, 'state' | 'ending' | 'stepsDone' | 'loss' | 'best'>

/** The standing of a run whose record has no end, from its log. */
const openStanding = (folder: string, record: RunRecord): Standing => {
  const log = logIn(folder, record)
  const last = log.steps.at(-1)
  const metric = (record.options['keep'] as { readonly best?: string } | undefined)?.best ?? 'loss'
  const best = bestIn(log, metric)
  return {
    ...(isDead(record.holder) ? { state: 'failed', ending: 'the process ended without a message' } : { state: 'running' }),
    stepsDone: last?.step ?? 0,
    loss: last && Number.isFinite(last.loss) ? last.loss : null,
    ...(best ? { best } : {}),
  }
}

const endedStanding = ({ state, ending, result }: RunRecord): Standing => {
  const { best, metric = 'loss' } = result ?? {}
  return {
    state,
    ...(ending === undefined ? {} : { ending }),
    stepsDone: result?.steps ?? 0,
    loss: result?.loss ?? null,
    ...(best ? { best: { metric, value: best.metrics[metric] as number, epoch: best.epoch, step: best.step } } : {}),
  }
}

const summaryOf = (folder: string, record: RunRecord): RunSummary => {
  const { model, began, ended, steps, result } = record
  const { state, ending, stepsDone, loss, best } =
    record.state === 'running' ? openStanding(folder, record) : endedStanding(record)
  const { secondsPerStep, arenaPeakBytes, weightsSha256 } = result ?? {}
  return {
    name: basename(folder),
    folder,
    model,
    state,
    ...(ending === undefined ? {} : { ending }),
    began,
    ...(ended === undefined ? {} : { ended }),
    steps,
    stepsDone,
    loss,
    ...(best ? { best } : {}),
    ...(secondsPerStep === undefined ? {} : { secondsPerStep }),
    ...(arenaPeakBytes === undefined ? {} : { arenaPeakBytes }),
    ...(weightsSha256 === undefined ? {} : { weightsSha256 }),
  }
}

const readFolder = (folder: string): Either<SpillwayError, Run> =>
  E.map((record: RunRecord) => ({ record, summary: summaryOf(folder, record) }))(readRecord(folder))

const isRun = (folder: string): boolean => existsSync(join(folder, RECIPE_FILE))
const namesIn = (folder: string): readonly string[] =>
  (attempt(() => readdirSync(folder)) ?? []).filter((n) => isRun(join(folder, n)))

/** All runs of a folder, the oldest first. Records that cannot be read are errors beside them. */
export const runsIn = (folder = runsFolder()): { readonly runs: readonly Run[]; readonly refused: readonly SpillwayError[] } => {
  const read = namesIn(folder).map((name) => readFolder(join(folder, name)))
  return {
    runs: read.flatMap((r) => (E.isRight(r) ? [r.right] : [])).sort((a, b) => a.summary.began.localeCompare(b.summary.began)),
    refused: read.flatMap((r) => (E.isLeft(r) ? [r.left] : [])),
  }
}

/** Returns true if a text of the command line is the path of a folder, and not the name of a run. */
export const isRunsFolder = (text: string): boolean =>
  !isRun(join(runsFolder(), text)) && !isRun(text) && (attempt(() => statSync(text).isDirectory()) ?? false)

/** Words for a folder without runs. */
export const noRuns = (folder: string): string => `${folder} has no runs; 'spillway train' writes a run into runs/NAME`

/** The run of a name, or of a folder. */
export const runNamed = (text: string): Either<SpillwayError, Run> => {
  const folder = [join(runsFolder(), text), text].find(isRun)
  if (folder !== undefined) return readFolder(folder)
  const names = namesIn(runsFolder())
  return E.left(
    names.length === 0 ? usage(`there is no run '${text}': ${noRuns(runsFolder())}`) : unknownName('run', text, names),
  )
}
