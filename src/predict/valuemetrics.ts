// Measures of values. In: batches of outputs and targets. Out: areas under curves of ranked scores, errors, and structural similarity.
import { labelsIn, meanOf } from './classmetrics'
import { ignoredBy, isOfClasses, type OF_NUMBERS, type OF_RANKS, type Task } from './metricnames'
import type { Part } from './measured'
import { type Ranked, rankingOf, sharesOf } from './ranking'
import { Similarity } from './ssim'

/** Ranks images by the score of each class; of two classes with one channel, by its value. */
export const ranking = (task: Task, names: readonly (typeof OF_RANKS)[number][]): Part => {
  const ignored = ignoredBy(task.loss)
  const isBinary = task.channels === 1
  let image: Ranked | undefined
  const images: Ranked[] = []
  return {
    add: ({ output, target: wanted, channels }) => {
      const label = isOfClasses(task) ? labelsIn(task, wanted)[0]! : wanted[0]! > 0.5 ? 1 : 0
      const values = Array.from({ length: channels }, (_, c) => output[c]!)
      image = label === ignored ? undefined : { label, scores: isBinary ? values : sharesOf(values) }
    },
    image: () => image,
    fold: (next) => {
      if (next !== undefined) images.push(next as Ranked)
    },
    result: () => {
      const classes = Array.from({ length: task.channels }, (_, c) => rankingOf(images, c, (l) => l === (isBinary ? 1 : c)))
      const lists = Object.fromEntries(names.map((n) => [n, classes.map((of) => of[n])]))
      return {
        metrics: Object.fromEntries(names.map((n) => [n, meanOf(lists[n]!)])),
        ...(isBinary ? {} : { perClass: lists }),
      }
    },
  }
}

/** The mean over the images of their structural similarity. */
export const comparingStructure = (): Part => {
  let image = new Similarity()
  let [sum, images] = [0, 0]
  return {
    isPlaced: true,
    add: ({ output, target, rows, width, channels }) => image.add(output, target, rows, width, channels),
    image: () => {
      const seen = image.value()
      image = new Similarity()
      return seen
    },
    fold: (next) => {
      sum += next as number
      images++
    },
    result: () => ({ metrics: { ssim: sum / images } }),
  }
}

export const summingErrors = (names: readonly Exclude<(typeof OF_NUMBERS)[number], 'ssim'>[]): Part => {
  let [absolute, squared, numbers] = [0, 0, 0]
  let image: [absolute: number, squared: number, numbers: number] = [0, 0, 0]
  const VALUES = {
    mae: () => absolute / numbers,
    mse: () => squared / numbers,
    // For numbers between 0 and 1.
    psnr: () => -10 * Math.log10(squared / numbers),
  }
  return {
    add: ({ output, target }) => {
      let [a, s, n] = image
      for (let i = 0; i < output.length; i++) {
        const e = output[i]! - target[i]!
        a += Math.abs(e)
        s += e * e
      }
      n += output.length
      image = [a, s, n]
    },
    image: () => {
      const seen = image
      image = [0, 0, 0]
      return seen
    },
    fold: (next) => {
      const [a, s, n] = next as typeof image
      absolute += a
      squared += s
      numbers += n
    },
    result: () => ({ metrics: Object.fromEntries(names.map((n) => [n, VALUES[n]()])) }),
  }
}
