// Options of `stage` that must not compile, each with its exact message, and the same words at run time.
// In: nothing. Out: a table, run by plans.test.ts through the type checker and as JavaScript.
import type { Illegal } from './illegal'
import { illegalKeys, legalKeys } from './illegalkeys'

/** Plans are made for a named machine, so that no device is needed. */
export const planPrelude = `import {
  model, seq, block, conv2d, linear, batchNorm, relu, maxPool, globalAvgPool, flatten, residual, identity, sgd, adam, layerOf,
  rangeOf, segmentsOf, stepBytes, apply, detach, fed, loss, minimize, mse, step, adamw, blocks, crossEntropyWith, huber, joined,
  repeat, rmsprop, upsample, convTranspose2d, groupNorm, instanceNorm, layerNorm, pixelLinear, localResponseNorm, sigmoid, l1, concat,
  scaled, fromBytes, prelu, rmsNorm, layerScale, rotary, bias,
} from '../../dsl'
import { stage as stageOn } from '../../src/stage/stage'
import type { StageKeys, StageOptions } from '../../src/stage/stageoptions'
import type { CheckedOptions, Conv2dOptions, LayerNames, Model, NamesIn, Net, Trainable } from '../../dsl'
import { gib, mib, kib } from '../../src/stage/sizes'
const stage = <M extends Trainable, const O extends StageOptions<NamesIn<M>, M> & object>(m: M, o: CheckedOptions<M, O, StageKeys>) =>
  stageOn<M, O & { machine: string }>(m, { machine: 'v100-pcie-16g', ...(o as object) } as never)
const vgg = model([2, 3, 32, 48], seq(
  conv2d('c1', 8, 3), relu(), conv2d('c2', 8, 3), relu(), maxPool('p1', 2),
  conv2d('c3', 16, 3), relu(), maxPool('p2', 2), flatten(), linear('fc', 10)))
const normed = model([2, 3, 32, 32], seq(
  conv2d('c1', 8, 3), batchNorm('n1'), relu(), block('b', residual(seq(conv2d('c2', 8, 3), batchNorm('n2')), identity), relu()),
  globalAvgPool('gap'), linear('fc', 10)))
const shared = seq(conv2d('s', 4, 3), relu())
const head = conv2d('h', 2, 3)
const twice = apply(shared, apply(shared, fed('image', [2, 4, 16, 16])))
const judged = apply(head, detach(twice))
const own = step(
  minimize('a', { over: shared, optimizer: sgd({ lr: 0.1, momentum: 0.9 }), losses: { flat: loss(mse, twice, 0) } }),
  minimize('b', { over: head, optimizer: adam({ lr: 0.1 }), losses: { like: loss(mse, judged, fed('mask', [2, 2, 16, 16])) } }))
// A type does not tell which of two losses comes first.
const either = step(minimize('c', { over: [shared, head], optimizer: sgd({ lr: 0.1 }), losses: {
  one: loss(mse, twice, 0), two: loss(mse, apply(head, fed('other', [2, 4, 16, 16])), 0) } }))
`

const at = (says: string, ...programs: readonly string[]): readonly Illegal[] => programs.map((program) => ({ program, says }))
const name = (given: string, legal: string): readonly string[] => [`Type '"${given}"' is not assignable to type '${legal}'.`]
const VGG = '"c1" | "c2" | "p1" | "c3" | "p2" | "fc"'

const dimensions: readonly Illegal[] = [
  ...at(
    "layer 'flatten' (flatten) cannot be tiled along 'H'; allowed: B",
    "stage(vgg, { tiles: [{ from: 'c1', to: 'fc', H: 2 }] })",
    "stage(vgg, { tiles: [{ from: 'c1', to: 'p1', H: 2 }, { from: 'c3', to: 'fc', H: 2 }] })",
  ),
  ...at("layer 'fc' (linear) cannot be tiled along 'W'; allowed: B", "stage(vgg, { tiles: [{ from: 'fc', to: 'fc', W: 2 }] })"),
  ...at(
    "layer 'n1' (batchNorm) sums over 'H'; end the range before it, and begin the next range with it",
    "stage(normed, { tiles: [{ from: 'c1', to: 'b.c2', H: 4 }] })",
    "stage(normed, { tiles: [{ from: 'n1', to: 'n1', H: 4 }] })",
  ),
  ...at(
    "layer 'b.n2' (batchNorm) sums over 'B'; end the range before it, and begin the next range with it",
    "stage(normed, { tiles: [{ from: 'c1', to: 'n1', H: 4 }, { from: 'n1', to: 'gap', B: 2 }] })",
  ),
]

