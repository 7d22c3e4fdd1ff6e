// A network of one's own, staged into a budget and trained. Run with: npx ts-node examples/own-model.ts
// Hover over `net`: the shape of its output, the dimensions along which it can be tiled, the bytes of its activations.
import { batchNorm, blocks, conv2d, globalAvgPool, identity, linear, maxPool, relu, repeat, residual, seq } from 'spillway'
import { crossEntropy, mib, model, run, sgd, stage, summary } from 'spillway'

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(name, channels, 3, { bias: false }), batchNorm(`${name}_bn`), relu())
const pair = <C extends number>(channels: C) => residual(seq(unit('a', channels), unit('b', channels)), identity)

// biome-ignore format: one resolution a line
export const net = model([2, 3, 192, 192], seq(
  unit('stem', 32), maxPool(2),
  blocks('stage1', repeat(2, pair(32))), unit('wider', 64), maxPool(2),
  blocks('stage2', repeat(2, pair(64))),
  globalAvgPool(), linear('classes', 10),
))

export default net

if (require.main === module) {
  const plan = stage(net, { loss: crossEntropy, optimizer: sgd({ lr: 0.01, momentum: 0.9 }), budget: mib(64) })
  console.log(summary(plan.plan, plan.timeline, plan.staging))
  run(net, plan, { steps: 10 }).then(({ losses }) => console.log(losses.map((l) => l.toFixed(4)).join(' ')))
}
