// `npm run bench -- onednn`: training steps in-core, and their dearest convolutions one by one, with each version of oneDNN in turns on two threads.
// In: the addons that scripts/onednn.js builds, or has built. Out: bench/results/onednn.json and the tables of docs/internals/onednn.md, or FILE
// alone; versions that cannot be had stand in it with why. Invariant: each version plans with its own ways, measured with it. `--test PATTERN …` runs
// those tests with each version instead: conformance, exactness, bits.
import { execFileSync, spawnSync } from 'node:child_process'
import type { Convolution } from './cpu/calls'
import { convolutionsOf, dearest } from './cpu/calls'
import { CASES, type Case, stagedCase } from './cpu/cases'
import type { Talker } from './cpu/process'
import {
  geomean,
  inTurns,
  median,
  millisecondsByKind,
  type Opening,
  type Options,
  type OurStep,
  script,
  secondsOf,
} from './cpu/sides'
import { writePage } from './onednntable'
import { begin, inFolder, record, ROOT } from './sides'
import { argumentsOf, BENCHES } from './table'

interface Version {
  readonly version: string
  readonly from: string
  readonly addon?: string
  readonly oneDnn?: string
  readonly why?: string
}
type Built = Version & { readonly addon: string }

/** In the platform package (scripts/prebuilt/platforms.js). */
const CARRIED = '3.2'
const WARM_UP = 2
/** The slowest convolutions of a step, up to this share of it. */
const DEAREST = 0.6
const TIMES = 3

const { given, named: positionals } = argumentsOf(BENCHES.onednn.steps)

const options = (folder: string): Options => ({
  python: '',
  threads: 2,
  rounds: Number(given.rounds),
  keepBusy: given['keep-busy'],
  modes: [],
  folder,
})

const bySide = <A>(versions: readonly Built[], of: (v: Built) => A): { readonly [version: string]: A } =>
  Object.fromEntries(versions.map((v) => [v.version, of(v)]))

/** In an addon's process: a line each. */
const withAddon = ({ addon }: Built, file: string, args: readonly string[]): Talker =>
  script(file, args, undefined, { SPILLWAY_ADDON: addon })

const steps = async (c: Case, versions: readonly Built[], o: Options) => {
  const talkers = bySide(versions, (v) => withAddon(v, 'worker.ts', [JSON.stringify(c), String(o.threads), '']))
  try {
    // One after the other: each measures its calls while it plans.
    const openings: [string, Opening][] = []
    for (const [version, t] of Object.entries(talkers)) openings.push([version, await t.answer<Opening>()])
    const taken = await inTurns<Readonly<Record<string, OurStep>>>(c.name, talkers, WARM_UP, o)
    return Object.entries(taken).map(([version, samples]) => ({
      version,
      secondsPerStep: secondsOf(samples),
      peakBytes: new Map(openings).get(version)!.peakBytes,
      samples: samples.kept.length,
      millisecondsByKind: millisecondsByKind(samples),
    }))
  } finally {
    for (const t of Object.values(talkers)) await t.end()
  }
}

/** The first way of each, as oneDNN runs it. */
const calls = async (all: readonly Convolution[], versions: readonly Built[]) => {
  const talkers = bySide(versions, (v) => withAddon(v, 'callworker.ts', ['2']))
  try {
    const rows = []
    for (const { name, native, calls } of all) {
      const seconds = new Map<string, readonly number[]>()
      for (let i = 0; i < TIMES; i++)
        for (const [version, t] of Object.entries(talkers)) {
          const { answer } = await t.ask<{ readonly seconds: number }>(JSON.stringify({ native, way: 0 }))
          seconds.set(version, [...(seconds.get(version) ?? []), answer.seconds])
        }
      rows.push({ name, calls, seconds: Object.fromEntries([...seconds].map(([v, s]) => [v, median(s)])) })
    }
    return rows
  } finally {
    for (const t of Object.values(talkers)) await t.end()
  }
}

interface Network {
  readonly name: string
  readonly steps: Awaited<ReturnType<typeof steps>>
  readonly convolutions: Awaited<ReturnType<typeof calls>>
}

const quickest = (seconds: Readonly<Record<string, number>>): string =>
  Object.entries(seconds).reduce((a, b) => (b[1] < a[1] ? b : a))[0]

const measured = async (versions: readonly Built[], others: readonly Version[]): Promise<void> => {
  const wanted = given.cases?.split(',')
  const networks: Network[] = []
  await inFolder('onednn', async (folder) => {
    for (const c of CASES.filter(({ name, model }) => !wanted || wanted.includes(name) || wanted.includes(model))) {
      const o = options(folder)
      const { plan } = stagedCase({ ...c, algorithms: 'fixed' }, o.threads).staged
      const taken = await steps(c, versions, o)
      const convolutions = await calls(dearest(convolutionsOf(plan, false), DEAREST), versions)
      networks.push({ name: c.name, steps: taken, convolutions })
      console.log(
        `${c.name.padEnd(32)} ${taken.map((t) => `${t.version} ${(1000 * t.secondsPerStep).toFixed(0)} ms`).join('  ')}`,
      )
    }
  })
  const first = versions[0]!.version
  const summary = versions.map(({ version, from, oneDnn }) => {
    const ratios = networks.map(({ steps: s }) => {
      const of = (v: string): number => s.find((t) => t.version === v)!.secondsPerStep
      return of(version) / of(first)
    })
    const won = networks.flatMap((n) => n.convolutions).filter(({ seconds }) => quickest(seconds) === version).length
    console.log(
      `oneDNN ${oneDnn} (${from}): ${geomean(ratios).toFixed(3)} of the steps with ${first}, quickest at ${won} convolutions`,
    )
    return { version, from, oneDnn, geomeanTimeRatio: geomean(ratios), convolutionsWon: won }
  })
  const results = record('onednn', { threads: 2, versions: [...summary, ...others], networks }, given.out)
  if (given.out === undefined) writePage(results, CARRIED)
}

const tested = (versions: readonly Built[]): void => {
  for (const v of versions) {
    console.log(`\noneDNN ${v.oneDnn} (${v.from})`)
    const env = { ...process.env, SPILLWAY_ADDON: v.addon }
    const { status } = spawnSync(process.execPath, ['scripts/test.js', '--no-setup', ...positionals], {
      cwd: ROOT,
      stdio: 'inherit',
      env,
    })
    if (status !== 0) process.exitCode = 1
  }
}

const main = (): void | Promise<void> => {
  const call = ['scripts/onednn.js', '--json', ...(given.versions?.split(',') ?? [])]
  const said = execFileSync(process.execPath, call, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  const all = JSON.parse(said) as readonly Version[]
  const others = all.filter((v) => v.addon === undefined)
  for (const { version, why } of others) console.error(`${version}: ${why}`)
  const versions = all.filter((v): v is Built => v.addon !== undefined)
  return given.test ? tested(versions) : measured(versions, others)
}

void begin(main)
