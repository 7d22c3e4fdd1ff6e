// Long lines for a terminal. In: a text, a width. Out: the same words; lines that are too long continue on further lines. Invariant: no line is wider
// than the width, except a single word that is.
// Worked example: in 24 columns '  memory     356 MiB of 384 MiB' gives '  memory     356 MiB of' and '             384 MiB'.

/** Indent of a continued line without columns. */
const INDENT = 2
/** Columns on the left that hold labels. */
const LABELS = 26

/** A place at which a line may break: the columns before and after its spaces. */
interface Gap {
  readonly from: number
  readonly to: number
  /** True between parts: columns, clauses, and before flags. */
  readonly isGood: boolean
}

/** A number stays beside its unit. */
const UNIT = /^(?:[nµm]?s|min|h|%|[KMGT]?i?B)(?![\w-])/

const gapsOf = (line: string): readonly Gap[] =>
  [...line.matchAll(/(?<=\S) +(?=\S)/g)].flatMap(({ 0: spaces, index: from }) => {
    const to = from + spaces.length
    const [before, after] = [line[from - 1]!, line.slice(to, to + 8)]
    const isGood = spaces.length > 1 || ';·'.includes(before) || /^(?:·|--)/.test(after)
    return /\d/.test(before) && UNIT.test(after) ? [] : [{ from, to, isGood }]
  })

/** The columns of a line's own indent, and of its continuation: an indented line continues at the last column that starts among the labels. */
const indentsOf = (line: string): readonly [own: number, hanging: number] => {
  const own = line.length - line.trimStart().length
  const starts = own === 0 ? [] : gapsOf(line).filter(({ from, to }) => to - from > 1 && to <= LABELS)
  return [own, starts.at(-1)?.to ?? own + INDENT]
}

/** A good place counts if this share of the line precedes it. */
const FULL = 0.6

const foldedLine = (line: string, width: number): string => {
  const [own, hanging] = indentsOf(line)
  const lines: string[] = []
  let rest = line
  while (rest.length > width) {
    const gaps = gapsOf(rest)
    const fitting = gaps.filter(({ from }) => from <= width)
    // A label stays beside its text, if the first word fits there.
    const texts = fitting.filter(({ to }) => to > hanging)
    const good = texts.filter(({ from, isGood }) => isGood && from >= FULL * width)
    const gap = good.at(-1) ?? texts.at(-1) ?? fitting.at(-1) ?? gaps[0]
    if (gap === undefined) break
    lines.push(rest.slice(0, gap.from))
    rest = ' '.repeat(gap.to > hanging ? hanging : own + INDENT) + rest.slice(gap.to)
  }
  return [...lines, rest].join('\n')
}

/** Returns a text whose lines fit a width; undefined: the text itself. */
export const folded = (text: string, width: number | undefined): string =>
  width === undefined
    ? text
    : text
        .split('\n')
        .map((line) => foldedLine(line, width))
        .join('\n')
