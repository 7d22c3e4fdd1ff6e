// The laboratory: the five papers' experiments, and today's peers, on named machines in simulation. `npm run lab [-- PAGE …]` plans the parts of the
// named pages (all by default), two at a time, stores each in docs/lab/PAGE.json, and writes the pages. It skips parts that this state of the planners
// has planned. `PAGE:PART` names one part. `-- page` writes only the pages; `-- --again PAGE …` plans all parts again. Invariant: a part runs alone in
// a process, so that a stop loses at most the parts in progress.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { lowerBoundOf } from '../../staging/bound/lowerbound'
import { solver } from '../../src/stage/least'
import { ablation } from './ablation'
import { bars } from './bars'
import { causes } from './causes'
import { frontOf, pageOf, type Report, type Section } from './page'
import { paper1 } from './paper1'
import { paper2 } from './paper2'
import { paper3 } from './paper3'
import { paper4 } from './paper4'
import { paper5 } from './paper5'
import type { Bound, Experiment, Part } from './part'
import { peers } from './peers'

const ROOT = join(__dirname, '../..')
const FOLDER = join(ROOT, 'docs/lab')

const experiments: Readonly<Record<string, Experiment>> = {
  paper1,
  paper2,
  paper3,
  paper4,
  paper5,
  causes,
  peers,
  ablation,
  bars,
}

const PAGE = 'page'
const AGAIN = '--again'
const PART = '--part'

// ---------------------------------------------------------------- stored results

interface Stored {
  readonly state: string
  /** Time of the part's process. */
  readonly processorSeconds?: number
  readonly result?: unknown
  /** As an earlier laboratory wrote them, until the part is planned again. */
  readonly sections?: readonly Section[]
}
type Results = Readonly<Record<string, Stored>>

const fileOf = (experiment: string): string => join(FOLDER, `${experiment}.json`)

const resultsOf = (experiment: string): Results =>
  existsSync(fileOf(experiment)) ? (JSON.parse(readFileSync(fileOf(experiment), 'utf8')) as Results) : {}

/** The parts of the experiment, in its order, a line each. */
const store = (experiment: string, results: Results): void => {
  const lines = experiments[experiment]!.parts.flatMap(({ name }) =>
    results[name] ? [`${JSON.stringify(name)}: ${JSON.stringify(results[name])}`] : [],
  )
  writeFileSync(fileOf(experiment), `{\n${lines.join(',\n')}\n}\n`)
}

const sources = (folder: string): readonly string[] =>
  readdirSync(join(ROOT, folder), { withFileTypes: true, recursive: true })
    .filter((e) => e.isFile() && e.name.endsWith('.ts'))
    .map((e) => join(e.parentPath, e.name))
    .sort()

/** A hash of everything that plans and simulates. */
const plannerState = (): string => {
  const hash = createHash('sha256')
  for (const file of ['dsl', 'models', 'staging', 'src/stage'].flatMap(sources)) hash.update(readFileSync(file))
  return hash.digest('hex').slice(0, 12)
}

/** Code of the part itself counts, too. */
const stateOf = (planners: string, { run }: Part): string =>
  `${planners}-${createHash('sha256').update(run.toString()).digest('hex').slice(0, 4)}`

// ---------------------------------------------------------------- one part

const boundWith = async (): Promise<Bound> => {
  const solve = await solver()
  return (graph, machine, budgetBytes) => lowerBoundOf(graph, machine, budgetBytes, solve)?.seconds ?? null
}

const runPart = async (experiment: string, name: string, to: string): Promise<void> => {
  const found = experiments[experiment]!.parts.find((p) => p.name === name)!
  const result = found.run(await boundWith())
  const { user, system } = process.cpuUsage()
  const ran: Ran = { result, processorSeconds: Number(((user + system) / 1e6).toFixed(1)) }
  writeFileSync(to, JSON.stringify(ran))
}

interface Ran {
  readonly result: unknown
  readonly processorSeconds: number
}

