// The legal names nearest to a mistyped one. In: a name and the legal ones. Out: the best few, nearest first.
// Invariant: the answer is a subset of the legal names, in a fixed order.

/** Edits (insert, delete, replace, swap of neighbours) between two names. */
export const editDistance = (a: string, b: string): number => {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const replace = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      row[j] = Math.min(replace, rows[i - 1]![j]! + 1, row[j - 1]! + 1)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j]!, rows[i - 2]![j - 2]! + 1)
    }
    rows.push(row)
  }
  return rows[a.length]![b.length]!
}

export const nearest = (name: string, known: readonly string[], count: number): readonly string[] => {
  const wanted = name.toLowerCase()
  // A name that goes on as the typed one was meant, however long it is.
  const cost = (k: string): number =>
    wanted !== '' && k.toLowerCase().startsWith(wanted) ? 0.5 : editDistance(wanted, k.toLowerCase())
  return known
    .map((k, i) => ({ k, i, cost: cost(k) }))
    .sort((x, y) => x.cost - y.cost || x.i - y.i)
    .slice(0, count)
    .map((x) => x.k)
}
