// `npm run bench -- answers --suite editor`: the waits of an editor. In: this checkout, compiled; the two networks whose types are largest. Out:
// seconds of TypeScript's server until its first answer, of each hover and completion after it, and its memory; bench/results/editor.json. Invariant:
// the server knows the package as a user's project does, by its declarations, and each network has a server of its own.
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { begin, inFolder, record, ROOT } from './sides'

const MOST_SECONDS = 1
const MOST_BYTES = 400 * 1024 ** 2

interface Case {
  readonly network: string
  readonly family: string
  readonly from: string
  readonly to: string
}
const CASES: readonly Case[] = [
  { network: 'resnet152', family: 'resnet', from: 'conv1', to: 'maxpool' },
  { network: 'densenet201', family: 'densenet', from: 'features.conv0', to: 'features.pool0' },
]

const program = ({
  network,
  family,
  from,
  to,
}: Case): string => `import { crossEntropy, layerOf, mib, model, stage } from 'spillway'
import { ${network} } from 'spillway/models/${family}'
export const net = model([1, 3, 224, 224], ${network})
export const plan = stage(net, { loss: crossEntropy, budget: mib(4096), tiles: [{ from: '${from}', to: '${to}', H: 4 }] })
stage(net, { tiles: [{ from: '', to: '' }] })
stage(net, { checkpoints: [''] })
layerOf(net, '')
export const layer = layerOf(net, '${to}').output
`

/** The questions, each with the text at or over its place. */
const ASKED = (
  c: Case,
): readonly (readonly [what: string, command: 'quickinfo' | 'completionInfo', at: string, end: boolean])[] => [
  ['hover over model', 'quickinfo', 'model([', false],
  ['hover over the model', 'quickinfo', 'net = model', false],
  ['hover over stage with tiles', 'quickinfo', 'stage(net, { loss', false],
  ['hover over the plan', 'quickinfo', 'plan = stage', false],
  ['layers for a tile', 'completionInfo', `stage(net, { tiles: [{ from: '`, true],
  ['layers for a checkpoint', 'completionInfo', `checkpoints: ['`, true],
  ['layers for layerOf', 'completionInfo', `layerOf(net, '`, true],
  ['members of a layer', 'completionInfo', `'${c.to}').`, true],
]

interface Waited {
  readonly seconds: number
  readonly processorSeconds: number
}

interface Server {
  readonly ask: (command: string, args: object) => Promise<{ readonly success: boolean; readonly body?: unknown }>
  readonly pid: number
  readonly end: () => void
}

const serve = (): Server => {
  const child = spawn(process.execPath, [
    join(ROOT, 'node_modules/typescript/lib/tsserver.js'),
    '--disableAutomaticTypingAcquisition',
  ])
  const waiting = new Map<number, (answer: { success: boolean; body?: unknown }) => void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (!line.startsWith('{')) return
    const told = JSON.parse(line) as { type: string; request_seq?: number; success: boolean; body?: unknown }
    if (told.type === 'response') waiting.get(told.request_seq!)?.(told)
  })
  let seq = 0
  const tell = (command: string, args: object): void => {
    child.stdin.write(`${JSON.stringify({ seq, type: 'request', command, arguments: args })}\n`)
  }
  return {
    pid: child.pid!,
    end: () => child.kill(),
    ask: (command, args) => {
      seq++
      const answered = new Promise<{ success: boolean; body?: unknown }>((resolve) => waiting.set(seq, resolve))
      tell(command, args)
      return answered
    },
  }
}

const residentBytes = (pid: number): number =>
  1024 * Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)

/** Seconds of all its threads; a busy machine does not count. */
const processorSeconds = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return (user! + system!) / 100
}

const measure = async (c: Case, folder: string): Promise<object> => {
  const text = program(c)
  const file = join(folder, `${c.network}.ts`)
  writeFileSync(file, text)
  const server = serve()
  const placeOf = (at: string, end: boolean): { readonly line: number; readonly offset: number } => {
    const before = text.slice(0, text.indexOf(at) + (end ? at.length : 0)).split('\n')
    return { line: before.length, offset: before.at(-1)!.length + 1 }
  }
  const timed = async (command: string, at: string, end: boolean): Promise<Waited> => {
    const [began, used] = [performance.now(), processorSeconds(server.pid)]
    const { success, body } = await server.ask(command, { file, ...placeOf(at, end) })
    if (!success || /: any"/.test(JSON.stringify(body))) throw new Error(`${c.network}: no answer to ${command} at ${at}`)
    const seconds = Number(((performance.now() - began) / 1000).toFixed(3))
    return { seconds, processorSeconds: Number((processorSeconds(server.pid) - used).toFixed(2)) }
  }
  try {
    void server.ask('open', { file, projectRootPath: folder })
    const first = await timed('quickinfo', 'net = model', false)
    const answers: (Waited & { readonly what: string })[] = []
    for (const [what, command, at, end] of ASKED(c)) answers.push({ what, ...(await timed(command, at, end)) })
    const bytes = residentBytes(server.pid)
    const slowest = Math.max(...answers.map((a) => a.seconds))
    for (const { what, seconds, processorSeconds } of answers)
      console.log(
        `${seconds < MOST_SECONDS ? 'holds' : 'FAILS'}  ${c.network}: ${what.padEnd(30)} ${seconds} s, ${processorSeconds} s of processors`,
      )
    console.log(
      `${bytes < MOST_BYTES ? 'holds' : 'FAILS'}  ${c.network}: memory of the server ${Math.round(bytes / 1024 ** 2)} MiB`,
    )
    return {
      network: c.network,
      first,
      slowestSeconds: slowest,
      serverBytes: bytes,
      answers,
    }
  } finally {
    server.end()
  }
}

/** As in a user's project: the package below node_modules, with its dependencies. */
const fill = (folder: string): void => {
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(ROOT, join(folder, 'node_modules/spillway'))
  symlinkSync(join(ROOT, 'node_modules/@types'), join(folder, 'node_modules/@types'))
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: { strict: true, module: 'nodenext', types: ['node'] } }),
  )
}

const main = async (folder: string): Promise<void> => {
  fill(folder)
  const rows = []
  for (const c of CASES) rows.push(await measure(c, folder))
  record('editor', { mostSeconds: MOST_SECONDS, mostBytes: MOST_BYTES, rows })
}

void begin(() => inFolder('editor', main))
