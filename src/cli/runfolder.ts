// The folder of a run: `runs/NAME`, with the weights and recipe.json. In: the model's name, flags. Out: the folder, created when the run
// begins. Invariant: a run never writes into the folder of another run; --resume finds the folder of its checkpoints.
// Worked example: the first `train resnet18` writes runs/resnet18/last.safetensors, the second runs/resnet18-2/last.safetensors.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { attempt, onFile } from '../errors/exceptions'
import { folderPlace } from '../files/places'
import { version } from '../files/version'
import { writeWholeText } from '../files/whole'
import { descriptionOf } from '../train/loading'
import type { TrainOptions } from '../train/options'
import type { TrainResult } from '../train/result'

export const RECIPE_FILE = 'recipe.json'
const LAST_FILE = 'last.safetensors'
const BEST_FILE = 'best.safetensors'

/** The folder of all runs. */
const runsFolder = (): string => process.env['SPILLWAY_RUN_FOLDER'] ?? 'runs'

/** Flags that decide the folder. */
interface Asked {
  readonly save?: string | false | undefined
  readonly checkpointDir?: string | undefined
  readonly resume?: boolean | undefined
}

/** A folder that belongs to a run. */
export interface RunFolder {
  readonly path: string
  /** Places of the weights that no flag names. */
  readonly places: Pick<TrainOptions, 'save' | 'saveBest'>
}

/** Returns true if a run needs the folder: no flag names the place of its weights. */
export const needsFolder = ({ save }: Asked): boolean => save === undefined

/** Refuses, before planning, a place where no folder can be created. */
export const folderFor = (o: Asked): Either<SpillwayError, void> =>
  needsFolder(o)
    ? E.mapLeft(
        (e: SpillwayError): SpillwayError =>
          e.tag === 'Usage'
            ? { ...e, message: `${e.message}; --save names another place for the weights, --no-save keeps none` }
            : e,
      )(folderPlace('run folder', runsFolder()))
    : E.right(undefined)

const recipeAt = (folder: string): Readonly<Record<string, unknown>> =>
  attempt(() => JSON.parse(readFileSync(join(folder, RECIPE_FILE), 'utf8')) as Readonly<Record<string, unknown>>) ?? {}

/** The folder of the run whose checkpoints are in this directory. */
const resumed = ({ resume, checkpointDir }: Asked): string | undefined =>
  resume && checkpointDir !== undefined
    ? (attempt(() => readdirSync(runsFolder())) ?? [])
        .map((name) => join(runsFolder(), name))
        .find((folder) => recipeAt(folder)['checkpointDir'] === resolve(checkpointDir))
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

const written = (folder: string, recipe: object): Either<SpillwayError, unknown> =>
  writeWholeText(join(folder, RECIPE_FILE), `${JSON.stringify(recipe, null, 2)}\n`, 'replace')

/** Facts about the run that its weights do not hold. */
const aboutRun = ({ checkpointDir }: Asked): object => ({
  product: version(),
  command: process.argv.slice(2),
  ...(checkpointDir === undefined ? {} : { checkpointDir: resolve(checkpointDir) }),
})

/** Creates the folder of a run that begins; undefined if flags name the places of the weights. */
export const claimed = (
  name: string,
  o: Asked,
  options: Pick<TrainOptions, 'evaluate' | 'saveBest'>,
): Either<SpillwayError, RunFolder | undefined> =>
  needsFolder(o)
    ? pipe(
        onFile('output', runsFolder())(() => E.right(resumed(o) ?? created(name))),
        E.tap((path) => written(path, aboutRun(o))),
        E.map((path) => ({
          path,
          places: {
            save: join(path, LAST_FILE),
            ...(options.evaluate && options.saveBest === undefined ? { saveBest: join(path, BEST_FILE) } : {}),
          },
        })),
      )
    : E.right(undefined)

/** Completes recipe.json at the end of a run. */
export const ended = (folder: RunFolder, o: Asked, { weightsSha256, savedTo }: TrainResult): Either<SpillwayError, unknown> => {
  if (savedTo === undefined) return E.right(abandoned(folder, o))
  const { version: _, ...recipe } = { version: 0, ...descriptionOf(folder.places.save!) }
  return written(folder.path, { ...recipe, ...aboutRun(o), weightsSha256 })
}

/** Removes the folder of a run that left no weights and no checkpoints. */
export const abandoned = ({ path, places }: RunFolder, { checkpointDir }: Asked): void => {
  const holdsWeights = Object.values(places).some((file) => file !== undefined && existsSync(file))
  if (holdsWeights || checkpointDir !== undefined) return
  attempt(() => rmSync(path, { recursive: true }))
  // Fails while other runs have folders there.
  attempt(() => rmdirSync(runsFolder()))
}
