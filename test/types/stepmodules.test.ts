// timeout 400
// Plan modules of steps beside their steps: accepted as written; refused in words when a net, an optimizer, a loss or what is
// compared has changed since, in the same words at run time; sizes of the caller's own, and the zoo's step.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { asTrainable, type InputOverride, type Trainable, type TrainingStep } from '../../dsl'
import { errorText } from '../../src/errors/errors'
import { elaboratedFor } from '../../src/stage/identity'
import { moduleText, openModule, type PlanModule } from '../../src/stage/planmodule'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { tryRun } from '../../src/train/run'
import { zooEntry } from '../../src/zoo'
import { FULL } from '../full'
import { check, type Programs, runProgram } from './checker'
import { refusedPlan } from './refusal'

const BODY = `
const generator = seq(conv2d('g1', 8, 3), relu(), conv2d('g2', 3, 3))
const critic = seq(conv2d('d1', 8, 4, { stride: 2, pad: 2 }), leakyRelu(0.2), conv2d('d2', 1, 3))
// Trained by no objective: its features are compared.
const eye = conv2d('e', 4, 3)
const label = fed('label', [2, 4, 64, 48])
const photo = fed('photo', [2, 3, 64, 48])
const fake = apply(generator, label)
const judged = <M>(x: Tensor<readonly [2, 3, 64, 48] | [2, 3, 64, 48], M>) => apply(critic, joined(label, x))
`
const OBJECTIVES = `
export const own = step(
  minimize('generator', {
    over: generator,
    optimizer: adam({ lr: 2e-4 }),
    losses: {
      gan: loss(mse, apply(critic, joined(label, fake)), 1),
      seen: [loss(l1, apply(eye, fake), detach(apply(eye, photo)), 10), loss(l1, fake, photo, 5)],
      mixed: loss(l1, add(apply(eye, fake), multiply(apply(eye, fake), apply(eye, photo))), 0),
    },
  }),
  minimize('critic', {
    over: critic,
    optimizer: sgd({ lr: 1e-3, momentum: 0.9 }),
    freeze: 'd1.bias',
    losses: { all: [
      loss(mse, apply(critic, joined(label, detach(fake))), 0, 0.5),
      loss(mse, apply(critic, joined(label, photo)), 1, 0.5),
    ] },
  }),
)
`
const WHOLE = `import {
  adam, adamw, add, apply, avgPool, conv2d, detach, fed, joined, l1, leakyRelu, loss, minimize, mse, multiply, planModule, relu, type Resized,
  seq, sgd, stage, step, type Tensor, tryRun,
} from '../../src/index'
import zoo from '../../models/pix2pixhd'
${BODY}${OBJECTIVES}`
const stepOf = (text: string): TrainingStep => runProgram(text)['own'] as TrainingStep
const own = stepOf(WHOLE)

const MACHINE = 'v100-pcie-16g'
const emitted = (s: Trainable, type: string, o: StageOptions = {}, resized = false): string => {
  const staged = tryStage(s, { machine: MACHINE, name: 'own', ...o })
  if (isLeft(staged)) throw new Error(errorText(staged.left))
  const step = elaboratedFor(s, staged.right.plan)
  if (isLeft(step)) throw new Error(errorText(step.left))
  return moduleText([staged.right.plan], step.right, { importing: '', type, resized })
    .replace(/^import .*$/gm, '')
    .replace('export default', 'export const plan =')
}
const done = <A>(t: ReturnType<typeof asTrainable> & { readonly right?: A }): Trainable => {
  if (isLeft(t)) throw new Error('it does not load')
  return t.right
}
const LARGER: InputOverride = { height: 96, width: 80 }

const plain = emitted(own, 'typeof own')
const byHand = emitted(own, 'typeof own', { tiles: [{ from: 'g1', to: 'g2', H: 4 }] })
const resized = emitted(done(asTrainable(own, LARGER)), 'typeof own', {}, true)
const pix2pixhd = zooEntry('pix2pixhd')!
const fromZoo = emitted(done(pix2pixhd.build([1, 36, 64, 64])), "(typeof zoo)['pix2pixhd']")

