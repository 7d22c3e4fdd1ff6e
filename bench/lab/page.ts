// The page of the laboratory. In: reports (title, words, tables, names of plots). Out: markdown.
import { strategies } from '../../staging/planner/strategies'

export interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly (string | number | null)[])[]
}

export interface Section {
  readonly heading: string
  readonly words: readonly string[]
  readonly table?: Table
  readonly plots?: readonly string[]
}

export interface Report {
  /** 'whole' if every network, size and batch was run, 'part' for the default part; claims have their own files. */
  readonly scope?: 'whole' | 'part' | 'claims'
  readonly title: string
  readonly words: readonly string[]
  readonly sections: readonly Section[]
}

/** Runs a section; its plots are beside the page. */
export type Experiment = (plot: (name: string, svg: string) => string) => Report

const cell = (c: string | number | null): string => (c === null ? '–' : String(c))

const tableText = (t: Table): string =>
  [t.head, t.head.map(() => '---'), ...t.rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n')

/** Sections with plots are folded in a report with more sections than this. */
const MOST_UNFOLDED = 12
/** A section with a longer table is folded. */
const MOST_ROWS = 40

const sectionText = (s: Section, folded: boolean): string =>
  [
    folded ? `<details><summary>${s.heading}</summary>` : `### ${s.heading}`,
    ...s.words,
    ...(s.table ? [tableText(s.table)] : []),
    ...(s.plots ?? []).map((p) => `![${s.heading}](${p})`),
    ...(folded ? ['</details>'] : []),
  ].join('\n\n')

const SCOPES: Readonly<Record<NonNullable<Report['scope']>, readonly string[]>> = {
  whole: ['Scope: every network, size and batch (`SPILLWAY_FULL=1`).'],
  part: ['Scope: the default networks, sizes and batches. `SPILLWAY_FULL=1` runs all cases of the paper.'],
  claims: [],
}

const sectionTexts = (sections: readonly Section[]): readonly string[] =>
  sections.map((s) =>
    sectionText(s, (s.table?.rows.length ?? 0) > MOST_ROWS || (sections.length > MOST_UNFOLDED && s.plots !== undefined)),
  )

const reportText = (r: Report): string =>
  [`## ${r.title}`, ...SCOPES[r.scope ?? 'part'], ...r.words, ...sectionTexts(r.sections)].join('\n\n')

const HEAD = `# The laboratory

The experiments of five papers, planned and simulated on named machines, next to the results of the papers. \`npm run lab\` runs them and
writes this page (\`SPILLWAY_FULL=1\` for every network and size). \`npm run lab -- page\` writes only the page, from the stored results. Do not
edit it.

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
  \`checkpoint:optimal\`, and with it \`auto\`, needs more memory for large images or batches.`

export const pageOf = (reports: readonly Report[]): string =>
  `${[HEAD, `Strategies: ${strategies.map((s) => `\`${s}\``).join(', ')}.`, ...reports.map(reportText)].join('\n\n')}\n`
