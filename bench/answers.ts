// `npm run bench:answers`: how long somebody waits for a first answer, as whole processes, the median of ten. In: this checkout, compiled and
// built. Out: seconds of a help, a wrong call, a plan for a simulated machine, and of training until its first step is done, with a profile of
// this machine and without one; bench/results/answers.json. Invariant: profiles lie in a folder of their own, made anew for each cold start.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median, record } from './sides'

const ROOT = join(__dirname, '..')
const TIMES = 10

interface Waiting {
  readonly what: string
  readonly args: readonly string[]
  readonly limitSeconds: number
  /** Answered when this is told; else when the process ends. */
  readonly until?: RegExp
  /** Without what this machine has told before. */
  readonly cold?: boolean
}

const SMALL = ['my-net.ts', '--loss', 'cross-entropy', '--budget', '64MiB', '--steps', '1']
const FIRST_STEP = /^step 1\//m
const WAITING: readonly Waiting[] = [
  { what: 'help', args: ['--help'], limitSeconds: 0.3 },
  { what: 'a command that there is not', args: ['trian'], limitSeconds: 0.3 },
  { what: 'a flag that there is not', args: ['train', 'resnet50', '--bugdet', '1GiB'], limitSeconds: 0.3 },
  { what: 'a size that is none', args: ['plan', 'resnet50', '--budget', 'much'], limitSeconds: 0.3 },
  { what: 'a plan, simulated', args: ['plan', 'resnet50', '--machine', 'v100-pcie-16g'], limitSeconds: 2 },
  { what: 'a first step, cold profile', args: ['train', ...SMALL], until: FIRST_STEP, cold: true, limitSeconds: 8 },
  { what: 'a first step, warm profile', args: ['train', ...SMALL], until: FIRST_STEP, limitSeconds: 3 },
]

const answer = ({ args, until }: Waiting, cwd: string, cache: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const began = performance.now()
    const env = { ...process.env, XDG_CACHE_HOME: cache }
    const child = spawn(process.execPath, [join(ROOT, 'scripts/spillway.js'), ...args], { cwd, env })
    let text = ''
    let seconds: number | undefined
    const hear = (chunk: Buffer): void => {
      text += chunk.toString()
      if (until?.test(text)) seconds ??= (performance.now() - began) / 1000
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    child.once('error', reject)
    child.once('close', () => {
      seconds ??= until === undefined ? (performance.now() - began) / 1000 : undefined
      if (seconds === undefined) reject(new Error(`${args.join(' ')}: ${text}`))
      else resolve(seconds)
    })
  })

const main = async (): Promise<void> => {
  const times = Number(process.argv[2] ?? TIMES)
  const folder = mkdtempSync(join(tmpdir(), 'spillway-answers-'))
  const cache = (name: string): string => join(folder, name)
  const [model = ''] = [...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map((m) => m[1]!)
  writeFileSync(join(folder, 'my-net.ts'), model)
  try {
    const rows = []
    for (const waiting of WAITING) {
      const seconds: number[] = []
      for (let i = 0; i < times; i++) seconds.push(await answer(waiting, folder, cache(waiting.cold ? `cold-${i}` : 'warm')))
      const { what, args, limitSeconds } = waiting
      const row = { what, args: args.join(' '), medianSeconds: Number(median(seconds).toFixed(3)), limitSeconds }
      console.log(
        `${row.medianSeconds < limitSeconds ? 'holds' : 'FAILS'}  ${what.padEnd(32)} ${row.medianSeconds} s of ${limitSeconds} s`,
      )
      rows.push({ ...row, quickestSeconds: Number(Math.min(...seconds).toFixed(3)) })
    }
    record('answers', { times, rows })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

main()
