// A step with two objectives: a generator and its critic, each with losses and an optimizer of its own.
// Run with: npx ts-node examples/own-step.ts, or npx spillway train examples/own-step.ts --steps 10
import {
  adam,
  apply,
  avgPool,
  conv2d,
  detach,
  fed,
  instanceNorm,
  joined,
  leakyRelu,
  loss,
  minimize,
  relu,
  seq,
  step,
} from '../src/index'
import { l1, mib, mse, stage, summary, type Tensor, train } from '../src/index'

// ---------------------------------------------------------------- two nets

// biome-ignore format: one convolution a line
const generator = seq(
  conv2d('g1', 8, 3), instanceNorm(), relu(),
  conv2d('g2', 8, 3), instanceNorm('g2_norm', { affine: true }), relu(),
  conv2d('g3', 3, 3),
)
// The critic in parts, so that its inner activations can be compared, too.
const edges = seq(conv2d('d1', 8, 4, { stride: 2, pad: 2 }), leakyRelu(0.2))
const shapes = seq(conv2d('d2', 8, 4, { pad: 2 }), instanceNorm(), leakyRelu(0.2))
const verdict = conv2d('d3', 1, 4, { pad: 2 })

// `How` keeps the construction of x in the types: a plan module of this step is checked down to its fed tensors.
const judge = <How>(x: Tensor<[2, 7, 48, 40], How>) => {
  const a = apply(edges, x)
  const b = apply(shapes, a)
  return { features: [a, b], verdict: apply(verdict, b) }
}
const smaller = avgPool(3, { stride: 2, pad: 1, countIncludePad: false })

// ---------------------------------------------------------------- what a step does with them

const label = fed('label', [2, 4, 48, 40])
const photo = fed('photo', [2, 3, 48, 40])
const fake = apply(generator, label)
const onFake = judge(joined(label, fake))
const onReal = judge(joined(label, photo))
const onDetached = judge(joined(label, detach(fake)))
const optimizer = adam({ lr: 2e-4, beta1: 0.5 })

const own = step(
  minimize('generator', {
    over: generator,
    optimizer,
    losses: {
      gan: loss(mse, onFake.verdict, 1),
      features: onFake.features.map((f, i) => loss(l1, f, detach(onReal.features[i]!), 5)),
      pixels: [loss(l1, fake, photo, 10), loss(l1, apply(smaller, fake), apply(smaller, photo), 10)],
    },
  }),
  minimize('critic', {
    over: [edges, shapes, verdict],
    optimizer,
    losses: { fake: loss(mse, onDetached.verdict, 0, 0.5), real: loss(mse, onReal.verdict, 1, 0.5) },
  }),
)

export default own

if (require.main === module) {
  const plan = stage(own, { budget: mib(64) })
  console.log(summary(plan.plan, plan.timeline, plan.staging))
  train(own, plan, { steps: 10 }).then(({ losses }) => console.log(losses.map((l) => l.toFixed(4)).join(' ')))
}
