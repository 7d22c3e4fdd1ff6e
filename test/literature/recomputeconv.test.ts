// `recompute:conv`: convolutions run forward once, other values that the backward pass reads are recomputed, and nothing leaves the device.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { graphOf, machine } from '../../bench/lab/steps'
import { compile } from '../../staging/compile'
import { renderError } from '../../staging/core/errors'

const on = machine('v100-pcie-16g')

test('outputs of convolutions are kept, rectifiers run again', () => {
  const graph = graphOf('resnet20-cifar', on, 64, 32)!
  const plan = compile(graph, { strategy: 'recompute:conv', machine: on, budgetBytes: on.memoryBytes, algorithms: 'fixed' })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  const runs = new Map<number, number>()
  for (const c of plan.right.calls) runs.set(c.op, (runs.get(c.op) ?? 0) + 1)
  const timesOf = (kind: string): readonly number[] =>
    graph.ops.filter((o) => o.phase === 'forward' && o.kind === kind).map((o) => runs.get(o.id) ?? 0)
  assert.equal([...new Set(timesOf('conv2d'))], [1])
  const again = graph.ops.filter((o) => o.phase === 'forward' && runs.get(o.id) === 2)
  assert.ok(again.length > 10, `${again.length} ops run again`)
  assert.ok(plan.right.residencies.every((r) => !r.swapOut))
})

test.run()
