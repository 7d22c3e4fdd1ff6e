// The common part of benches: figures, processes of their own, results. Two checkouts run the same measurement in turns: the cost of a change.
// Invariant: each measurement is a process of its own. A checkout that lacks the bench borrows its file and this one, and loses them afterwards.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release, tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'

export const ROOT = join(__dirname, '..')
/** The first argument of a measuring process. */
const ONCE = '--once'

// ---------------------------------------------------------------- figures

export const median = (xs: readonly number[]): number => {
  const sorted = [...xs].sort((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2
}

export const rounded = (x: number, digits = 4): number => Number(x.toPrecision(digits))

/** Processor seconds of this process, or those since an earlier `process.cpuUsage()`. */
export const processorSeconds = (since?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1e6
}

/** Runs with a temporary folder, and removes it afterwards. */
export const inFolder = async <A>(name: string, run: (folder: string) => A | Promise<A>, parent = tmpdir()): Promise<A> => {
  const folder = mkdtempSync(join(parent, `spillway-${name}-`))
  try {
    return await run(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

// ---------------------------------------------------------------- processes

/** Runs `once` in a process that `asked` started, with its arguments, and prints the answer as JSON; runs `main` in any other. */
export const begin = async (main: () => unknown, once?: (...args: readonly string[]) => unknown): Promise<void> => {
  const [first, ...args] = process.argv.slice(2)
  if (first === ONCE && once) console.log(JSON.stringify(await once(...args)))
  else await main()
}

/** The answer of one process, for the checkout in `root`. A checkout without this bench borrows it, with this module. */
export const asked = <A>(root: string, bench: string, args: readonly string[], own = { OMP_NUM_THREADS: '1' } as object): A => {
  const guests = existsSync(join(root, 'bench', basename(bench))) ? [] : [bench, __filename]
  const brought = guests.map((from) => {
    const to = join(root, 'bench', basename(from))
    return { from, to, before: existsSync(to) ? readFileSync(to) : undefined }
  })
  for (const { from, to } of brought) writeFileSync(to, readFileSync(from))
  try {
    const call = ['-r', './scripts/testing/typescript.js', join(root, 'bench', basename(bench)), ONCE, ...args]
    const env = { ...process.env, ...own }
    const said = execFileSync(process.execPath, call, { cwd: root, encoding: 'utf8', env })
    return JSON.parse(said.trim().split('\n').at(-1)!) as A
  } finally {
    for (const { to, before } of brought)
      if (before) writeFileSync(to, before)
      else rmSync(to)
  }
}

export interface Side<A> {
  readonly side: 'before' | 'now'
  readonly answers: readonly A[]
}

/** `times` processes of each side, one after the other. */
export const inTurns = <A>(
  bench: string,
  other: string | undefined,
  times: number,
  args: readonly string[] = [],
): readonly Side<A>[] => {
  const roots = [...(other === undefined ? [] : [['before', resolve(other)] as const]), ['now', ROOT] as const]
  const answers = roots.map((): A[] => [])
  for (let i = 0; i < times; i++) for (const [k, [, root]] of roots.entries()) answers[k]!.push(asked<A>(root, bench, args))
  return roots.map(([side], k) => ({ side, answers: answers[k]! }))
}

// ---------------------------------------------------------------- results

/** The names that were given, in the order of `known`; all without names. Throws for an unknown one. */
export const chosen = <N extends string>(known: readonly N[], named: readonly string[]): readonly N[] => {
  const unknown = named.find((name) => !(known as readonly string[]).includes(name))
  if (unknown !== undefined) throw new Error(`there is no '${unknown}'; allowed: ${known.join(', ')}`)
  return known.filter((name) => named.length === 0 || named.includes(name))
}

/** The arguments without flags, after a FOLDER in front of them. */
export const folderAndNames = (): { readonly other: string | undefined; readonly named: readonly string[] } => {
  const args = process.argv.slice(2)
  const other = args[0] !== undefined && existsSync(args[0]) ? args[0] : undefined
  return { other, named: other === undefined ? args : args.slice(1) }
}

/** The rows of bench/results/NAME.json; none without the file. */
export const storedRows = <R>(name: string): readonly R[] => {
  const file = join(ROOT, 'bench/results', `${name}.json`)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { readonly rows: readonly R[] }).rows : []
}

/** The stored rows with a new one in its place, in the order of `known`. Rows of other names stay. */
export const withRow = <R>(name: string, row: R, of: (r: R) => string, known: readonly string[]): readonly R[] => {
  const others = storedRows<R>(name).filter((r) => of(r) !== of(row))
  return known.flatMap((one) => [row, ...others].filter((r) => of(r) === one))
}

/** The widest vectors of the processor: machines of one name differ in them, and in their speed. */
const vectors = (): string => {
  const flags = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : ''
  return ['avx512f', 'avx2'].find((f) => new RegExp(`^flags.*\\b${f}\\b`, 'm').test(flags)) ?? 'unknown'
}

/** With the day and this machine, in bench/results or in the file that is named. */
export const record = <R extends object>(name: string, result: R, file = join(ROOT, 'bench/results', `${name}.json`)) => {
  const cpu = { cpu: cpus()[0]?.model, vectors: vectors(), cores: cpus().length }
  const machine = { ...cpu, kernel: release(), node: process.version, load: loadavg()[0] }
  const all = { date: new Date().toISOString().slice(0, 10), machine, ...result }
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`)
  return all
}
