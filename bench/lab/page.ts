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
  /** Whether every network, size and batch was run, or the part of them that is run by default. */
  readonly scope?: 'whole' | 'part'
  readonly title: string
  readonly words: readonly string[]
  readonly sections: readonly Section[]
}

/** What runs a section; the plots that it hands over lie beside the page. */
export type Experiment = (plot: (name: string, svg: string) => string) => Report

const cell = (c: string | number | null): string => (c === null ? '–' : String(c))

const tableText = (t: Table): string =>
  [t.head, t.head.map(() => '---'), ...t.rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n')

const sectionText = (s: Section): string =>
  [
    `### ${s.heading}`,
    ...s.words,
    ...(s.table ? [tableText(s.table)] : []),
    ...(s.plots ?? []).map((p) => `![${s.heading}](${p})`),
  ].join('\n\n')

const SCOPES = {
  whole: 'Scope: every network, size and batch (`SPILLWAY_FULL=1`).',
  part: 'Scope: the networks, sizes and batches that are run by default; `SPILLWAY_FULL=1` runs all of the paper’s.',
}

const reportText = (r: Report): string =>
  [`## ${r.title}`, SCOPES[r.scope ?? 'part'], ...r.words, ...r.sections.map(sectionText)].join('\n\n')

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
