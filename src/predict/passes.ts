// Each sample of a data set once. In: data, the size of a batch. Out: full batches of it, and the rest, as data of its own. Invariant: no sample is
// seen twice and none is left out, in streams, too, whose end shows only when it is there. Worked example, five samples in batches of two: two
// batches, and the fifth. A stream begins a third batch, whose second place holds the fifth sample again; it does not count.
import { type Data, type DataSet, pick, type Sample, source } from '../data/data'
import { dataAt } from '../data/open'

export interface Pass {
  /** The source of batches. */
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
    // A begun batch is filled.
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
