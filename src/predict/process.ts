// The memory of a whole prediction, before it runs. In: a plan, its data and the form of its files. Out: the statement of the plan, with the memory of
// input and output as this prediction holds them. Invariant: the parts add up. Worked example: a slide of 4096 x 2048 pixels, predicted as a tiled
// TIFF of classes. Four bands of 682 rows are held, and 32 MiB of outputs.
import { valueBytes } from '../../staging/graph/graph'
import { BANDS_HELD, bandRows } from '../data/bands'
import type { Data } from '../data/data'
import { fedOf } from '../data/fed'
import type { ProcessMemory } from '../report/facts'
import type { Staged } from '../stage/staged'
import { outputOf } from './batches'
import { type Format, mostHeld, OUTPUT_BAND_BYTES } from './outputs'

export interface Predicting {
  readonly data: string | Data
  readonly out?: string | undefined
  readonly format?: Format | undefined
}

/** Two batches of outputs, or one if there is one; of those that wait in files a band, as it is read and as it is written. */
const outputBytes = ({ plan: { graph } }: Staged, { data, out, format }: Predicting): number => {
  const output = outputOf(graph)!
  const bytes = valueBytes(output)
  if (out !== undefined && bytes > mostHeld(format)) return 2 * Math.min(bytes, OUTPUT_BAND_BYTES)
  const isOne = typeof data !== 'string' && data.set.kind === 'own' && data.set.length <= output.shape[0]!
  return (isOne ? 1 : 2) * bytes
}

/** Bands of images that are read by regions; undefined for data that are read as whole images. */
const bandBytes = ({ plan: { graph } }: Staged, data: string | Data): number | undefined => {
  if (typeof data === 'string' || data.set.kind !== 'own' || data.set.size === undefined || data.set.fit !== undefined)
    return undefined
  const { set } = data
  return fedOf(graph).reduce((n, fed) => {
    const value = graph.values.find((v) => v.name === fed.name)!
    const rows = bandRows(set, fed) / fed.shape[1]
    return n + (BANDS_HELD * rows * valueBytes(value)) / fed.batch
  }, 0)
}

export const predictionMemory = (staged: Staged, o: Predicting): ProcessMemory | undefined => {
  const { process } = staged.staging
  if (!process) return undefined
  const outputs = outputBytes(staged, o)
  const feedBytes = Math.min(process.feedBytes, Math.ceil(bandBytes(staged, o.data) ?? process.feedBytes))
  const { deviceBytes, swappedBytes, codeBytes } = process
  const peakBytes = deviceBytes + swappedBytes + feedBytes + outputs + codeBytes
  return { ...process, feedBytes, outputBytes: outputs, peakBytes }
}
