// The scaling of inputs by mean and deviation. In: the numbers of a data set, a fed value. Out: a factor and a shift for each channel, or an error.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'
import type { Numbers } from './data'
import type { FedValue } from './places'

export interface Scaled {
  readonly scale: readonly number[]
  readonly shift: readonly number[]
}

/** With a mean or a deviation, bytes are shares of 255. */
const scaledBy = ({ mean, std }: Numbers, isBytes: boolean): Scaled | undefined => {
  if (!mean && !std) return undefined
  const length = Math.max(mean?.length ?? 1, std?.length ?? 1)
  const at = (list: readonly number[] | undefined, i: number, otherwise: number): number =>
    list === undefined ? otherwise : list[list.length === 1 ? 0 : i]!
  const channels = Array.from({ length }, (_, i) => ({ mean: at(mean, i, 0), std: at(std, i, 1) }))
  return {
    scale: channels.map((c) => 1 / c.std / (isBytes ? 255 : 1)),
    shift: channels.map((c) => -c.mean / c.std),
  }
}

/** Nothing for inputs that the model scales itself, and for targets. */
export const scaledFor = ({ isInput, bytes }: FedValue, numbers: Numbers, isBytes: boolean): Scaled | undefined =>
  isInput && !bytes ? scaledBy(numbers, isBytes) : undefined

export const checkScaling = ({ mean, std }: Numbers, values: readonly FedValue[]): Either<SpillwayError, void> => {
  for (const { key, isInput, shape, bytes } of values)
    for (const [name, list] of Object.entries({ mean, std }))
      if (bytes && list)
        return E.left(
          usage(
            `the data have a ${name}, but the model begins with fromBytes, which normalizes '${key}' itself: set it only there`,
          ),
        )
      else if (isInput && list && list.length !== 1 && list.length !== shape[0])
        return E.left(usage(`the ${name} of the data has ${list.length} numbers, but '${key}' has ${shape[0]} channels`))
  return E.right(undefined)
}

/** As shares, of each channel. */
export const fillOf = (mean: readonly number[] | undefined, [channels]: FedValue['shape']): readonly number[] =>
  Array.from({ length: channels }, (_, c) => mean?.[mean.length === 1 ? 0 : c] ?? 0)
