// Samples that JavaScript reads, on its own thread. In: a user's function or something to iterate. Out: a Reader, which puts any sample
// where it is asked to. Invariant: what users' code throws comes out as it is; a stream is gone through in order, again when it is over.
import { type Chance, sampleByChance } from './augmented'
import type { DataSet, Sample, Samples } from './data'
import type { Place } from './order'
import { dataRefused, type FedValue, type PlaceArray, type PlaceType, typeFor, writeSample } from './places'

/** Puts samples into places. */
export interface Reader {
  /** What each fed value is stored as. */
  readonly types: (first: Place, position: number) => Promise<readonly PlaceType[]>
  /** Samples must be asked for one after the other, in the order of positions. */
  readonly inTurn: boolean
  /** One sample into place `at` of the arrays, one for each fed value. */
  readonly read: (place: Place, position: number, arrays: readonly PlaceArray[], at: number) => Promise<void>
  readonly close: () => void
}

type Own = Extract<DataSet, { readonly kind: 'own' }>
type Stream = Extract<DataSet, { readonly kind: 'stream' }>

const checked = (sample: unknown, values: readonly FedValue[], name: string): Sample => {
  if (typeof sample !== 'object' || sample === null)
    throw dataRefused(
      name,
      `a sample is { ${values.map((v) => v.key).join(', ')} }, and this is ${sample === null ? 'null' : `a ${typeof sample}`}`,
    )
  const odd = Object.keys(sample).find((key) => !values.some((v) => v.key === key))
  if (odd !== undefined) throw dataRefused(name, `the model is not fed '${odd}'; legal: ${values.map((v) => v.key).join(', ')}`)
  return sample as Sample
}

/** What both ways have in common: a sample that is there, into its place. */
const readerOf = (
  values: readonly FedValue[],
  inTurn: boolean,
  sampleAt: (place: Place, position: number) => Promise<{ readonly sample: unknown; readonly name: string }>,
  close: () => void,
  chance?: Chance,
): Reader => {
  type Good = { readonly sample: Sample; readonly name: string }
  const given = async (place: Place, position: number): Promise<Good> => {
    const { sample, name } = await sampleAt(place, position)
    return { sample: checked(sample, values, name), name }
  }
  const good = async (place: Place, position: number): Promise<Good> => {
    const own = await given(place, position)
    if (!chance) return own
    const other = (index: number): Promise<Good> => given({ epoch: place.epoch, index }, position)
    return { ...own, sample: await sampleByChance(values as [FedValue, ...FedValue[]], chance, place, own, other) }
  }
  return {
    inTurn,
    types: async (place, position) => {
      const { sample } = await good(place, position)
      return values.map((v) => typeFor(v, sample[v.key]))
    },
    read: async (place, position, arrays, at) => {
      const { sample, name } = await good(place, position)
      values.forEach((v, i) => writeSample(arrays[i]!, v, at, sample[v.key], name))
    },
    close,
  }
}

export const sampleName = (index: number): string => `sample ${index} (counted from 0)`

export const ownReader = ({ read }: Own, values: readonly FedValue[], chance?: Chance): Reader =>
  readerOf(
    values,
    false,
    async ({ index }) => ({ sample: await read(index), name: sampleName(index) }),
    () => {},
    chance,
  )

type AnyIterator = Iterator<unknown> | AsyncIterator<unknown>
const iteratorOf = (samples: Samples): AnyIterator =>
  Symbol.asyncIterator in samples ? samples[Symbol.asyncIterator]() : samples[Symbol.iterator]()

/** What an iterator throws that nobody needs any more is nobody's. */
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
        `it ended after ${next} samples, and can be gone through once: give a function that begins anew`,
      )
    throw dataRefused('the source', 'it gives no sample')
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
  const sampleAt = async (_: Place, position: number): Promise<{ readonly sample: unknown; readonly name: string }> => {
    while (held?.position !== position) held = { position: next, sample: await one() }
    return { sample: held.sample, name: sampleName(position) }
  }
  return readerOf(values, true, sampleAt, () => void leave(iterator), chance)
}
