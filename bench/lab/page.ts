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

**What moved since 0.1.** Planners then planned the operators one by one; now they plan the graphs that the devices run, with fused
operators. In-core steps are shorter: ResNet-50 makes 304 images a second where it made 279, DenseNet-121 375 where it made 288; tiled VGG-16 at
20480² takes 107 s, it took 111 s. Links are what they were, so that methods which swap keep a smaller share of a faster step (on ResNet-50 at
batch 1440 \`swap:fractional\` keeps 79 % of it, it kept 80 %). What holds less works in less, as a rule; but a fused norm of a residual sum holds four
of the largest activations at once where three were held. So \`checkpoint:optimal\`, and with it what \`auto\` mixes, needs more memory at least
where images or batches are large: ResNet-50 on 16 GB is mixed to batch 928, and made again inside tiles from 1120 on, where \`auto\` keeps
94 % of the rate (it kept 96 to 98 %); DenseNet-121 at batch 1152 needs 0.49 GiB at least, it needed 0.15. Beside the bound of swapping (paper 5) \`auto\` takes 0.75 of
it in the median; that of fused graphs lies lower, since these keep less, and without values made again inside tiles it was 0.85. Seconds of
planning in paper 5's tables are of a machine that did other work beside.

**What is assumed.** Op times are a roofline over published peak rates: 60 % of the arithmetic peak for what computes, 80 % of the memory bandwidth for
what moves, plus a launch; no machine was measured. So absolute throughputs differ from the papers by what their frameworks and
kernels reach; what is to be compared is the ratio to in-core, where methods stop working, and their order. Links are what the papers measured
or the links' published rates at 85 %. A budget is the whole device memory, of which a real run also needs a context. Convolutions of
paper 3, on the 2080 Ti and the A100, have the workspaces that cuDNN named for those (\`bench/results/cudnn.json\`); a V100, which it knows no
more, has those of the op table's bounds.
The papers' strategies keep parameters and optimizer state on the device; in-place rectifiers and just-in-time updates make our in-core step smaller than the papers'.`

export const pageOf = (reports: readonly Report[]): string =>
  `${[HEAD, `Strategies: ${strategies.map((s) => `\`${s}\``).join(', ')}.`, ...reports.map(reportText)].join('\n\n')}\n`
