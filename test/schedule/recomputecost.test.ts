// The recompute cost after each dropped value equals a cost that is computed from the beginning.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { OpId, ValueId } from '../../staging/graph/graph'
import { opCosts } from '../../staging/schedule/chain'
import { RecomputeCost } from '../../staging/schedule/recomputecost'
import { type Joint, jointOf, keptFor } from '../../staging/schedule/joint'
import { machines } from '../../staging/sim/machines'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const NEARLY = 1e-9

const jointFor = (network: string): Joint => {
  const g = trainingGraph(network, [8, 3, 128, 128])
  return jointOf(g, opCosts(g, machine))
}

/** Recompute seconds of all stretches, by a walk over their inputs. */
const counted = (j: Joint, gone: ReadonlySet<ValueId>): number => {
  const there = keptFor(j, gone)
  return j.backward.reduce((n, s) => {
    const own = new Set(s.ops.flatMap((id) => j.graph.ops[id]!.outs))
    const again = new Set<OpId>()
    const read = (v: ValueId): void => {
      const maker = j.makers.get(v)
      if (!maker || there.has(v) || again.has(maker.id)) return
      again.add(maker.id)
      maker.ins.forEach(read)
    }
    for (const id of s.ops) for (const v of j.graph.ops[id]!.ins) if (!own.has(v)) read(v)
    return n + [...again].reduce((m, id) => m + j.costs[id]!.seconds, 0)
  }, 0)
}

for (const network of ['resnet18', 'densenet121'])
  test(`of ${network}: totals and prices are those of counting anew`, () => {
    const j = jointFor(network)
    const going = new RecomputeCost(j.graph, j.costs, j.makers, j.backward, keptFor(j, new Set()))
    const gone = new Set<ValueId>()
    // Every third value goes, those between are priced.
    j.droppable.forEach((v, i) => {
      const after = counted(j, new Set([...gone, v]))
      if (i % 5 === 1) assert.ok(Math.abs(going.total + going.price(v) - after) < NEARLY * (1 + after), `the price of value ${v}`)
      if (i % 3 !== 0) return
      going.drop(v)
      gone.add(v)
      assert.ok(Math.abs(going.total - after) < NEARLY * (1 + after), `the total without value ${v}`)
    })
    assert.ok(gone.size > 3)
  })

test.run()
