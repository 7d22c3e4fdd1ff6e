// Metrics of rankings. In: for each image the scores of the classes and a label. Out: the area under the ROC curve and the average precision, of each
// class against the rest, and their means. Invariant: definitions are scikit-learn's; a class without labels, or with all of them, has no number.
// Worked example, scores 0.9 0.8 0.3 for labels 1 0 1. One of two pairs of a 1 and a 0 is in order: area 1/2. The precision is 1/1 at the first 1 and
// 2/3 at the second: average 5/6.

/** An image: a score for each class, and the label. */
export interface Ranked {
  readonly scores: readonly number[]
  readonly label: number
}

/** Numbers of images by their scores, the highest score first; equal scores count together. */
const steps = (scores: readonly number[], isOwn: readonly boolean[]): readonly (readonly [own: number, others: number])[] => {
  const order = scores.map((_, i) => i).sort((a, b) => scores[b]! - scores[a]!)
  const all: [number, number][] = []
  order.forEach((i, k) => {
    if (k === 0 || scores[i] !== scores[order[k - 1]!]) all.push([0, 0])
    all.at(-1)![isOwn[i] ? 0 : 1]++
  })
  return all
}

const areaOf = (all: readonly (readonly [number, number])[], own: number, others: number): number => {
  let [area, before] = [0, 0]
  for (const [o, n] of all) {
    area += n * (before + o / 2)
    before += o
  }
  return area / (own * others)
}

const precisionOf = (all: readonly (readonly [number, number])[], own: number): number => {
  let [sum, found, given] = [0, 0, 0]
  for (const [o, n] of all) {
    found += o
    given += o + n
    sum += (o / own) * (found / given)
  }
  return sum
}

/** The metrics of one class against the rest. */
export const rankingOf = (
  images: readonly Ranked[],
  classAt: number,
  isClass: (label: number) => boolean,
): { readonly auroc: number; readonly averagePrecision: number } => {
  const isOwn = images.map(({ label }) => isClass(label))
  const own = isOwn.filter(Boolean).length
  const others = images.length - own
  if (own === 0 || others === 0) return { auroc: Number.NaN, averagePrecision: Number.NaN }
  const all = steps(
    images.map(({ scores }) => scores[classAt]!),
    isOwn,
  )
  return { auroc: areaOf(all, own, others), averagePrecision: precisionOf(all, own) }
}

/** Softmax of the values of an image. */
export const sharesOf = (values: readonly number[]): readonly number[] => {
  const most = Math.max(...values)
  const powers = values.map((x) => Math.exp(x - most))
  const sum = powers.reduce((n, x) => n + x, 0)
  return powers.map((x) => x / sum)
}
