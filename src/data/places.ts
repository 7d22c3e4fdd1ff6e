// Space for batches: for each fed value a number of steps, in memory that threads share. In: the fed values, the type of each. Out: arrays for the
// device, and the writing of a sample into its place. Invariant: a value that does not fit is refused in words that name the sample; labels are
// classes.
import { SpillwayException } from '../errors/errors'
import type { SampleValue } from './data'

/** A value that a step is fed. */
export interface FedValue {
  /** As the graph calls it, and as samples do. */
  readonly name: string
  readonly key: string
  readonly batch: number
  readonly shape: readonly [c: number, h: number, w: number]
  readonly isInput: boolean
  /** For class labels: their number, if it is known, and the number of none. */
  readonly labels?: { readonly classes?: number; readonly ignored?: number }
  /** For shares of classes, one for each pixel and class. */
  readonly shares?: { readonly classes: number }
  /** For one channel, compared with its sigmoid: a value with two labels may be given for it. */
  readonly binary?: true
  /** For channels of one value each, compared with their sigmoids: several classes may be given for them. */
  readonly several?: true
  /** For bytes, which the model takes unchanged: the means that it subtracts itself, one or one for each channel. */
  readonly bytes?: { readonly mean: readonly number[] }
}

export const ELEMENTS = { u8: Uint8Array, i32: Int32Array, f32: Float32Array, f64: Float64Array } as const
export type PlaceType = keyof typeof ELEMENTS
export type PlaceArray = Uint8Array | Int32Array | Float32Array | Float64Array

export const elementsOf = ({ shape: [c, h, w] }: FedValue): number => c * h * w

const isBytes = (given: SampleValue | undefined): boolean => given instanceof Uint8Array || given instanceof Uint8ClampedArray

/** The stored type of a sample's value: bytes stay bytes, labels are whole. */
export const typeFor = (value: FedValue, given: SampleValue | undefined): PlaceType => {
  if (value.bytes || isBytes(given)) return 'u8'
  if (value.labels) return 'i32'
  return given instanceof Float64Array ? 'f64' : 'f32'
}

/** The same memory, wherever it is looked at. */
export const arrayOn = (type: PlaceType, memory: SharedArrayBuffer): PlaceArray =>
  new ELEMENTS[type](memory as unknown as ArrayBuffer)

/** Batches of a value, `slots` of them. */
export const arrayFor = (value: FedValue, type: PlaceType, slots: number): PlaceArray => {
  const Elements = ELEMENTS[type]
  const length = slots * value.batch * elementsOf(value)
  return arrayOn(type, new SharedArrayBuffer(length * Elements.BYTES_PER_ELEMENT))
}

export const dataRefused = (data: string, reason: string): SpillwayException =>
  new SpillwayException({ tag: 'DataRefused', data, reason })

const shapeWords = ({ shape }: FedValue): string => `[${shape.join(',')}]`

const cureOf = (label: number, classes: number): string => {
  if (label === 255 && classes === 2) return '; divide masks of 0 and 255 by 255, or ignore 255 with ignoreIndex (--ignore-index)'
  if (label === classes) return '; do the labels begin at 1?'
  return [255, -1, -100].includes(label) ? '; to ignore this label, set ignoreIndex (--ignore-index)' : ''
}

/** The first label that is no class, in words. */
const labelProblem = (value: FedValue, labels: ArrayLike<number>): string | undefined => {
  const { classes, ignored } = value.labels!
  for (let i = 0; i < labels.length; i++) {
    const label = labels[i]!
    const isLegal =
      Number.isInteger(label) && Math.abs(label) < 2 ** 31 && (classes === undefined || (label >= 0 && label < classes))
    if (isLegal || label === ignored) continue
    const width = value.shape[2]
    const at = elementsOf(value) === 1 ? '' : `row ${Math.floor(i / width)}, column ${i % width} (counted from 0): `
    return `${at}${label} is ${classes === undefined ? 'not a class' : `not one of ${classes} classes (0 to ${classes - 1})${cureOf(label, classes)}`}`
  }
  return undefined
}

const numbersIn = (given: SampleValue): ArrayLike<number> => (typeof given === 'number' ? [given] : given)

const VALUES = 'one number, an array of numbers, a Uint8Array, Int32Array, Float32Array or Float64Array'
const BIG: readonly unknown[] = [BigInt64Array, BigUint64Array, DataView]

/** The type of a value that holds no numbers. */
const strangeKind = (given: unknown): string | undefined => {
  if (typeof given === 'number') return undefined
  if (ArrayBuffer.isView(given)) return BIG.includes(given.constructor) ? `a ${given.constructor.name}` : undefined
  if (!Array.isArray(given)) return given === null ? 'null' : `a value of type ${typeof given}`
  const odd = given.findIndex((n) => typeof n !== 'number')
  return odd < 0 ? undefined : `${JSON.stringify(given[odd]) ?? typeof given[odd]} at ${odd} of an array`
}

/** The error of a value of a sample, for any place, in words. */
export const valueProblem = (value: FedValue, given: SampleValue | undefined): string | undefined => {
  if (given === undefined) return 'it is missing'
  const kind = strangeKind(given)
  if (kind !== undefined) return `found ${kind}; allowed: ${VALUES}`
  const numbers = numbersIn(given)
  const size = elementsOf(value)
  if (numbers.length !== size) return `${numbers.length} numbers, but the model takes ${shapeWords(value)}, which has ${size}`
  if (value.bytes && !isBytes(given)) return 'the model begins with fromBytes and takes bytes: pass a Uint8Array'
  return value.labels && labelProblem(value, numbers)
}

/** The same, with the errors of this place. */
const problemOf = (into: PlaceArray, value: FedValue, given: SampleValue | undefined): string | undefined =>
  given !== undefined && into instanceof Uint8Array && ArrayBuffer.isView(given) && !isBytes(given) && !value.bytes
    ? 'the first sample has bytes, but this one does not: use one array type for all samples'
    : valueProblem(value, given)

/** Writes one value of a sample; `name` is the sample, for words. */
export const writeSample = (
  into: PlaceArray,
  value: FedValue,
  at: number,
  given: SampleValue | undefined,
  name: string,
): void => {
  const problem = problemOf(into, value, given)
  if (problem !== undefined) throw dataRefused(name, `${value.key}: ${problem}`)
  into.set(numbersIn(given!), at * elementsOf(value))
}
