// The zoo against what is published: parameters, layers, output shapes, PyTorch's names; and every network trains.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adamw, elaborate, sgd } from '../../dsl'
import { zoo, zooEntry, zooNames } from '../../models'
import { elementsOf } from '../../staging/core/box'
import { type GraphError, renderError } from '../../staging/core/errors'
import { training } from '../../staging/grad/grad'
import type { Graph } from '../../staging/graph/graph'

const rightOf = <T>(e: Either<GraphError, T>): T => {
  if (isLeft(e)) throw new Error(renderError(e.left))
  return e.right
}
const forward = (name: string, input?: readonly [number, number, number, number]) =>
  rightOf(elaborate(rightOf(zooEntry(name)!.build(input)), name))
const parametersOf = (g: Graph): number => g.values.filter((v) => v.role === 'param').reduce((n, v) => n + elementsOf(v.shape), 0)
const namesOf = (g: Graph, role: string): readonly string[] => g.values.filter((v) => v.role === role).map((v) => v.name)
type Shapes = Readonly<Record<string, readonly number[]>>
const shapesOf = (g: Graph, role: string): Shapes =>
  Object.fromEntries(g.values.filter((v) => v.role === role).map((v) => [v.name, [...v.shape]]))
const shapeOf = (g: Graph, name: string): readonly number[] | undefined => g.values.find((v) => v.name === name)?.shape

/** Darknet-19 of its configuration file: kernel and channels of each convolution; norms have two parameters a channel. */
const darknetConvs = [
  [3, 32],
  [3, 64],
  [3, 128],
  [1, 64],
  [3, 128],
  [3, 256],
  [1, 128],
  [3, 256],
  [3, 512],
  [1, 256],
  [3, 512],
  [1, 256],
  [3, 512],
  [3, 1024],
  [1, 512],
  [3, 1024],
  [1, 512],
  [3, 1024],
] as const
const darknetTrunk = (extra: number): number => {
  let channels = 3,
    sum = 0
  for (const [k, out] of darknetConvs) {
    sum += k * k * channels * out + extra * out
    channels = out
  }
  return sum
}

/** Network -> parameters as torchvision has them (Darknet-19: counted from its configuration), and its weighted layers. */
const published: Readonly<Record<string, readonly [parameters: number, weighted: number]>> = {
  vgg16: [138_357_544, 16],
  'vgg16-features': [14_714_688, 13],
  darknet19: [darknetTrunk(2) + 1024 * 1000 + 1000, 19],
  'darknet19-features': [darknetTrunk(2), 18],
  'darknet19-features-plain': [darknetTrunk(1), 18],
  resnet18: [11_689_512, 21],
  resnet50: [25_557_032, 54],
}

test('every network of the zoo has its numbers here', () => assert.equal([...zooNames].sort(), Object.keys(published).sort()))
test('Darknet-19 has 20.8 million parameters', () => assert.is(published['darknet19']![0], 20_842_376))

for (const z of zoo) {
  test(`${z.name}: parameters and weighted layers`, () => {
    const { graph } = forward(z.name)
    assert.is(parametersOf(graph), published[z.name]![0])
    assert.is(graph.ops.filter((o) => o.kind === 'conv2d' || o.kind === 'linear').length, published[z.name]![1])
  })
  test(`${z.name}: becomes a training step`, () => {
    const { graph, output } = forward(z.name, z.name === 'vgg16' ? [2, 3, 224, 224] : [2, 3, 96, 64])
    for (const optimizer of [sgd({ lr: 0.1, momentum: 0.9 }), adamw({ lr: 1e-3 })]) {
      const step = rightOf(training(graph, output, { loss: z.loss, optimizer }))
      assert.is(step.ops.filter((o) => o.kind === 'sgd' || o.kind === 'adam').length, namesOf(graph, 'param').length)
      assert.is(step.ops.filter((o) => o.kind === 'bn_running').length, graph.ops.filter((o) => o.kind === 'bn_stats').length)
    }
  })
}

