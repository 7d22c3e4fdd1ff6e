// `npm run bench:process [-- NETWORK …]`: the memory of a whole training process beside the bytes that its plan states. In: six networks,
// each in half of its in-core peak, with and without a spill folder. Out: a table and bench/results/process.json. Invariant: the peak is
// the largest proportional set size of /proc/PID/smaps_rollup among samples, or the process's own; the plan is read before the run.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kibLine } from '../src/machine/memory'
import { ROOT, record } from './sides'

const MIB = 2 ** 20
/** Bytes above the stated ones that a process may hold: Node, libraries, code of kernels. */
const MOST_ABOVE = 400 * MIB
const SHARE = 0.5
const STEPS = 3
const SAMPLE_MS = 100

interface Case {
  readonly network: string
  readonly options: readonly string[]
}
const CASES: readonly Case[] = [
  { network: 'resnet18', options: ['--batch=8'] },
  { network: 'vgg16-features', options: ['--image=512'] },
  { network: 'resnet50', options: ['--batch=4'] },
  { network: 'unet', options: ['--image=256'] },
  { network: 'densenet121', options: ['--batch=4'] },
  { network: 'darknet19-features', options: ['--image=512'] },
]

interface Planned {
  readonly budgetBytes: number
  readonly inCoreBytes: number
  readonly hostBytes: number
  readonly diskBytes: number
  readonly bytesFed: number
}
interface Trained {
  readonly processPeakBytes: number
  readonly diskBytes: number
}

const command = (args: readonly string[]): readonly string[] => [join(ROOT, 'scripts/spillway.js'), ...args, '--json']

const planned = (args: readonly string[]): Planned => {
  const { status, stdout, stderr } = spawnSync(process.execPath, command(['plan', ...args]), { encoding: 'utf8' })
  if (status !== 0) throw new Error(`plan ${args.join(' ')}: ${stderr.split('\n').slice(-3).join(' ')}`)
  return JSON.parse(stdout) as Planned
}

/** Trains in a process of its own; samples its proportional set size. */
const trained = (args: readonly string[]): Promise<{ readonly peak: number; readonly told: Trained }> =>
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
      const told = JSON.parse(out) as Trained
      resolve({ peak: Math.max(peak, told.processPeakBytes), told })
    })
  })

const measure = async ({ network, options }: Case, spill: string | undefined): Promise<object> => {
  const { inCoreBytes } = planned([network, ...options, '--strategy=in-core'])
  const budget = `--budget=${Math.round((SHARE * inCoreBytes) / MIB)}MiB`
  const all = [network, ...options, budget, ...(spill === undefined ? [] : [`--spill=${spill}`, '--host-memory=1MiB'])]
  const { budgetBytes, hostBytes, bytesFed } = planned(all)
  const statedBytes = budgetBytes + hostBytes + bytesFed
  const { peak, told } = await trained([...all, `--steps=${STEPS}`])
  const above = peak - statedBytes
  const row = {
    network,
    options: options.join(' '),
    spill: spill !== undefined,
    inCoreBytes,
    budgetBytes,
    hostBytes,
    bytesFed,
    statedBytes,
  }
  const mib = (n: number): string => `${Math.round(n / MIB)} MiB`
  console.log(
    `${above <= MOST_ABOVE ? 'holds' : 'FAILS'}  ${network.padEnd(20)} ${spill ? 'disk  ' : 'memory'}  in-core ${mib(inCoreBytes)}, budget ${mib(budgetBytes)}, stated ${mib(statedBytes)}, process ${mib(peak)} (${mib(above)} above), disk ${mib(told.diskBytes)}`,
  )
  return { ...row, processPeakBytes: peak, aboveBytes: above, diskBytes: told.diskBytes }
}

const main = async (names: readonly string[]): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-process-'))
  try {
    const rows: object[] = []
    for (const c of CASES.filter((k) => names.length === 0 || names.includes(k.network)))
      for (const spill of [undefined, folder]) {
        rows.push(await measure(c, spill))
        if (names.length === 0) record('process', { mostAboveBytes: MOST_ABOVE, share: SHARE, steps: STEPS, rows })
      }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

main(process.argv.slice(2))
