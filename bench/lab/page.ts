// The page of the laboratory. In: reports (title, words, tables, names of plots). Out: markdown.
import { strategies } from '../../staging/schedule/strategies'

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
  /** Whether every network, size and batch was run, or the part of them that is run by default; claims have their own files. */
  readonly scope?: 'whole' | 'part' | 'claims'
  readonly title: string
  readonly words: readonly string[]
  readonly sections: readonly Section[]
}

/** What runs a section; the plots that it hands over lie beside the page. */
export type Experiment = (plot: (name: string, svg: string) => string) => Report

const cell = (c: string | number | null): string => (c === null ? '–' : String(c))

const tableText = (t: Table): string =>
  [t.head, t.head.map(() => '---'), ...t.rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n')

/** Of a report with more sections than these, the plotted ones are folded: a reader opens what he looks for. */
const MOST_UNFOLDED = 12

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
  part: ['Scope: the networks, sizes and batches that are run by default; `SPILLWAY_FULL=1` runs all of the paper’s.'],
  claims: [],
}

const sectionTexts = (sections: readonly Section[]): readonly string[] =>
  sections.map((s) => sectionText(s, sections.length > MOST_UNFOLDED && s.plots !== undefined))

const reportText = (r: Report): string =>
  [`## ${r.title}`, ...SCOPES[r.scope ?? 'part'], ...r.words, ...sectionTexts(r.sections)].join('\n\n')

const HEAD = `# The laboratory

The five papers' experiments, planned and simulated on named machines, beside what the papers report. Written by \`npm run lab\`
(\`SPILLWAY_FULL=1\` for every network and size); do not edit.

**What is assumed.** Op times are a roofline over published peak rates: 60 % of the arithmetic peak for what computes, 80 % of the memory bandwidth for
what moves, plus a launch; no machine was measured. So absolute throughputs differ from the papers by what their frameworks and
kernels reach; what is to be compared is the ratio to in-core, where methods stop working, and their order. Links are what the papers measured
or the links' published rates at 85 %. A budget is the whole device memory, of which a real run also needs a context. Convolution workspaces are those of the op table's fallback.
Plans keep parameters and optimizer state on the device; in-place rectifiers and just-in-time updates make our in-core step smaller than the papers'.`

export const pageOf = (reports: readonly Report[]): string =>
  `${[HEAD, `Strategies: ${strategies.map((s) => `\`${s}\``).join(', ')}.`, ...reports.map(reportText)].join('\n\n')}\n`
