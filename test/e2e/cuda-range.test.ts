// own process
// Calls of 2^31 elements: the cuda device refuses them, so plans for it tile. Its own checks, on the plugin that imitates it.
import { dirname, join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, maxPool, model, relu, seq } from '../../dsl'
import { machineNamed } from '../../src/machine/machine'
import { addonFile } from '../../src/device/native'
import { prepare } from '../../src/stage/prepare'
import { stageGraph } from '../../src/stage/stage'
import { gib } from '../../staging/core/bytes'
import { machines } from '../../staging/sim/machines'

process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

test('no call of a plan reaches 2^31 elements: larger ones are tiled, and in-core is refused', () => {
  // Times are a named machine's: nobody measures calls of this size on a host.
  const cuda = machineNamed('cuda', { algorithms: 'fixed' })
  if (isLeft(cuda)) throw new Error(JSON.stringify(cuda.left))
  const machine = { ...cuda.right, seconds: machines['a100-pcie-40g']!.seconds }
  const huge = model([1, 3, 20480, 20480], seq(conv2d('c1', 8, 3), relu(), maxPool('p', 2), conv2d('c2', 4, 3)))
  const prepared = prepare(huge, machine, { name: 'huge' })
  if (isLeft(prepared)) throw new Error(JSON.stringify(prepared.left))
  const { graph } = prepared.right
  assert.ok(graph.values.some((v) => v.shape.reduce((n, x) => n * x, 1) >= 2 ** 31))
  const of = (strategy: string) => stageGraph(graph, machine, { strategy, budget: gib(256), algorithms: 'fixed' })
  const whole = of('in-core'),
    tiled = of('tiled')
  assert.ok(
    isLeft(whole) && whole.left.tag === 'BudgetInfeasible' && whole.left.inTheWay.some((v) => v.label.endsWith('workspace')),
  )
  assert.ok(isRight(tiled))
  for (const call of tiled.right.plan.calls)
    for (const { box } of [...call.ins, ...call.outs])
      assert.ok(box.reduce((n, [lo, hi]) => n * (hi - lo), 1) < 2 ** 31, call.kind)
})

test.run()
