// A table for a terminal. In: a head, rows of texts, a width. Out: lines. Invariant: no line is wider than the terminal as long as the first column
// fits: the last columns are left out.
const GAP = 2

/** Aligns the first column left and the others right. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[], width: number): readonly string[] => {
  const all = [head, ...rows]
  const widths = head.map((_, i) => Math.max(...all.map((row) => row[i]!.length)))
  let columns = widths.length
  const total = (n: number): number => widths.slice(0, n).reduce((sum, w) => sum + w + GAP, -GAP)
  while (columns > 2 && total(columns) > width) columns--
  const line = (row: readonly string[]): string =>
    row
      .slice(0, columns)
      .map((text, i) => (i === 0 ? text.padEnd(widths[0]!) : text.padStart(widths[i]!)))
      .join(' '.repeat(GAP))
      .trimEnd()
  return all.map(line)
}
