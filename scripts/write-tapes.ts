// Small tapes for the fuzzer. In: a folder. Out: one tape for each of a few networks and strategies, staged for a machine that
// exists only in simulation, so that no device is needed. Invariant: each comes from a plan that the verifier accepted.
import { mkdirSync, writeFileSync } from 'node:fs'
import * as path from 'node:path'
import * as E from 'fp-ts/Either'
import { type Either, isLeft } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { elaborate, fromBytes, modelAt, seq, type Trainable } from '../dsl'
import { errorText } from '../src/errors/errors'
import { stepOf as minimised } from '../src/stage/prepare'
import { zooEntry } from '../src/zoo'
import { compile, trainingGraph } from '../staging/compile'
import { PAGE_BYTES } from '../staging/core/bytes'
import type { StrategyName } from '../staging/core/names'
import { type GraphError, renderError, type StageError } from '../staging/core/errors'
import type { Graph } from '../staging/graph/graph'
import type { Machine } from '../staging/graph/machine'
import type { Plan } from '../staging/plan/plan'
import { toTape } from '../staging/plan/tape'
import { machines } from '../staging/sim/machines'

interface Case {
  readonly model: string
  readonly size: number
  readonly strategy: StrategyName
  /** One of a number of ranks, each with an image. */
  readonly ranks?: number
  /** Each has the first band of shared images, in place of an image. */
  readonly bands?: number
  readonly shard?: 'optimizer' | 'gradients'
  /** Fed as bytes, which the network makes numbers of. */
  readonly bytes?: true
}

const CASES: readonly Case[] = [
  { model: 'vgg16-features', size: 32, strategy: 'in-core' },
  { model: 'vgg16-features', size: 96, strategy: 'checkpoint:sqrt' },
  { model: 'vgg16-features', size: 128, strategy: 'tiled' },
  { model: 'vgg16-features', size: 128, strategy: 'swap:greedy' },
  { model: 'darknet19-features', size: 64, strategy: 'tiled' },
  { model: 'resnet18', size: 64, strategy: 'swap:greedy' },
  // With parameters at home in the lower tier.
  { model: 'resnet18', size: 64, strategy: 'auto' },
  // With exchanges in their turn, and beside computing.
  { model: 'resnet18', size: 64, strategy: 'checkpoint:sqrt', ranks: 2 },
  // With parts of gradients and of weights; with rows of others.
  { model: 'resnet18', size: 64, strategy: 'in-core', ranks: 2, shard: 'gradients' },
  { model: 'resnet18', size: 64, strategy: 'swap:greedy', ranks: 4, bands: 2, shard: 'optimizer' },
  { model: 'resnet18', size: 64, strategy: 'in-core', bytes: true },
]

const orThrow = <A>(result: Either<StageError, A>, what: string): A => {
  if (isLeft(result)) throw new Error(`${what}: ${renderError(result.left)}`)
  return result.right
}

const alone = machines['v100-pcie-16g']!
const machineOf = ({ ranks, bands, shard }: Case): Machine => ({
  ...alone,
  ...(ranks === undefined ? {} : { ranks }),
  ...(bands === undefined ? {} : { bands: { at: 0, of: bands } }),
  ...(shard === undefined ? {} : { shard }),
})

const stepOf = (one: Case): Graph => {
  const { model: name, size, ranks = 1, bands = 1, bytes } = one
  const { build, loss } = zooEntry(name)!
  const shape = [ranks / bands, 3, size, size] as const
  const graph = pipe(
    build(shape),
    E.chain(
      (net): Either<GraphError, Trainable> => (bytes && 'net' in net ? modelAt(shape, seq(fromBytes(), net.net)) : E.right(net)),
    ),
    E.chainW((net) => minimised(net, { loss })),
    E.chainW((step) => elaborate(step, name)),
    E.chainW((step) => trainingGraph(step, machineOf(one))),
  )
  if (isLeft(graph)) throw new Error(`${name}: ${errorText(graph.left)}`)
  return graph.right
}

/** In the smallest budget that works, so that recompute, tiles and moves are really there. */
const tapeOf = (one: Case): Uint8Array => {
  const { model, size, strategy } = one
  const step = stepOf(one)
  const staged = (budgetBytes: number): Either<StageError, Plan> =>
    compile(step, { strategy, budgetBytes, machine: machineOf(one), algorithms: 'fixed' })
  const refused = staged(PAGE_BYTES)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${model} has a plan of one page`)
  return toTape(orThrow(staged(refused.left.smallestBytes), `${model} at ${size} by ${strategy}`))
}

if (require.main === module) {
  const folder = process.argv[2] ?? path.join('build', 'tapes')
  mkdirSync(folder, { recursive: true })
  for (const one of CASES) {
    const more = [one.ranks && 'ranks', one.bands && 'bands', one.shard, one.bytes && 'bytes']
      .map((m) => (m ? `-${m}` : ''))
      .join('')
    const file = path.join(folder, `${one.model}-${one.size}-${one.strategy.replace(':', '-')}${more}.tape`)
    const tape = tapeOf(one)
    writeFileSync(file, tape)
    console.log(`${file}: ${tape.length} bytes`)
  }
}
