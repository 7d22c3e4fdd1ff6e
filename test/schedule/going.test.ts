// Values that go, one after the other, against counting anew: what all stretches make again then, and what one more would cost.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type OpId, type ValueId, valueBytes } from '../../staging/graph/graph'
import { opCosts } from '../../staging/schedule/chain'
import { type Costing, Going } from '../../staging/schedule/going'
import { type Joint, jointOf, thereFor } from '../../staging/schedule/joint'
import { machines } from '../../staging/sim/machines'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const NEARLY = 1e-9

const jointFor = (network: string): Joint => {
  const g = trainingGraph(network, [8, 3, 128, 128])
  return jointOf(g, opCosts(g, machine))
}

/** Each stretch waits for what it finds, and for nothing that leaves. */
const waiting = ({ graph }: Joint): Costing => ({
  coming: Float64Array.from(graph.values, (v) => valueBytes(v) / 1e9),
  leaving: new Float64Array(graph.values.length),
  kept: [],
  cost: (_, again, coming) => Math.max(again, coming) + 0.1 * again,
})

const goingFor = (j: Joint, gone: Iterable<ValueId>, costing?: Costing): Going =>
  new Going(j.graph, j.costs, j.makers, j.backward, thereFor(j, new Set(gone)), costing)

/** What stretches run again, and wait for, told apart by a walk over what each reads. */
const counted = (j: Joint, gone: ReadonlySet<ValueId>, costing?: Costing): number => {
  const there = thereFor(j, gone)
  return j.backward.reduce((n, s, i) => {
    const own = new Set(s.ops.flatMap((id) => j.graph.ops[id]!.outs))
    const again = new Set<OpId>()
    const found = new Set<ValueId>()
    const read = (v: ValueId): void => {
      const maker = j.makers.get(v)
      if (!maker) return
      if (there.has(v)) found.add(v)
      else if (!again.has(maker.id)) {
        again.add(maker.id)
        maker.ins.forEach(read)
      }
    }
    for (const id of s.ops) for (const v of j.graph.ops[id]!.ins) if (!own.has(v)) read(v)
    const seconds = [...again].reduce((m, id) => m + j.costs[id]!.seconds, 0)
    const coming = costing ? [...found].reduce((m, v) => m + costing.coming[v]!, 0) : 0
    return n + (costing ? costing.cost(i, seconds, coming, 0) : seconds)
  }, 0)
}

for (const network of ['resnet18', 'densenet121'])
  for (const waits of [false, true])
    test(`of ${network}, ${waits ? 'with what stretches wait for' : 'what is made again'}: totals and prices are those of counting anew`, () => {
      const j = jointFor(network)
      const costing = waits ? waiting(j) : undefined
      const going = goingFor(j, [], costing)
      const gone = new Set<ValueId>()
      // Every third value goes, those between are priced.
      j.mayGo.forEach((v, i) => {
        const after = counted(j, new Set([...gone, v]), costing)
        if (i % 5 === 1)
          assert.ok(Math.abs(going.total + going.price(v) - after) < NEARLY * (1 + after), `the price of value ${v}`)
        if (i % 3 !== 0) return
        going.go(v)
        gone.add(v)
        assert.ok(Math.abs(going.total - after) < NEARLY * (1 + after), `the total without value ${v}`)
      })
      assert.ok(gone.size > 3)
    })

test.run()
