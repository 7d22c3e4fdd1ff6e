// ONNX files of PyTorch's exporters (test/fixtures/make_onnx.py) as models: the original layers, and the same output as PyTorch's. Unsupported parts
// are refused by their node; damaged files are refused in words, at any byte.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import { forwardOf } from '../../src/exchange/export'
import { type Imported, importedFrom, importOnnx, tryImportOnnx } from '../../src/exchange/import'
import { ATTRIBUTE, ELEMENT, type GraphProto, modelType, type NodeProto, type TensorProto } from '../../src/exchange/onnx'
import { readOnnx } from '../../src/exchange/read'
import { encoded } from '../../src/files/protobuf'
import { sourceText } from '../../src/exchange/source'
import { openTensors } from '../../src/files/safetensors'
import { typesOf } from '../../src/cli/types'
import { outputOf, type Output } from './outputs'

const fixtures = join(__dirname, '../fixtures/onnx')
const folder = mkdtempSync(join(tmpdir(), 'spillway-import-'))
test.after(() => rmSync(folder, { recursive: true }))

const got = <A>(e: Either<SpillwayError, A>): A => {
  if (isLeft(e)) throw new Error(errorText(e.left))
  return e.right
}
const refusal = (e: Either<SpillwayError, unknown>): string => (isLeft(e) ? errorText(e.left) : 'nothing')
const read = (path: string): Either<SpillwayError, Imported> => {
  const file = readOnnx(path)
  return isLeft(file) ? file : importedFrom(file.right, {})
}

// ---------------------------------------------------------------- files of PyTorch's

const outputs = JSON.parse(readFileSync(join(fixtures, 'outputs.json'), 'utf8')) as Readonly<Record<string, Output>>

const SAME = [
  'matrices-traced',
  'rotary-traced',
  'rotary-dynamo',
  'cosines-traced',
  'cosines-dynamo',
  'matrices-dynamo',
  'biased-traced',
  'biased-dynamo',
  'powers-kept',
  'wide-traced',
  'wide-dynamo',
  'powers-traced',
  'powers-dynamo',
  'branches-traced',
  'branches-dynamo',
  'mixed-traced',
  'mixed-dynamo',
  'factors-traced',
  'factors-dynamo',
  'readout-traced',
  'readout-dynamo',
  'dense-traced',
  'dense-kept',
  'dense-dynamo',
  'last-traced',
  'last-dynamo',
  'residual-traced',
  'residual-dynamo',
  'sizes-traced',
  'sizes-dynamo',
  'crossing-traced',
  'crossing-kept',
  'crossing-dynamo',
  'means-dynamo',
  'curves-traced',
  'curves-kept',
  'curves-dynamo',
  'parts-traced',
  'parts-kept',
  'parts-dynamo',
  'tokens-traced',
  'tokens-dynamo',
  'reduced-traced',
  'reduced-dynamo',
  'windows-traced',
  'windows-dynamo',
  'shifts-traced',
  'shifts-dynamo',
  'rolls-traced',
  'rolls-dynamo',
]
for (const name of SAME)
  test(`${name}.onnx: the output is PyTorch's`, () => {
    const want = outputs[name.replace(/-.*/, '')]!
    const file = got(readOnnx(join(fixtures, `${name}.onnx`)))
    const y = outputOf(got(importedFrom(file, { batch: want.input[0] })))
    assert.is(
      y.length,
      want.output.reduce((n, d) => n * d, 1),
    )
    for (const [i, v] of want.values.entries())
      assert.ok(Math.abs(y[i]! - v) <= 1e-6 * want.largest, `element ${i} is ${y[i]}, PyTorch's ${v}`)
  })

test('norms that are kept stay norms, under their names', () => {
  const { model, parameters } = got(read(join(fixtures, 'residual-kept.onnx')))
  assert.equal(
    model.layers.map((l) => l.kind).filter((k) => k === 'batchNorm'),
    ['batchNorm', 'batchNorm'],
  )
  assert.equal(
    parameters
      .map((p) => p.name)
      .sort()
      .slice(0, 6),
    [
      'block.body.0.0.weight',
      'block.body.0.1.bias',
      'block.body.0.1.running_mean',
      'block.body.0.1.running_var',
      'block.body.0.1.weight',
      'block.body.1.bias',
    ],
  )
})

