// `npm run bench -- answers`: how long somebody waits for a first answer, as whole processes, the median of ten. In: this checkout, compiled and
// built. Out: seconds, and the processors' part of them, of a help, a wrong call, a plan for a simulated machine, and of training until its first
// step is done, with a profile of this machine and without one; bench/results/answers.json. Invariant: profiles lie in a folder of their own, made
// anew for each cold start.
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { begin, inFolder, median, record, ROOT, storedRows } from './sides'

const TIMES = 10

interface Waiting {
  readonly what: string
  readonly args: readonly string[]
  readonly limitSeconds: number
  /** Answered when this is told; else when the process ends. */
  readonly until?: RegExp
  /** Without this machine's earlier measurements. */
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

interface Waited {
  readonly seconds: number
  /** Seconds of the whole process: other work of the machine is not counted. */
  readonly processorSeconds: number
}

const SPENT = `process.on('exit', () => require('node:fs').writeFileSync(process.env.SPILLWAY_SPENT, JSON.stringify(process.cpuUsage())))`

const answer = ({ args, until }: Waiting, cwd: string, cache: string): Promise<Waited> =>
  new Promise((resolve, reject) => {
    const began = performance.now()
    const spent = join(cwd, 'spent.json')
    const env = { ...process.env, XDG_CACHE_HOME: cache, SPILLWAY_SPENT: spent }
    const call = ['-r', join(cwd, 'spent.js'), join(ROOT, 'scripts/spillway.js'), ...args]
    const child = spawn(process.execPath, call, { cwd, env })
    const passed = (): number => (performance.now() - began) / 1000
    let text = ''
    let seconds: number | undefined
    const hear = (chunk: Buffer): void => {
      text += chunk.toString()
      if (until?.test(text)) seconds ??= passed()
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    child.once('error', reject)
    child.once('close', () => {
      seconds ??= until === undefined ? passed() : undefined
      if (seconds === undefined) return reject(new Error(`${args.join(' ')}: ${text}`))
      const { user, system } = JSON.parse(readFileSync(spent, 'utf8')) as NodeJS.CpuUsage
      resolve({ seconds, processorSeconds: (user + system) / 1e6 })
    })
  })

const medianOf = (waited: readonly Waited[], of: keyof Waited): number => Number(median(waited.map((w) => w[of])).toFixed(3))

interface Row {
  readonly what: string
  readonly [figure: string]: unknown
}

const measured = async (folder: string): Promise<void> => {
  const [times = TIMES, word = ''] = [process.argv[2] === undefined ? undefined : Number(process.argv[2]), process.argv[3]]
  const cache = (name: string): string => join(folder, name)
  const [model = ''] = [...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map((m) => m[1]!)
  writeFileSync(join(folder, 'my-net.ts'), model)
  writeFileSync(join(folder, 'spent.js'), SPENT)
  const rows: Row[] = []
  for (const waiting of WAITING.filter(({ what }) => new RegExp(word).test(what))) {
    const waited: Waited[] = []
    for (let i = 0; i < times; i++) waited.push(await answer(waiting, folder, cache(waiting.cold ? `cold-${i}` : 'warm')))
    const { what, args, limitSeconds } = waiting
    const medianSeconds = medianOf(waited, 'seconds')
    const processorSeconds = medianOf(waited, 'processorSeconds')
    console.log(
      `${medianSeconds < limitSeconds ? 'holds' : 'FAILS'}  ${what.padEnd(28)} ${medianSeconds} s of ${limitSeconds} s, ${processorSeconds} s of processors`,
    )
    rows.push({ what, args: args.join(' '), times, medianSeconds, processorSeconds, limitSeconds })
  }
  // Cases that were not measured now keep their earlier figures.
  record('answers', {
    rows: WAITING.flatMap(({ what }) => [...rows, ...storedRows<Row>('answers')].find((row) => row.what === what) ?? []),
  })
}

void begin(() => inFolder('answers', measured))
