// A table for a terminal. In: columns, rows of texts, and the width of the terminal. Out: lines, and the number of left-out columns. Invariant:
// no line is wider than the terminal, as long as one column fits.
// Worked example: in 60 columns the column with `drop: 1` goes first, then long names are cut to 'resnet18-im…'.

export interface TextColumn {
  readonly head: string
  /** True for numbers. */
  readonly right?: true
  /** Order in which a narrow terminal loses columns: 1 goes first. Columns without it stay. */
  readonly drop?: number
  /** True if texts may be cut. */
  readonly cut?: true
}

export interface TextTable {
  readonly lines: readonly string[]
  readonly left: number
}

const GAP = 2
/** Characters that remain of a cut text. */
const LEAST = 8

const cutTo = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`)

/** Returns the columns that fit, by their index. */
const fitting = (columns: readonly TextColumn[], least: readonly number[], width: number): readonly number[] => {
  let kept = columns.map((_, i) => i)
  const total = (): number => kept.reduce((n, i) => n + least[i]! + GAP, -GAP)
  while (total() > width) {
    const [first] = kept.filter((i) => columns[i]!.drop !== undefined).sort((a, b) => columns[a]!.drop! - columns[b]!.drop!)
    if (first === undefined) break
    kept = kept.filter((i) => i !== first)
  }
  return kept
}

/** Width undefined: no terminal, nothing is cut or left out. */
export const textTable = (
  columns: readonly TextColumn[],
  rows: readonly (readonly string[])[],
  width = Number.POSITIVE_INFINITY,
): TextTable => {
  const natural = columns.map((c, i) => rows.reduce((n, row) => Math.max(n, row[i]!.length), c.head.length))
  const least = columns.map((c, i) => (c.cut ? Math.min(natural[i]!, LEAST) : natural[i]!))
  const kept = fitting(columns, least, width)
  const widths = [...natural]
  const excess = (): number => kept.reduce((n, i) => n + widths[i]! + GAP, -GAP) - width
  while (excess() > 0) {
    const [widest] = kept.filter((i) => widths[i]! > least[i]!).sort((a, b) => widths[b]! - widths[a]!)
    if (widest === undefined) break
    widths[widest]!--
  }
  const line = (cells: readonly string[]): string =>
    kept
      .map((i) => {
        const text = cutTo(cells[i]!, widths[i]!)
        return columns[i]!.right ? text.padStart(widths[i]!) : text.padEnd(widths[i]!)
      })
      .join(' '.repeat(GAP))
      .trimEnd()
  return { lines: [line(columns.map((c) => c.head)), ...rows.map(line)], left: columns.length - kept.length }
}
