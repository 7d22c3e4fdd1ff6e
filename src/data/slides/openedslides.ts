// Opened slides of a path. In: a path, options, the damaged files. Out: the intact slides, words for their identity, notes about the others.
import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { dirname, relative } from 'node:path'
import { known } from '../../../staging/core/known'
import { path as isPath, valueText } from '../../../staging/core/values'
import { errorText } from '../../errors/errors'
import { augmentProblem } from '../augment'
import { damageAmong } from '../damaged'
import type { Damaged } from '../found'
import { LIST } from '../lists'
import { type Found, type FoundAll, foundAt } from './foundslides'
import { opened } from './parts'
import { decodeAll } from './slide'
import { OPTIONS, refused, type SlideOptions } from './slideoptions'

/** The identity of the data: names and sizes of the files, and the options. */
const identityOf = (at: string, found: readonly Found[], o: SlideOptions): string => {
  const hash = createHash('sha256')
  const isList = LIST.test(at)
  for (const { file, mask, label, bag } of found) {
    for (const f of [file, ...(mask ? [mask] : [])])
      hash.update(`${isList ? relative(dirname(at), f) : f.slice(at.length)} ${statSync(f).size}\n`)
    if (isList || bag !== undefined) hash.update(`label ${label}, bag ${bag}\n`)
  }
  return `slides ${hash.update(JSON.stringify(o)).digest('hex').slice(0, 16)}`
}

/** The samples without damaged slides; a bag with such a slide is left out whole. */
const intactOf = (path: string, found: readonly Found[], damaged: Damaged): readonly Found[] => {
  const bags = new Set(found.filter(({ file }) => damaged.has(file)).map(({ bag }) => bag))
  const kept = found.filter(({ file, bag }) => !damaged.has(file) && (bag === undefined || !bags.has(bag)))
  const [first] = found.flatMap(({ file }) => damaged.get(file) ?? [])
  return kept.length > 0 ? kept : refused(`slides: ${path}: no slide is left: ${errorText(first!)}`)
}

export const NO_DAMAGE: Damaged = new Map()

/** Decodes all slides and masks of a path. Returns the errors of the damaged ones, by the file of the slide. */
export const damagedAt = async (path: string, o: SlideOptions): Promise<Damaged> =>
  damageAmong(
    checkedFound(path, o).found,
    ({ file }) => file,
    async (one) => {
      const { slide, mask } = opened(o)(one)
      await decodeAll(slide)
      if (mask) await decodeAll(mask)
    },
  )

/** The files of a path, with checked options. */
const checkedFound = (path: string, o: SlideOptions): FoundAll => {
  if (!isPath.is(path)) refused(`slides: the path is ${valueText(path)}; allowed: a path of a file or folder`)
  known(OPTIONS, o)
  const problem = o.augment && augmentProblem(o.augment)
  if (problem !== undefined) refused(`slides: ${problem}`)
  const { level, microns, tiles, tissue = 0 } = o
  if (level !== undefined && microns !== undefined) refused('slides: level and microns exclude each other: set one of them')
  if (o.canvas !== undefined && tiles !== undefined) refused('slides: canvas is for whole slides: leave canvas or tiles out')
  if (tissue > 0 && tiles === undefined) refused('slides: tissue selects tiles: set tiles, too, e.g. tiles: 512')
  return foundAt(path, o)
}

/** The opened slides of a path, without the damaged ones. */
export const openedAt = (path: string, given: SlideOptions, damaged: Damaged) => {
  const { found: all, classes } = checkedFound(path, given)
  const { skipDamaged: _, ...o } = given
  const errors = all.flatMap(({ file }) => damaged.get(file) ?? [])
  const found = errors.length === 0 ? all : intactOf(path, all, damaged)
  const notes = [
    ...errors.map((error) => `data ${path}: left out: ${errorText(error)}`),
    ...(errors.length === 0 ? [] : [`data ${path}: left out ${all.length - found.length} of ${all.length} slides`]),
  ]
  return { all: found.map(opened(o)), classes, name: identityOf(path, found, o), root: path, notes }
}

export type OpenedSlides = ReturnType<typeof openedAt>
