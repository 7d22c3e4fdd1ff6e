// Plans that verify accepts are accepted by a runtime: plans with one change, as files and in memory, pass through verify, and the accepted ones
// through the native reader, which shares nothing with it.
import { isLeft, isRight } from 'fp-ts/Either'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { orThrow } from '../../src/errors/exceptions'
import { machineNamed } from '../../src/machine/machine'
import { compile, compileSegments } from '../../staging/compile'
import { bytesOf, gib } from '../../staging/core/bytes'
import { hashText } from '../../staging/core/fnv'
import type { Graph } from '../../staging/graph/graph'
import { decodePlan, encodePlan, PLAN_VERSION } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import { splitAt } from '../../staging/tile/cuts'
import { forwardOps } from '../../staging/tile/segments'
import { verify } from '../../staging/verify/verify'
import { Sketch } from '../graph/sketch'
import { grid, segmentsOf, trained } from '../tile/trained'
import { FULL } from '../full'
import type { Counts, Family } from './family'
import { mutantsOf, random } from './mutants'

const native = loadNative()
/** A session's reader checks the scratch of kernels. */
const machine = orThrow(machineNamed('null', { algorithms: 'fixed' }))

const network = (height: number, width: number, channels: number): Graph => {
  const s = new Sketch([1, 2, height, width])
  const x = s.relu(s.norm(s.conv(s.image, 'a', channels, 3), 'n'), 'r')
  const y = s.op('dropout', { p: 0.25, key: 7 }, [s.conv(x, 'b', channels, 3, undefined, false)], 'drop')
  return trained(s, s.conv(s.op('add', {}, [y, x], 'sum'), 'c', 5, 1), 'cross-entropy')
}

/** The same network without training: its last value leaves. */
const predicting = (height: number, width: number, channels: number): Graph => {
  const s = new Sketch([1, 2, height, width])
  const x = s.relu(s.norm(s.conv(s.image, 'a', channels, 3), 'n'), 'r')
  s.b.markOutput(s.conv(s.op('add', {}, [s.conv(x, 'b', channels, 3, undefined, false), x], 'sum'), 'c', 24, 1), 'output')
  return s.b.build()
}

/** In the smallest budget. */
const squeezed = (plan: (budgetBytes: number) => ReturnType<typeof compile>): Plan => {
  const first = plan(bytesOf(1))
  const found = isLeft(first) && first.left.tag === 'BudgetInfeasible' ? plan(first.left.smallestBytes) : first
  if (isLeft(found)) throw new Error(JSON.stringify(found.left))
  return found.right
}
const tiled = (graph: Graph, cuts: readonly number[], over: ReturnType<typeof grid>): Plan => {
  const ops = forwardOps(graph).map((o) => o.id)
  const segments = segmentsOf(
    graph,
    splitAt(ops, cuts).map((part) => ({ ops: part, grid: over })),
  )
  const options = { strategy: 'by hand', machine, algorithms: 'fixed' } as const
  return squeezed((budgetBytes) => compileSegments(graph, segments, { ...options, budgetBytes }))
}
const large = network(480, 130, 48)
const plansOf = (): Readonly<Record<string, Plan>> => ({
  'bands of several pages that come and go': tiled(large, [2, 5, 7], grid(1, 6, 1)),
  'whole values that are swapped': squeezed((budgetBytes) =>
    compile(large, { strategy: 'swap:greedy', machine, algorithms: 'fixed', budgetBytes }),
  ),
  'a prediction that leaves by bands': tiled(predicting(320, 130, 24), [2, 5], grid(1, 5, 1)),
  'squares in one page': tiled(network(40, 30, 6), [2, 7], grid(1, 3, 2)),
})

const fileOf = (plan: unknown): string => {
  const text = JSON.stringify(plan)
  return `{"format":"spillway-plan","version":${PLAN_VERSION},"checksum":"${hashText(text)}","plan":${text}}\n`
}

/** The native reader's words; undefined when it takes the tape. */
const refusalOf = (plan: Plan): string | undefined => {
  try {
    new native.Session(toTape(plan), { device: 'null' }).dispose()
    return undefined
  } catch (e) {
    return (e as Error).message
  }
}

/** How many of `each` verify accepts: the native reader has to take them, too. */
const accepted = (plan: Plan, seed: number, each: number): number => {
  assert.ok(isRight(verify(plan)) && refusalOf(plan) === undefined)
  const pick = random(seed)
  const inMemory = mutantsOf(plan, pick)
  const inFile = mutantsOf((JSON.parse(encodePlan(plan)) as { readonly plan: Plan }).plan, pick)
  let found = 0
  for (let i = 0; i < each; i++) {
    const mutant = i % 2 === 0 ? inMemory() : inFile()
    const read = i % 2 === 0 ? undefined : decodePlan(fileOf(mutant.plan))
    if (read && isLeft(read)) continue
    const changed = read ? read.right : mutant.plan
    if (isLeft(verify(changed))) continue
    found++
    // A machine without this memory would refuse it for that.
    if (Math.max(bytesOf(changed.peakPages), changed.tierBytes) > gib(1)) continue
    const words = refusalOf(changed)
    assert.ok(words === undefined, `${mutant.field}: ${words}`)
  }
  return found
}

const run = async (cases: number): Promise<Counts> => {
  const plans = Object.values(plansOf())
  const each = Math.ceil(cases / plans.length)
  const found = plans.reduce((n, plan, i) => n + accepted(plan, 2026 + i, each), 0)
  assert.ok(found > cases / 10, `${found} of ${cases} were accepted`)
  return { mutated: each * plans.length, accepted: found, refusedAtRunTime: 0 }
}

export const family: Family = {
  what: 'what verify accepts of plans with one thing changed, the run time takes',
  few: FULL ? 300 : 100,
  all: 10_000,
  seconds: 1200,
  run,
}