test('a model file that TypeScript takes, with its weights beside it', () => {
  const out = join(folder, 'residual.ts')
  const made = importOnnx(join(fixtures, 'residual-traced.onnx'), { out, batch: 4 })
  assert.equal(made.input, [4, 3, 16, 16])
  const text = readFileSync(out, 'utf8')
  assert.match(
    text,
    /^\/\/ Written by spillway import from residual-traced\.onnx; the weights are in residual\.safetensors\.\nimport \{/,
  )
  assert.match(
    text,
    /scaled\(globalAvgPool\(\), conv2d\('block\.fc1', 2, 1\), relu\(\), conv2d\('block\.fc2', 8, 1\), sigmoid\(\)\)/,
  )
  assert.match(text, /export default model\(\[4, 3, 16, 16\], net\)\n$/)
  got(typesOf(out))
  const stored = got(openTensors('weights', made.save))
  // The same text on these sources.
  const here = join(folder, 'here.ts')
  writeFileSync(here, text.replace("'spillway'", `'${join(__dirname, '../../src')}'`))
  const { default: model } = require(here) as { readonly default: Imported['model'] }
  const needed = got(forwardOf(model)).graph.values.filter((v) => v.role === 'param')
  assert.equal([...stored.tensors.keys()].sort(), needed.map((v) => v.name).sort())
})

// ---------------------------------------------------------------- files that are made here

const node = (opType: string, input: readonly string[], output: string, attribute: NodeProto['attribute'] = []): NodeProto => ({
  name: `${output}'s`,
  opType,
  input,
  output: [output],
  attribute,
})
const ints = (name: string, ...ns: readonly number[]) => ({ name, type: ATTRIBUTE.INTS, ints: ns })
const weight = (name: string, ...dims: readonly number[]): TensorProto => ({
  name,
  dims,
  dataType: ELEMENT.FLOAT,
  rawData: new Uint8Array(4 * dims.reduce((n, d) => n * d, 1)),
})
const value = (name: string, ...dims: readonly (number | string)[]) => ({
  name,
  type: {
    tensorType: {
      elemType: ELEMENT.FLOAT,
      shape: { dim: dims.map((d) => (typeof d === 'string' ? { dimParam: d } : { dimValue: d })) },
    },
  },
})

const written = (graph: Partial<GraphProto>, more: object = {}): string => {
  const path = join(folder, 'made.onnx')
  const whole = { input: [value('x', 'n', 4, 8, 8)], output: [value('y')], ...graph }
  writeFileSync(path, encoded(modelType(), { irVersion: 8, opsetImport: [{ domain: '', version: 18 }], graph: whole, ...more }))
  return path
}
const nodes = (...list: readonly NodeProto[]): Partial<GraphProto> => ({
  node: list,
  initializer: [weight('w', 4, 4, 1, 1), weight('v', 4, 4, 1, 1), weight('deep', 4, 4, 1, 1, 1), weight('few', 4, 3, 1, 1)],
})

// ---------------------------------------------------------------- weights that several layers share

test('a weight of two layers becomes two weights of equal numbers, under the names of both layers', () => {
  const made = got(read(written(nodes(node('Conv', ['x', 'w'], 'z'), node('Conv', ['z', 'w'], 'y')))))
  assert.equal(
    made.parameters.map((p) => [p.name, p.tensor.name]),
    [
      ['z_s.weight', 'w'],
      ['y_s.weight', 'w'],
    ],
  )
  assert.equal(made.copied, ['w'])
})

test('equal initial values, which an older exporter writes once, are the weights of the layers that Identity nodes name', () => {
  const once = {
    ...nodes(
      node('Identity', ['first.weight'], 'second.weight'),
      node('Conv', ['x', 'first.weight'], 'z'),
      node('Conv', ['z', 'second.weight'], 'y'),
    ),
    initializer: [weight('first.weight', 4, 4, 1, 1)],
  }
  const out = join(folder, 'equal.ts')
  const made = importOnnx(written(once), { out })
  assert.equal(made.copied, [])
  const stored = got(openTensors('weights', made.save))
  assert.equal([...stored.tensors.keys()].sort(), ['first.weight', 'second.weight'])
  assert.match(
    readFileSync(out, 'utf8'),
    /seq\(conv2d\('first', 4, 1, \{ bias: false \}\), conv2d\('second', 4, 1, \{ bias: false \}\)\)/,
  )
})

// ---------------------------------------------------------------- groups of nodes as layers

const made = (...list: readonly NodeProto[]): string => {
  const { model, nets } = got(read(written({ ...nodes(...list), initializer: [...CONSTANTS, weight('k', 4, 4, 3, 3)] })))
  const text = sourceText({ input: model.input, nets, head: [] })
  return /export const net = seq\(\s*([\s\S]*?),?\s*\)\n\nexport/.exec(text)![1]!
}
const int64s = (name: string, ...ns: readonly number[]): TensorProto => ({
  name,
  dims: [ns.length],
  dataType: ELEMENT.INT64,
  rawData: new Uint8Array(BigInt64Array.from(ns, BigInt).buffer),
})
const float = (name: string, n: number): TensorProto => ({
  name,
  dims: [],
  dataType: ELEMENT.FLOAT,
  rawData: new Uint8Array(Float32Array.of(n).buffer),
})
const CONSTANTS = [
  ...[0, 1, 2, 3, 6].map((n) => float(`${n}`, n)),
  float('sixth', 1 / 6),
  ...[0, 1, 2, 3, 4, 8, -1, -4].map((n) => int64s(`[${n}]`, n)),
  int64s('[1,3]', 1, 3),
  int64s('one more', 0, 0, 0, 0, 0, 0, 1, 1),
  int64s('[3,3]', 3, 3),
  int64s('[0,2,2,8,8]', 0, 2, 2, 8, 8),
  int64s('[0,4,8,8]', 0, 4, 8, 8),
  int64s('[1,4,-1]', 1, 4, -1),
  int64s('[0,2]', 0, 2),
  int64s('[4,4,3,3]', 4, 4, 3, 3),
  weight('columns', 1, 36, 4),
  ...[0, 1, 2, 3].map((n) => ({
    name: `four of ${n}`,
    dims: [4],
    dataType: ELEMENT.FLOAT,
    rawData: new Uint8Array(Float32Array.of(n, n, n, n).buffer),
  })),
]
const axis1 = { name: 'axis', type: ATTRIBUTE.INT, i: 1 }

// biome-ignore format: a table
const MEANINGS: Readonly<Record<string, readonly [readonly NodeProto[], string]>> = {
  'a split': [
    [{ ...node('Split', ['x', '[1,3]'], 'a', [axis1]), output: ['a', 'b'] }, node('Relu', ['b'], 'c'), node('Concat', ['a', 'c'], 'y', [axis1])],
    'concat(sliceChannels(0, 1), seq(sliceChannels(1, 3), relu()))',
  ],
  'a split into equal parts': [
    [{ ...node('Split', ['x'], 'a', [axis1]), output: ['a', 'b'] }, node('Concat', ['b', 'a'], 'y', [axis1])],
    'concat(sliceChannels(2, 2), sliceChannels(0, 2))',
  ],
  'the last channels': [[node('Slice', ['x', '[-1]', '[4]', '[1]'], 'y')], 'sliceChannels(3, 1)'],
  'a shuffle': [
    [node('Reshape', ['x', '[0,2,2,8,8]'], 'a'), node('Transpose', ['a'], 'b', [ints('perm', 0, 2, 1, 3, 4)]), node('Reshape', ['b', '[0,4,8,8]'], 'y')],
    'channelShuffle(2)',
  ],
  'hard sigmoid in pieces': [[node('Add', ['x', '3'], 'a'), node('Clip', ['a', '0', '6'], 'b'), node('Div', ['b', '6'], 'y')], 'hardSigmoid()'],
  'hard swish in pieces': [
    [node('Add', ['x', '3'], 'a'), node('Clip', ['a', '0', '6'], 'b'), node('Mul', ['b', 'sixth'], 'c'), node('Mul', ['x', 'c'], 'y')],
    'hardSwish()',
  ],
  'hard swish in other pieces': [
    [node('Add', ['x', '3'], 'a'), node('Clip', ['a', '0', '6'], 'b'), node('Mul', ['x', 'b'], 'c'), node('Div', ['c', '6'], 'y')],
    'hardSwish()',
  ],
  'a sum with another number': [[node('Add', ['2', 'x'], 'a'), node('Clip', ['a', '0', '6'], 'b'), node('Div', ['b', '6'], 'y')], 'affine(1, 2), relu6(), affine(0.16666667)'],
  'two constants in a row': [[node('Mul', ['x', '3'], 'a'), node('Sub', ['2', 'a'], 'y')], 'affine(-3, 2)'],
  'a difference': [[node('Relu', ['x'], 'a'), node('Sub', ['a', 'x'], 'y')], 'residual(relu(), affine(-1))'],
  'a stack and its sum': [
    [node('Relu', ['x'], 'a'), node('Unsqueeze', ['x', '[0]'], 'b'), node('Unsqueeze', ['a', '[0]'], 'c'),
      node('Concat', ['b', 'c'], 'd', [{ ...axis1, i: 0 }]), node('ReduceSum', ['d', '[0]'], 'y', [{ ...axis1, name: 'keepdims', i: 0 }])],
    'residual(relu(), identity)',
  ],
  'branches that join a later one': [
    [node('Relu', ['x'], 'a'), node('Sigmoid', ['a'], 'b'), node('Concat', ['x', 'a', 'b'], 'y', [axis1])],
    'concat(identity, seq(relu(), concat(identity, sigmoid())))',
  ],
  'branches that cross': [
    [node('Relu', ['x'], 'a'), node('Tanh', ['x'], 'b'), node('Add', ['a', 'b'], 's'), node('Sigmoid', ['s'], 'r'), node('Add', ['a', 'r'], 'y')],
    `values(
    value('v1', 'input', relu()),
    value('v2', 'input', tanh()),
    value('v3', { added: ['v1', 'v2'] }, sigmoid()),
    value('v4', { added: ['v1', 'v3'] }),
  )`,
  ],
  'a product of two branches': [
    [node('Relu', ['x'], 'a'), node('GlobalAveragePool', ['x'], 'b'), node('Mul', ['b', 'a'], 'y')],
    "values(value('v1', 'input', relu()), value('v2', 'input', globalAvgPool()), value('v3', { multiplied: ['v1', 'v2'] }))",
  ],
  'standardised weights as a batch norm of rows': [
    [
      node('Reshape', ['k', '[1,4,-1]'], 'a'),
      node('BatchNormalization', ['a', 'four of 1', 'four of 0', 'four of 0', 'four of 1'], 'b', [{ ...axis1, name: 'training_mode' }]),
      node('Reshape', ['b', '[4,4,3,3]'], 'c'),
      node('Conv', ['x', 'c'], 'y', [ints('pads', 1, 1, 1, 1)]),
    ],
    "conv2d('y_s', 4, 3, { standardize: 0.00001, bias: false })",
  ],
  'standardised weights with a gain, as the older exporter writes them: means of columns that nobody reads': [
    [
      node('Reshape', ['k', '[1,4,-1]'], 'a'),
      node('ReduceMean', ['columns'], 'm', [ints('axes', 0, 1), { ...axis1, name: 'keepdims', i: 0 }]),
      node('ReduceMean', ['columns'], 'n', [ints('axes', 0, 1)]),
      node('Sub', ['columns', 'n'], 's'),
      node('Mul', ['s', 's'], 't'),
      node('ReduceMean', ['t'], 'v', [ints('axes', 0, 1), { ...axis1, name: 'keepdims', i: 0 }]),
      node('BatchNormalization', ['a', 'four of 2', 'four of 0', 'm', 'v'], 'b', [{ ...axis1, name: 'training_mode' }]),
      node('Reshape', ['b', '[4,4,3,3]'], 'c'),
      node('Conv', ['x', 'c', 'four of 3'], 'y', [ints('pads', 1, 1, 1, 1)]),
    ],
    "conv2d('y_s', 4, 3, { standardize: 0.00001, bias: false }), layerScale('y_s.gain'), bias('y_s.bias')",
  ],
  'standardised weights as a batch norm by the means and variances of rows': [
    [
      node('Reshape', ['k', '[1,4,-1]'], 'a'),
      node('ReduceMean', ['a', '[0,2]'], 'm', [{ ...axis1, name: 'keepdims', i: 0 }]),
      node('ReduceMean', ['a', '[0,2]'], 'n'),
      node('Sub', ['a', 'n'], 's'),
      node('Mul', ['s', 's'], 't'),
      node('ReduceMean', ['t', '[0,2]'], 'v', [{ ...axis1, name: 'keepdims', i: 0 }]),
      node('BatchNormalization', ['a', 'four of 1', 'four of 0', 'm', 'v'], 'b'),
      node('Reshape', ['b', '[4,4,3,3]'], 'c'),
      node('Conv', ['x', 'c'], 'y'),
    ],
    "conv2d('y_s', 4, 3, { pad: 0, standardize: 0.00001, bias: false })",
  ],
  'zeros before a max pool behind relu': [
    [node('Relu', ['x'], 'r'), node('Pad', ['r', 'one more'], 'a'), node('MaxPool', ['a'], 'y', [ints('kernel_shape', 2, 2)])],
    'relu(), maxPool(2, { stride: 1, pad: { top: 0, left: 0, bottom: 1, right: 1 } })',
  ],
  'tokens without the first': [
    [node('MaxPool', ['x'], 'a', [ints('kernel_shape', 8, 1)]), node('Reshape', ['a', '[1,4,-1]'], 'b'), node('Transpose', ['b'], 'c', [ints('perm', 0, 2, 1)]),
      node('Slice', ['c', '[1]', '[8]', '[1]'], 'd'), node('ReduceMean', ['d', '[1]'], 'y', [{ ...axis1, name: 'keepdims', i: 0 }])],
    'maxPool([8, 1], { stride: 1 }), turnPixels(), sliceChannels(1, 7), turnPixels(), globalAvgPool()',
  ],
  'padding that is computed': [
    [node('Shape', ['x'], 's'), node('Gather', ['s', '[2]'], 'h'), node('Sub', ['h', '[1]'], 'a'), node('Div', ['a', '[3]'], 'b'),
      node('Concat', ['[0]', '[0]', '[0]', 'b', '[0]', '[0]', '[1]', '[0]'], 'p', [{ ...axis1, i: 0 }]), node('Pad', ['x', 'p'], 'q'), node('Conv', ['q', 'k'], 'y')],
    "conv2d('y_s', 4, 3, { pad: { top: 0, left: 2, bottom: 1, right: 0 }, bias: false })",
  ],
}
for (const [what, [list, source]] of Object.entries(MEANINGS))
  test(`${what} is ${source}`, () => assert.is(made(...list), source))

// ---------------------------------------------------------------- bytes

const numbers = (name: string, ...ns: readonly number[]): TensorProto => ({
  name,
  dims: ns.length === 1 ? [] : [ns.length, 1, 1],
  dataType: ELEMENT.FLOAT,
  rawData: new Uint8Array(Float32Array.from(ns).buffer),
})
const toFloat = [{ name: 'to', type: ATTRIBUTE.INT, i: ELEMENT.FLOAT }]
const fromBytesBy = (steps: readonly (readonly [op: string, ...numbers: number[]])[]): Partial<GraphProto> => ({
  input: [value('x', 'n', 3, 8, 8)].map((v) => ({
    ...v,
    type: { tensorType: { ...v.type.tensorType, elemType: ELEMENT.UINT8 } },
  })),
  node: [
    node('Cast', ['x'], 's0', toFloat),
    ...steps.map(([op], i) => node(op, [`s${i}`, `n${i}`], `s${i + 1}`)),
    node('Relu', [`s${steps.length}`], 'y'),
  ],
  initializer: steps.map(([, ...ns], i) => numbers(`n${i}`, ...ns)),
})

for (const [steps, mean, std] of [
  [[['Div', 255]], 0, 1],
  [[], 0, 1 / 255],
  [
    [
      ['Div', 255],
      ['Sub', 0.485, 0.456, 0.406],
      ['Div', 0.229, 0.224, 0.225],
    ],
    [0.485, 0.456, 0.406],
    [0.229, 0.224, 0.225],
  ],
  [
    [
      ['Sub', 127.5],
      ['Mul', 1 / 127.5],
    ],
    0.5,
    0.5,
  ],
  [
    [
      ['Mul', 1 / 255],
      ['Add', -0.5],
    ],
    0.5,
    1,
  ],
] as const)
  test(`a cast, then ${steps.map(([op]) => op).join(', ') || 'nothing'}, is fromBytes`, () => {
    const { model } = got(read(written(fromBytesBy(steps))))
    const [first, second] = (model.net as unknown as { readonly layers: readonly Record<string, unknown>[] }).layers
    assert.equal([first!['kind'], second!['kind']], ['fromBytes', 'relu'])
    for (const [have, want] of [
      [first!['mean'], mean],
      [first!['std'], std],
    ] as const)
      assert.equal(
        [have].flat().map((n) => Math.fround(n as number)),
        [want].flat().map(Math.fround),
      )
  })

test('bytes before their conversion, and bytes that a layer computes, are refused', () => {
  const bytes = fromBytesBy([])
  const refused = (...list: readonly NodeProto[]): string =>
    refusal(read(written({ ...bytes, node: list, initializer: [numbers('n', -1)] })))
  assert.match(refused(node('Relu', ['x'], 'y')), /its input is bytes; cast them to float first/)
  assert.match(refused(node('Cast', ['x'], 'y', [{ ...toFloat[0]!, i: ELEMENT.DOUBLE }])), /element type 11; allowed: float/)
  const scaled = [node('Cast', ['x'], 's', toFloat), node('Mul', ['s', 'n'], 'z'), node('Relu', ['z'], 'y')]
  assert.match(refused(...scaled), /it scales bytes by \[-1\]; allowed: numbers above 0/)
})

// ---------------------------------------------------------------- what is refused

const REFUSED: Readonly<Record<string, RegExp>> = {
  'last-kept': /node '\/block\/norm\/ReduceMean' \(ReduceMean\): it reduces axes 3; allowed: height and width$/,
}
for (const [name, words] of Object.entries(REFUSED))
  test(`${name}.onnx is refused by its node`, () => assert.match(refusal(read(join(fixtures, `${name}.onnx`))), words))

/** Two parts of the rows, one after the other. */
const rollOf = (from: string, to: string, ...next: readonly string[]): readonly NodeProto[] => [
  node('Slice', ['x', from, to, '[2]'], 'first'),
  node('Slice', ['x', next[0] === '[8]' ? to : next[0]!, next[0] === '[8]' ? '[8]' : next[1]!, '[2]'], 'second'),
  node('Concat', ['first', 'second'], 'y', [{ ...axis1, i: 2 }]),
]
const ROLL = [0, 2, 3, 8].map((n) => int64s(`[${n}]`, n))

/** Scores of all pixels, their softmax, and more nodes. */
const scoresThen = (...more: readonly NodeProto[]): Partial<GraphProto> => ({
  ...nodes(
    node('Reshape', ['x', 'flat'], 'f'),
    node('Transpose', ['f'], 't', [ints('perm', 0, 2, 1)]),
    node('MatMul', ['t', 'f'], 'a'),
    node('Softmax', ['a'], 'b'),
    ...more,
  ),
  initializer: [int64s('flat', 0, 4, -1), float('two', 2)],
})

test('a table of absolute distances with a column for each head becomes that of a mirrored bias', () => {
  const at = (i: number): readonly [number, number] => [Math.floor(i / 8), i % 8]
  const pixels = Array.from({ length: 64 }, (_, i) => at(i))
  const distances = pixels.flatMap(([y, x]) => pixels.map(([v, u]) => Math.abs(y - v) * 8 + Math.abs(x - u)))
  const graph = (places: readonly number[]): Partial<GraphProto> => ({
    ...nodes(
      node('Reshape', ['x', 'flat'], 'f'),
      node('Transpose', ['f'], 't', [ints('perm', 0, 2, 1)]),
      node('MatMul', ['t', 'f'], 'a'),
      node('GatherND', ['table', 'places'], 'g'),
      node('Transpose', ['g'], 'h', [ints('perm', 2, 0, 1)]),
      node('Add', ['a', 'h'], 's'),
      node('Softmax', ['s'], 'b'),
      node('MatMul', ['b', 't'], 'y'),
    ),
    initializer: [int64s('flat', 0, 4, -1), weight('table', 64, 1), { ...int64s('places', ...places), dims: [64, 64, 1] }],
  })
  const made = got(read(written(graph(distances))))
  const [table] = made.parameters.filter((p) => p.name.endsWith('.attention_biases'))
  assert.equal([table!.shape, table!.transposed], [[1, 64], true])
  assert.match(
    refusal(read(written(graph(distances.map((d) => 63 - d))))),
    /it adds a bias of scores that is not a number for each head and distance of two pixels/,
  )
})

const MADE: Readonly<Record<string, readonly [Partial<GraphProto>, RegExp]>> = {
  'an operator that is no layer': [
    nodes(node('TopK', ['x'], 'y')),
    /node 'y's' \(TopK\): this operator is not supported; allowed: Add/,
  ],
  'an operator of others': [
    nodes({ ...node('Relu', ['x'], 'y'), domain: 'com.acme' }),
    /node 'y's' \(Relu\): this operator is not supported/,
  ],
  'a value that is made later': [
    nodes(node('Relu', ['z'], 'y'), node('Relu', ['x'], 'z')),
    /'y's' \(Relu\): its input 'z' is not the output of an earlier node/,
  ],
  'a weight of three dimensions': [
    nodes(node('Conv', ['x', 'deep'], 'y')),
    /its weight is \[4,4,1,1,1\]; it must have four dimensions, for images/,
  ],
  'a weight for other channels': [nodes(node('Conv', ['x', 'few'], 'y')), /its weight is for 3 channels, its input has 4/],
  'a weight that is computed': [
    nodes(node('Relu', ['x'], 'z'), node('Conv', ['x', 'z'], 'y')),
    /its input 'z' is computed; allowed: weights stored in the file/,
  ],
  'padding beyond the window': [nodes(node('Conv', ['x', 'w'], 'y', [ints('pads', 9, 9, 9, 9)])), /'y's' \(Conv\): .*padding/],
  'a product of two sizes': [
    nodes(
      node('GlobalAveragePool', ['x'], 'a'),
      node('Conv', ['x', 'w'], 'b'),
      node('MaxPool', ['b'], 'c', [ints('kernel_shape', 2, 2), ints('strides', 2, 2)]),
      node('Mul', ['b', 'c'], 'd'),
      node('Mul', ['a', 'd'], 'y'),
    ),
    /node 'd's' \(Mul\) multiplies \[4,8,8\] by \[4,4,4\]; allowed: equal sizes, one value per channel or one per pixel/,
  ],
  'half of a function': [
    nodes(node('Erf', ['x'], 'e'), node('Relu', ['e'], 'y')),
    /node 'e's' \(Erf\): it is not a part of a known function/,
  ],
  'channels in two axes, but no attention': [
    {
      ...nodes(
        node('GlobalAveragePool', ['x'], 'a'),
        node('Flatten', ['a'], 'b'),
        node('Reshape', ['b', 'to'], 'c'),
        node('GlobalAveragePool', ['c'], 'y'),
      ),
      initializer: [int64s('to', 0, 2, 2)],
    },
    /node 'y's' \(GlobalAveragePool\): its input 'c' is a reshaped or sliced value; allowed: values computed by layers from the image/,
  ],
  'a norm by the root of squares with another number': [
    {
      ...nodes(
        node('Mul', ['x', 'x'], 'a'),
        node('ReduceSum', ['a', 'axis'], 'b'),
        node('Add', ['b', 'few'], 'c'),
        node('Sqrt', ['c'], 'd'),
        node('Reciprocal', ['d'], 'e'),
        node('Mul', ['x', 'e'], 'y'),
      ),
      initializer: [int64s('axis', 1), float('few', 0.5)],
    },
    /node 'y's' \(Mul\): its input 'e' is a part of a norm of channels; allowed: values computed by layers/,
  ],
  'lengths of another value': [
    {
      ...nodes(
        node('Relu', ['x'], 'a'),
        node('ReduceL2', ['x', 'axis'], 'b', [{ name: 'keepdims', type: ATTRIBUTE.INT, i: 1 }]),
        node('Div', ['a', 'b'], 'y'),
      ),
      initializer: [int64s('axis', 1)],
    },
    /node 'y's' \(Div\): it divides by the lengths of another value; allowed: its own/,
  ],
  'repeated numbers that are not one for each group': [
    {
      ...nodes(node('Expand', ['p', 'to'], 'a'), node('Reshape', ['a', 'one'], 'b'), node('Mul', ['x', 'b'], 'y')),
      initializer: [weight('p', 4, 1), int64s('to', 4, 2), int64s('one', -1)],
    },
    /node 'y's' \(Mul\): it multiplies by other numbers than one for each group of channels; allowed: numbers of groups/,
  ],
  'padding of pixels of a reshaped value': [
    {
      ...nodes(node('Reshape', ['x', 'to'], 'a'), node('Pad', ['a', 'pads'], 'y')),
      initializer: [int64s('to', 0, 2, 2, 64), int64s('pads', 0, 0, 0, 0, 0, 0, 0, 1)],
    },
    /node 'y's' \(Pad\): it pads pixels of a reshaped value; allowed: channels/,
  ],
  'rows that are no multiple': [
    { ...nodes(node('Reshape', ['x', 'to'], 'y')), initializer: [int64s('to', 0, 5, -1)] },
    /node 'y's' \(Reshape\): it reshapes \[B,4,8,8\] to \[0,5,-1\]; allowed: \[B,-1\], \[B,C,1,1\], and parts/,
  ],
  'a batch norm of rows': [
    {
      ...nodes(
        node('Transpose', ['x'], 'a', [ints('perm', 0, 2, 3, 1)]),
        node('BatchNormalization', ['a', 'c', 'c', 'c', 'c'], 'y'),
      ),
      initializer: [weight('c', 4)],
    },
    /node 'y's' \(BatchNormalization\): its input has its channels last; allowed: \[B,C,H,W\], \[B,C\]/,
  ],
  'a pool of columns and channels': [
    nodes(node('Transpose', ['x'], 'a', [ints('perm', 0, 2, 3, 1)]), node('GlobalAveragePool', ['a'], 'y')),
    /node 'y's' \(GlobalAveragePool\): its input is with channels last; allowed: \[B,C,H,W\]/,
  ],
  'products without a softmax': [
    nodes(node('MatMul', ['x', 'x'], 'y')),
    /node 'y's' \(MatMul\): it multiplies values of different arrangements; allowed: queries and keys of the same heads and pixels/,
  ],
  'a slice of rows': [
    {
      ...nodes(node('Slice', ['x', 'from', 'to', 'axes'], 'a'), node('Relu', ['a'], 'y')),
      initializer: [int64s('from', 0), int64s('to', -1), int64s('axes', 2)],
    },
    /node 'y's' \(Relu\): its input 'a' is a part of the rows or columns; allowed: values computed by layers from the image/,
  ],
  'a softmax of a softmax': [
    scoresThen(node('Softmax', ['b'], 'y')),
    /node 'y's' \(Softmax\): it takes a softmax of a softmax; allowed: one/,
  ],
  'a softmax times a number': [
    scoresThen(node('Mul', ['b', 'two'], 'y')),
    /node 'y's' \(Mul\): it multiplies a softmax by a number; allowed: scores before it/,
  ],
  'a softmax of the columns of each row': [
    { ...nodes(node('Reshape', ['x', 'to'], 'a'), node('Softmax', ['a'], 'y')), initializer: [int64s('to', 0, 4, 2, 4, 8)] },
    /node 'y's' \(Softmax\): it takes a softmax over parts of pixels; allowed: channels of a group, all pixels, or all elements/,
  ],
  'matrices of different sizes': [
    { ...nodes(node('Reshape', ['x', 'flat'], 'f'), node('MatMul', ['f', 'f'], 'y')), initializer: [int64s('flat', 0, 4, -1)] },
    /node 'y's' \(MatMul\): it multiplies matrices \[1,4,64\] and \[1,4,64\]; allowed: equal numbers of matrices and equal inner sizes/,
  ],
  'a sum of rows': [
    {
      ...nodes(node('Reshape', ['x', 'to'], 'a'), node('ReduceSum', ['a', '[3]'], 'y')),
      initializer: [int64s('to', 0, 2, 2, 4, 2, 8), int64s('[3]', 3)],
    },
    /node 'y's' \(ReduceSum\): allowed: the sum along the first dimension of stacked images/,
  ],
  'a softmax over rows in two axes': [
    {
      ...nodes(node('Reshape', ['x', 'to'], 'a'), node('Softmax', ['a'], 'y', [{ ...axis1, i: 2 }])),
      initializer: [int64s('to', 0, 4, 2, 4, 8)],
    },
    /node 'y's' \(Softmax\): it takes a softmax over parts of pixels; allowed: channels of a group, all pixels, or all elements/,
  ],
  'a root of another order': [
    {
      ...nodes(
        node('Clip', ['x', 'least'], 'a'),
        node('Pow', ['a', 'three'], 'b'),
        node('GlobalAveragePool', ['b'], 'c'),
        node('Pow', ['c', 'half'], 'y'),
      ),
      initializer: [float('least', 1e-6), float('three', 3), float('half', 0.5)],
    },
    /node 'y's' \(Pow\): it is no root of order 3; allowed: the root of the powers in the mean/,
  ],
  'powers over a part of the image': [
    {
      ...nodes(
        node('Clip', ['x', 'least'], 'a'),
        node('Pow', ['a', 'three'], 'b'),
        node('AveragePool', ['b'], 'y', [ints('kernel_shape', 4, 8)]),
      ),
      initializer: [float('least', 1e-6), float('three', 3)],
    },
    /node 'y's' \(AveragePool\): it averages powers over a part of the image; allowed: height and width, kept/,
  ],
  'numbers that are clipped from below alone': [
    { ...nodes(node('Clip', ['x', 'least'], 'a'), node('Relu', ['a'], 'y')), initializer: [float('least', 1e-6)] },
    /node 'y's' \(Relu\): its input 'a' is a part of a generalised mean/,
  ],
  'zeros before a max pool that is padded, too': [
    {
      ...nodes(
        node('Pad', ['x', 'pads'], 'a'),
        node('MaxPool', ['a'], 'y', [ints('kernel_shape', 2, 2), ints('pads', 1, 1, 0, 0)]),
      ),
      initializer: [int64s('pads', 0, 0, 0, 0, 0, 0, 1, 1)],
    },
    /node 'y's' \(MaxPool\): it is padded twice; use one padding/,
  ],
  'rows in another order': [
    {
      ...nodes(...rollOf('[0]', '[3]', '[8]')),
      initializer: ROLL,
    },
    /node 'y's' \(Concat\): it concatenates rows or columns; allowed: the last ones before the others, as torch.roll does/,
  ],
  'a rolled image that is not rolled back': [
    { ...nodes(...rollOf('[3]', '[8]', '[0]', '[3]')), initializer: ROLL },
    /its output is rolled; allowed: values that are rolled back/,
  ],
  'a convolution of a rolled image': [
    {
      ...nodes(
        ...rollOf('[3]', '[8]', '[0]', '[3]').map((n) => ({ ...n, output: n.output!.map((o) => (o === 'y' ? 'z' : o)) })),
        node('Conv', ['z', 'k3'], 'y'),
      ),
      initializer: [...ROLL, weight('k3', 4, 4, 3, 3)],
    },
    /node 'y's' \(Conv\): it reads rolled rows or columns; allowed: layers of single pixels and attention in shifted windows/,
  ],
  'a split of rows': [
    nodes({ ...node('Split', ['x'], 'y', [{ ...axis1, i: 2 }]), output: ['y', 'z'] }),
    /node 'y's' \(Split\): it splits axis 2; allowed: channels/,
  ],
  'a gate of another slope': [
    nodes(node('HardSigmoid', ['x'], 'y')),
    /node 'y's' \(HardSigmoid\): its alpha is 0.2, its beta 0.5; allowed: 1\/6 and 1\/2, as in PyTorch/,
  ],
  'two outputs': [
    { ...nodes(node('Relu', ['x'], 'y')), output: [value('y'), value('x')] },
    /it has 2 outputs \(y, x\); choose one, e\.g\. --output y/,
  ],
  'two inputs': [
    { ...nodes(node('Relu', ['x'], 'y')), input: [value('x', 1, 4, 8, 8), value('z', 1)] },
    /it has 2 inputs \(x, z\); allowed: one/,
  ],
  'an input that is no image': [
    { ...nodes(node('Relu', ['x'], 'y')), input: [value('x', 1, 4)] },
    /its input 'x' has 2 dimensions .*allowed: images/,
  ],
  'sizes that are left open': [
    { ...nodes(node('Relu', ['x'], 'y')), input: [value('x', 'n', 4, 'h', 'w')] },
    /has no height and width for 'x': add --image/,
  ],
  nothing: [nodes(node('Identity', ['x'], 'y')), /it has no layers: its output is its input/],
  'a tensor larger than its bytes': [
    { ...nodes(node('Relu', ['x'], 'y')), initializer: [{ ...weight('w', 1), dims: [2 ** 40] }] },
    /tensor 'w' F32\[1099511627776\] has 4 bytes, not 4398046511104/,
  ],
  'a tensor of no size that can be': [
    { ...nodes(node('Relu', ['x'], 'y')), initializer: [{ ...weight('w', 1), dims: [2 ** 40, 2 ** 40] }] },
    /has an impossible size/,
  ],
  'a file elsewhere': [
    {
      ...nodes(node('Relu', ['x'], 'y')),
      initializer: [
        { name: 'w', dims: [1], dataType: 1, dataLocation: 1, externalData: [{ key: 'location', value: '../secret' }] },
      ],
    },
    /its weights are in '\.\.\/secret'; allowed: the name of a file beside it/,
  ],
  'bytes behind the end of a file': [
    {
      ...nodes(node('Relu', ['x'], 'y')),
      initializer: [
        {
          name: 'w',
          dims: [1],
          dataType: 1,
          dataLocation: 1,
          externalData: [
            { key: 'location', value: 'made.onnx' },
            { key: 'offset', value: '99999' },
          ],
        },
      ],
    },
    /tensor 'w' is beyond the end of made\.onnx/,
  ],
}
for (const [what, [graph, words]] of Object.entries(MADE))
  test(`${what} is refused with an error`, () => assert.match(refusal(read(written(graph))), words))

test('files that are no models, or of another time, are refused', () => {
  const path = join(folder, 'odd.onnx')
  assert.match(refusal(read(join(folder, 'none.onnx'))), /model file .*none\.onnx: no such file/)
  writeFileSync(path, 'import { model } from "spillway"')
  assert.match(refusal(read(path)), /it is not an ONNX model/)
  writeFileSync(path, '')
  assert.match(refusal(read(path)), /it is not an ONNX model: it has no graph/)
  assert.match(
    refusal(read(written(nodes(node('Relu', ['x'], 'y')), { opsetImport: [{ domain: '', version: 6 }] }))),
    /version 6; allowed: 9 or newer/,
  )
})

test('a value that is much larger in memory than in the file is refused before allocation', () => {
  const graph = (bytes: Uint8Array): string => {
    const path = join(folder, 'bomb.onnx')
    const head = Buffer.from([0x3a, 0, 0, 0, 0])
    let n = bytes.length
    for (let i = 1; i < 5; i++, n = Math.floor(n / 128)) head[i] = (n & 127) | (i < 4 ? 128 : 0)
    writeFileSync(path, Buffer.concat([head, bytes]))
    return path
  }
  // Empty nodes of two bytes each.
  assert.match(refusal(read(graph(Buffer.alloc(4_000_000, Buffer.from([0x0a, 0]))))), /it has more than 1000000 parts/)
  // A graph in an attribute of a node of a graph, and so on.
  let deep: Uint8Array = new Uint8Array(0)
  const around = (tag: number, inner: Uint8Array): Uint8Array => {
    const length = inner.length < 128 ? [inner.length] : [(inner.length & 127) | 128, inner.length >> 7]
    return Buffer.from([tag, ...length, ...inner])
  }
  for (let i = 0; i < 60; i++) deep = around(0x0a, around(0x2a, around(0x32, deep)))
  assert.match(refusal(read(graph(deep))), /its messages nest deeper than 32/)
})

test('five hundred damaged files: each is read or refused with an error', () => {
  const path = join(folder, 'damaged.onnx')
  const bytes = ['residual-traced', 'dense-dynamo', 'last-traced', 'residual-kept'].map((n) =>
    readFileSync(join(fixtures, `${n}.onnx`)),
  )
  let seed = 1
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
    return Math.floor((seed / 2 ** 32) * below)
  }
  let refused = 0
  for (let i = 0; i < 500; i++) {
    const damaged = Buffer.from(bytes[i % bytes.length]!)
    const changes = 1 + random(8)
    for (let k = 0; k < changes; k++) damaged[random(damaged.length)] = random(256)
    writeFileSync(path, i % 10 === 0 ? damaged.subarray(0, random(damaged.length)) : damaged)
    const answer = read(path)
    if (!isLeft(answer)) continue
    refused++
    const words = errorText(answer.left)
    assert.ok(words.length > 20 && !/undefined|\bat \S+:\d+|TypeError|RangeError/.test(words), words)
  }
  assert.ok(refused > 100, `${refused} were refused`)
})

test('one of several outputs, or an inner value, with the layers that it needs', () => {
  const list = [
    node('Conv', ['x', 'k3'], 'features'),
    node('Relu', ['features'], 'y'),
    node('Conv', ['features', 'k1'], 'aux'),
    node('TopK', ['features'], 'rest'),
  ]
  const file = written({
    ...nodes(...list),
    initializer: [...CONSTANTS, weight('k3', 4, 4, 3, 3), weight('k1', 2, 4, 1, 1)],
    output: [value('y'), value('aux')],
  })
  const made = (output: string, name: string) => got(tryImportOnnx(file, { out: join(folder, `${name}.ts`), output }))
  assert.equal(
    [made('y', 'main').output, made('aux', 'side').output],
    [
      [1, 4, 6, 6],
      [1, 2, 6, 6],
    ],
  )
  assert.equal([made('y', 'main').layers, made('features', 'inner').layers], [2, 1])
  assert.match(
    refusal(tryImportOnnx(file, { out: join(folder, 'no.ts') })),
    /it has 2 outputs \(y, aux\); choose one, e\.g\. --output y/,
  )
  assert.match(
    refusal(tryImportOnnx(file, { out: join(folder, 'no.ts'), output: 'z' })),
    /no node has the output 'z'; the outputs of the file: y, aux/,
  )
  assert.match(
    refusal(tryImportOnnx(file, { out: join(folder, 'no.ts'), output: 'rest' })),
    /\(TopK\): this operator is not supported/,
  )
})

test('a refused import writes no file', () => {
  const out = join(folder, 'never.ts')
  assert.ok(isLeft(tryImportOnnx(join(fixtures, 'last-kept.onnx'), { out })))
  assert.throws(() => readFileSync(out), /ENOENT/)
  assert.throws(() => readFileSync(join(folder, 'never.safetensors')), /ENOENT/)
})
test.run()
