// `npm run bench:cpu`: training steps of Spillway and PyTorch, taken in turns on two threads, as medians and ratios.
// In: --python PATH (a Python that has PyTorch 2.13; bench/cpu/venv.sh makes one), --cases a,b, --rounds N, --modes a,b.
// Out: a table, bench/results/cpu-incore.json with the machine's description, and an SVG plot.
// Invariant: samples during which a neighbour took more than a tenth of a core are dropped, on both sides.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, release, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { loadNative } from '../../src/native'
import { CASES, type Case } from './cases'
import { plot } from './plot'
import { Talker } from './process'

const ROOT = join(__dirname, '../..')
const BUSY_CORES = 0.1

/** An allocator that keeps what it has, in huge pages: what PyTorch's users are told to set. */
const TUNED = {
  GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296',
}
/** PyTorch's ways: a mode of peer.py and an environment. `best` are those beyond its defaults. */
const MODES: Readonly<
  Record<string, { readonly mode: string; readonly env: Readonly<Record<string, string>>; readonly best: boolean }>
> = {
  plain: { mode: 'plain', env: {}, best: false },
  'channels-last': { mode: 'channels-last', env: {}, best: false },
  tuned: { mode: 'channels-last', env: TUNED, best: true },
  compiled: { mode: 'compiled', env: TUNED, best: true },
}

/** Processor time of the request. */
interface Cpu {
  readonly cpuSeconds: number
}
interface OurStep {
  readonly seconds: number
  readonly kernelSeconds: number
  readonly stallMemorySeconds: number
  readonly stallDataSeconds: number
  readonly secondsByKind: Readonly<Record<string, number>>
  readonly memoryBytes: number
}
interface PeerStep {
  readonly seconds: number
  readonly memoryBytes: number
}
interface Samples<S> {
  readonly kept: S[]
  dropped: number
}

const { values: options } = parseArgs({
  options: {
    python: { type: 'string', default: process.env['SPILLWAY_PYTHON'] ?? join(ROOT, 'build/venv/bin/python') },
    cases: { type: 'string', default: CASES.map((c) => c.name).join() },
    modes: { type: 'string', default: Object.keys(MODES).join() },
    rounds: { type: 'string', default: '15' },
    threads: { type: 'string', default: '2' },
    'keep-busy': { type: 'boolean', default: false },
    out: { type: 'string', default: join(ROOT, 'bench/results/cpu-incore.json') },
  },
})

const THREADS = Number(options.threads)
/** Our worker takes two steps a request. */
const STEPS_OF_OURS = 2

const median = (xs: readonly number[]): number => {
  const sorted = [...xs].sort((a, b) => a - b)
  const half = sorted.length >> 1
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2
}
const geomean = (xs: readonly number[]): number => Math.exp(xs.reduce((n, x) => n + Math.log(x), 0) / xs.length)

// ---------------------------------------------------------------- one case

interface Result {
  readonly name: string
  readonly timeRatio: number
  /** The same of processor time, where neighbours disturb the clock: to be trusted with one thread only. */
  readonly cpuTimeRatio: number
  readonly bestTimeRatio: number | null
  readonly memoryRatio: number
  readonly secondsPerStep: number
  readonly predictedSecondsPerStep: number
  readonly peerSecondsPerStep: number
  /** Share of the step that its convolutions take: 1 is their own ceiling. */
  readonly convCeilingShare: number
  /** What is neither a kernel nor a wait. */
  readonly overheadShare: number
  readonly processPeakBytes: number
  readonly planPeakBytes: number
  readonly peers: Readonly<
    Record<
      string,
      { readonly secondsPerStep: number; readonly memoryBytes: number; readonly samples: number; readonly dropped: number }
    >
  >
  readonly millisecondsByKind: Readonly<Record<string, number>>
  readonly samples: number
  readonly dropped: number
}

const sample = async <S>(who: Talker, into: Samples<S & Cpu>): Promise<void> => {
  const { answer, othersCores, cpuSeconds } = await who.ask<S>('step')
  if (othersCores > BUSY_CORES && !options['keep-busy']) into.dropped++
  else into.kept.push({ ...answer, cpuSeconds })
}

const WARM_UP = 2

const measure = async (c: Case, folder: string): Promise<Result> => {
  const graph = join(folder, 'graph.json')
  const ours = new Talker('node', [
    '-r',
    join(ROOT, 'scripts/testing/typescript.js'),
    join(__dirname, 'worker.ts'),
    c.name,
    String(THREADS),
    graph,
  ])
  const peers = new Map<string, Talker>()
  try {
    const told = await ours.answer<{ readonly peakBytes: number; readonly predictedSeconds: number }>()
    for (const name of options.modes.split(',')) {
      const m = MODES[name]
      if (!m) throw new Error(`no mode '${name}'; legal are ${Object.keys(MODES).join(', ')}`)
      const peer = new Talker(options.python, [join(__dirname, 'peer.py'), graph, m.mode, String(THREADS)], m.env)
      peers.set(name, peer)
      await peer.answer()
    }
    for (const who of [ours, ...peers.values()]) for (let i = 0; i < WARM_UP; i++) await who.ask('step')
    const mine: Samples<OurStep & Cpu> = { kept: [], dropped: 0 }
    const theirs = new Map([...peers].map(([name]): [string, Samples<PeerStep & Cpu>] => [name, { kept: [], dropped: 0 }]))
    for (let round = 0; round < Number(options.rounds); round++) {
      await sample(ours, mine)
      for (const [name, peer] of peers) await sample(peer, theirs.get(name)!)
    }
    return resultOf(c, told, mine, theirs)
  } finally {
    for (const who of [ours, ...peers.values()]) await who.end()
  }
}

