// Ctrl-C, and other requests to end a command. In: the words for the first one. Out: a signal that it aborts. Invariant: the first asks the run to
// end, the second ends the process; an ignored hang-up stays ignored.
import { constants, readFileSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import { constVoid } from 'fp-ts/function'
import { ENDING } from '../train/signals'

export interface Interrupts {
  readonly signal: AbortSignal
  /** The signal that it was. */
  readonly name: () => NodeJS.Signals | undefined
  readonly forget: () => void
}

/** The open mode in a file's flags. */
const ACCESS_MODE = 0o3

/**
 * nohup gives a program a standard input that it may not read, and asks it to ignore hang-ups. Node drops the ignored signals as it starts, so that
 * only the input is left to tell.
 */
const underNohup = (): boolean => {
  const info = E.getOrElse(() => '')(E.tryCatch(() => readFileSync('/proc/self/fdinfo/0', 'utf8'), constVoid))
  return (Number.parseInt(/^flags:\s*(\d+)/m.exec(info)?.[1] ?? '0', 8) & ACCESS_MODE) === constants.O_WRONLY
}

export const interrupts = (onFirst: () => void): Interrupts => {
  const controller = new AbortController()
  let name: NodeJS.Signals | undefined
  const on = (signal: NodeJS.Signals): void => {
    if (signal === 'SIGHUP' && underNohup()) return
    // A process that is asked twice does not wait for threads in the middle of a kernel.
    if (controller.signal.aborted) process.kill(process.pid, 'SIGKILL')
    name = signal
    onFirst()
    controller.abort(signal)
  }
  ENDING.forEach((s) => process.on(s, on))
  return {
    signal: controller.signal,
    name: () => name,
    forget: () => ENDING.forEach((s) => process.removeListener(s, on)),
  }
}
