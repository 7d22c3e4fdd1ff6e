// A block of one's own: an ordinary generic function. Run with: npx ts-node examples/custom-block.ts
// Its sizes stay literals, so shapes, FT dimensions and layer names inside are known at every use. The editor shows errors of a plan by hand: try `H:
// 3000`, `to: 'head'`, or `checkpoints: ['mix.2.widen']`.
import { batchNorm, blocks, conv2d, crossEntropy, globalAvgPool, identity, layerOf, linear, mib } from 'spillway'
import { model, relu, repeat, residual, run, segmentsOf, seq, sgd, stage } from 'spillway'

const normed = <N extends string, O extends number, K extends number, G extends number = 1>(name: N, out: O, k: K, groups?: G) =>
  seq(conv2d(name, out, k, { groups, bias: false }), batchNorm(`${name}_bn`, { frozen: true }), relu())

/** Widens, filters each channel by itself, narrows again, and adds the input (Sandler et al. 2018). */
const inverted = <C extends number, W extends number>(channels: C, wide: W) =>
  residual(seq(normed('widen', wide, 1), normed('filter', wide, 3, wide), conv2d('narrow', channels, 1)), identity)

// biome-ignore format: one stage a line
const net = model([1, 3, 96, 128], seq(
  normed('stem', 16, 3),
  blocks('mix', repeat(2, inverted(16, 32))),
  conv2d('last', 32, 3), relu(), globalAvgPool('pool'), linear('head', 10),
))

const filter = layerOf(net, 'mix.1.filter')
const shape: readonly [1, 32, 96, 128] = filter.output
console.log(`${filter.name}: [${shape.join(', ')}], to be tiled along ${filter.ft.join(', ')}`)
for (const s of segmentsOf(net)) console.log(`${s.from} to ${s.to}: ${s.ft.join(', ')}`)

const plan = stage(net, {
  loss: crossEntropy,
  optimizer: sgd({ lr: 0.01, momentum: 0.9 }),
  budget: mib(64),
  tiles: [{ from: 'stem', to: 'mix.1.narrow', H: 4 }],
  checkpoints: ['mix.0.narrow'],
})
run(net, plan, { steps: 3 }).then(({ losses }) => console.log(losses.map((l) => l.toFixed(4)).join(' ')))
