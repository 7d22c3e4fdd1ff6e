// `npm run bench -- sizes --suite fits`: `spillway fits` for 20 networks on four simulated machines. In: the zoo, the memory of each machine. Out:
// bench/results/fits.json: the sizes of each call, with its seconds, as the median of three calls. Invariant: it ends with code 1 if a size that was
// found has no plan, or the next larger one has one.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type Shape, zooEntry } from '../src'
import { machineNamed } from '../src/machine/machine'
import { mostCallsPlanned } from '../src/stage/heap'
import type { Fits } from '../src/stage/fits'
import { graphAt, largestOf, type Subject } from '../src/stage/largest'
import { compile } from '../staging/compile'
import { certain } from '../staging/core/certain'
import { chosen, record } from './sides'

/** Clock ticks of Linux in a second, and the fields of children's time in /proc/self/stat, behind the name. */
const [TICKS, CHILDREN] = [100, [13, 14]] as const
/** Processor seconds of the processes that have ended. */
const childSeconds = (): number => {
  const stat = readFileSync('/proc/self/stat', 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return CHILDREN.reduce((sum, field) => sum + Number(fields[field]), 0) / TICKS
}

const MACHINES = ['2080ti-pcie-11g', 'v100-pcie-16g', 'a100-pcie-40g', 'h200-pcie-141g'] as const
// biome-ignore format: a list
const NETWORKS = [
  'alexnet', 'convnext-tiny', 'darknet19', 'deeplabv3plus-resnet50', 'densenet121', 'densenet201', 'efficientnet-b0', 'googlenet', 'inception3', 'inception4', 'mobilenetv2', 'resnet18', 'resnet50', 'resnet101', 'resnet152', 'resnet56-cifar', 'unet', 'vgg16', 'vgg19-bn', 'vgg16-features',
] as const

/** Returns true if the planner has a verified plan for a step of this size. */
const isPlanned = (subject: Subject, input: Shape, strategy: string): boolean =>
  pipe(
    graphAt(subject, input),
    E.flatMap((graph): E.Either<unknown, unknown> => {
      const { machine } = subject
      return compile(graph, { strategy, budgetBytes: machine.memoryBytes, machine, mostCalls: mostCallsPlanned(), effort: 0 })
    }),
    E.isRight,
  )

/** Each command runs this number of times; its time is the median. */
const CALLS = 3

/** The object of a command line in a process of its own. */
const called = (...args: readonly string[]): { readonly largest: Fits['largest']; readonly changes: Fits['changes'] } =>
  JSON.parse(execFileSync(process.execPath, [join(__dirname, '../scripts/spillway.js'), ...args, '--json'], { encoding: 'utf8' }))

interface Checked {
  readonly growing: string
  readonly of: string
  readonly input?: Shape
  readonly next?: Shape
  readonly because?: string
  readonly isExact: boolean
}

/** The whole call, for a batch of twice the largest in-core: then all changes are listed. Each size is planned again, from graphs of its own. */
const rowOf = (machine: string, name: string) => {
  const e = zooEntry(name)!
  const on = certain('the machine is known')(machineNamed(machine, {}))
  const [, ...image] = e.defaultInput
  const subjectAt = (batch: number): Subject => ({
    at: (input) => e.build(input),
    base: [batch, ...image],
    own: { loss: e.loss },
    machine: on,
  })
  const found = certain(`${name} fits ${machine}`)(largestOf(subjectAt(2), 'batch', on.memoryBytes)({ strategy: 'in-core' }))
  const batch = 2 * found.input[0]
  const calls = Array.from({ length: CALLS }, () => {
    const [began, used] = [performance.now(), childSeconds()]
    const answer = called('fits', name, '--machine', machine, '--batch', `${batch}`)
    return { answer, wallSeconds: (performance.now() - began) / 1000, seconds: childSeconds() - used }
  })
  const { answer, seconds, wallSeconds } = calls.sort((a, b) => a.wallSeconds - b.wallSeconds)[CALLS >> 1]!
  const { largest, changes } = answer
  const subject = subjectAt(batch)
  const answers = largest.map(({ growing, of, largest: answer }): Checked => {
    if (!answer) return { growing, of, isExact: !isPlanned(subject, subject.base, of) }
    const { input, next, because } = answer
    const isExact = isPlanned(subject, input, of) && !(next && isPlanned(subject, next, of))
    return { growing, of, input, ...(next ? { next, because } : {}), isExact }
  })
  return { network: name, machine, batch, seconds, wallSeconds, changes: changes.length, answers }
}

const main = (): void => {
  const names = chosen(NETWORKS, process.argv.slice(2))
  const rows = MACHINES.flatMap((machine) =>
    names.map((name) => {
      const row = rowOf(machine, name)
      const sizes = row.answers.map((a) => `${a.input?.join('x') ?? 'none'}${a.isExact ? '' : ' WRONG'}`)
      console.log(
        `${name.padEnd(24)} ${machine.padEnd(16)} ${row.seconds.toFixed(2).padStart(6)} s of processors ${row.wallSeconds.toFixed(2).padStart(6)} s  ${sizes.join('  ')}`,
      )
      return row
    }),
  )
  const [seconds, walls] = [rows.map((r) => r.seconds), rows.map((r) => r.wallSeconds)].map((all) => all.sort((a, b) => a - b))
  const answers = rows.flatMap((r) => r.answers)
  const facts = {
    calls: rows.length,
    answers: answers.length,
    exact: answers.filter((a) => a.isExact).length,
    most: seconds!.at(-1),
    median: seconds![seconds!.length >> 1],
    mostWall: walls!.at(-1),
    medianWall: walls![walls!.length >> 1],
  }
  console.log(facts)
  if (names.length === NETWORKS.length) record('fits', { ...facts, rows })
  if (facts.exact < facts.answers) process.exitCode = 1
}

main()
