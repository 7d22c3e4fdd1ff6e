// Our side of the benchmark: a process that trains one case a step at a time. In: the case (JSON), the thread count and the file for the peer's graph
// as arguments, lines 'step' and 'end' on stdin. Out: one JSON line each: the step's seconds, and memory.
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { valueBytes, isPersistent } from '../../staging/graph/graph'
import { toTape } from '../../staging/plan/tape'
import { bytesOf } from '../../staging/core/bytes'
import { collectGarbage, PeakMemory } from '../../src/machine/memory'
import { loadNative, type Native, type NativeSource } from '../../src/device/native'
import { factsOf } from '../../src/report/facts'
import { type Case, plainGraph, STEPS_AT_ONCE, stagedCase } from './cases'

const [caseText = '', threadText, graphFile = ''] = process.argv.slice(2)
const threads = Number(threadText)
const bench = JSON.parse(caseText) as Case

const say = (o: unknown): void => void process.stdout.write(`${JSON.stringify(o)}\n`)

/** The seconds of a step's calls if kernels only check: the least of some steps. */
const dispatched = async (native: Native, tape: Uint8Array, source: NativeSource): Promise<number> => {
  const session = new native.Session(tape, { device: 'null', threads: 1 })
  const run = await session.run({ steps: 5, firstStep: 1, seed: 1, source })
  session.dispose()
  return Math.min(...run.steps.map((s) => s.kernelSeconds))
}

const main = async (): Promise<void> => {
  const { plan, timeline, staging, machine } = stagedCase(bench, threads).staged
  const { haloRatio } = factsOf(plan, staging)
  if (graphFile) writeFileSync(graphFile, JSON.stringify(plainGraph(bench)))
  const native = loadNative()
  const classes = plan.graph.values.find((v) => v.role === 'target')?.dtype === 'i32' ? 10 : 1
  const source = { kind: 'synthetic', samples: bench.batch, classes } as const
  const dispatchSeconds = await dispatched(native, toTape(plan), source)
  native.forget()
  collectGarbage()
  const memory = new PeakMemory().start()
  const base = memory.bytes()
  const session = new native.Session(toTape(plan), { device: 'cpu', threads, spill: bench.spill })
  const persistent = plan.graph.values.filter(isPersistent)
  for (const v of persistent) session.init(v.name, 1)
  const parameterBytes = persistent.filter((v) => v.role === 'param').reduce((n, v) => n + valueBytes(v), 0)
  const { strategy } = plan
  say({
    peakBytes: bytesOf(plan.peakPages),
    predictedSeconds: timeline.makespanSeconds,
    predictedComputeSeconds: timeline.computeSeconds,
    predictedStallSeconds: timeline.stallSeconds.memory + timeline.stallSeconds.data,
    dispatchSeconds,
    baseBytes: base,
    parameterBytes,
    strategy,
    haloRatio,
  })
  let firstStep = 1
  for await (const line of createInterface({ input: process.stdin })) {
    if (line !== 'step') break
    // The first of two draws the samples, as the first step of any run does; the second has the time of all later steps.
    const { stepsAtOnce: steps = STEPS_AT_ONCE, teaches = true } = bench
    const run = await session.run({ steps, firstStep, seed: 1, source })
    firstStep += steps
    if (run.quietCallSeconds && teaches) machine.learnFromSteps(plan, run.quietCallSeconds, threads)
    const secondsByKind = Object.fromEntries(Object.entries(run.secondsByKind).map(([kind, s]) => [kind, s / steps]))
    say({
      ...run.steps[steps - 1],
      secondsByKind,
      quickestSeconds: Math.min(...run.steps.map((s) => s.seconds)),
      hadQuiet: run.quietCallSeconds !== undefined,
      arenaPeakBytes: run.arenaPeakBytes,
      memoryBytes: memory.bytes(),
    })
  }
  session.dispose()
  memory.stop()
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
