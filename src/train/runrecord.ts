// The record of a run: recipe.json in its folder. In: the start and the end of a run. Out: the file, and back. Invariant: the record of a
// later version is refused, never misread.
import { isAbsolute, join, relative, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { decodedOr, parsedJson } from '../../staging/core/codecs'
import type { SpillwayError } from '../errors/errors'
import { holderCodec } from '../files/lock'
import { RECIPE_FILE } from '../files/runs'
import { readText, type Written, writeWholeText } from '../files/whole'
import { measurementCodec } from './measurement'

const dataCodec = t.intersection([
  t.type({ place: t.string }),
  t.partial({ files: t.number, newest: t.string, sha256: t.string }),
])

/** Results so far, at the end of the process. */
const resultCodec = t.intersection([
  t.type({ steps: t.number, loss: t.union([t.number, t.null]) }),
  t.partial({
    best: measurementCodec,
    /** The metric that decides the best evaluation. */
    metric: t.string,
    secondsPerStep: t.number,
    arenaPeakBytes: t.number,
    weightsSha256: t.string,
  }),
])

const recordCodec = t.intersection([
  t.type({
    format: t.literal('spillway-run'),
    version: t.literal(1),
    model: t.string,
    state: t.keyof({ running: null, done: null, stopped: null, failed: null }),
    began: t.string,
    holder: holderCodec,
    /** Steps of the whole run. */
    steps: t.number,
    options: t.record(t.string, t.unknown),
    machine: t.record(t.string, t.unknown),
    data: dataCodec,
    /** Paths: relative to the folder of the run if inside it. */
    places: t.record(t.string, t.string),
  }),
  t.partial({
    product: t.string,
    command: t.array(t.string),
    ended: t.string,
    ending: t.string,
    evaluation: dataCodec,
    result: resultCodec,
  }),
])
export type RunRecord = t.TypeOf<typeof recordCodec>
/** The part of a record that does not depend on the folder. */
export type Recorded = Pick<RunRecord, 'command' | 'options' | 'machine' | 'data' | 'evaluation' | 'product'>
export type RunResult = t.TypeOf<typeof resultCodec>

/** A path of a record: relative to the folder if inside it, so that the folder can move. */
export const placeFrom = (folder: string, path: string): string => {
  const inside = relative(folder, path)
  return inside.startsWith('..') || isAbsolute(inside) ? resolve(path) : inside || '.'
}

/** The path of a place in a record. */
export const placeAt = (folder: string, place: string): string => (isAbsolute(place) ? place : join(folder, place))

export const writeRecord = (folder: string, record: RunRecord): Either<SpillwayError, Written> =>
  writeWholeText(join(folder, RECIPE_FILE), `${JSON.stringify(recordCodec.encode(record), null, 2)}\n`, 'replace')

/** Class names and metrics of an evaluation: more brackets than a record has by far. */
const MOST_BRACKETS = 2 ** 20

export const readRecord = (folder: string): Either<SpillwayError, RunRecord> => {
  const file = join(folder, RECIPE_FILE)
  return pipe(
    readText('run', file),
    E.flatMap((text) =>
      pipe(
        parsedJson(text, MOST_BRACKETS),
        E.flatMap(decodedOr(recordCodec, 'it is not the record of a run of version 1')),
        E.mapLeft((reason): SpillwayError => ({ tag: 'FileRefused', kind: 'run', file, reason, beforehand: true })),
      ),
    ),
  )
}
