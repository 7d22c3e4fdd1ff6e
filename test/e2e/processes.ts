// The command line in processes of its own, as for users: their input, and their ends.
import { type ChildProcess, spawn, type StdioOptions } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import * as assert from 'uvu/assert'
import { main } from '../../src/cli'
import { DEVICE } from './runs'

const project = join(__dirname, '..', '..')
const compiled = join(project, 'dist', 'src', 'cli.js')
/** A process of a second has little garbage, and its functions run too seldom for V8 to optimize them. */
const SHORT_LIVED = ['--max-semi-space-size=64', '--min-semi-space-size=16', '--single-threaded-gc', '--interrupt-budget=600000']
/** Compiled where the set-up has compiled it, since many processes start here. */
export const COMMAND = [
  ...SHORT_LIVED,
  ...['-r', require.resolve('../../scripts/testing/typescript')],
  existsSync(compiled) ? compiled : join(project, 'src', 'cli.ts'),
]

/**
 * A JavaScript file that loads this model. The command line type-checks a .ts file of this repository beside its run, which takes a second
 * of the processor; test/src/cli/beside.test.ts has that check.
 */
export const unchecked = (model: string): string => {
  const folder = join(project, 'build', 'test-models')
  const file = join(folder, `${basename(model, '.ts')}.js`)
  const temporary = `${file}.${process.pid}.tmp`
  mkdirSync(folder, { recursive: true })
  writeFileSync(temporary, `module.exports = require(${JSON.stringify(model)})\n`)
  renameSync(temporary, file)
  return file
}

export const MODEL = unchecked(join(__dirname, 'killed-model.ts'))

interface Surroundings {
  readonly stdin?: 'pipe' | number
  readonly env?: Readonly<Record<string, string>>
  /** The program that starts it, with its arguments; default: none. */
  readonly under?: readonly string[]
}

/** `spillway` with these arguments, compiled where there is a compiled one. */
export const spillway = (args: readonly string[], { stdin = 'pipe', env = {}, under = [] }: Surroundings = {}): ChildProcess => {
  const [program, ...rest] = [...under, process.execPath, ...COMMAND, ...args]
  const stdio: StdioOptions = [stdin, 'pipe', 'pipe']
  return spawn(program!, rest, { cwd: project, stdio, env: { ...process.env, ...env } })
}

const TRAINING = ['--device', DEVICE, '--algorithms', 'fixed', '--json']

export const training = (...more: readonly string[]): ChildProcess => trainingFrom('pipe', ...more)

/** With a standard input of its own. */
export const trainingFrom = (stdin: 'pipe' | number, ...more: readonly string[]): ChildProcess =>
  spillway(['train', MODEL, ...TRAINING, ...more], { stdin })

/** For another model, or in other surroundings. */
export const trainingOf = (model: string, more: readonly string[], o: Surroundings = {}): ChildProcess =>
  spillway(['train', model, ...TRAINING, ...more], o)

export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

/** Longer than any run of the tests: a run that has not ended by then hangs. */
const HANGING_SECONDS = 300

/** No stack trace, and no end without a message. */
const saidWhatHappened = ({ code, out, err }: End): void => {
  assert.not.match(`${err}\n${out}`, /\n\s+at .*:\d+:\d+/)
  if (code === 0) assert.not.match(out, /^\{"error"/, 'it failed with 0')
  else if (code !== null) assert.match(err, /^spillway: ./m, `it ended with ${code} and no word of spillway's:\n${err}`)
}

/** Waits for the end; `act` sees the output so far. */
export const ended = (child: ChildProcess, act: (err: string) => void = () => {}, seconds = HANGING_SECONDS): Promise<End> =>
  new Promise((resolve, reject) => {
    let [out, err] = ['', '']
    let hangs = false
    const watch = setTimeout(() => {
      hangs = true
      child.kill('SIGKILL')
    }, 1000 * seconds)
    child.stdout!.on('data', (d: Buffer) => {
      out += d.toString()
    })
    child.stderr!.on('data', (d: Buffer) => {
      err += d.toString()
      act(err)
    })
    child.on('close', (code, signal) => {
      clearTimeout(watch)
      const end = { code, signal, out, err }
      try {
        assert.not.ok(hangs, `it has not ended after ${seconds} s: ${child.spawnargs.join(' ')}\n${err}`)
        saidWhatHappened(end)
        resolve(end)
      } catch (e) {
        reject(e)
      }
    })
  })

/** The command line in this process, which takes a fifth of a process of its own: for words and exit codes. */
export const spillwayHere = async (...args: readonly string[]): Promise<End> => {
  const streams = [process.stdout, process.stderr] as const
  const writes = streams.map((s) => s.write)
  const caught = ['', '']
  streams.forEach((s, i) => {
    s.write = ((text: string | Uint8Array): boolean => {
      caught[i] += text.toString()
      return true
    }) as typeof s.write
  })
  try {
    const code = await main(args)
    const end = { code, signal: null, out: caught[0]!, err: caught[1]! }
    saidWhatHappened(end)
    return end
  } finally {
    streams.forEach((s, i) => {
      s.write = writes[i]!
    })
  }
}

export const trainingHereOf = (model: string, ...more: readonly string[]): Promise<End> =>
  spillwayHere('train', model, ...TRAINING, ...more)
export const trainingHere = (...more: readonly string[]): Promise<End> => trainingHereOf(MODEL, ...more)

/** Once the step has begun, `act`. */
export const afterStep = (step: number, act: () => void): ((err: string) => void) => {
  let done = false
  return (err) => {
    if (done || !err.includes(`step ${step}/`)) return
    done = true
    act()
  }
}
