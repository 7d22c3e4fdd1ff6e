// each of models
// The zoo against PyTorch: layers, parameters, their names and shapes; output shapes; and every network trains.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adamw, sgd } from '../../dsl'
import { zoo as whole, zooNames } from '../../src/zoo'
import { elementsOf } from '../../staging/core/box'
import { type GraphError, renderError } from '../../staging/core/errors'
import { training } from '../../staging/grad/grad'
import type { Graph } from '../../staging/graph/graph'
import { elaborated, type Forward, forward as forwardOf, mustModel, zooModel } from '../dsl/forward'
import { fewOrAll, FULL } from '../full'

const rightOf = <T>(e: Either<GraphError, T>): T => {
  if (isLeft(e)) throw new Error(renderError(e.left))
  return e.right
}
const zoo = whole.filter((z) => z.loss !== undefined)
const forward = (name: string): Forward => rightOf(forwardOf(mustModel(name), name))
const parametersOf = (g: Graph): number => g.values.filter((v) => v.role === 'param').reduce((n, v) => n + elementsOf(v.shape), 0)
const namesOf = (g: Graph, role: string): readonly string[] => g.values.filter((v) => v.role === role).map((v) => v.name)
/** Weights and running statistics, as make_zoo.py lists them. */
const tensorsOf = (g: Graph): readonly string[] =>
  g.values
    .filter((v) => v.role === 'param' || v.role === 'state')
    .map((v) => `${v.name} ${v.shape.join()}`)
    .sort((a, b) => (a < b ? -1 : 1))

/** PyTorch's networks, from test/fixtures/make_zoo.py: torchvision's, or those of the references named there. */
interface Listed {
  /** Convolutions and linear layers. */
  readonly layers: number
  readonly count: number
  /** Parameters and running statistics. */
  readonly tensors: number
  /** A digest of their names and shapes. */
  readonly digest: string
}
const listed = JSON.parse(readFileSync(join(__dirname, '../fixtures/parameters.json'), 'utf8')) as Readonly<
  Record<string, Listed>
>

const weighted = (g: Graph): number => g.ops.filter((o) => /^(conv2d|conv_transpose2d|linear)$/.test(o.kind)).length

test('each zoo network is in the fixture, and in a file that exports it', () => {
  assert.equal(zoo.map((z) => z.name).sort(), Object.keys(listed).sort())
  const files = readdirSync(join(__dirname, '../../models')).map((f) => f.replace(/\.ts$/, ''))
  assert.equal([...new Set(whole.map((z) => z.family))].sort(), files.sort())
  assert.is(new Set(zooNames).size, zooNames.length)
})

for (const z of zoo) {
  test(`${z.name}: the layers, and the names and shapes of all parameters, are those of PyTorch's modules`, () => {
    const { graph } = forward(z.name)
    const tensors = tensorsOf(graph)
    assert.equal(
      {
        layers: weighted(graph),
        count: parametersOf(graph),
        tensors: tensors.length,
        digest: createHash('sha256').update(tensors.join('\n')).digest('hex').slice(0, 16),
      },
      listed[z.name],
    )
  })
  // Outside full mode, one network of each family.
  if (FULL || zoo.find((other) => other.family === z.family) === z)
    test(`${z.name}: becomes a training step`, () => {
      const { graph } = forward(z.name)
      for (const optimizer of fewOrAll([adamw({ lr: 1e-3 })], [sgd({ lr: 0.1, momentum: 0.9 }), adamw({ lr: 1e-3 })])) {
        const step = rightOf(training(rightOf(elaborated(mustModel(z.name), z.name, z.loss, optimizer))))
        assert.is(step.ops.filter((o) => o.kind === 'sgd' || o.kind === 'adam').length, namesOf(graph, 'param').length)
        assert.is(step.ops.filter((o) => o.kind === 'bn_running').length, graph.ops.filter((o) => o.kind === 'bn_stats').length)
      }
    })
}

/** Families whose networks do not give 1000 classes an image; all but the first classify pixels. */
const classes: Readonly<Record<string, number>> = {
  cifar: 10,
  attentionunet: 2,
  deeplab: 21,
  deeplab3: 21,
  fcn: 21,
  fpn: 21,
  lraspp: 21,
  pspnet: 19,
  unet: 2,
  unetplusplus: 21,
}

/** The factor of the image's size, of networks that enlarge it. */
const factors: Readonly<Record<string, (name: string) => number>> = { edsr: (name) => Number(name.at(-1)), srresnet: () => 4 }

test('outputs of the zoo: classes of image or pixel, trunks at 1/32, images of the same or a larger size, cells', () => {
  for (const z of zoo) {
    const { output } = mustModel(z.name)
    const [b, , h, w] = z.defaultInput
    const pixels = z.family in classes && z.family !== 'cifar' ? [h, w] : [1, 1]
    if (z.loss === 'cross-entropy') assert.equal(output, [b, classes[z.family] ?? 1000, ...pixels])
    else if (z.family === 'yolo') assert.equal(output, [b, 85, 1, (h * w) / 64 + (h * w) / 256 + (h * w) / 1024])
    else if (z.family === 'dncnn') assert.equal(output, z.defaultInput)
    else if (z.family in factors) assert.equal(output, [b, 3, h * factors[z.family]!(z.name), w * factors[z.family]!(z.name)])
    else assert.equal([output[2], output[3]], [h / 32, w / 32])
  }
})
test('prime sizes and 100 000 pixels', () => {
  assert.equal(mustModel('vgg16-features', [1, 3, 509, 389]).output, [1, 512, 15, 12])
  assert.equal(mustModel('darknet19-features', [1, 3, 509, 389]).output, [1, 1024, 15, 12])
  assert.equal(mustModel('vgg16-features', [1, 3, 100000, 100000]).output, [1, 512, 3125, 3125])
})
test('U-Net states its legal sizes; DeepLabV3+ accepts any size from two images on', () => {
  const refused = (name: string, input: readonly [number, number, number, number]): string => {
    const e = zooModel(name, input)
    return isLeft(e) ? renderError(e.left) : 'nothing'
  }
  assert.is(
    refused('unet', [1, 3, 64, 72]),
    "layer 'concat' (concat): the first branch gives [1,512,8,9] but branch 2 gives [1,512,8,8]; only the channels may differ",
  )
  assert.equal(mustModel('deeplabv3plus-resnet101', [2, 3, 509, 389]).output, [2, 21, 509, 389])
  assert.match(
    refused('deeplabv3plus-resnet50', [1, 3, 64, 64]),
    "layer 'classifier.aspp.convs.4.2' (batchNorm): needs more than one value per channel",
  )
})
test('vgg16 takes images of any size, which its adaptive pool fits to its classifier', () => {
  for (const size of [224, 256, 449]) assert.equal(mustModel('vgg16', [1, 3, size, 224]).output, [1, 1000, 1, 1])
})
test.run()
