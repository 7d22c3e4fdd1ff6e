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
  const plain = wanted.replaceAll('-', '')
  // A name of any length that begins with the typed one is near; so is a name with a part like it: 'rtx4090' and '4090' for rtx-4090-24g.
  const cost = (k: string): number => {
    const name = k.toLowerCase()
    if (plain !== '' && name.replaceAll('-', '').startsWith(plain)) return 0.5
    const parts = name.includes('-') ? name.split('-').map((part) => 0.5 + editDistance(wanted, part)) : []
    return Math.min(editDistance(wanted, name), ...parts)
  }
  return known
    .map((k, i) => ({ k, i, cost: cost(k) }))
    .sort((x, y) => x.cost - y.cost || x.i - y.i)
    .slice(0, count)
    .map((x) => x.k)
}