const counts: readonly Illegal[] = [
  ...at(
    "33 tiles along 'H' exceed the size of layer 'c1' (conv2d), which is 32",
    "stage(vgg, { tiles: [{ from: 'c1', to: 'c2', H: 33 }] })",
  ),
  ...at(
    "17 tiles along 'H' exceed the size of layer 'p1' (maxPool), which is 16",
    "stage(vgg, { tiles: [{ from: 'c1', to: 'p1', H: 17, W: 2 }] })",
  ),
  ...at(
    "3 tiles along 'B' exceed the size of layer 'c2' (conv2d), which is 2",
    "stage(vgg, { tiles: [{ from: 'c2', to: 'c2', B: 3 }] })",
  ),
  ...at(
    'its number of tiles along H must be a whole number of at least 1, not 0',
    "stage(vgg, { tiles: [{ from: 'c1', to: 'c2', H: 0 }] })",
  ),
  ...at(
    'its number of tiles along W must be a whole number of at least 1, not 1.5',
    "stage(vgg, { tiles: [{ from: 'c1', to: 'c2', H: 2, W: 1.5 }] })",
  ),
  ...at(
    'its number of tiles along B must be a whole number of at least 1, not -2',
    "stage(vgg, { tiles: [{ from: 'c1', to: 'c2', B: -2 }] })",
  ),
]

const ranges: readonly Illegal[] = [
  ...at(
    "layer 'c1' is before layer 'p1'; a tile range runs from the earlier layer to the later one",
    "stage(vgg, { tiles: [{ from: 'p1', to: 'c1', H: 2 }] })",
  ),
  ...at(
    "layer 'c2' is not after layer 'c2', the end of the previous range; tile ranges must not overlap",
    "stage(vgg, { tiles: [{ from: 'c1', to: 'c2', H: 2 }, { from: 'c2', to: 'p1', H: 2 }] })",
  ),
  ...at(
    "layer 'c1' is not after layer 'p1', the end of the previous range; tile ranges must not overlap",
    "stage(vgg, { tiles: [{ from: 'c2', to: 'p1', H: 2 }, { from: 'c1', to: 'c1', H: 2 }] })",
  ),
]

const budgets: readonly Illegal[] = [
  ...at(
    'a budget of 1024 bytes is too small: the parameters and gradients of the largest layer alone need 122960 bytes',
    'stage(vgg, { budget: kib(1) })',
    'stage(vgg, { budget: 1024, optimizer: sgd({ lr: 0.1, momentum: 0.5 }) })',
  ),
  ...at(
    'a budget of 1024 bytes is too small: the parameters and gradients of the largest layer alone need 122960 bytes',
    'stage(vgg, { budget: 1024, optimizer: sgd({ lr: 0.1 }) })',
  ),
  ...at(
    'a budget of 1024 bytes is too small: the parameters and gradients of the largest layer alone need 122960 bytes',
    'stage(vgg, { budget: 1024, optimizer: adam({ lr: 0.1 }) })',
  ),
  ...at(
    'a strategy cannot be used with tiles or checkpoints, which are a plan by hand',
    "stage(vgg, { strategy: 'tiled', checkpoints: ['p1'] })",
    "stage(vgg, { strategy: 'auto', tiles: [{ from: 'c1', to: 'c2', H: 2 }] })",
  ),
]

const names: readonly Illegal[] = [
  { program: "stage(vgg, { checkpoints: ['p3'] })", compiler: name('p3', VGG) },
  { program: "stage(vgg, { checkpoints: ['c1', 'relu'] })", compiler: name('relu', VGG) },
  { program: "stage(vgg, { tiles: [{ from: 'c0', to: 'c2', H: 2 }] })", compiler: name('c0', VGG) },
  { program: "stage(vgg, { tiles: [{ from: 'c1', to: 'c22', H: 2 }] })", compiler: name('c22', VGG) },
  {
    program: 'export const s: 1 = segmentsOf(vgg).length',
    compiler: ["Type '2' is not assignable to type '1'."],
  },
  {
    program: 'export const p: 1 = vgg.parameters',
    compiler: ["Type '17346' is not assignable to type '1'."],
  },
  {
    program: "rangeOf(vgg, 'c1', 'c22')",
    compiler: [`Argument of type '"c22"' is not assignable to parameter of type '${VGG}'.`],
  },
  {
    program: "export const r: 1 = rangeOf(vgg, 'c1', 'p1').parameters",
    compiler: ["Type '808' is not assignable to type '1'."],
  },
]

const STEP = '"h" | "s" | "s#2"'

