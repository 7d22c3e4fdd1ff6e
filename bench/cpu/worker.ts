// Our side of the benchmark: a process that trains one case a step at a time. In: the case's name and thread count as
// arguments, lines 'step' and 'end' on stdin. Out: one JSON line each: what the step took, by kind of call, and memory.
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { isPersistent } from '../../staging/graph/graph'
import { toTape } from '../../staging/plan/tape'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { collectGarbage, PeakMemory } from '../../src/memory'
import { loadNative } from '../../src/native'
import { CASES, plainGraph, stagedCase } from './cases'

const [name, threadText, graphFile] = process.argv.slice(2)
const threads = Number(threadText)
const bench = CASES.find((c) => c.name === name)
if (!bench || !graphFile) throw new Error(`no case '${name}'; there are ${CASES.map((c) => c.name).join(', ')}`)

const say = (o: unknown): void => void process.stdout.write(`${JSON.stringify(o)}\n`)

const main = async (): Promise<void> => {
  const { plan, timeline } = stagedCase(bench, threads).staged
  writeFileSync(graphFile, JSON.stringify(plainGraph(bench)))
  const native = loadNative()
  native.forget()
  collectGarbage()
  const memory = new PeakMemory().start()
  const base = memory.bytes()
  const session = new native.Session(toTape(plan), { device: 'cpu', threads })
  for (const v of plan.graph.values.filter(isPersistent)) session.init(v.name, 1)
  const classes = plan.graph.values.find((v) => v.role === 'target')?.dtype === 'i32' ? 10 : 1
  const source = { kind: 'synthetic', samples: bench.batch, classes } as const
  say({ peakBytes: plan.peakPages * PAGE_BYTES, predictedSeconds: timeline.makespanSeconds, baseBytes: base })
  let firstStep = 1
  for await (const line of createInterface({ input: process.stdin })) {
    if (line !== 'step') break
    // The first of two draws the samples, as the first step of any run does; the second is what a step takes from then on.
    const run = await session.run({ steps: 2, firstStep, seed: 1, source })
    firstStep += 2
    const secondsByKind = Object.fromEntries(Object.entries(run.secondsByKind).map(([kind, s]) => [kind, s / 2]))
    say({ ...run.steps[1], secondsByKind, arenaPeakBytes: run.arenaPeakBytes, memoryBytes: memory.bytes() })
  }
  session.dispose()
  memory.stop()
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
