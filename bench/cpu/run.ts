// `npm run bench:cpu [-- --suite NAME]`: training steps of Spillway and PyTorch, taken in turns on two threads, as medians and
// ratios. Suites: in-core (the step with everything kept), checkpointing (little memory), large (images that do not fit).
// In: --python PATH (a Python that has PyTorch 2.13; bench/cpu/venv.sh makes one), --cases a,b, --rounds N, --modes a,b.
// Out: a table, bench/results/cpu-SUITE.json with the machine's description, and an SVG plot where sides are compared.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { CASES, type Case } from './cases'
import { CHECKPOINTED, measureCheckpointing, showCheckpointing } from './checkpointing'
import { measureInCore, showInCore } from './incore'
import { LARGE, measureLarge, showLarge } from './large'
import { plot, type Plotted } from './plot'
import { geomean, machineFacts, MODES, type Options } from './sides'

const ROOT = join(__dirname, '../..')

const { values: given } = parseArgs({
  options: {
    suite: { type: 'string', default: 'in-core' },
    python: { type: 'string', default: process.env['SPILLWAY_PYTHON'] ?? join(ROOT, 'build/venv/bin/python') },
    cases: { type: 'string' },
    modes: { type: 'string', default: Object.keys(MODES).join() },
    rounds: { type: 'string', default: '15' },
    threads: { type: 'string', default: '2' },
    'keep-busy': { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})

/** Measures a suite's cases and says what they come to; `plotted` where there are sides to compare. */
interface Suite {
  readonly cases: readonly Case[]
  readonly run: (cases: readonly Case[], o: Options) => Promise<{ readonly report: object; readonly plotted: readonly Plotted[] }>
}

const each = async <R>(
  cases: readonly Case[],
  o: Options,
  measure: (c: Case, o: Options) => Promise<R>,
  show: (r: R) => string,
): Promise<R[]> => {
  const results: R[] = []
  for (const c of cases) {
    const r = await measure(c, o)
    console.log(show(r))
    results.push(r)
  }
  return results
}

const SUITES: Readonly<Record<string, Suite>> = {
  'in-core': {
    cases: CASES,
    run: async (wanted, o) => {
      const cases = await each(wanted, o, measureInCore, showInCore)
      const bests = cases.flatMap((r) => (r.bestTimeRatio === null ? [] : [r.bestTimeRatio]))
      const means = {
        geomeanTimeRatio: geomean(cases.map((r) => r.timeRatio)),
        geomeanBestRatio: bests.length ? geomean(bests) : null,
      }
      console.log(
        `geometric mean ${means.geomeanTimeRatio.toFixed(3)}, over its best ${means.geomeanBestRatio?.toFixed(3) ?? '-'}`,
      )
      return { report: { ...means, cases }, plotted: cases }
    },
  },
  checkpointing: {
    cases: CHECKPOINTED,
    run: async (wanted, o) => {
      const cases = await each(wanted, o, measureCheckpointing, showCheckpointing)
      return { report: { cases }, plotted: cases }
    },
  },
  large: {
    cases: LARGE,
    run: async (wanted, o) => ({ report: { cases: await each(wanted, o, measureLarge, showLarge) }, plotted: [] }),
  },
}

const main = async (): Promise<void> => {
  const suite = SUITES[given.suite]
  if (!suite) throw new Error(`no suite '${given.suite}'; there are ${Object.keys(SUITES).join(', ')}`)
  const names = given.cases?.split(',').map((n) => n.trim())
  const wanted = names?.map((n) => suite.cases.find((c) => c.name === n) ?? n) ?? suite.cases
  const unknown = wanted.find((c) => typeof c === 'string')
  if (unknown !== undefined) throw new Error(`no case '${unknown}'; there are ${suite.cases.map((c) => c.name).join(', ')}`)
  const folder = mkdtempSync(join(tmpdir(), 'spillway-bench-'))
  const options: Options = {
    python: given.python,
    threads: Number(given.threads),
    rounds: Number(given.rounds),
    keepBusy: given['keep-busy'],
    modes: given.modes.split(','),
    folder,
  }
  const out = given.out ?? join(ROOT, `bench/results/cpu-${given.suite}.json`)
  const machine = machineFacts(options)
  try {
    const { report, plotted } = await suite.run(wanted as readonly Case[], options)
    mkdirSync(join(out, '..'), { recursive: true })
    writeFileSync(out, `${JSON.stringify({ machine, ...report }, null, 2)}\n`)
    if (plotted.length) writeFileSync(out.replace(/\.json$/, '.svg'), plot(plotted))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

main().catch((e) => {
  console.error(e instanceof Error ? e.message : e)
  process.exit(1)
})
