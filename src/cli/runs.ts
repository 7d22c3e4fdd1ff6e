// `spillway runs` and `spillway compare-runs`. In: the folder of all runs, or names. Out: a table, one run, or a comparison with its page.
// Invariant: no line is wider than the terminal; --json has all values.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { errorText, usage } from '../errors/errors'
import { checkedPlaces, writing } from '../files/places'
import { runsFolder } from '../files/runs'
import { writeWholeText } from '../files/whole'
import { textTable } from '../report/texttable'
import { comparisonHtml, comparisonOf, type Comparison, summaryTexts } from '../train/comparison'
import { factsOf } from '../train/runfolder'
import { isRunsFolder, noRuns, type Run, runNamed, runsIn, type RunSummary } from '../train/runs'
import { type Done, note, type Output, terminalWidth } from './output'

/** Columns of an output that is no terminal. */
const WIDEST = 200

const widthOf = (out: Output): number => terminalWidth(out) ?? WIDEST

/** To the minute: 2026-11-22 15:40. */
const dateText = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 16)}`

const COLUMNS = [
  { head: 'run', cut: true },
  { head: 'model', cut: true, drop: 1 },
  { head: 'state' },
  { head: 'began (UTC)', drop: 2 },
  { head: 'steps', right: true, drop: 4 },
  { head: 'loss', right: true },
  { head: 'best', cut: true, drop: 3 },
] as const

const rowOf = (r: RunSummary): readonly string[] => {
  const { state, steps, best, ...others } = summaryTexts(r)
  return [r.name, r.model, state!, dateText(r.began), steps!, others['last loss']!, best!]
}

export const runsText = (runs: readonly RunSummary[], width: number): string =>
  textTable(COLUMNS, runs.map(rowOf), width).lines.join('\n')

const listed = (folder: string, out: Output): Done => {
  const { runs, refused } = runsIn(folder)
  for (const e of refused) note(errorText(e))
  const summaries = runs.map((r) => r.summary)
  return E.right(out.answer({ runs: summaries }, summaries.length === 0 ? noRuns(folder) : runsText(summaries, widthOf(out))))
}

const oneText = ({ summary, record }: Run): string => {
  const { name, folder, model, began, ended, ending } = summary
  const parts = {
    results: {
      model,
      began: `${dateText(began)} UTC`,
      ...(ended === undefined ? {} : { ended: `${dateText(ended)} UTC` }),
      ...summaryTexts(summary),
      ...(ending === undefined ? {} : { ending }),
    },
    recipe: factsOf(record),
    places: record.places,
  }
  const width = Math.max(...Object.values(parts).flatMap((part) => Object.keys(part).map((key) => key.length)))
  return [
    `${name}, in ${folder}`,
    ...Object.entries(parts).flatMap(([title, part]) => [
      title,
      ...Object.entries(part).map(([key, value]) => `  ${key.padEnd(width)}  ${value}`),
    ]),
  ].join('\n')
}

/** Lists the runs of a folder, or shows one run. */
export const showRuns = (text: string | undefined, out: Output): Done =>
  text === undefined || isRunsFolder(text)
    ? listed(text ?? runsFolder(), out)
    : pipe(
        runNamed(text),
        E.map((run) => {
          const { options, machine, data, evaluation, places, command } = run.record
          return out.answer({ ...run.summary, command, options, machine, data, evaluation, places }, oneText(run))
        }),
      )

// ---------------------------------------------------------------- compare-runs

export interface CompareRunsOptions {
  readonly report?: string
}

export const comparisonText = ({ runs, differences }: Comparison, width: number): string => {
  const columns = [
    { head: '', cut: true as const },
    ...runs.map((r, i) => ({ head: r.name, cut: true as const, ...(i > 1 ? { drop: runs.length - i } : {}) })),
  ]
  const results = runs.map(summaryTexts)
  const rows = [
    ...Object.keys(results[0]!).map((name) => [name, ...results.map((r) => r[name]!)]),
    ...(differences.length === 0 ? [] : [['', ...runs.map(() => '')]]),
    ...differences.map((d) => [d.name, ...d.values.map((v) => v ?? '–')]),
  ]
  const { lines, left } = textTable(columns, rows, width)
  const more = left > 0 ? [`${left} more: use a wider terminal, --report or --json`] : []
  return [...lines, ...(differences.length === 0 ? ['all recorded options are equal'] : []), ...more].join('\n')
}

/** Compares runs, and writes the page of their curves. */
export const compareRuns = (names: readonly string[], { report }: CompareRunsOptions, out: Output): Done => {
  const twice = names.find((name, i) => names.indexOf(name) < i)
  return pipe(
    names.length < 2
      ? E.left(
          usage(
            `compare-runs needs at least two runs. Example: spillway compare-runs resnet18 resnet18-2; 'spillway runs' lists all`,
          ),
        )
      : twice !== undefined
        ? E.left(usage(`compare-runs: '${twice}' is named twice; name different runs`))
        : checkedPlaces([], writing('--report', 'report', report)),
    E.flatMap(() => E.traverseArray(runNamed)(names)),
    E.map((runs) =>
      // Runs of several folders may have one name.
      comparisonOf(runs.map((r, i) => ({ ...r, summary: { ...r.summary, name: names[i]! } }))),
    ),
    E.tap((comparison) => (report === undefined ? E.right(undefined) : writeWholeText(report, comparisonHtml(comparison)))),
    E.map((comparison) => {
      if (report !== undefined) out.say(`report     ${report}`)
      return out.answer(comparison, comparisonText(comparison, widthOf(out)))
    }),
  )
}
