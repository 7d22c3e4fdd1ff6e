// The pages of the laboratory. In: reports (title, words, tables, names of plots, verdicts). Out: a page of markdown per report, and the front page
// with all verdicts. Worked example: a verdict 'VGG-16 at 4096²' with a paper's 8.42 s, our 8.1 s and no cause is printed as reproduced.
import { strategies } from '../../staging/planner/strategies'

export type Cell = string | number | null

export interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
}

/** The end of a row of a paper: reproduced, or a deviation with its cause as a number. */
export interface Verdict {
  readonly row: string
  readonly paper: string
  readonly ours: string
  /** Absent: reproduced. */
  readonly cause?: string | undefined
  /** For peers, which are compared, not reproduced. */
  readonly result?: 'ours is faster' | 'the peer is faster'
}

export interface Section {
  readonly heading: string
  readonly words: readonly string[]
  readonly table?: Table
  readonly plots?: readonly string[]
  readonly verdicts?: readonly Verdict[]
}

export interface Report {
  readonly title: string
  readonly words: readonly string[]
  readonly sections: readonly Section[]
  /** The state of the planners now, and the parts that an earlier one planned. */
  readonly state: string
  readonly older: readonly string[]
  /** Times of the parts that have one. */
  readonly processorSeconds: readonly number[]
}

const cell = (c: Cell): string => (c === null ? '–' : String(c))

const tableText = (t: Table): string =>
  [t.head, t.head.map(() => '---'), ...t.rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n')

/** Sections with plots are folded in a report with more sections than this. */
const MOST_UNFOLDED = 16
/** A section with a longer table is folded. */
const MOST_ROWS = 40

const MISSING = `**Rows without a result:**

- Peers: \`rockmate\`. The published rkgb 2.0.0 lacks its modules \`rkgb.core\`, so rockmate 2.0.0 cannot be imported. Version 1.0.1 measures no op
  on a CPU: all of its times are 0, and its planner divides by their sum.
- Curves whose numbers no text states.`

const resultOf = ({ result, cause }: Verdict): string => {
  const found = result ?? (cause === undefined ? 'reproduced' : 'deviates')
  return cause === undefined ? found : `${found}: ${cause}`
}

const verdictTable = (verdicts: readonly Verdict[]): Table => ({
  head: ['row', 'published', 'ours', 'result'],
  rows: verdicts.map((v) => [v.row, v.paper, v.ours, resultOf(v)]),
})

const sectionText = (s: Section, folded: boolean): string =>
  [
    folded ? `<details><summary>${s.heading}</summary>` : `## ${s.heading}`,
    ...s.words,
    ...(s.table ? [tableText(s.table)] : []),
    ...(s.plots ?? []).map((p) => `![${s.heading}](${p})`),
    ...(s.verdicts?.length ? [tableText(verdictTable(s.verdicts))] : []),
    ...(folded ? ['</details>'] : []),
  ].join('\n\n')

const sectionTexts = (sections: readonly Section[]): readonly string[] =>
  sections.map((s) =>
    sectionText(s, (s.table?.rows.length ?? 0) > MOST_ROWS || (sections.length > MOST_UNFOLDED && s.plots !== undefined)),
  )

const stateText = ({ state, older }: Report): string =>
  older.length === 0
    ? `All parts are planned by the planners of state \`${state}\`.`
    : `Parts of an earlier state than \`${state}\`: ${older.join(', ')}.`

/** One report on a page. */
export const pageOf = (r: Report): string =>
  `${[`# ${r.title}`, '[The laboratory](README.md)', ...r.words, ...sectionTexts(r.sections), stateText(r)].join('\n\n')}\n`

const HEAD = `# The laboratory

The experiments of five papers, planned and simulated on named machines, next to the results of the papers, and today's peers beside them.
\`npm run lab\` plans all of them and writes these pages; it skips parts that this state of the planners has planned already.
\`npm run lab -- paper1\` plans one page. \`npm run lab -- page\` writes only the pages, from the stored results. Do not edit them.

**Assumptions:**

- The time of an op is a roofline over published peak rates: 60 % of the arithmetic peak, 80 % of the memory bandwidth, plus a launch. No
  machine was measured. So absolute throughputs differ from the papers. Compare ratios to in-core, limits of methods, and their order.
- Links have the rates that the papers measured, or 85 % of published rates.
- A budget is the whole device memory. A real run also needs memory for a context.
- Convolutions of paper 3, on the 2080 Ti and the A100, use the workspaces that cuDNN names (\`bench/results/cudnn.json\`). The V100 uses the
  bounds of the op table, because newer versions of cuDNN do not support it.
- The papers' strategies keep parameters and optimizer state on the device. Our in-core step is smaller than the papers', because rectifiers
  work in place and updates run as soon as gradients are complete.
- Plans use the fused operators of the devices. A fused norm of a residual sum holds four of the largest activations at once, not three. So
  \`checkpoint:optimal\`, and with it \`auto\`, needs more memory for large images or batches.
- The papers' numbers are in \`bench/lab/papers.json\`, with their places and reading errors. Curves without numbers are not digitised:
  the figures are not at hand as pictures.
- *Gap*: the step relative to the lower bound of any plan in the same budget ([the bound](../internals/bound.md)).`

const frontRows = (file: string, r: Report): readonly (readonly Cell[])[] =>
  r.sections.flatMap((s) => s.verdicts ?? []).length === 0
    ? []
    : verdictTable(r.sections.flatMap((s) => s.verdicts ?? [])).rows.map((row) => [`[${file}](${file}.md)`, ...row])

const timesOf = (seconds: readonly number[]): string =>
  `${seconds.length} parts have a known time: ${Math.round(seconds.reduce((a, b) => a + b, 0))} processor seconds in all. Two parts run at a time.`

/** The front page: assumptions, links, and how each row of the papers ended. */
export const frontOf = (reports: readonly (readonly [file: string, report: Report])[]): string => {
  const links = reports.map(([file, r]) => `- [${r.title}](${file}.md)`).join('\n')
  const rows = reports.flatMap(([file, r]) => frontRows(file, r))
  const count = (start: string): number => rows.filter((r) => String(r[4]).startsWith(start)).length
  const table = tableText({ head: ['page', 'row', 'published', 'ours', 'result'], rows })
  return `${[
    HEAD,
    `Strategies: ${strategies.map((s) => `\`${s}\``).join(', ')}.`,
    '## Pages',
    links,
    timesOf(reports.flatMap(([, r]) => r.processorSeconds)),
    '## Results',
    `Rows of the papers: ${count('reproduced')} are reproduced, ${count('deviates')} deviate and name the cause. Peers: ours is faster at all published points of ${count('ours is')} networks, the peer at one point or more of ${count('the peer')}.`,
    table,
    MISSING,
  ].join('\n\n')}\n`
}
