// A process that answers each line that it is told with a line of JSON, and how quiet the machine was meanwhile.
// In: a command. Out: answers. Invariant: `othersCores` counts the processor time of everything but this benchmark's
// processes: one busy neighbour makes a two-thread step three times slower, so such samples are dropped.
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface, type Interface } from 'node:readline'

const TICKS_PER_SECOND = 100

const fieldsOf = (path: string): readonly string[] => {
  try {
    return readFileSync(path, 'utf8').split('\n')[0]!.split(/\s+/)
  } catch {
    return []
  }
}
/** user, nice, system, irq, softirq, steal of the whole machine. */
const machineTicks = (): number => [1, 2, 3, 6, 7, 8].reduce((n, i) => n + Number(fieldsOf('/proc/stat')[i] ?? 0), 0)
const ownTicks = (pid: number): number => {
  const line = fieldsOf(`/proc/${pid}/stat`).join(' ')
  const after = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return Number(after[11] ?? 0) + Number(after[12] ?? 0)
}

export interface Timed<A> {
  readonly answer: A
  readonly othersCores: number
  /** Processor time that it took itself, which neighbours disturb less than the clock. */
  readonly cpuSeconds: number
}

export class Talker {
  private readonly child: ChildProcess
  private readonly lines: Interface
  private readonly waiting: { readonly resolve: (line: string) => void; readonly reject: (e: Error) => void }[] = []
  private readonly pending: string[] = []
  private ended: Error | undefined

  constructor(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } })
    this.lines = createInterface({ input: this.child.stdout! })
    this.lines.on('line', (line) => {
      const next = this.waiting.shift()
      if (next) next.resolve(line)
      else this.pending.push(line)
    })
    this.child.on('exit', (code, signal) => {
      this.ended = new Error(`${command} ${args.join(' ')} ended with ${code ?? signal}`)
      for (const { reject } of this.waiting.splice(0)) reject(this.ended)
    })
    // Writing to a process that has just ended says so by the exit above.
    this.child.stdin!.on('error', () => undefined)
  }

  async answer<A>(): Promise<A> {
    if (this.ended && this.pending.length === 0) throw this.ended
    const line = this.pending.shift() ?? (await new Promise<string>((resolve, reject) => this.waiting.push({ resolve, reject })))
    return JSON.parse(line) as A
  }

  /** Tells it a line and waits for the answer. */
  async ask<A>(line: string): Promise<Timed<A>> {
    const ticks = (): number => machineTicks() - ownTicks(this.child.pid!) - ownTicks(process.pid)
    const before = ticks()
    const own = ownTicks(this.child.pid!)
    const began = performance.now()
    this.child.stdin!.write(`${line}\n`)
    const answer = await this.answer<A>()
    const seconds = (performance.now() - began) / 1000
    const cpuSeconds = (ownTicks(this.child.pid!) - own) / TICKS_PER_SECOND
    return { answer, cpuSeconds, othersCores: Math.max(0, ticks() - before - 1) / TICKS_PER_SECOND / seconds }
  }

  async end(): Promise<void> {
    if (this.ended) return
    const exited = new Promise((resolve) => this.child.on('exit', resolve))
    this.child.stdin!.end('end\n')
    await exited
  }
}
