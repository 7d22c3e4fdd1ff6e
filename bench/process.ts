// `npm run bench -- memory`: the peak memory of whole training processes, and the peak that their plans state. In: seven cases of `auto` on the cpu
// device, most in half of their in-core peak, with and without a spill folder. Out: a table and bench/results/process.json; exit code 1 if a
// difference exceeds the limit. Invariant: the peak is the largest proportional set size of /proc/PID/smaps_rollup among samples, or the process's
// own; the plan is read before the run.
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { kibLine } from '../src/machine/memory'
import type { ProcessMemory } from '../src/report/facts'
import { begin, chosen, inFolder, record, ROOT, storedRows } from './sides'

const MIB = 2 ** 20
/** The largest difference of a process from its statement. */
const MOST_APART = 400 * MIB
const SHARE = 0.5
const STEPS = 3
const SAMPLE_MS = 100

interface Case {
  readonly network: string
  readonly options: readonly string[]
  /** Default: half of the in-core peak. */
  readonly budget?: string
  readonly steps?: number
}
const CASES: readonly Case[] = [
  { network: 'resnet18', options: ['--batch=16'] },
  { network: 'vgg16-features', options: ['--image=512', '--batch=2'] },
  { network: 'resnet50', options: ['--batch=8'] },
  { network: 'unet', options: ['--image=512'] },
  { network: 'densenet121', options: ['--batch=4'] },
  { network: 'darknet19-features', options: ['--image=512', '--batch=2'] },
  { network: 'unet', options: ['--image=1024'], budget: '1GiB', steps: 1 },
]

interface Planned {
  readonly budgetBytes: number
  readonly inCoreBytes: number
  readonly diskBytes: number
  readonly process: ProcessMemory
}
interface Trained {
  readonly processPeakBytes: number
}

const command = (args: readonly string[]): readonly string[] => [join(ROOT, 'scripts/spillway.js'), ...args, '--json']

const planned = (args: readonly string[]): Planned => {
  const { status, stdout, stderr } = spawnSync(process.execPath, command(['plan', ...args]), { encoding: 'utf8' })
  if (status !== 0) throw new Error(`plan ${args.join(' ')}: ${stderr.split('\n').slice(-3).join(' ')}`)
  return JSON.parse(stdout) as Planned
}

/** Trains in a process of its own; samples its proportional set size. */
const trained = (args: readonly string[]): Promise<{ readonly peak: number }> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, command(['train', ...args]), { stdio: ['ignore', 'pipe', 'ignore'] })
    let [peak, out] = [0, '']
    const timer = setInterval(() => {
      try {
        peak = Math.max(peak, kibLine(readFileSync(`/proc/${child.pid}/smaps_rollup`, 'utf8'), 'Pss') ?? 0)
      } catch {
        // The process has ended.
      }
    }, SAMPLE_MS)
    child.stdout.on('data', (d) => {
      out += d
    })
    child.on('close', (code) => {
      clearInterval(timer)
      if (code !== 0) return reject(new Error(`train ${args.join(' ')}: ${out}`))
      resolve({ peak: Math.max(peak, (JSON.parse(out) as Trained).processPeakBytes) })
    })
  })

const measure = async ({ network, options, ...c }: Case, spill: string | undefined) => {
  const { inCoreBytes } = planned([network, ...options, '--strategy=in-core'])
  const budget = c.budget ?? `${Math.round((SHARE * inCoreBytes) / MIB)}MiB`
  const all = [network, ...options, `--budget=${budget}`, ...(spill === undefined ? [] : [`--spill=${spill}`])]
  const { budgetBytes, diskBytes, process: stated } = planned(all)
  const { peak } = await trained([...all, `--steps=${c.steps ?? STEPS}`])
  const apartBytes = peak - stated.peakBytes
  const mib = (n: number): string => `${Math.round(n / MIB)} MiB`
  console.log(
    `${Math.abs(apartBytes) <= MOST_APART ? 'holds' : 'FAILS'}  ${network.padEnd(20)} ${spill ? 'disk  ' : 'memory'}  in-core ${mib(inCoreBytes)}, budget ${mib(budgetBytes)}, stated ${mib(stated.peakBytes)}, process ${mib(peak)} (${mib(apartBytes)} apart), disk ${mib(diskBytes)}`,
  )
  return {
    network,
    options: options.join(' '),
    spill: spill !== undefined,
    ...{ inCoreBytes, budgetBytes, stated, diskBytes },
    processPeakBytes: peak,
    apartBytes,
  }
}
type Row = Awaited<ReturnType<typeof measure>>

/** Rows of other cases stay. */
const withRow = (row: Row): readonly Row[] => {
  const key = (r: Row): string => `${r.network} ${r.options} ${r.spill}`
  return [...storedRows<Row>('process').filter((r) => key(r) !== key(row)), row]
}

const main = async (folder: string): Promise<void> => {
  const names = chosen([...new Set(CASES.map((c) => c.network))], process.argv.slice(2))
  for (const c of CASES.filter(({ network }) => names.includes(network)))
    for (const spill of [undefined, folder]) {
      const row = await measure(c, spill)
      if (Math.abs(row.apartBytes) > MOST_APART) process.exitCode = 1
      record('process', { mostApartBytes: MOST_APART, share: SHARE, rows: withRow(row) })
    }
}

void begin(() => inFolder('process', main))
