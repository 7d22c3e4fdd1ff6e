// `spillway doctor`: the parts that this machine has, the missing ones, and the way to get them. In: a probe of the machine (this one by default).
// Out: a report as data; `reportText` writes it for people. Invariant: `ready` iff no necessary part is missing.
import { existsSync } from 'node:fs'
import * as path from 'node:path'
import { cudaFindings } from './cuda'
import type { Finding, State } from './finding'
import { diskFindings, machineFindings, memoryFindings } from './machine'
import { nativeFindings } from './native'
import { type Probe, thisMachine } from './probe'
import { ranksFindings } from './ranks'
import { packageFolder } from '../files/version'
import { availableBytes } from '../machine/memory'

export interface Report {
  /** True if training on the CPU device can start. */
  readonly ready: boolean
  readonly cores: number
  /** The largest budget at present. */
  readonly availableBytes: number
  readonly freeDiskBytes: number | null
  readonly findings: readonly Finding[]
}

/** Arguments for Node that load the addon the way this process would. */
const asking = (script: string): string[] => [
  ...process.execArgv,
  '-e',
  script,
  ...['device/native', 'machine/ownkernels'].map((module) => path.join(__dirname, '..', module)),
]
const ADDON_QUESTION = 'console.log(JSON.stringify(require(process.argv[1]).loadNative().deviceInfo()))'
/** The cuda device's facts of itself, its link, and the engines of its libraries. */
const CUDA_QUESTION =
  "const n = require(process.argv[1]).loadNative(); console.log(JSON.stringify({ ...n.deviceFacts('cuda'), link: n.copyBandwidth(undefined, 'cuda'), engines: require(process.argv[2]).enginesOf(n) }))"
const NCCL_QUESTION = "console.log(JSON.stringify({ carrier: require(process.argv[1]).loadNative().carrier('cuda') }))"

export const doctor = (probe: Probe = thisMachine(), available: number = availableBytes()): Report => {
  const findings = [
    ...machineFindings(probe),
    ...memoryFindings(probe, available),
    ...diskFindings(probe),
    ...nativeFindings(probe, asking(ADDON_QUESTION)),
    ...cudaFindings(probe, packageFolder(), asking(CUDA_QUESTION), asking(NCCL_QUESTION)),
    ...ranksFindings(probe),
  ]
  return {
    ready: findings.every((finding) => finding.state !== 'missing'),
    cores: probe.cores,
    availableBytes: available,
    freeDiskBytes: probe.freeDiskBytes(probe.folder) ?? null,
    findings,
  }
}

const MARKS: Readonly<Record<State, string>> = { ok: 'ok', missing: 'MISSING', optional: 'absent', note: 'note' }

/** Only a checkout has a script that sets up everything. */
const inCheckout = (): boolean => existsSync(path.join(packageFolder(), 'scripts', 'start.js'))

export const reportText = (report: Report, isCheckout = inCheckout()): string => {
  const width = Math.max(...report.findings.map((finding) => finding.name.length))
  const lines = report.findings.flatMap(({ area, name, state, value, fix }, index) => [
    ...(report.findings[index - 1]?.area === area ? [] : ['', area]),
    `  ${MARKS[state].padEnd(7)}  ${name.padEnd(width)}  ${value}`,
    ...(fix === undefined ? [] : [`  ${''.padEnd(7)}  ${''.padEnd(width)}  -> ${fix}`]),
  ])
  const needed = report.findings.filter((finding) => finding.state === 'missing').map((finding) => finding.name)
  const verdict = report.ready
    ? 'Ready to train on the cpu device.'
    : `Not ready: ${needed.join(', ')} missing. Run the commands after '->'${isCheckout ? ", or 'npm start' for all" : ''}.`
  return [...lines.slice(1), '', verdict].join('\n')
}
