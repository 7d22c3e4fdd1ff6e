// Samples that JavaScript reads, on its own thread. In: a user's function or an iterable. Out: a Reader, which puts any sample in a given place.
// Invariant: errors of users' code pass unchanged; a stream is read in order, and again after its end.
import { type Chance, type Picture, sampleByChance } from './augmented'
import { namesText } from './classes'
import type { DataSet, Region, Sample, SampleValue, Samples } from './data'
import type { Size } from './decode'
import type { Place } from './order'
import { dataRefused, type FedValue, type PlaceArray, type PlaceType, typeFor, writeSample } from './places'

/** Puts samples into places. */
export interface Reader {
  /** The stored type of each fed value. */
  readonly types: (first: Place, position: number) => Promise<readonly PlaceType[]>
  /** Samples must be asked for one after the other, in the order of positions. */
  readonly inTurn: boolean
  /** Returns true if samples that were read together since the last call share memory: each may hold the numbers of another. */
  readonly shared?: () => boolean
  /** One sample into place `at` of the arrays, one for each fed value. */
  readonly read: (place: Place, position: number, arrays: readonly PlaceArray[], at: number) => Promise<void>
  readonly close: () => void
}

export type Own = Extract<DataSet, { readonly kind: 'own' }>
type Stream = Extract<DataSet, { readonly kind: 'stream' }>

/** The expectations of a sample. */
interface Checking {
  readonly values: readonly FedValue[]
  readonly classes: readonly string[] | undefined
}

/** Refuses the first label without a name. `names`: those of the source. */
const checkedLabels = (sample: Sample, values: readonly FedValue[], names: readonly string[], name: string): void => {
  for (const { key, isInput, labels, shares, binary, shape } of values) {
    const given = sample[key]
    if (isInput || given === undefined || !(labels || shares || binary)) continue
    const list = typeof given === 'number' ? [given] : given
    // Shares of classes are no labels.
    if (shares && list.length === shape[0] * shape[1] * shape[2]) continue
    for (let i = 0; i < list.length; i++) {
      const label = list[i]!
      if (label === labels?.ignored || !Number.isInteger(label) || (label >= 0 && label < names.length)) continue
      const allowed = `0 to ${names.length - 1}: ${namesText(names)}`
      throw dataRefused(name, `${key}: label ${label} is not one of the ${names.length} classes of the source (${allowed})`)
    }
  }
}

/** A sample that has values of the model only, and labels with a name; throws a refusal otherwise. */
export const checked = (sample: unknown, { values, classes }: Checking, name: string): Sample => {
  if (typeof sample !== 'object' || sample === null)
    throw dataRefused(
      name,
      `a sample must be { ${values.map((v) => v.key).join(', ')} }; found ${sample === null ? 'null' : typeof sample}`,
    )
  const odd = Object.keys(sample).find((key) => !values.some((v) => v.key === key))
  if (odd !== undefined)
    throw dataRefused(name, `the model has no input '${odd}'; allowed: ${values.map((v) => v.key).join(', ')}`)
  if (classes) checkedLabels(sample as Sample, values, classes, name)
  return sample as Sample
}

interface Named {
  readonly sample: Sample
  readonly name: string
}

// ---------------------------------------------------------------- memory that a user's function uses again

type Later<A> = A | Promise<A>

const isLater = <A>(given: Later<A>): given is Promise<A> => typeof (given as Promise<A> | undefined)?.then === 'function'

/** Continues at once with a value, so that it is copied before the next read overwrites it. */
const then = <A, B>(given: Later<A>, next: (a: A) => B): Later<B> => (isLater(given) ? given.then(next) : next(given))

/** Copies of all arrays. A Buffer's own `slice` copies nothing. */
const copied = (sample: Sample, values: readonly FedValue[]): Sample =>
  Object.fromEntries(
    values.map(({ key }): [string, SampleValue] => {
      const value = sample[key]!
      if (Array.isArray(value)) return [key, [...value]]
      return [key, ArrayBuffer.isView(value) ? Uint8Array.prototype.slice.call(value) : value]
    }),
  )

/** Finds arrays that several promised samples share. Samples that are returned at once are copied at once. */
const sharing = () => {
  const held = new Map<object, { readonly of: string; readonly from: number; readonly to: number }[]>()
  let isShared = false
  const saw = (of: string, value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    const isView = ArrayBuffer.isView(value)
    const [memory, from, length] = isView ? [value.buffer, value.byteOffset, value.byteLength] : [value, 0, 1]
    const others = held.get(memory) ?? []
    isShared ||= others.some((o) => o.of !== of && o.from < from + length && from < o.to)
    held.set(memory, [...others, { of, from, to: from + length }])
  }
  return {
    saw: (of: string, sample: Sample): void => Object.values(sample).forEach((value) => saw(of, value)),
    shared: (): boolean => {
      const found = isShared
      held.clear()
      isShared = false
      return found
    },
  }
}

/** A source that is read. */
interface Reading {
  readonly set: Own
  readonly values: readonly FedValue[]
  readonly memory: ReturnType<typeof sharing>
  /** Samples are used after other reads may have begun. */
  readonly isUsedLater: boolean
}

/** The common part of all ways: a present sample, into its place. */
const readerOf = (
  values: readonly FedValue[],
  inTurn: boolean,
  good: (place: Place, position: number) => Later<Named>,
  close: () => void,
): Reader => ({
  inTurn,
  types: async (place, position) => {
    const { sample } = await good(place, position)
    return values.map((v) => typeFor(v, sample[v.key]))
  },
  read: async (place, position, arrays, at) => {
    await then(good(place, position), ({ sample, name }) =>
      values.forEach((v, i) => writeSample(arrays[i]!, v, at, sample[v.key], name)),
    )
  },
  close,
})

