// Rows of a CSV file. In: cells. Out: a line, as RFC 4180 has it. Invariant: a reader gets every cell back, names with commas included.
// Worked example: ['a,b', 1.5, NaN] is `"a,b",1.5,` and a line break.

/** Quotes only cells that need it. A number that is not a number is an empty cell. */
const cellText = (cell: string | number): string => {
  if (typeof cell === 'number') return Number.isNaN(cell) ? '' : String(cell)
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

export const rowText = (cells: readonly (string | number)[]): string => `${cells.map(cellText).join(',')}\n`
