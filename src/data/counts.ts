// Counts of class labels. In: labels of samples. Out: the number of samples of each class. Invariant: one label per sample; masks are not counted.
/** Samples of each label, and the names of the classes, if they have any. */
export interface LabelCounts {
  readonly counts: ReadonlyMap<number, number>
  readonly names?: readonly string[]
}

export const countsOf = (labels: Iterable<number>, names?: readonly string[]): LabelCounts => {
  const counts = new Map<number, number>()
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1)
  return { counts, ...(names ? { names } : {}) }
}