const changed = (at: string, kind: string): string => `stale plan: '${at}' (${kind}) has changed since it was staged; stage again`
const now = (at: string, kind: string, as: string): string => `stale plan: '${at}' (${kind}) is ${as}; stage again`
const replaced = (then: string, kind: string, at: string): string =>
  `stale plan: it has '${then}' (${kind}) where the model has '${at}' (${kind}); stage again`

/** Later changes of the step, and their messages. */
const allChanges: readonly (readonly [what: string, from: string, to: string, says: string])[] = [
  ['a kernel of the generator', "'g2', 3, 3", "'g2', 3, 5", changed('g2', 'conv2d')],
  ['a name in the critic', "'d2', 1", "'verdict', 1", replaced('d2', 'conv2d', 'verdict')],
  ['a slope in the critic', 'leakyRelu(0.2)', 'leakyRelu(0.1)', changed('leakyRelu', 'leakyRelu')],
  ['a net that nothing trains', "'e', 4, 3", "'e', 6, 3", changed('e', 'conv2d')],
  [
    'a layer more',
    'relu(), conv2d',
    'relu(), relu(), conv2d',
    replaced('g2', 'conv2d', 'relu').replace("'relu' (conv2d)", "'relu' (relu)"),
  ],
  ['a layer less', ", conv2d('d2', 1, 3)", '', now('d2', 'conv2d', 'no longer in the model')],
  ['a kept state', 'momentum: 0.9', 'momentum: 0', changed('critic', 'objective')],
  ['an optimizer', 'sgd({ lr: 1e-3, momentum: 0.9 })', 'adam({ lr: 1e-3 })', changed('critic', 'objective')],
  ['what is frozen', "freeze: 'd1.bias'", "freeze: 'd1.*'", changed('critic', 'objective')],
  ['that something is frozen', "freeze: 'd1.bias',", '', changed('critic', 'objective')],
  [
    'a group of parameters',
    "freeze: 'd1.bias',",
    "freeze: 'd1.bias', groups: [{ match: 'd2.*', lr: 1e-4 }],",
    changed('critic', 'objective'),
  ],
  ['how weights decay', 'adam(', 'adamw(', changed('generator', 'objective')],
  ['an objective', "minimize('critic'", "minimize('judge'", replaced('critic', 'objective', 'judge')],
  [
    'a loss',
    'loss(mse, apply(critic, joined(label, fake)), 1)',
    'loss(l1, apply(critic, joined(label, fake)), 1)',
    changed('generator.gan', 'loss'),
  ],
  ['a weight', 'photo, 5)', 'photo, 6)', changed('generator.seen', 'loss')],
  ['a number to compare with', '), 0, 0.5)', '), 0.25, 0.5)', changed('critic.all', 'loss')],
  ['a term less', ', loss(l1, fake, photo, 5)', '', changed('generator.seen', 'loss')],
  ['a loss by another name', 'gan:', 'adversary:', now('generator.adversary', 'loss', 'new in the model')],
  ['where gradients end', 'detach(apply(eye, photo))', 'apply(eye, photo)', changed('generator.seen', 'loss')],
  ['the order of what is joined', 'joined(label, detach(fake))', 'joined(detach(fake), label)', changed('critic.all', 'loss')],
  ['a sum for a product', 'multiply(apply', 'add(apply', changed('generator.mixed', 'loss')],
  ['what is fed', "fed('label'", "fed('map'", replaced('label', 'fed', 'map')],
  [
    'the image',
    '[2, 4, 64, 48]',
    '[2, 5, 64, 48]',
    "stale plan: 'label' was [2,4,64,48] in the plan and is [2,5,64,48] now; stage again",
  ],
]
/** One of each: a layer, a name, an optimizer, an objective, a loss, an input, a size. */
const FEW = [
  'a kernel of the generator',
  'a name in the critic',
  'a layer less',
  'an optimizer',
  'an objective',
  'a loss',
  'a weight',
  'where gradients end',
  'what is fed',
  'the image',
]
const changes = allChanges.filter(([what]) => FULL || FEW.includes(what))
const OTHER = `
export const other = step(minimize('generator', { over: eye, optimizer: adam({ lr: 2e-4 }), losses: { one: loss(mse, apply(eye, photo), 0) } }))
`
const edit = (from: string, to: string): string => {
  const text = WHOLE.replace(from, to)
  assert.not.equal(text, WHOLE, `nothing says ${from}`)
  return text
}