/** Runs a part in a process of its own; its result, or null if it failed. */
const ranApart = (experiment: string, part: Part): Promise<Ran | null> =>
  new Promise((resolve) => {
    const to = join(tmpdir(), `lab-${process.pid}-${experiment}-${part.name.replace(/\W/g, '-')}.json`)
    const child = spawn(process.execPath, [...process.execArgv, __filename, PART, experiment, part.name, to], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    child.on('exit', (code) => resolve(code === 0 ? (JSON.parse(readFileSync(to, 'utf8')) as Ran) : null))
  })

// ---------------------------------------------------------------- all parts

interface Work {
  readonly experiment: string
  readonly part: Part
  readonly state: string
}

/** A page, or one part of it: `paper3` or `paper3:memory`. */
const split = (wanted: string): readonly [page: string, part: string | undefined] => {
  const [page = '', ...part] = wanted.split(':')
  return [page, part.length ? part.join(':') : undefined]
}

/** Each part once, in the order of the names. */
const workIn = (wanted: readonly string[], again: boolean): readonly Work[] => {
  const planners = plannerState()
  const work = wanted.flatMap((name) => {
    const [experiment, only] = split(name)
    const results = resultsOf(experiment)
    return experiments[experiment]!.parts.filter((p) => only === undefined || p.name === only)
      .map((p): Work => ({ experiment, part: p, state: stateOf(planners, p) }))
      .filter(({ part, state }) => again || results[part.name]?.state !== state)
  })
  return [...new Map(work.map((w) => [`${w.experiment}:${w.part.name}`, w])).values()]
}

/** Takes one part after the other; two workers share the list. */
const worker = async (left: Work[], failed: string[]): Promise<void> => {
  for (let next = left.shift(); next; next = left.shift()) {
    const { experiment, part, state } = next
    const ran = await ranApart(experiment, part)
    if (ran) store(experiment, { ...resultsOf(experiment), [part.name]: { state, ...ran } })
    else failed.push(`${experiment} ${part.name}`)
    console.log(
      `${experiment} ${part.name}: ${ran ? `${ran.processorSeconds} processor s` : 'failed'}, ${left.length} parts left`,
    )
  }
}

// ---------------------------------------------------------------- pages

const reportOf = (name: string, { title, words, parts, summary }: Experiment, state: string): Report => {
  const stored = resultsOf(name)
  const plot = (file: string, svg: string): string => {
    writeFileSync(join(FOLDER, `${name}-${file}.svg`), svg)
    return `${name}-${file}.svg`
  }
  const known = parts.filter((p) => stored[p.name])
  const results = Object.fromEntries(known.map((p) => [p.name, stored[p.name]!.result]))
  const own = known.flatMap((p) => stored[p.name]!.sections ?? p.show(stored[p.name]!.result, plot))
  const older = known.flatMap((p) => (stored[p.name]!.state.startsWith(state) ? [] : [p.name]))
  const processorSeconds = known.flatMap((p) => stored[p.name]!.processorSeconds ?? [])
  return { title, words, state, older, processorSeconds, sections: [...(summary?.(results) ?? []), ...own] }
}

const writePages = (): void => {
  const state = plannerState()
  const reports = Object.entries(experiments).map(([name, e]) => [name, reportOf(name, e, state)] as const)
  const pages = reports.map(([name, report]) => [`${name}.md`, pageOf(report)] as const)
  for (const [file, text] of [...pages, ['README.md', frontOf(reports)] as const]) writeFileSync(join(FOLDER, file), text)
  // Plots of parts that no longer exist.
  const isShown = (file: string): boolean => pages.some(([, text]) => text.includes(`](${file})`))
  for (const file of readdirSync(FOLDER)) if (file.endsWith('.svg') && !isShown(file)) rmSync(join(FOLDER, file))
}

const main = async (): Promise<void> => {
  const [first, ...others] = process.argv.slice(2)
  if (first === PART) return runPart(others[0]!, others[1]!, others[2]!)
  const named = [...(first === undefined ? [] : [first]), ...others].filter((w) => w !== AGAIN)
  const unknown = named.find((w) => w !== PAGE && !experiments[split(w)[0]])
  if (unknown !== undefined)
    throw new Error(`there is no page '${unknown}'; allowed: ${[...Object.keys(experiments), PAGE].join(', ')}`)
  mkdirSync(FOLDER, { recursive: true })
  const wanted = named.length ? named.filter((w) => w !== PAGE) : Object.keys(experiments)
  const left = [...workIn(wanted, first === AGAIN)]
  const failed: string[] = []
  const began = performance.now()
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, () => worker(left, failed)))
  writePages()
  console.log(`pages written after ${((performance.now() - began) / 1000).toFixed(0)} s`)
  if (failed.length) throw new Error(`these parts failed: ${failed.join(', ')}`)
}

if (require.main === module) void main()
