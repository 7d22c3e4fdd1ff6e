// The command line in processes of its own, as users meet it: what is sent to them, and how they end.
import { type ChildProcess, spawn, type StdioOptions } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DEVICE } from './runs'

const project = join(__dirname, '..', '..')
const compiled = join(project, 'dist', 'src', 'cli.js')
/** Compiled where the set-up has compiled it, since many processes start here. */
const COMMAND = existsSync(compiled)
  ? ['-r', require.resolve('../../scripts/testing/typescript'), compiled]
  : ['-r', require.resolve('../../scripts/testing/typescript'), join(project, 'src', 'cli.ts')]

export const MODEL = join(__dirname, 'killed-model.ts')

const command = (stdio: StdioOptions, args: readonly string[]): ChildProcess =>
  spawn(process.execPath, [...COMMAND, ...args], { cwd: project, stdio })

export const training = (...more: readonly string[]): ChildProcess => trainingFrom('pipe', ...more)

/** With a standard input of its own. */
export const trainingFrom = (stdin: 'pipe' | number, ...more: readonly string[]): ChildProcess =>
  command([stdin, 'pipe', 'pipe'], ['train', MODEL, '--device', DEVICE, '--algorithms', 'fixed', '--json', ...more])

/** Another model file. */
export const trainingOf = (file: string, ...more: readonly string[]): ChildProcess =>
  command('pipe', ['train', file, '--device', DEVICE, '--algorithms', 'fixed', '--json', ...more])

export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

/** Waits for the end; `act` sees what was said so far. */
export const ended = (child: ChildProcess, act: (err: string) => void = () => {}): Promise<End> =>
  new Promise((resolve) => {
    let [out, err] = ['', '']
    child.stdout!.on('data', (d: Buffer) => {
      out += d.toString()
    })
    child.stderr!.on('data', (d: Buffer) => {
      err += d.toString()
      act(err)
    })
    child.on('close', (code, signal) => resolve({ code, signal, out, err }))
  })

/** Once the step has begun, `act`. */
export const afterStep = (step: number, act: () => void): ((err: string) => void) => {
  let done = false
  return (err) => {
    if (done || !err.includes(`step ${step}/`)) return
    done = true
    act()
  }
}