/** A sample unchanged, or with random changes. */
const byChance = (
  values: readonly FedValue[],
  chance: Chance | undefined,
  given: (place: Place, position: number) => Later<Named>,
): ((place: Place, position: number) => Later<Named>) => {
  if (!chance) return given
  const [, height, width] = values[0]!.shape
  const whole = { left: 0, top: 0, height, width }
  return async (place, position) => {
    const own = await given(place, position)
    const pictureAt = async (index: number): Promise<Picture> => {
      const picture = index === place.index ? own : await given({ epoch: place.epoch, index }, position)
      return { size: whole, read: () => Promise.resolve({ ...picture, window: whole }) }
    }
    return { ...own, sample: await sampleByChance(values as [FedValue, ...FedValue[]], chance, place, pictureAt) }
  }
}

export const sampleName = (index: number): string => `sample ${index} (counted from 0)`
export const ownName = ({ nameOf }: Own, index: number): string => (nameOf ?? sampleName)(index)

/** A size as users give it, in words where it is none. */
export const sizeGiven = (given: unknown, name: string): Size => {
  const [height, width] = Array.isArray(given) && given.length === 2 ? (given as readonly unknown[]) : []
  if (![height, width].every((n) => Number.isSafeInteger(n) && Number(n) >= 1))
    throw dataRefused(name, `its size is ${JSON.stringify(given)}; allowed: [height, width] in pixels`)
  return { height: Number(height), width: Number(width) }
}
/** How large an image of a source of regions is. */
export const sizeOfOwn = async (set: Own, index: number): Promise<Size> =>
  sizeGiven(typeof set.size === 'function' ? await set.size(index) : set.size, ownName(set, index))

export const regionName = (set: Own, index: number, { top, left, height, width }: Region): string =>
  `${ownName(set, index)}, its ${height} x ${width} pixels at row ${top}, column ${left}`

/** Reads a sample, and copies its arrays if other reads may begin before they are used. */
const ownSample = ({ set, values, memory, isUsedLater }: Reading, index: number, region: Region, name: string): Later<Sample> => {
  const outside = values.find(({ labels }) => labels)?.labels?.ignored ?? 0
  const given = set.read(index, { ...region }, { outside })
  return then(given, (unchecked) => {
    const sample = checked(unchecked, { values, classes: set.classes }, name)
    if (isLater(given)) memory.saw(name, sample)
    return isUsedLater ? copied(sample, values) : sample
  })
}

/** For each sample only the region that the model sees is read. */
const regionReader = (set: Own, values: readonly FedValue[], chance: Chance): Reader => {
  const memory = sharing()
  const reading: Reading = { set, values, memory, isUsedLater: true }
  const reader = readerOf(
    values,
    false,
    async (place) => {
      const pictureAt = async (index: number): Promise<Picture> => ({
        size: await sizeOfOwn(set, index),
        read: async (window) => {
          const name = regionName(set, index, window)
          return { sample: await ownSample(reading, index, window, name), window, name }
        },
      })
      return {
        sample: await sampleByChance(values as [FedValue, ...FedValue[]], chance, place, pictureAt),
        name: ownName(set, place.index),
      }
    },
    () => {},
  )
  return { ...reader, shared: memory.shared }
}

const ALL_OF_IT = { top: 0, left: 0, height: 0, width: 0 } as const

export const ownReader = (set: Own, values: readonly FedValue[], chance?: Chance): Reader => {
  if (set.size !== undefined && chance) return regionReader(set, values, chance)
  const [, height, width] = values[0]!.shape
  const memory = sharing()
  const reading: Reading = { set, values, memory, isUsedLater: chance !== undefined }
  const given = ({ index }: Place): Later<Named> => {
    const name = sampleName(index)
    return then(ownSample(reading, index, { ...ALL_OF_IT, height, width }, name), (sample) => ({ sample, name }))
  }
  return { ...readerOf(values, false, byChance(values, chance, given), () => {}), shared: memory.shared }
}

type AnyIterator = Iterator<unknown> | AsyncIterator<unknown>
const iteratorOf = (samples: Samples): AnyIterator =>
  Symbol.asyncIterator in samples ? samples[Symbol.asyncIterator]() : samples[Symbol.iterator]()

/** Errors of an abandoned iterator are ignored. */
const leave = async (iterator: AnyIterator | undefined): Promise<void> => {
  try {
    await iterator?.return?.()
  } catch {}
}

export const streamReader = (set: Stream, values: readonly FedValue[], chance?: Chance): Reader => {
  let iterator: AnyIterator | undefined
  let next = 0
  let inPass = 0
  let held: { readonly position: number; readonly sample: unknown } | undefined
  const ended = (): never => {
    if (set.once && next > 0)
      throw dataRefused(
        'the source',
        `it ended after ${next} samples and cannot restart: pass a function that returns a new iterator`,
      )
    throw dataRefused('the source', 'it returns no sample')
  }
  const one = async (): Promise<unknown> => {
    iterator ??= iteratorOf(set.open())
    const { done, value } = await iterator.next()
    if (!done) {
      inPass++
      next++
      return value
    }
    if (inPass === 0 || set.once) return ended()
    iterator = undefined
    inPass = 0
    return one()
  }
  const given = async (_: Place, position: number): Promise<Named> => {
    while (held?.position !== position) held = { position: next, sample: await one() }
    const name = sampleName(position)
    return { sample: checked(held.sample, { values, classes: set.classes }, name), name }
  }
  return readerOf(values, true, byChance(values, chance, given), () => void leave(iterator))
}
