// Tells if a machine was undisturbed during a measurement. In: a function. Out: its answer, and the number of processors that others kept busy
// meanwhile. Invariant: time that a hypervisor gave to others counts as theirs; if the system does not tell, there were none.
import { readFileSync } from 'node:fs'
import { attempt } from '../errors/exceptions'

const TICKS_PER_SECOND = 100
/** More than this of a processor in others' hands spoils a measurement. */
const BUSY_PROCESSORS = 0.1

/** Seconds of all processors: user, nice, system, interrupts, stolen. */
const busySeconds = (): number | undefined => {
  const stat = attempt(() => readFileSync('/proc/stat', 'utf8'))
  const fields = stat?.split('\n', 1)[0]?.split(/\s+/)
  return fields && [1, 2, 3, 6, 7, 8].reduce((n, i) => n + Number(fields[i] ?? 0), 0) / TICKS_PER_SECOND
}

const ownSeconds = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

export const watched = <A>(f: () => A): { readonly answer: A; readonly quiet: boolean } => {
  const [began, busy, own] = [performance.now(), busySeconds(), ownSeconds()]
  const answer = f()
  const after = busySeconds()
  if (busy === undefined || after === undefined) return { answer, quiet: true }
  const seconds = Math.max(1e-3, (performance.now() - began) / 1000)
  return { answer, quiet: (after - busy - (ownSeconds() - own)) / seconds <= BUSY_PROCESSORS }
}

const GLANCE_MS = 50
/** Returns true if no other work keeps the machine busy right now. */
export const isQuiet = (): boolean => watched(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, GLANCE_MS)).quiet
