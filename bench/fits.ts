// `npm run bench:fits`: the largest batch and image of 20 networks on four simulated machines. In: the zoo, the memory of each machine. Out:
// bench/results/fits.json: each answer with the processor seconds of the search. Invariant: it ends with
// code 1 if a size that was found has no plan, or the next larger one has one.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type Largest, type Shape, zooEntry } from '../src'
import { machineNamed } from '../src/machine/machine'
import { mostCallsPlanned } from '../src/stage/heap'
import { GROWING, graphAt, largestOf, type Subject } from '../src/stage/largest'
import { compile } from '../staging/compile'
import { certain } from '../staging/core/certain'
import { record } from './sides'

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

const processorSeconds = (since?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1e6
}

const main = (): void => {
  const named = process.argv.slice(2)
  const rows = MACHINES.flatMap((machine) =>
    NETWORKS.filter((name) => named.length === 0 || named.includes(name)).flatMap((name) => {
      const e = zooEntry(name)!
      const on = certain('the machine is known')(machineNamed(machine, {}))
      const [, ...image] = e.defaultInput
      const subject: Subject = { at: (input) => e.build(input), base: [2, ...image], own: { loss: e.loss }, machine: on }
      return GROWING.flatMap((growing) => {
        const find = largestOf(subject, growing, on.memoryBytes)
        return (['in-core', 'auto'] as const).map((strategy) => {
          const began = process.cpuUsage()
          const answer = find({ strategy })
          const seconds = processorSeconds(began)
          const { input, next, because } = certain(`${name} fits ${machine}`)(answer) as Largest
          const isExact = isPlanned(subject, input, strategy) && !(next && isPlanned(subject, next, strategy))
          const what = `${name} ${machine} ${growing} ${strategy}`
          console.log(
            `${what.padEnd(60)} ${input.join('x').padEnd(22)} ${because ?? 'end'} ${seconds.toFixed(2)} s${isExact ? '' : ' WRONG'}`,
          )
          return { network: name, machine, growing, strategy, input, ...(next ? { next, because } : {}), seconds, isExact }
        })
      })
    }),
  )
  const seconds = rows.map((r) => r.seconds).sort((a, b) => a - b)
  const facts = {
    answers: rows.length,
    exact: rows.filter((r) => r.isExact).length,
    most: seconds.at(-1),
    median: seconds[seconds.length >> 1],
  }
  console.log(facts)
  if (named.length === 0) record('fits', { ...facts, rows })
  if (facts.exact < facts.answers) process.exitCode = 1
}

main()
