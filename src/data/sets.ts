// Data of a parent folder with a set for training and a set for evaluations. In: data as users give them. Out: the data of one set, and a
// note. Invariant: other data stay as they are. Worked example: of shapes/ with train/, val/ and test/, a run trains on shapes/train and
// evaluates on shapes/val; a note names test/.
import { join } from 'node:path'
import { attempt } from '../errors/exceptions'
import type { Data } from './data'
import { type Sets, setsAt } from './images'
import { pathOf } from './reads'

type Given = string | Data

interface Parent {
  readonly path: string
  readonly sets: Sets
}

/** Options are checked later, and so are folders that cannot be read: both are no parents. */
const parentOf = (given: Given): Parent | undefined =>
  attempt(() => {
    const path = pathOf(given)
    const sets = path === undefined ? undefined : setsAt(path)
    return path === undefined || sets === undefined ? undefined : { path, sets }
  })

const within = <G extends Given>(given: G, { path }: Parent, set: string): G =>
  (typeof given === 'string'
    ? join(path, set)
    : { ...(given as Data), set: { ...(given as Data).set, path: join(path, set) } }) as G

const leftOut = (names: readonly string[]): string =>
  names.length === 0 ? '' : `; left out: ${names.map((name) => `${name}/`).join(', ')}`

/** The set for training, and the set for evaluations unless the run has others. */
export const trainingSets = <G extends Given>(
  given: G,
  isEvaluated: boolean,
): { readonly data: G; readonly validation?: G; readonly note?: string } => {
  const parent = parentOf(given)
  if (!parent) return { data: given }
  const { path, sets } = parent
  const data = within(given, parent, sets.train)
  if (isEvaluated) return { data, note: `data ${path}: trains on ${sets.train}/${leftOut([sets.validation, ...sets.others])}` }
  const whole = typeof given === 'string' ? given : { ...(given as Data), parts: [] }
  return {
    data,
    validation: within(whole as G, parent, sets.validation),
    note: `data ${path}: trains on ${sets.train}/, and evaluates on ${sets.validation}/ after each epoch${leftOut(sets.others)}; ${join(path, sets.train)} as data trains without evaluations`,
  }
}

/** The set for evaluations. */
export const validationSet = <G extends Given>(given: G): { readonly data: G; readonly note?: string } => {
  const parent = parentOf(given)
  if (!parent) return { data: given }
  const { path, sets } = parent
  return {
    data: within(given, parent, sets.validation),
    note: `data ${path}: evaluates on ${sets.validation}/${leftOut([sets.train, ...sets.others])}`,
  }
}
