// Each sample of a data set once. In: data, the size of a batch. Out: full batches of it, and what is left over, as data of its own.
// Invariant: no sample is seen twice and none is left out, of what comes one after the other either, whose end shows only when it is there.
// Worked example, five samples in batches of two: two batches, and the fifth. Of a stream a third batch is begun, whose second place holds
// the fifth sample again; it does not count.
import { type Data, type DataSet, pick, type Sample, source } from '../data/data'
import { dataAt } from '../data/open'

export interface Pass {
  /** What batches are taken of. */
  readonly data: Data
  /** How many samples there are, once that is known. */
  readonly samples: () => number | undefined
  /** The last of them, that many. */
  readonly rest: (count: number) => Data
}

type Stream = Extract<DataSet, { readonly kind: 'stream' }>

const overStream = ({ open, layout, mean, std, name }: Stream, held: number): Pass => {
  const recent: Sample[] = []
  const numbers = { ...(layout ? { layout } : {}), ...(mean ? { mean } : {}), ...(std ? { std } : {}), ...(name ? { name } : {}) }
  let [samples, isOver] = [0, false]
  const once = async function* (): AsyncGenerator<Sample> {
    for await (const sample of open()) {
      samples++
      recent.push(sample)
      if (recent.length > held) recent.shift()
      yield sample
    }
    isOver = true
    // Whoever has begun a batch gets it full.
    while (recent.length > 0) yield recent.at(-1)!
  }
  return {
    data: source(once(), numbers),
    samples: () => (isOver ? samples : undefined),
    rest: (count) => source({ length: count, read: (i) => recent.at(i - count)!, ...numbers }),
  }
}

/** `held`: how many samples of a stream may be under way. */
export const passOver = (given: string | Data, held: number): ((samples: number | undefined) => Pass) => {
  const data = typeof given === 'string' ? dataAt(given) : given
  return (samples) =>
    data.set.kind === 'stream'
      ? overStream(data.set, held)
      : {
          data,
          samples: () => samples,
          rest: (count) =>
            pick(
              data,
              Array.from({ length: count }, (_, i) => samples! - count + i),
            ),
        }
}
