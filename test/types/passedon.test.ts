// Options and models that a program passes on: generic helpers, unions of options, variables of an options type. In: programs over the
// whole package. Out: none of the right ones is refused, and the wrong ones are refused in the words of a direct call.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { check, type Programs } from './checker'

const prelude = `import { add, conv2d, cosine, crossEntropy, evaluate, fit, focal, gib, huber, joined, l1, loss, model, mse, multiply, oneCycle, openPredictor, trainTask } from '../../src/index'
import { polynomial, predict, relu, run, seq, stage, stageAsync, stepped, train, tryStage } from '../../src/index'
import type { Data, EvaluateOptions, Model, PredictOptions, RunLength, RunOptions, Staged, StageOptions } from '../../src/index'
import type { Loss, Tensor, Trainable, TrainOptions } from '../../src/index'
const net = model([1, 3, 32, 32], seq(conv2d('a', 8, 3), relu()))
const plan = stage(net)
const predicting = stage(net, { mode: 'predict' })
const evaluating = stage(net, { mode: 'evaluate', loss: mse })
declare const some: Staged
declare const data: Data
declare const weights: string
declare const choice: boolean
`

const right: readonly string[] = [
  'export const f = <M extends Model>(m: M) => stage(m, { budget: gib(4) })\nexport const s: Staged<typeof net> = f(net)',
  "export const f = <M extends Trainable>(m: M) => [stage(m, { budget: gib(4), strategy: 'tiled' }), tryStage(m), stage(m)]",
  'export const f = <M extends Trainable>(m: M) => stageAsync(m, { budget: gib(4), checkpoints: [] })',
  "export const f = <M extends Trainable>(m: M) => stage(m, { checkpoints: ['c'], tiles: [{ from: 'a', to: 'c', H: 2 }] })",
  "export const f = <C extends number>(c: C) => stage(model([1, 3, 8, 8], conv2d('c', c, 3)), { budget: gib(1), checkpoints: ['c'] })",
  'export const f = <M extends Trainable>(m: M, o: StageOptions) => stage(m, o)',
  'export const f = <M extends Model, O extends StageOptions>(m: M, o: O) => stage(m, o)',
  'export const f = <M extends Trainable>(m: M) => train(m, stage(m), { steps: 1 })',
  'export const f = <M extends Trainable>(m: M) => run(m, stage(m, { budget: gib(1) }), { steps: 1 })',
  'export const f = <M extends Trainable>(m: M, p: Staged<M>) => run(m, p, { steps: 1 })',
  'export const f = <M extends Trainable>(m: M, p: Staged) => fit(m, p, { epochs: 1, data })',
  "export const f = <M extends Model>(m: M) => predict(m, stage(m, { mode: 'predict' }), { data, weights })",
  "export const f = <M extends Model>(m: M) => evaluate(m, stage(m, { mode: 'evaluate', loss: mse }), { data, weights })",
  'export const f = <O extends TrainOptions & RunLength>(o: O) => [train(net, plan, o), fit(net, plan, o)]',
  'export const f = <O extends RunOptions & RunLength>(o: O) => run(net, plan, o)',
  'export const f = <O extends PredictOptions>(o: O) => predict(net, predicting, o)',
  "declare const o: { budget: 4000000 } | { strategy: 'tiled' }\nstage(net, o)\ntryStage(net, o)\nstageAsync(net, o)",
  "declare const o: { tiles: [{ from: 'a'; to: 'a'; H: 2 }] } | { budget: number } | undefined\nstage(net, o)",
  "stage(net, choice ? { budget: gib(1) } : { strategy: 'tiled' })",
  'declare const o: { steps: 3 } | { epochs: 2; data: Data }\ntrain(net, plan, o)\nrun(net, plan, o)\nfit(net, plan, o)',
  'declare const o: StageOptions | undefined\nstage(net, o)\nstage(net, undefined)\nstageAsync(net, o)',
  'declare const o: TrainOptions\ntrain(net, plan, o)\nfit(net, plan, o)\nrun(net, plan, o)',
  'declare const o: RunOptions\nrun(net, plan, o)',
  'declare const o: PredictOptions\npredict(net, predicting, o)',
  'declare const o: EvaluateOptions\nevaluate(net, evaluating, o)',
  "export const p: Staged<typeof net, 'predict'> = predicting\nexport const t: 'train' = plan.mode",
  'train(net, some, { steps: 1 })\npredict(net, some, { data, weights })\nevaluate(net, some, { data, weights })\nopenPredictor(net, some, { weights })',
  "declare const mode: 'train' | 'predict'\nconst either = stage(net, { mode })\ntrain(net, either, { steps: 1 })\npredict(net, either, { data, weights })",
  'declare const o: StageOptions\nconst p = stage(net, o)\ntrain(net, p, { steps: 1 })\nevaluate(net, p, { data, weights })',
  'export const f = async () => train(net, await stageAsync(net, { budget: gib(1) }), { steps: 1 })',
  "export const f = <K extends 'train' | 'predict'>(p: Staged<Model, K>) => [train(net, p, { steps: 1 }), predict(net, p, { data, weights })]",
  'export const f = <T extends Tensor>(a: T, b: T) => add(a, b)',
  'export const f = <A extends Tensor, B extends Tensor>(a: A, b: B) => add(add(a, b), b)',
  'export const f = <T extends Tensor>(a: T, b: T, c: T) => [joined(a, b), joined(a, b, c)]',
  'export const f = <A extends Tensor, B extends Tensor>(a: A, b: B) => joined(a, b)',
  'export const f = <A extends Tensor, B extends Tensor>(a: A, b: B) => multiply(a, b)',
  'export const f = <T extends Tensor>(a: T, b: T) => [loss(mse, a, b), loss(crossEntropy, a, b, 2), loss(l1, a, 0)]',
  'export const f = <L extends Loss, T extends Tensor>(l: L, a: T, b: T) => loss(l, a, b)',
  'declare const o: { delta: 1 } | { delta: 2 }\nhuber(o)\nhuber(choice ? { delta: 1 } : {})',
  'declare const o: { delta: number } | undefined\nhuber(o)\nhuber(undefined)\nhuber({})\nhuber()',
  'declare const o: { gamma: 2 } | { balance: 0.5 }\nfocal(o)\nfocal(choice ? { gamma: 2 } : { balance: 0.5 })',
  'declare const o: { floor: number } | { floor: undefined } | undefined\ncosine(o)\ncosine(choice ? { floor: 0.1 } : undefined)',
  'declare const o: { every: 10; factor: 0.1 } | { every: 20 }\nstepped(o)',
  'declare const o: { power: 0.9 } | Record<never, never>\npolynomial(o)',
  'declare const o: { rise: 0.2 } | { start: 0.1 }\noneCycle(o)\noneCycle(choice ? { rise: 0.1 } : { start: 0.1 })',
]