const programs: Programs = Object.fromEntries([
  ['plain', WHOLE + plain],
  ['run', `${WHOLE}${plain}tryRun(own, plan, { steps: 1 })\ntryRun(own, stage(own), { steps: 1 })`],
  ['byHand', WHOLE + byHand],
  ['resized', WHOLE + resized],
  ['not resized', WHOLE + resized.replace('Resized<typeof own>', 'typeof own')],
  ['resized and changed', edit("'e', 4, 3", "'e', 6, 3") + resized],
  ['zoo', WHOLE + fromZoo],
  ['another of the zoo', WHOLE + fromZoo.replace('out: 512', 'out: 513')],
  ['tile', WHOLE + byHand.replace('H: 4', 'H: 65')],
  ...changes.map(([what, from, to]) => [what, edit(from, to) + plain]),
  ['pairs', `${WHOLE}${plain}${OTHER}tryRun(other, plan, { steps: 1 })\ntryRun(other, stage(own), { steps: 1 })`],
])
const checked = check(programs)
const moduleOf = (module: string): PlanModule => runProgram(WHOLE + module)['plan'] as PlanModule

test('a plan module compiles beside the step that it was staged for, and returns its plan', () => {
  for (const p of ['plain', 'run', 'byHand', 'resized', 'zoo']) assert.equal(checked.errors(p), [], p)
  for (const module of [plain, byHand]) {
    const opened = openModule(own, moduleOf(module))
    assert.ok(isRight(opened), isLeft(opened) ? errorText(opened.left) : '')
  }
  const larger = openModule(done(asTrainable(own, LARGER)), moduleOf(resized))
  assert.ok(isRight(larger), isLeft(larger) ? errorText(larger.left) : '')
  const zoo = openModule(done(pix2pixhd.build([1, 36, 64, 64])), moduleOf(fromZoo))
  assert.ok(isRight(zoo), isLeft(zoo) ? errorText(zoo.left) : '')
})

for (const [what, from, to, says] of changes)
  test(`a step that changed since: ${what}`, () => {
    const said = checked.errors(what).map(refusedPlan)
    assert.equal(said, [says])
    const opened = openModule(stepOf(edit(from, to)), moduleOf(plain))
    assert.is(isLeft(opened) && errorText(opened.left), says)
  })

test('sizes of the caller are no difference; sizes of its own are', () => {
  const size = "stale plan: 'label' was [2,4,96,80] in the plan and is [2,4,64,48] now; stage again"
  assert.equal(checked.errors('not resized').map(refusedPlan), [size])
  const opened = openModule(own, moduleOf(resized))
  assert.is(isLeft(opened) && errorText(opened.left), size)
  assert.equal(checked.errors('resized and changed').map(refusedPlan), [changed('e', 'conv2d')])
})

test('the nets of the step of the zoo are checked, and the tiles of a module', () => {
  assert.equal(checked.errors('another of the zoo').map(refusedPlan), [changed('model.10', 'conv2d')])
  assert.equal(checked.errors('tile').map(refusedPlan), [
    "65 tiles along 'H' exceed the size of layer 'g1' (conv2d), which is 64",
  ])
})

test('a step and the plan of another one', async () => {
  const words = replaced('g1', 'conv2d', 'e')
  const argument = (e: string): string => /parameter of type '"(.*)"'\.$/s.exec(e)?.[1] ?? e
  assert.equal(checked.errors('pairs').map(argument), [words, words])
  const other = runProgram(WHOLE + OTHER)['other'] as TrainingStep
  const staged = tryStage(own, { machine: MACHINE })
  for (const plan of [moduleOf(plain), isRight(staged) && staged.right]) {
    const ran = await tryRun(other, plan as never, { steps: 1 } as never)
    assert.is(isLeft(ran) && errorText(ran.left), words)
  }
})

test.run()
