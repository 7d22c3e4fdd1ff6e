// An editor's view: models, layers and nets under the cursor, and the offered layer names.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateTest } from '../full'
import { check } from './checker'
import { everyOption } from './everyoption'
import { prelude } from './illegal'
import { shownAt } from './server'

const checked = check({
  small: `${prelude}
const conv = conv2d('conv1_1', 64, 3)
const down = conv2d('down', 128, [1, 7], { stride: 2, bias: false })
const trunk = seq(conv, relu(), maxPool('pool1', 2))
const net = model([1, 3, 224, 224], trunk)
const where = layerOf(net, 'pool1')
const size = net.output
const huge = model([1, 3, 99991, 100000], trunk)
layerOf(net, '')
`,
  options: `import { conv2d, evaluate, model, mse, predict, run, sgd, source, stage, train, validation } from '../../src/index'
const net = model([1, 3, 8, 8], conv2d('c', 4, 3, { stride: 2 }))
const plan = stage(net, { budget: 4000000, loss: mse, optimizer: sgd({ lr: 0.1 }) })
const data = source({ length: 2, read: () => ({ input: new Float32Array(192), target: new Float32Array(64) }) })
train(net, plan, { steps: 2, data, evaluate: validation({ data, every: 1 }) })
run(net, plan, { epochs: 2, data })
evaluate(net, stage(net, { mode: 'evaluate' }), { weights: 'w', data, metrics: ['mae'] })
predict(net, stage(net, { mode: 'predict' }), { weights: 'w', data, out: 'o' })
`,
  layers: `import * as s from '../../src/index'
export const all = s.seq(
  s.fromBytes({ mean: [1, 2, 3], std: [1, 2, 3] }),
  s.conv2d('c', 4, 3, { stride: 2, pad: 1, dilation: 1, groups: 1, bias: false, init: 'fan-in-uniform', param: 'x' }),
  s.convTranspose2d('t', 4, 2, { stride: 2, pad: 0, outputPad: 0, dilation: 1, groups: 1, bias: false }),
  s.batchNorm('b', { frozen: true, eps: 1 }),
  s.groupNorm('g', 2, { affine: false, eps: 1 }),
  s.instanceNorm('i', { affine: false, eps: 1 }),
  s.layerNorm('l', { eps: 1, bias: false }),
  s.rmsNorm('r', { eps: 1 }),
  s.layerScale('f', 1, { shape: 'one' }),
  s.bias('a', { shared: true }),
  s.localResponseNorm(5, { alpha: 1, beta: 1, k: 1 }),
  s.maxPool('p', 2, { stride: 2, pad: 0, ceil: true }),
  s.maxPool(2, { stride: 2 }),
  s.avgPool('q', 2, { stride: 2, countIncludePad: false }),
  s.upsample({ scale: 2, mode: 'nearest' }),
  s.upsample({ size: [3, 4], mode: 'bilinear', alignCorners: true }),
  s.linear('l', 3, { bias: false }),
  s.pixelLinear('m', 3, { bias: false }),
)
`,
  zoo: `import { layerOf, model } from '../../dsl'
import { resnet50 } from '../../models/resnet'
import { vgg16, vgg16Features } from '../../models/vgg'
const vgg = model([1, 3, 224, 224], vgg16)
const trunk = model([1, 3, 20480, 20480], vgg16Features)
const resnet = model([8, 3, 224, 224], resnet50)
const conv = layerOf(resnet, 'layer3.5.conv2')
const names = layerOf(vgg, '')
`,
})

const hovers: readonly (readonly [program: string, text: string, shown: string])[] = [
  ['small', 'conv =', 'const conv: Conv2d<"conv1_1", 64, 3, 1, "same", 1, 1, true>'],
  ['small', 'down =', 'const down: Conv2d<"down", 128, readonly [1, 7], 2, "same", 1, 1, false>'],
  [
    'small',
    'trunk =',
    'const trunk: Seq<readonly [Conv2d<"conv1_1", 64, 3, 1, "same", 1, 1, true>, Relu<"">, MaxPool<"pool1", 2, 2, 0, false>]>',
  ],
  [
    'small',
    'net =',
    'const net: Model<{\n    input: [1, 3, 224, 224];\n    output: [1, 64, 112, 112];\n    ft: "B" | "H" | "W";\n    parameters: 1792;\n    activationBytes: 16056320;\n}, ' +
      'Seq<readonly [Conv2d<"conv1_1", 64, 3, 1, "same", 1, 1, true>, Relu<"">, MaxPool<"pool1", 2, 2, 0, false>]>>',
  ],
  ['small', 'where =', 'const where: LayerFacts<"pool1", [1, 64, 224, 224], [1, 64, 112, 112], "B" | "C" | "H" | "W", 3211264>'],
  ['small', 'size =', 'const size: [1, 64, 112, 112]'],
]
for (const [program, text, shown] of hovers)
  test(`hover over ${text.replace(' =', '')}`, () => assert.is(checked.hover(program, text), shown))