const steps: readonly Illegal[] = [
  ...at(
    "layer 's' is before layer 's#2'; a tile range runs from the earlier layer to the later one",
    "stage(own, { tiles: [{ from: 's#2', to: 's', H: 2 }] })",
  ),
  ...at(
    "17 tiles along 'H' exceed the size of layer 's#2' (conv2d), which is 16",
    "stage(own, { tiles: [{ from: 's', to: 's', H: 2 }, { from: 's#2', to: 'h', H: 17 }] })",
  ),
  ...at(
    'loss cannot be set for a step: it has its own losses and optimizers',
    'stage(own, { loss: mse })',
    'stage(own, { loss: mse, optimizer: sgd({ lr: 0.1 }), budget: 1 })',
  ),
  ...at('freeze cannot be set for a step: it has its own losses and optimizers', "stage(own, { freeze: 's.*' })"),
  ...at(
    'a budget of 1024 bytes is too small: the parameters and gradients of the largest layer alone need 1184 bytes',
    'stage(own, { budget: 1024 })',
  ),
  { program: "stage(own, { checkpoints: ['s#3'] })", compiler: name('s#3', STEP) },
  { program: "stage(own, { tiles: [{ from: 's', to: 'g', H: 2 }] })", compiler: name('g', STEP) },
  {
    program: "stage(either, { checkpoints: ['s', 'g'] })",
    compiler: name('g', `"h" | "s" | \`s#\${number}\` | \`h#\${number}\``),
  },
]

export const illegalPlans: readonly Illegal[] = [
  ...dimensions,
  ...counts,
  ...ranges,
  ...budgets,
  ...names,
  ...steps,
  ...illegalKeys,
]

export const legalPlans: readonly string[] = [
  "stage(own, { tiles: [{ from: 's', to: 's#2', H: 4, W: 2 }], checkpoints: ['s', 's#2', 'h'], budget: mib(16) })",
  "stage(own, { tiles: [{ from: 's', to: 'h', B: 2 }] })",
  "stage(either, { tiles: [{ from: 's', to: 's#2', H: 4 }], checkpoints: ['h'] })",
  "stage(vgg, { tiles: [{ from: 'c1', to: 'p1', H: 2 }, { from: 'c3', to: 'p2', H: 2 }] })",
  "stage(vgg, { checkpoints: ['p1', 'c3'] })",
  "stage(vgg, { tiles: [{ from: 'c1', to: 'p1', H: 16, W: 24 }] })",
  "stage(vgg, { tiles: [{ from: 'c1', to: 'p1', H: 4 }, { from: 'c3', to: 'c3', W: 3 }], checkpoints: ['c2'] })",
  "stage(vgg, { tiles: [{ from: 'c1', to: 'fc', B: 2 }], budget: mib(16) })",
  "stage(normed, { tiles: [{ from: 'c1', to: 'n1', H: 8 }, { from: 'n1', to: 'b.n2', H: 4, W: 2 }, { from: 'b.n2', to: 'gap', H: 4 }] })",
  "stage(normed, { budget: gib(1), strategy: 'tiled' })",
  "stage(vgg, { freeze: 'c1.*', groups: [{ match: ['*.bias'], weightDecay: 0 }], tiles: [{ from: 'c3', to: 'p2', H: 2 }] })",
  "stage(vgg, { groups: [{ match: 'fc.*', lr: 0.1 }, { match: '*', frozen: true }], budget: mib(16) })",
  'const budget: number = 2 ** 24\nstage(vgg, { budget })',
  "const net: Model = vgg\nstage(net, { budget: mib(16), checkpoints: ['p1'] })",
  'export const segments: 2 = segmentsOf(vgg).length',
  "export const first: 'c1' = segmentsOf(vgg)[0].from\nexport const last: 'p2' = segmentsOf(vgg)[0].to",
  "export const where: 'n1' = segmentsOf(normed)[1].from",
  'export const bytes: 433760 = stepBytes(vgg, sgd({ lr: 0.1 }))',
  'export const parameters: 17346 = vgg.parameters',
  'export const size: 3221225472 = gib(3)',
  'export const size: number = gib(0.5)',
  "export const one: 224 = rangeOf(vgg, 'c1', 'c1').parameters",
  "export const ft: readonly 'B'[] = rangeOf(vgg, 'p1', 'fc').ft",
  ...legalKeys,
  'stage(vgg, { budget: 2 ** 40, optimizer: adam({ lr: 0.1 }), checkpoints: [] })',
  "export const ft: readonly ('B' | 'H' | 'W')[] = rangeOf(vgg, 'c1', 'p2').ft",
]