const CONVOLUTIONS = /^(conv2d|linear)/

const resultOf = (
  c: Case,
  told: { readonly peakBytes: number; readonly predictedSeconds: number },
  mine: Samples<OurStep & Cpu>,
  theirs: ReadonlyMap<string, Samples<PeerStep & Cpu>>,
): Result => {
  const seconds = (s: Samples<{ readonly seconds: number }>): number => median(s.kept.map((x) => x.seconds))
  for (const [name, s] of [['spillway', mine], ...theirs] as const)
    if (s.kept.length < 3) throw new Error(`${c.name}: only ${s.kept.length} quiet samples of ${name}`)
  const peers = Object.fromEntries(
    [...theirs].map(([name, s]) => [
      name,
      {
        secondsPerStep: seconds(s),
        memoryBytes: Math.max(...s.kept.map((x) => x.memoryBytes)),
        samples: s.kept.length,
        dropped: s.dropped,
      },
    ]),
  )
  const least = (best: boolean) =>
    Object.entries(peers)
      .filter(([name]) => MODES[name]!.best === best)
      .map(([, p]) => p)
      .reduce<(typeof peers)[string] | undefined>((a, b) => (a && a.secondsPerStep <= b.secondsPerStep ? a : b), undefined)
  const usual = least(false)
  const best = least(true)
  if (!usual) throw new Error('a comparison needs the mode plain or channels-last')
  const usualModes = [...theirs].filter(([name]) => !MODES[name]!.best).map(([, samples]) => samples)
  const cpuOf = (of: Samples<Cpu>): number => median(of.kept.map((x) => x.cpuSeconds))
  const kinds = Object.keys(mine.kept[0]!.secondsByKind)
  const byKind = Object.fromEntries(kinds.map((k) => [k, median(mine.kept.map((s) => s.secondsByKind[k] ?? 0)) * 1000]))
  const secondsPerStep = seconds(mine)
  const convolving = Object.entries(byKind)
    .filter(([k]) => CONVOLUTIONS.test(k))
    .reduce((n, [, ms]) => n + ms / 1000, 0)
  const memory = Math.max(...mine.kept.map((s) => s.memoryBytes))
  return {
    name: c.name,
    timeRatio: secondsPerStep / usual.secondsPerStep,
    cpuTimeRatio: median(mine.kept.map((s) => s.cpuSeconds)) / STEPS_OF_OURS / Math.min(...usualModes.map(cpuOf)),
    bestTimeRatio: best ? secondsPerStep / Math.min(usual.secondsPerStep, best.secondsPerStep) : null,
    memoryRatio: memory / usual.memoryBytes,
    secondsPerStep,
    predictedSecondsPerStep: told.predictedSeconds,
    peerSecondsPerStep: usual.secondsPerStep,
    convCeilingShare: convolving / secondsPerStep,
    overheadShare: median(mine.kept.map((s) => 1 - (s.kernelSeconds + s.stallMemorySeconds + s.stallDataSeconds) / s.seconds)),
    processPeakBytes: memory,
    planPeakBytes: told.peakBytes,
    peers,
    millisecondsByKind: Object.fromEntries(Object.entries(byKind).sort((a, b) => b[1] - a[1])),
    samples: mine.kept.length,
    dropped: mine.dropped,
  }
}

// ---------------------------------------------------------------- the run

const show = (r: Result): string =>
  `${r.name.padEnd(32)} ${(r.secondsPerStep * 1000).toFixed(0).padStart(6)} ms  peer ${(r.peerSecondsPerStep * 1000).toFixed(0).padStart(6)} ms  ` +
  `ratio ${r.timeRatio.toFixed(3)} (cpu ${r.cpuTimeRatio.toFixed(3)})  best ${r.bestTimeRatio?.toFixed(3) ?? '-'}  memory ${r.memoryRatio.toFixed(2)}  conv ${(100 * r.convCeilingShare).toFixed(0)} %`

const main = async (): Promise<void> => {
  const wanted = options.cases.split(',').map((n) => CASES.find((c) => c.name === n.trim()) ?? n)
  const unknown = wanted.find((c) => typeof c === 'string')
  if (unknown !== undefined) throw new Error(`no case '${unknown}'; there are ${CASES.map((c) => c.name).join(', ')}`)
  const folder = mkdtempSync(join(tmpdir(), 'spillway-bench-'))
  const results: Result[] = []
  try {
    for (const c of wanted as Case[]) {
      const r = await measure(c, folder)
      console.log(show(r))
      results.push(r)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
  const bests = results.flatMap((r) => (r.bestTimeRatio === null ? [] : [r.bestTimeRatio]))
  const report = {
    machine: {
      cpu: cpus()[0]?.model,
      cores: cpus().length,
      threads: THREADS,
      memoryBytes: totalmem(),
      kernel: release(),
      node: process.version,
      oneDnn: loadNative().deviceInfo().oneDnn,
    },
    geomeanTimeRatio: geomean(results.map((r) => r.timeRatio)),
    geomeanBestRatio: bests.length ? geomean(bests) : null,
    cases: results,
  }
  mkdirSync(join(options.out, '..'), { recursive: true })
  writeFileSync(options.out, `${JSON.stringify(report, null, 2)}\n`)
  writeFileSync(options.out.replace(/\.json$/, '.svg'), plot(results))
  console.log(`geometric mean ${report.geomeanTimeRatio.toFixed(3)}, over its best ${report.geomeanBestRatio?.toFixed(3) ?? '-'}`)
}

main().catch((e) => {
  console.error(e instanceof Error ? e.message : e)
  process.exit(1)
})