test('sizes that do not divide, up to 100 000 pixels', () => {
  assert.match(checked.hover('small', 'huge ='), 'output: [1, 64, 49995, 50000];')
  assert.match(checked.hover('small', 'huge ='), `activationBytes: ${64 * 4 * (99991 * 100000 + 49995 * 50000)};`)
})
test('an option in an object literal shows its text', () => {
  const texts: readonly (readonly [option: string, text: RegExp])[] = [
    ['budget:', /^Hard limit of device memory/],
    ['loss:', /^Loss of a model/],
    ['lr:', /^Learning rate/],
    ['length:', /^Number of samples/],
    ['steps: 2', /^Length of the whole run in steps/],
    ['every:', /^Number of epochs between two evaluations/],
    ['epochs: 2', /epochs/],
    ["mode: 'evaluate'", /^Purpose of the plan/],
    ['metrics:', /^Metrics/],
    ['out:', /./],
  ]
  for (const [option, text] of texts) assert.match(checked.docs('options', option), text)
})
test('each option of a layer shows its text', () => {
  const docs = checked.allDocs('layers')
  assert.ok(docs.length >= 38, `${docs.length} options`)
  for (const { option, text } of docs) assert.match(text, /^[A-Z].*\.$/s, option)
  assert.match(docs.find(({ option }) => option === 'stride: 2')!.text, /^Step from one window to the next, in pixels/)
})
// TypeScript 7 shows the text of a property that has one declaration; earlier compilers join the texts of all.
const shown = async (text: string, places: readonly number[]): Promise<void> => {
  const texts = await shownAt(text, places)
  for (const [i, at] of places.entries()) assert.match(texts[i]!, /^[A-Z]/, text.slice(at, text.indexOf('\n', at)))
}
test('an option shows its text in TypeScript 7', async () => {
  const places = (text: string) =>
    [...text.matchAll(/(?<=\{ |, )(budget|loss|groups|match|length|classes|scale|mode|alignCorners|mean): /g)].map((m) => m.index)
  const text = `import { adamw, conv2d, folder, model, mse, source, stage, upsample } from '../../src/index'
stage(model([1, 3, 8, 8], conv2d('c', 4, 3)), { budget: 4000000, loss: mse, optimizer: adamw({ lr: 1 }), groups: [{ match: '*.bias', weightDecay: 0 }] })
source({ length: 2, read: () => ({ input: new Uint8Array(192) }), classes: ['a'] })
upsample({ scale: 2, mode: 'bilinear', alignCorners: true })
folder('x', { mean: [0.5] })
`
  assert.is(places(text).length, 10)
  await shown(text, places(text))
})
gateTest('each option of each function shows its text, in TypeScript 5 and 7', async () => {
  const { text, places } = everyOption()
  assert.ok(places.length > 500, `${places.length} options`)
  // A sample has no options.
  const given = check({ every: text })
    .allDocs('every')
    .filter(({ option }) => !/^(input|target):/.test(option))
  for (const { option, text: docs } of given) assert.match(docs, /^[A-Z]/, option)
  await shown(text, places)
})
test('the zoo, whole', () => {
  assert.match(
    checked.hover('zoo', 'vgg ='),
    'output: [1, 1000, 1, 1];\n    ft: "B";\n    parameters: 138357544;\n    activationBytes: 60549024;',
  )
  assert.match(
    checked.hover('zoo', 'trunk ='),
    `output: [1, 512, 640, 640];\n    ft: "B" | "H" | "W";\n    parameters: 14714688;\n    activationBytes: ${315097088 * 1600};`,
  )
  assert.match(
    checked.hover('zoo', 'resnet ='),
    'input: [8, 3, 224, 224];\n    output: [8, 1000, 1, 1];\n    ft: never;\n    parameters: 25557032;',
  )
  assert.is(
    checked.hover('zoo', 'conv ='),
    'const conv: LayerFacts<"layer3.5.conv2", [8, 256, 14, 14], [8, 256, 14, 14], "B" | "H" | "W", 1605632>',
  )
})
test('layer names complete', () => {
  assert.equal([...checked.completions('small', "layerOf(net, '")].sort(), ['conv1_1', 'pool1'])
  const vgg = checked.completions('zoo', "layerOf(vgg, '")
  assert.is(vgg.length, 22)
  assert.ok(vgg.includes('conv5_3') && vgg.includes('fc8') && vgg.includes('avgpool'))
})

test.run()