test('classifiers give 1000 classes, trunks a 32nd of the image', () => {
  for (const z of zoo) {
    const m = rightOf(z.build())
    const [, , h, w] = z.defaultInput
    if (z.loss === 'cross-entropy') assert.equal(m.output, [1, 1000, 1, 1])
    else assert.equal([m.output[2], m.output[3]], [h / 32, w / 32])
  }
})
test('prime sizes and 100 000 pixels', () => {
  assert.equal(rightOf(zooEntry('vgg16-features')!.build([1, 3, 509, 389])).output, [1, 512, 15, 12])
  assert.equal(rightOf(zooEntry('darknet19-features')!.build([1, 3, 509, 389])).output, [1, 1024, 15, 12])
  assert.equal(rightOf(zooEntry('vgg16-features')!.build([1, 3, 100000, 100000])).output, [1, 512, 3125, 3125])
})
test('vgg16 says which sizes it takes', () => {
  assert.equal(rightOf(zooEntry('vgg16')!.build([1, 3, 448, 224])).output, [1, 1000, 1, 1])
  const e = zooEntry('vgg16')!.build([1, 3, 256, 256])
  assert.is(
    isLeft(e) && renderError(e.left),
    "layer 'avgpool' (adaptiveAvgPool): needs an input whose height and width are multiples of 7x7 but gets [1,512,8,8]",
  )
})
test("names and shapes of all parameters are those of PyTorch's modules (fixture)", () => {
  const fixture = JSON.parse(readFileSync(join(__dirname, '../fixtures/parameters.json'), 'utf8')) as Readonly<
    Record<string, { readonly count: number; readonly parameters: Shapes; readonly running: Shapes }>
  >
  assert.equal(Object.keys(fixture).sort(), [...zooNames].sort())
  for (const [name, { count, parameters, running }] of Object.entries(fixture)) {
    const { graph } = forward(name)
    assert.is(parametersOf(graph), count)
    assert.equal(shapesOf(graph, 'param'), parameters)
    assert.equal(shapesOf(graph, 'state'), running)
  }
})
test("parameters have torchvision's names and shapes", () => {
  const vgg = forward('vgg16').graph
  assert.equal(shapeOf(vgg, 'features.0.weight'), [64, 3, 3, 3])
  assert.equal(shapeOf(vgg, 'features.28.bias'), [512])
  assert.equal(shapeOf(vgg, 'classifier.0.weight'), [4096, 25088])
  assert.equal(shapeOf(vgg, 'classifier.6.weight'), [1000, 4096])
  assert.equal(
    namesOf(vgg, 'param')
      .filter((n) => n.endsWith('.weight') && n.startsWith('features'))
      .map((n) => n.split('.')[1]),
    ['0', '2', '5', '7', '10', '12', '14', '17', '19', '21', '24', '26', '28'],
  )
  const resnet = forward('resnet50').graph
  assert.equal(namesOf(resnet, 'param').slice(0, 6), [
    'conv1.weight',
    'bn1.weight',
    'bn1.bias',
    'layer1.0.conv1.weight',
    'layer1.0.bn1.weight',
    'layer1.0.bn1.bias',
  ])
  assert.equal(shapeOf(resnet, 'layer2.0.conv2.weight'), [128, 128, 3, 3])
  assert.equal(shapeOf(resnet, 'layer3.0.downsample.0.weight'), [1024, 512, 1, 1])
  assert.equal(shapeOf(resnet, 'layer4.2.bn3.running_var'), [2048])
  assert.equal(shapeOf(resnet, 'fc.weight'), [1000, 2048])
  assert.is(namesOf(resnet, 'param').length, 161)
  assert.is(namesOf(resnet, 'state').length, 106)
  const basic = forward('resnet18').graph
  assert.equal(shapeOf(basic, 'layer1.1.conv2.weight'), [64, 64, 3, 3])
  assert.is(shapeOf(basic, 'layer1.0.downsample.0.weight'), undefined)
  assert.is(namesOf(basic, 'param').length, 62)
})

test.run()
