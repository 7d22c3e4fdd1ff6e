// Measures calls in a process of its own, so that a fault of a library's engine ends that process alone. In: requests, one at a time. Out: seconds, or
// the words of the failure. The planner is synchronous: requests and answers are lines of two FIFOs, and the reader sleeps between looks.
// Invariant: the process is started at the first request, again after its death, and it ends with `end` or with this process.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { attempt } from '../errors/exceptions'

/** Seconds until the process has loaded its libraries, and for one call. */
const START_SECONDS = 120
const CALL_SECONDS = 120
const LOOK_MS = 0.5

const CHILD = `
const fs = require('node:fs')
const [module, asked, answered] = process.argv.slice(1)
const [from, into] = [fs.openSync(asked, 'r'), fs.openSync(answered, 'w')]
const native = require(module).loadNative()
fs.writeSync(into, 'ready\\n')
const bytes = Buffer.alloc(1 << 16)
let rest = ''
for (;;) {
  const n = fs.readSync(from, bytes)
  if (n === 0) process.exit(0)
  rest += bytes.toString('utf8', 0, n)
  const lines = rest.split('\\n')
  rest = lines.pop()
  for (const line of lines) {
    let answer
    try {
      answer = { measured: native.measure(JSON.parse(line)) }
    } catch (e) {
      answer = { failed: String(e.message) }
    }
    fs.writeSync(into, JSON.stringify(answer) + '\\n')
    // A context may be lost after an error.
    if (answer.failed) process.exit(0)
  }
}
`

interface Running {
  readonly child: ChildProcess
  readonly folder: string
  readonly requested: number
  readonly answered: number
}

const sleeping = new Int32Array(new SharedArrayBuffer(4))
const sleep = (ms: number): void => void Atomics.wait(sleeping, 0, 0, ms)

/** Node learns of a child's end in its event loop, which a planner blocks. */
const isRunning = (pid: number | undefined): boolean => {
  const state = attempt(() => /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1])
  return state !== undefined && state !== 'Z' && state !== 'X'
}

/** Bytes that are there now: undefined for none yet, '' at the end. */
const readNow = (file: number): string | undefined => {
  const bytes = Buffer.alloc(1 << 16)
  const read = E.tryCatch(
    () => readSync(file, bytes),
    (e) => (e as NodeJS.ErrnoException).code,
  )
  return E.isRight(read) ? bytes.toString('utf8', 0, read.right) : read.left === 'EAGAIN' ? undefined : ''
}

/** The next line, or the reason why there is none. */
const lineFrom = ({ child, answered }: Running, seconds: number): Either<string, string> => {
  const until = performance.now() + 1000 * seconds
  let text = ''
  while (!text.endsWith('\n')) {
    const more = readNow(answered)
    if (more) text += more
    else if (!isRunning(child.pid)) {
      text += readNow(answered) ?? ''
      if (!text.endsWith('\n')) return E.left('the process that measured it was ended by a fault')
    } else if (performance.now() > until) return E.left(`it did not end within ${seconds} s`)
    else sleep(LOOK_MS)
  }
  return E.right(text.trim())
}

const started = (): Running => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-measure-'))
  const [asked, answered] = [join(folder, 'asked'), join(folder, 'answered')]
  spawnSync('mkfifo', [asked, answered])
  const fromChild = openSync(answered, constants.O_RDONLY | constants.O_NONBLOCK)
  const toChild = openSync(asked, constants.O_RDWR)
  const args = [...process.execArgv, '-e', CHILD, join(__dirname, 'native'), asked, answered]
  const child = spawn(process.execPath, args, { stdio: 'ignore' })
  child.unref()
  return { child, folder, requested: toChild, answered: fromChild }
}

const ended = ({ child, folder, requested: asked, answered }: Running): void => {
  child.kill('SIGKILL')
  while (isRunning(child.pid)) sleep(LOOK_MS)
  closeSync(asked)
  closeSync(answered)
  rmSync(folder, { recursive: true, force: true })
}

let running: Running | undefined

/** Ends the process, and frees its memory on the device. */
export const endMeasuring = (): void => {
  if (running) ended(running)
  running = undefined
}
process.on('exit', endMeasuring)

/** As the addon measures. */
interface Timed {
  readonly seconds: number
  readonly quiet: boolean
}
interface Answer {
  readonly measured?: Timed
  readonly failed?: string
}

/** The seconds of a call, a KernelRequest of native.ts; or the reason why it has none. */
export const measuredApart = (request: object): Either<string, Timed> => {
  if (running === undefined) {
    running = started()
    const ready = lineFrom(running, START_SECONDS)
    if (E.isLeft(ready)) {
      endMeasuring()
      return ready
    }
  }
  writeSync(running.requested, `${JSON.stringify(request)}\n`)
  const line = lineFrom(running, CALL_SECONDS)
  const answer = E.map((text: string) => JSON.parse(text) as Answer)(line)
  const measured = E.flatMap(({ measured: m, failed }: Answer) => (m ? E.right(m) : E.left(failed ?? 'it gave no answer')))(
    answer,
  )
  if (E.isLeft(measured)) endMeasuring()
  return measured
}
