// `npm run bench -- cpu`: training steps of Spillway and PyTorch in turns on two threads, as medians and ratios (in-core, bf16, checkpointing, large
// images), the parts of steps (tiles one a core, layouts of weights), and two versions of the code. In: --python PATH (a Python that has PyTorch
// 2.13; bench/cpu/venv.sh makes one), --cases a,b, --rounds N, --modes a,b. Out: a table, bench/results/cpu-SUITE.json with the machine's
// description, and its plot as SVG; a run of some cases leaves the others of that file unchanged, and --redraw only draws the file.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { begin, inFolder, ROOT } from '../sides'
import { argumentsOf, BENCHES } from '../table'
import { type InBf16, measureBf16, showBf16 } from './bf16'
import { type Case, CASES, MODERN } from './cases'
import { CHECKPOINTED, measureCheckpointing, showCheckpointing } from './checkpointing'
import { COLD, type Cold, measureCold, plottedCold, showCold } from './cold'
import { type InCore, measureInCore, showInCore } from './incore'
import { LARGE, measureLarge, plottedLarge, showLarge } from './large'
import { type Group, plot, timesOf } from './plot'
import { measureRoofline, plottedRoofline, ROOFLINES, type Roofline, showRoofline } from './roofline'
import { geomean, machineFacts, MODES, type Options } from './sides'
import { measureTiles, plottedTiles, showTiles, TILED } from './tiles'
import { measureVersions, plottedVersions, showVersions, type Versions } from './versions'
import { measureWeights, plottedWeights, showWeights, WEIGHTED } from './weights'

const { given } = argumentsOf({
  options: {
    suite: { value: 'NAME', text: '', default: 'in-core' },
    ...BENCHES.cpu['in-core'].options,
    ...BENCHES.cpu.versions.options,
  },
})

/** Measures a case and says so in a line. */
interface Suite<R extends { readonly name: string } = { readonly name: string }> {
  readonly cases: readonly Case[]
  readonly measure: (c: Case, o: Options) => Promise<R>
  readonly show: (r: R) => string
  /** The totals of all cases. */
  readonly means?: (cases: readonly R[]) => object
  readonly title: string
  readonly plotted: (r: R) => readonly Group[]
}

const inCoreMeans = (cases: readonly InCore[]): object => {
  const bests = cases.flatMap((r) => (r.bestTimeRatio === null ? [] : [r.bestTimeRatio]))
  return { geomeanTimeRatio: geomean(cases.map((r) => r.timeRatio)), geomeanBestRatio: bests.length ? geomean(bests) : null }
}

const bf16Means = (cases: readonly InBf16[]): object => ({
  geomeanOwnRatio: geomean(cases.map((r) => r.ownRatio)),
  geomeanTimeRatio: geomean(cases.map((r) => r.timeRatio)),
})

const versionsMeans = (cases: readonly Versions[]): object => ({
  geomeanTimeRatio: geomean(cases.map((r) => r.timeRatio)),
  geomeanCpuTimeRatio: geomean(cases.map((r) => r.cpuTimeRatio)),
})

const STEP = 'Milliseconds of a training step'

const suite = <R extends { readonly name: string }>(s: Suite<R>): Suite => s as unknown as Suite