const SMALL = 'a budget of 1 bytes is too small: the parameters and gradients of the largest layer alone need 1792 bytes'
const LENGTH =
  "Type '{ data: \"x\"; }' is not assignable to type '{ readonly data: \"x\"; } & { readonly epochs: number; }'.\n    Property 'epochs' is missing in type '{ data: \"x\"; }' but required in type '{ readonly epochs: number; }'."
const wrong: readonly (readonly [program: string, ...messages: readonly (string | RegExp)[]])[] = [
  [
    'export const f = <M extends Model>(m: M) => stage(m, { budgett: 1 })',
    "Type 'number' is not assignable to type '\"`budgett` is not an option of stage; did you mean `budget`?\"'.",
  ],
  [
    "declare const o: { budget: 1 } | { strategy: 'tiled' }\nstage(net, o)",
    `Argument of type '{ budget: 1; } | { strategy: "tiled"; }' is not assignable to parameter of type '{ budget: "${SMALL}"; }'.\n  Type '{ budget: 1; }' is not assignable to type '{ budget: "${SMALL}"; }'.\n    Types of property 'budget' are incompatible.\n      Type '1' is not assignable to type '"${SMALL}"'.`,
  ],
  [
    'declare const o: { gamma: 2 } | { gama: 2 }\nfocal(o)',
    "Argument of type '{ gamma: 2; } | { gama: 2; }' is not assignable to parameter of type '{ gamma: 2; } | { gama: \"`gama` is not an option of focal; did you mean `gamma`?\"; }'.\n  Type '{ gama: 2; }' is not assignable to type '{ gamma: 2; } | { gama: \"`gama` is not an option of focal; did you mean `gamma`?\"; }'.\n    Type '{ gama: 2; }' is not assignable to type '{ gama: \"`gama` is not an option of focal; did you mean `gamma`?\"; }'.\n      Types of property 'gama' are incompatible.\n        Type '2' is not assignable to type '\"`gama` is not an option of focal; did you mean `gamma`?\"'.",
  ],
  [
    'cosine({ flor: 0.1 })',
    "Type 'number' is not assignable to type '\"`flor` is not an option of cosine; did you mean `floor`?\"'.",
  ],
  ["huber({ delta: 'x' })", "Type 'string' is not assignable to type 'number'."],
  [
    'declare const t: Tensor<[1, 3, 8, 8]>\ndeclare const u: Tensor<[1, 4, 8, 8]>\nloss(mse, t, u)',
    "Argument of type 'Tensor<[1, 4, 8, 8], unknown>' is not assignable to parameter of type 'Tensor<[1, 4, 8, 8], unknown> & \"a target of [1,4,8,8] cannot be compared with an output of [1,3,8,8]; allowed: [1,3,8,8]\"'.\n  Type 'Tensor<[1, 4, 8, 8], unknown>' is not assignable to type '\"a target of [1,4,8,8] cannot be compared with an output of [1,3,8,8]; allowed: [1,3,8,8]\"'.",
  ],
  [
    'declare const t: Tensor<[1, 3, 8, 8]>\ndeclare const u: Tensor<[1, 4, 9, 8]>\njoined(t, u)',
    "Argument of type 'Tensor<[1, 4, 9, 8], unknown>' is not assignable to parameter of type 'Tensor<[1, 4, 9, 8], unknown> & \"the first branch gives [1,3,8,8] but branch 2 gives [1,4,9,8]; only the channels may differ\"'.\n  Type 'Tensor<[1, 4, 9, 8], unknown>' is not assignable to type '\"the first branch gives [1,3,8,8] but branch 2 gives [1,4,9,8]; only the channels may differ\"'.",
  ],
  [
    'train(net, plan, {})',
    "Argument of type '{}' is not assignable to parameter of type '{ readonly steps: number; } | { readonly epochs: number; }'.",
  ],
  [
    "run(net, plan, { data: 'x' })",
    `Argument of type '{ data: "x"; }' is not assignable to parameter of type '{ readonly data: "x"; } & RunLength'.\n  ${LENGTH}`,
  ],
  ...(
    [
      ['train(net, predicting, { steps: 1 })', 'predict', 'train'],
      ['trainTask(net, evaluating, { steps: 1 })', 'evaluate', 'train'],
      ['fit(net, evaluating, { steps: 1 })', 'evaluate', 'train'],
      ['run(net, predicting, { steps: 1 })', 'predict', 'train'],
      ['predict(net, plan, { data, weights })', 'train', 'predict'],
      ['openPredictor(net, evaluating, { weights })', 'evaluate', 'predict'],
      ['evaluate(net, plan, { data, weights })', 'train', 'evaluate'],
      ['evaluate(net, predicting, { data, weights })', 'predict', 'evaluate'],
    ] as const
  ).map(([program, mode, wanted]): readonly [string, RegExp] => [
    program,
    new RegExp(
      `is not assignable to parameter of type '"this plan has mode '${mode}', but the call needs mode '${wanted}': stage with mode: '${wanted}'"'`,
    ),
  ]),
  [
    'train(net, plan, { steps: 1, epochs: 2 })',
    "Type 'number' is not assignable to type '\"steps and epochs exclude each other: give one of them\"'.",
  ],
  [
    'train(net, plan, { steps: undefined })',
    "Argument of type '{ steps: undefined; }' is not assignable to parameter of type '{ readonly steps: undefined; } & { readonly epochs: number; }'.\n  Property 'epochs' is missing in type '{ steps: undefined; }' but required in type '{ readonly epochs: number; }'.",
  ],
]

