// `npm run bench:overhead [-- FOLDER]`: what a call costs beside its arithmetic: a chain of tiny convolutions and rectifiers on
// 8x8 images, about a thousand calls a step, trained on `cpu` by one thread. In: maybe a FOLDER with another checkout, in turns with
// this one. Out: microseconds a call (the median of a process's steps, by process) and bench/results/overhead.json.
// Invariant: both sides run this very file in processes of their own; steps that warm up do not count.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join, resolve } from 'node:path'
import { conv2d, type Model, model, type Net, relu, seq, stage, train } from '../src'

const ROOT = join(__dirname, '..')
const ONCE = '--once'
const SIDE = 8
const LAYERS = 200
const STEPS = 120
const WARM_UP = 20
const PROCESSES = 7

const median = (xs: readonly number[]): number => {
  const sorted = [...xs].sort((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2
}

interface Told {
  readonly calls: number
  readonly microsecondsPerCall: number
}

/** In a process of its own. */
const once = async (): Promise<Told> => {
  let net: Net = seq(conv2d('c0', SIDE, 1), relu())
  for (let i = 1; i < LAYERS; i++) net = seq(net, conv2d(`c${i}`, SIDE, 1), relu()) as Net
  const chain = (model as (shape: readonly number[], net: Net) => Model)([1, SIDE, SIDE, SIDE], net)
  const staged = stage(chain, { strategy: 'in-core', algorithms: 'fixed' })
  const seconds: number[] = []
  await train(chain, staged, {
    steps: STEPS,
    threads: 1,
    onProgress: (p) => {
      if (p.kind === 'step') seconds.push(p.seconds)
    },
  })
  const calls = staged.plan.calls.length
  return { calls, microsecondsPerCall: (median(seconds.slice(WARM_UP)) / calls) * 1e6 }
}

const asked = (root: string): Told => {
  const file = join(root, 'bench/overhead.ts')
  const isGuest = !existsSync(file)
  if (isGuest) copyFileSync(__filename, file)
  try {
    const args = ['-r', './scripts/testing/typescript.js', file, ONCE]
    return JSON.parse(
      execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8', env: { ...process.env, OMP_NUM_THREADS: '1' } }),
    ) as Told
  } finally {
    if (isGuest) rmSync(file)
  }
}

const main = (): void => {
  const other = process.argv[2]
  const roots = { ...(other === undefined ? {} : { before: resolve(other) }), now: ROOT }
  const told: Record<string, Told[]> = Object.fromEntries(Object.keys(roots).map((side) => [side, []]))
  for (let i = 0; i < PROCESSES; i++) for (const [side, root] of Object.entries(roots)) told[side]!.push(asked(root))
  const sides = Object.entries(told).map(([side, all]) => {
    const each = all.map((t) => t.microsecondsPerCall)
    const row = {
      side,
      calls: all[0]!.calls,
      microsecondsPerCall: median(each),
      least: Math.min(...each),
      most: Math.max(...each),
    }
    console.log(
      `${side.padEnd(7)} ${row.calls} calls: ${row.microsecondsPerCall.toFixed(2)} us a call (${row.least.toFixed(2)} to ${row.most.toFixed(2)})`,
    )
    return row
  })
  const machine = { cpu: cpus()[0]?.model, cores: cpus().length, kernel: release(), node: process.version, load: loadavg()[0] }
  const result = {
    date: new Date().toISOString().slice(0, 10),
    machine,
    processes: PROCESSES,
    stepsOfEach: STEPS - WARM_UP,
    sides,
  }
  writeFileSync(join(ROOT, 'bench/results/overhead.json'), `${JSON.stringify(result, null, 1)}\n`)
}

if (process.argv[2] === ONCE) once().then((t) => console.log(JSON.stringify(t)))
else main()
