// The folder of all runs, and the names in it. In: the name of a run. Out: the places of its files. Invariant: a name is one part of a path.
// Worked example: run 'resnet18' of a project has runs/resnet18/last.safetensors.
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'
import { folderPlace } from './places'

export const RECIPE_FILE = 'recipe.json'
export const LAST_FILE = 'last.safetensors'
export const BEST_FILE = 'best.safetensors'
export const PAGE_FILE = 'index.html'

/** The folder of all runs. */
export const runsFolder = (): string => process.env['SPILLWAY_RUN_FOLDER'] ?? 'runs'

/** Bytes of a name: file systems allow 255, and a suffix such as -12 needs room. */
const MOST_NAME = 200

/** Checks a name that a user gives to a run. */
export const checkedRunName = (name: string): Either<SpillwayError, string> =>
  /^[^./\\\p{C}-][^/\\\p{C}]*$/u.test(name) && Buffer.byteLength(name) <= MOST_NAME
    ? E.right(name)
    : E.left(
        usage(
          `run: '${name}' cannot name a folder in ${runsFolder()}; allowed: letters, digits, spaces, '-', '_' and '.', ` +
            `not first '-' or '.', at most ${MOST_NAME} bytes`,
        ),
      )

/** Refuses, before planning, a place where no folder can be created. */
export const runsPlace = (): Either<SpillwayError, void> =>
  E.mapLeft(
    (e: SpillwayError): SpillwayError =>
      e.tag === 'Usage'
        ? { ...e, message: `${e.message}; SPILLWAY_RUN_FOLDER names another folder for runs, --no-save writes none` }
        : e,
  )(folderPlace('run folder', runsFolder()))

/** The place of the final weights of a run. */
export const weightsOfRun = (name: string): string => join(runsFolder(), name, LAST_FILE)
