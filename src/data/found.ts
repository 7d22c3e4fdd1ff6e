// The samples that a path holds. Files of samples with their targets; for later passes, the names of classes and the counts of other data.
import { accessSync, constants } from 'node:fs'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { SpillwayError } from '../errors/errors'
import type { CocoSample } from './coco'
import type { MaskFile } from './decode'
import type { NamedSample } from './lists'

/** Kinds of data that are left out, one entry for each file or folder. */
export type LeftOut = readonly string[]
/** Errors of damaged files, by the path of the file. */
export type Damaged = ReadonlyMap<string, SpillwayError>

/** Files of a sample: an image, and its class or its mask; for predictions, neither. */
export interface ImageSample {
  readonly image: string
  readonly label?: number
  /** Several classes, or none. */
  readonly labels?: readonly number[]
  readonly mask?: MaskFile
}

export interface ImageList {
  readonly samples: readonly ImageSample[]
  /** Names of the classes, where they have any, in the order of their labels. */
  readonly classes?: readonly string[]
  /** Place of sample i in a list, e.g. `line 3`. */
  readonly placeOf?: (i: number) => string
  readonly leftOut: LeftOut
  /** Reason to check the labels, for a person. */
  readonly note?: string
}

export interface Found {
  readonly samples: readonly NamedSample[]
  /** COCO annotations of each sample. */
  readonly annotated?: readonly CocoSample[]
  /** Class folders. */
  readonly folders?: readonly string[]
  readonly placeOf?: (i: number) => string
  readonly leftOut: LeftOut
}

/** The refusal of a data file or folder. */
export const refused = (file: string, reason: string): Either<SpillwayError, never> =>
  E.left({ tag: 'FileRefused', kind: 'data', file, reason })

/** Returns true if a file can be opened. */
export const isReadable = (file: string): boolean => {
  try {
    accessSync(file, constants.R_OK)
    return true
  } catch {
    return false
  }
}
