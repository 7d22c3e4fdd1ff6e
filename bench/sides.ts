// Two checkouts, the same measurement, in turns: the cost of a change. In: a bench's own file, and maybe another checkout. Out: for each side the
// JSON of its processes. Invariant: both sides run this very file, in a process of its own each time, copied into the other checkout's bench/ and
// removed afterwards.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { basename, join, resolve } from 'node:path'

export const ROOT = join(__dirname, '..')
/** The argument of a measuring process. */
export const ONCE = '--once'

export const median = (xs: readonly number[]): number => {
  const sorted = [...xs].sort((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2
}

/** The output of one process, for the checkout in `root`. */
export const asked = <A>(root: string, bench: string, args: readonly string[]): A => {
  const guests = [bench, __filename].map((file) => ({ from: file, to: join(root, 'bench', basename(file)) }))
  const brought = guests.filter(({ to }) => !existsSync(to))
  for (const { from, to } of brought) copyFileSync(from, to)
  try {
    const call = ['-r', './scripts/testing/typescript.js', guests[0]!.to, ONCE, ...args]
    const env = { ...process.env, OMP_NUM_THREADS: '1' }
    return JSON.parse(execFileSync(process.execPath, call, { cwd: root, encoding: 'utf8', env })) as A
  } finally {
    for (const { to } of brought) rmSync(to)
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
