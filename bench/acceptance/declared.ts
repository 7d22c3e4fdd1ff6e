// The possible exports of a project that uses the API. In: the installed package. Out: declarations; a compiler can write them only if the package
// exports the name of every type. It is compiled by bench/acceptance/modules.ts, and never runs.
import * as s from 'spillway'
import {
  adam,
  add,
  adamw,
  apply,
  batchNorm,
  block,
  conv2d,
  crossEntropy,
  describePlan,
  device,
  fed,
  gib,
  globalAvgPool,
  huber,
  identity,
  joined,
  layerOf,
  linear,
  loadPlan,
  loss,
  maxPool,
  mib,
  minimize,
  model,
  mse,
  rangeOf,
  relu,
  repeat,
  residual,
  rmsprop,
  run,
  segmentsOf,
  seq,
  sgd,
  stage,
  stageAsync,
  step,
  stepBytes,
  summary,
  train,
  tryStage,
  zoo,
  zooEntry,
  tryLoadPlan,
  trySavePlan,
  openModule,
  tryRun,
  trainTask,
  machineNames,
} from 'spillway'
import resnet, { resnet50, resnet50Body } from 'spillway/models/resnet'
export const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { bias: false }), batchNorm(`${name}.bn`), relu())
export const body = seq(
  unit('stem', 32),
  maxPool('pool1', 2),
  residual(seq(unit('res1', 32), unit('res2', 32)), identity),
  globalAvgPool('pool'),
  linear('head', 10),
)
export const net = model([1, 3, 64, 64], body)
export const blocky = block('b', relu(), repeat(3, relu()))
export const facts = layerOf(net, 'head')
export const options = {
  sgd: sgd({ lr: 0.1, momentum: 0.9 }),
  adam: adam({ lr: 0.1 }),
  adamw: adamw({ lr: 1 }),
  rms: rmsprop({ lr: 1 }),
  huber: huber({ delta: 1 }),
  crossEntropy,
}
export const plan = stage(net, { loss: crossEntropy, budget: mib(64), checkpoints: ['pool1'] })
export const either = tryStage(net, { budget: mib(64) })
export const later = stageAsync(net, { budget: gib(1), signal: AbortSignal.timeout(3) })
export const { timeline, staging, machine } = plan
export const result = train(net, plan, { steps: 2 })
export const result2 = run(net, plan, { steps: 2, device: device('cpu', gib(4)) })
export const result3 = tryRun(net, plan, { steps: 1 })
export const task = trainTask(net, plan, { steps: 3 })
export const text = summary(plan.plan, timeline, staging)
export const range = rangeOf(net, 'stem.conv', 'pool1')
export const segments = segmentsOf(net)
export const image = fed('image', [2, 3, 64, 64])
export const made = apply(body, image)
export const own = step(minimize('a', { over: body, optimizer: sgd({ lr: 1 }), losses: { x: loss(mse, made, 0) } }))
export const ofStep = stage(own, {})
export const bytes = stepBytes(net, sgd({ lr: 1 }))
export const zooish = [
  zoo,
  zooEntry('vgg16'),
  loadPlan('x'),
  tryLoadPlan('x'),
  trySavePlan,
  openModule,
  describePlan,
  machineNames,
]
export const res = model([1, 3, 224, 224], resnet50)
export const ten = resnet50({ classes: 10 })
export const resTen = model([1, 3, 224, 224], ten)
export const within = apply(seq(resnet50, relu()), fed('photo', [1, 3, 224, 224]))
export const ofBody = apply(seq(resnet50Body, globalAvgPool('p'), linear('head', 5)), fed('photo', [1, 3, 224, 224]))
export const family = resnet
export const everything = s
export const sum = add(made, made)
export const j = joined(made, made)
export const events = s.fit(net, plan, { steps: 1, schedule: s.cosine({ floor: 0.1 }) })
export const schedules = [s.constant(), s.stepped({ every: 3 }), s.polynomial(), s.oneCycle()]
export const held = s.validation({ data: 'held/', metrics: ['accuracy'], weights: 'average' })
export const own2 = s.metric({ name: 'rows', start: () => 0, add: (n) => n + 1, value: (n) => n, merge: (a, b) => a + b })
export const evaluating = stage(net, { mode: 'evaluate', loss: s.focal({ gamma: 2 }) })
export const summed = stage(net, { loss: s.sumOf(crossEntropy, [0.5, s.dice()]) })
export const ownLoss = s.lossOf((y, t) => y.minus(t).square().plus(1e-6).sqrt().mean())
export const lossOfSeveral = s.sumOf(mse, [2, s.sumOf(s.l1, huber())])
export const evaluated = s.evaluate(net, evaluating, { weights: 'w.safetensors', data: 'held/' })
export const predicting = stage(net, { mode: 'predict', as: 'classes' })
export const predicted = s.predict(net, predicting, { weights: 'w.safetensors', data: 'images/' })
export const data = [
  s.folder('cats/'),
  s.split(s.files('slides/'), 0.8),
  s.source({ length: 1, read: () => ({ input: [1], target: 0 }) }),
]
export const grouped = stage(net, {
  groups: [{ match: 'head.*', lr: 0.1 }],
  freeze: 'stem.*',
  clipNorm: 1,
  accumulate: 2,
  average: 0.9,
})