const SUITES: Readonly<Record<string, Suite>> = {
  'in-core': suite({ cases: CASES, measure: measureInCore, show: showInCore, means: inCoreMeans, title: STEP, plotted: timesOf }),
  modern: suite({ cases: MODERN, measure: measureInCore, show: showInCore, means: inCoreMeans, title: STEP, plotted: timesOf }),
  bf16: suite({ cases: CASES, measure: measureBf16, show: showBf16, means: bf16Means, title: STEP, plotted: timesOf }),
  checkpointing: suite({
    cases: CHECKPOINTED,
    measure: measureCheckpointing,
    show: showCheckpointing,
    title: STEP,
    plotted: timesOf,
  }),
  large: suite({ cases: LARGE, measure: measureLarge, show: showLarge, title: 'Images that do not fit', plotted: plottedLarge }),
  tiles: suite({
    cases: TILED,
    measure: measureTiles,
    show: showTiles,
    title: 'Tiles one after the other, and one a core',
    plotted: plottedTiles,
  }),
  cold: suite({
    cases: COLD,
    measure: measureCold,
    show: showCold,
    means: (cases: readonly Cold[]) => ({ geomeanTimeRatio: geomean(cases.map((r) => r.timeRatio)) }),
    title: 'Milliseconds of a training step, planned before and after measuring',
    plotted: plottedCold,
  }),
  versions: suite({
    cases: CASES,
    measure: measureVersions,
    show: showVersions,
    means: versionsMeans,
    title: 'Milliseconds of a training step before and now',
    plotted: plottedVersions,
  }),
  roofline: suite({
    cases: ROOFLINES,
    measure: measureRoofline,
    show: showRoofline,
    means: (cases: readonly Roofline[]) => ({ geomeanRatio: geomean(cases.map((r) => r.ratio)) }),
    title: 'Milliseconds of a training step, and the least that the processor allows',
    plotted: plottedRoofline,
  }),
  weights: suite({
    cases: WEIGHTED,
    measure: measureWeights,
    show: showWeights,
    title: 'What convolutions take for their weights alone',
    plotted: plottedWeights,
  }),
}

/** Results of cases that this run leaves alone. */
const earlier = (file: string): readonly { readonly name: string }[] =>
  existsSync(file)
    ? (JSON.parse(readFileSync(file, 'utf8')) as { readonly cases: readonly { readonly name: string }[] }).cases
    : []

const draw = (suite: Suite, out: string, cases: readonly { readonly name: string }[]): void =>
  writeFileSync(out.replace(/\.json$/, '.svg'), plot(suite.title, cases.flatMap(suite.plotted)))

const measured = async (suite: Suite, out: string, folder: string): Promise<void> => {
  const names = given.cases?.split(',').map((n) => n.trim())
  const wanted = names?.map((n) => suite.cases.find((c) => c.name === n) ?? n) ?? suite.cases
  const unknown = wanted.find((c) => typeof c === 'string')
  if (unknown !== undefined) throw new Error(`no case '${unknown}'; there are ${suite.cases.map((c) => c.name).join(', ')}`)
  const options: Options = {
    python: given.python,
    threads: Number(given.threads),
    rounds: Number(given.rounds),
    keepBusy: given['keep-busy'],
    modes: (given.modes ?? Object.keys(MODES).join()).split(','),
    folder,
    before: given.before,
  }
  const machine = machineFacts(options)
  const results = new Map(earlier(out).map((r) => [r.name, r]))
  for (const c of wanted as readonly Case[]) {
    const r = await suite.measure(c, options)
    console.log(suite.show(r))
    results.set(c.name, r)
    const cases = suite.cases.flatMap(({ name }) => results.get(name) ?? [])
    mkdirSync(join(out, '..'), { recursive: true })
    writeFileSync(out, `${JSON.stringify({ machine, ...suite.means?.(cases), cases }, null, 2)}\n`)
    draw(suite, out, cases)
  }
  const means = Object.entries(suite.means?.(suite.cases.flatMap(({ name }) => results.get(name) ?? [])) ?? {})
  for (const [name, mean] of means) console.log(`${name} ${(mean as number | null)?.toFixed(3) ?? '-'}`)
}

const main = async (): Promise<void> => {
  const suite = SUITES[given.suite]
  if (!suite) throw new Error(`no suite '${given.suite}'; there are ${Object.keys(SUITES).join(', ')}`)
  const out = given.out ?? join(ROOT, `bench/results/cpu-${given.suite}.json`)
  if (given.redraw) draw(suite, out, earlier(out))
  else await inFolder('bench', (folder) => measured(suite, out, folder))
}

void begin(main)