const programs: Programs = Object.fromEntries([
  ...right.map((p, i) => [`right${i}`, prelude + p]),
  ...wrong.map(([p], i) => [`wrong${i}`, prelude + p]),
])
const checked = check(programs)

for (const [i, p] of right.entries()) test(`must compile: ${p}`, () => assert.equal(checked.errors(`right${i}`), []))
for (const [i, [p, ...messages]] of wrong.entries())
  test(`must not compile: ${p}`, () => {
    const errors = checked.errors(`wrong${i}`)
    assert.is(errors.length, messages.length)
    messages.forEach((m, k) => (typeof m === 'string' ? assert.is(errors[k], m) : assert.match(errors[k]!, m)))
  })

// ---------------------------------------------------------------- without `strict`

const needed = (what: string, without: string): string =>
  `Argument of type 'number[]' is not assignable to parameter of type '"Spillway checks ${what} while you type only with \`strict\` (or \`strictNullChecks\`) set to true in tsconfig.json; without it, ${without}"'.`
const models = needed('models', 'use modelAt(input, net)')
const sizes = needed('sizes', 'give the shape the type Shape')

const lenient = `import * as s from '../../src/index'
import { resnet50 } from '../../models/resnet'
`
const withoutStrict: Programs = {
  model: `${lenient}const net = s.model([1, 3, 32, 32], s.seq(s.conv2d('a', 8, 3, { stride: 2 }), s.batchNorm('n'), s.maxPool(2)))
const plan = s.stage(net, { budget: s.gib(4), checkpoints: ['a'], loss: s.mse, optimizer: s.sgd({ lr: 0.1, momentum: 0.9 }) })
s.run(net, plan, { steps: 3 })
s.predict(net, s.stage(net, { mode: 'predict' }), { data: 'x', weights: 'w' })
s.segmentsOf(net)
export const numbers: readonly number[] = [net.output[1], s.layerOf(net, 'a').bytes, s.stepBytes(net, s.adam({ lr: 0.1 }))]`,
  resnet50: `${lenient}export const net = s.model([1, 3, 224, 224], resnet50)`,
  modelAt: `${lenient}const net = s.modelAt([1, 3, 8, 8], resnet50)
if (net._tag === 'Right') s.train(net.right, s.stage(net.right, { budget: s.gib(1), strategy: 'tiled' }), { steps: 1 })`,
  step: `${lenient}const [g, d] = [s.conv2d('g', 3, 3), s.seq(s.conv2d('d', 1, 3), s.relu())]
const a = s.fed('a', [1, 3, 8, 8])
const [made, optimizer] = [s.apply(g, a), s.sgd({ lr: 0.1 })]
const both = s.step(
  s.minimize('g', { over: g, optimizer, losses: { x: s.loss(s.mse, s.apply(d, s.joined(made, a)), 1), y: s.loss(s.l1, made, a) } }),
  s.minimize('d', { over: d, optimizer, losses: { x: s.loss(s.mse, s.apply(d, s.detach(made)), 0) } }))
s.run(both, s.stage(both, { checkpoints: ['d'] }), { steps: 1 })`,
  shape: `${lenient}const shape: s.Shape = [1, 3, 8, 8]
export const made = s.apply(s.conv2d('g', 3, 3), s.fed('a', shape))`,
}
const expected: Readonly<Record<string, readonly string[]>> = {
  model: [models],
  resnet50: [models],
  modelAt: [],
  step: [sizes],
  shape: [],
}
const unchecked = check(withoutStrict, { strict: false })
for (const [name, messages] of Object.entries(expected))
  test(`without strict, '${name}' is refused once with the setting, or not at all`, () =>
    assert.equal(unchecked.errors(name), messages))

test('strictNullChecks alone is enough', () => {
  const one = check({ model: withoutStrict['model']! }, { strict: false, strictNullChecks: true })
  assert.equal(one.errors('model'), [])
})

test.run()
