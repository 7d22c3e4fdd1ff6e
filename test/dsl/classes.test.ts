// each of models
// Networks of the zoo with other classes: as nets and as functions, bodies with heads of one's own, and what has no classes. Parameters keep
// their names, and all but the head's their shapes.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  apply,
  asTrainable,
  block,
  conv2d,
  crossEntropy,
  elaborate,
  fed,
  globalAvgPool,
  linear,
  loss,
  minimize,
  type Model,
  model,
  modelAt,
  type Net,
  seq,
  sgd,
  step,
} from '../../dsl'
import { alexnet } from '../../models/alexnet'
import { resnet20Cifar, resnet20CifarBody } from '../../models/cifar'
import { resnet18, resnet18Body, resnetHead } from '../../models/resnet'
import { zoo } from '../../src/zoo'
import { orThrow } from '../../src/errors/exceptions'
import { errorText } from '../../src/errors/errors'
import { forward } from './forward'

type Shapes = Readonly<Record<string, readonly number[]>>
const shapesOf = (m: Model): Shapes => {
  const { graph } = orThrow(forward(m, 'net'))
  return Object.fromEntries(
    graph.values.filter((v) => v.role === 'param' || v.role === 'state').map((v) => [v.name, [...v.shape]]),
  )
}

const CLASSES = 7
const WITHOUT = /-features|^pix2pixhd|^dncnn|^edsr|^srresnet/
/** LR-ASPP has heads at two resolutions, YOLO at three. */
const mostHeads = (name: string): number => (name.startsWith('lraspp') ? 4 : name.startsWith('yolo') ? 6 : 2)
/** A cell of YOLO has a box and its objectness, too. */
const moreOutputs = (name: string): number => (name.startsWith('yolo') ? 5 : 0)

for (const entry of zoo.filter((z) => !WITHOUT.test(z.name)))
  test(`${entry.name} of ${CLASSES} classes has other sizes in its head alone`, () => {
    const [usual, few] = [entry.build(), entry.build(undefined, 'train', { classes: CLASSES })]
    assert.ok(!isLeft(usual) && !isLeft(few))
    const [a, b] = [usual.right as Model, few.right as Model]
    assert.equal(b.output, [b.output[0], CLASSES + moreOutputs(entry.name), b.output[2], b.output[3]])
    assert.equal([b.output[2], b.output[3]], [a.output[2], a.output[3]])
    const [before, after] = [shapesOf(a), shapesOf(b)]
    assert.equal(Object.keys(after), Object.keys(before))
    const differing = Object.keys(before).filter((n) => String(before[n]) !== String(after[n]))
    assert.ok(differing.length >= 1 && differing.length <= mostHeads(entry.name), differing.join())
    for (const name of differing) {
      assert.is(after[name]![0], CLASSES)
      assert.equal(after[name]!.slice(1), before[name]!.slice(1))
    }
    // Plain data, which goes to another thread.
    assert.equal(structuredClone(b.net), b.net)
  })

test('a network without classes is refused with the reason', () => {
  for (const entry of zoo.filter((z) => WITHOUT.test(z.name))) {
    const made = entry.build(undefined, 'train', { classes: 2 })
    assert.ok(isLeft(made))
    assert.match(errorText(made.left), /it has no head for classes, so the number of classes cannot be set/)
  }
})

test('a zoo network can be used wherever a network can', () => {
  const plain = model([2, 3, 32, 32], resnet20Cifar)
  assert.equal(JSON.parse(JSON.stringify(resnet20Cifar)), JSON.parse(JSON.stringify(plain.net)))
  assert.equal(Object.keys(resnet20Cifar), Object.keys(plain.net))
  const within = model([2, 3, 32, 32], seq(block('a', resnet20Cifar({ classes: 4 })), block('b', linear('c', 3))))
  assert.equal(within.output, [2, 3, 1, 1])
  assert.equal(structuredClone(within.net), within.net)
  const bare = orThrow(asTrainable(resnet20Cifar({ classes: 4 }), { height: 32, width: 32 }))
  assert.equal((bare as Model).output, [1, 4, 1, 1])
})

test('a network that is applied twice has one set of weights, and the objective trains it', () => {
  const net = alexnet({ classes: 4 })
  const image = fed('image', [2, 3, 224, 224])
  const labels = fed('labels', [2, 1, 1, 1])
  const terms = [loss(crossEntropy, apply(net, image), labels), loss(crossEntropy, apply(net, image), labels)]
  const twice = step(minimize('both', { over: net, optimizer: sgd({ lr: 0.1 }), losses: { of: terms } }))
  const { graph } = orThrow(elaborate(orThrow(asTrainable(twice)) as typeof twice, 'twice'))
  const weights = graph.values.filter((v) => v.role === 'param')
  const alone = orThrow(forward(model([2, 3, 224, 224], net), 'once')).graph.values.filter((v) => v.role === 'param')
  assert.is(weights.length, alone.length)
})

test('a head of one’s own on a body keeps the names of the body', () => {
  const own = seq(resnet18Body, globalAvgPool('avgpool'), block('classifier', linear('hidden', 32), linear('fc', 3)))
  const names = Object.keys(shapesOf(orThrow(modelAt([2, 3, 64, 64], own)) as Model))
  const usual = Object.keys(shapesOf(model([2, 3, 64, 64], resnet18)))
  assert.equal(
    names.filter((n) => !n.startsWith('classifier.')),
    usual.filter((n) => !n.startsWith('fc.')),
  )
  assert.equal(
    shapesOf(model([2, 3, 64, 64], seq(resnet18Body, resnetHead(5)))),
    shapesOf(model([2, 3, 64, 64], resnet18({ classes: 5 }))),
  )
})

test('wrong numbers of classes and other options are refused', () => {
  const said = (o: object): string => {
    try {
      ;(resnet20Cifar as unknown as (o: object) => Net)(o)
      return 'nothing'
    } catch (e) {
      return (e as Error).message
    }
  }
  for (const classes of [0, -1, 1.5, Number.NaN, '10', undefined])
    assert.match(said({ classes }), /^'classes': it is .*; allowed: a whole number of at least 1$/)
  assert.is(said({ clases: 3 }), '`clases` is not an option of a network; did you mean `classes`?')
})

test('the body is the same object, whatever the classes', () => {
  const first = (net: Net): unknown => (net as unknown as { readonly layers: readonly unknown[] }).layers[0]
  assert.is(first(resnet20Cifar({ classes: 3 })), resnet20CifarBody)
  assert.is(first(resnet20Cifar), resnet20CifarBody)
  assert.is.not(first(seq(conv2d('a', 3, 3))), resnet20CifarBody)
})

test.run()
