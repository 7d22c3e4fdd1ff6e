// Class labels in array files, checked before the first step. In: the files, and the values that are fed. Out: the first label that is no
// class, by file and sample. Invariant: only files with one label per sample are read; the native reader checks all others at their step.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { type DataFiles, ELEMENT_BYTES, type FileTensor } from '../files/samples'
import { readRange, withFile } from '../files/whole'
import { numbersOf } from './arrays'
import { elementsOf, type FedValue, valueProblem } from './places'

/** Data in more files are opened too slowly to look at each. */
const MOST_FILES = 1000
const MOST_BYTES = 64 * 2 ** 20

/** The labels of a file with one per sample, after a check. */
const labelsOf = (
  file: FileTensor,
  check: (labels: readonly number[]) => Either<string, void> = () => E.right(undefined),
): Either<SpillwayError, readonly number[]> =>
  withFile('data', file.path, (fd) => {
    const bytes = readRange(fd, file.offset, file.samples * ELEMENT_BYTES[file.type])
    if (!bytes) return E.left('it ends before its last sample')
    const labels = Array.from(numbersOf(file.type, bytes))
    return E.map(() => labels)(check(labels))
  })

const labelsFit =
  (value: FedValue) =>
  (file: FileTensor): Either<SpillwayError, readonly number[]> =>
    labelsOf(file, (labels) => {
      for (const [i, label] of labels.entries()) {
        const problem = valueProblem(value, label)
        if (problem !== undefined) return E.left(`sample ${i} (counted from 0): ${problem}`)
      }
      return E.right(undefined)
    })

/** The labels of all samples, in the order of the files. */
export const labelsInFiles = (files: readonly FileTensor[]): Either<SpillwayError, readonly number[]> =>
  pipe(
    files,
    E.traverseArray((file) => labelsOf(file)),
    E.map((lists) => lists.flat()),
  )

/** The labels that were read: those of the only target with one label per sample. */
export const fileLabelsFit = (files: DataFiles, values: readonly FedValue[]): Either<SpillwayError, readonly number[]> =>
  pipe(
    values.filter((v) => v.labels && elementsOf(v) === 1),
    E.traverseArray((v) => {
      const list = files.get(v.name)!
      const bytes = list.reduce((n, f) => n + f.samples * ELEMENT_BYTES[f.type], 0)
      return list.length > MOST_FILES || bytes > MOST_BYTES ? E.right([]) : E.traverseArray(labelsFit(v))(list)
    }),
    E.map((all) => (all.length === 1 ? all[0]!.flat() : [])),
  )
