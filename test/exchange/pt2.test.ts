// Programs of `torch.export` (test/fixtures/make_pt2.py) as models: the same output as PyTorch's, the same net in every mode, PyTorch's names.
// Unsupported parts are refused by their node, pickles by their part; damaged archives are refused in words, at any byte.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import { type Imported, importedFrom, importOnnx, openModel, unsupportedIn } from '../../src/exchange/import'
import { forwardOf } from '../../src/exchange/export'
import { sourceText } from '../../src/exchange/source'
import { openTensors, readTensor, type TensorFile } from '../../src/files/safetensors'
import { loadWeights } from '../../src/train/loading'
import { modelState, saveWeights, type StateStore } from '../../src/train/weights'
import { FULL } from '../full'
import { outputOf, type Output } from './outputs'
import { archiveOf, ints, type Made, type Node, partsOf, programOf, tensor, tensors } from './programs'

const fixtures = join(__dirname, '../fixtures/pt2')
const folder = mkdtempSync(join(tmpdir(), 'spillway-pt2-'))
test.after(() => rmSync(folder, { recursive: true }))

const got = <A>(e: Either<SpillwayError, A>): A => {
  if (isLeft(e)) throw new Error(errorText(e.left))
  return e.right
}
const read = (path: string): Either<SpillwayError, Imported> => {
  const file = openModel(path)
  return isLeft(file) ? file : importedFrom(file.right, {})
}
const fixture = (name: string): Imported => got(read(join(fixtures, `${name}.pt2`)))
const textOf = ({ model, nets }: Imported): string => sourceText({ input: model.input, nets, head: [] })

// ---------------------------------------------------------------- programs of PyTorch's

const outputs = JSON.parse(readFileSync(join(fixtures, 'outputs.json'), 'utf8')) as Readonly<Record<string, Output>>

const SAME = [
  'rotary-train',
  'cosines-train',
  'matrices-train',
  'biased-train',
  'relative-train',
  'wide-train',
  'powers-train',
  'branches-train',
  'mixed-train',
  'shifts-train',
  'rolls-train',
  'crossing-train',
  'dense-train',
  'factors-train',
  'readout-train',
  'rooted-train',
  'dropped-eval',
  'dropped-train',
  'last-train',
  'means-train',
  'parts-train',
  'residual-decomposed',
  'residual-eval',
  'residual-train',
  'sizes-train',
  'tokens-train',
  'windows-train',
]
for (const name of SAME)
  test(`${name}.pt2: the output is PyTorch's`, () => {
    const want = outputs[name.replace(/-.*/, '')]!
    const y = outputOf(fixture(name))
    assert.is(
      y.length,
      want.output.reduce((n, d) => n * d, 1),
    )
    for (const [i, v] of want.values.entries())
      assert.ok(Math.abs(y[i]! - v) <= 1e-6 * want.largest, `element ${i} is ${y[i]}, PyTorch's ${v}`)
  })

test('a program in training, one for inference and a decomposed one are the same net', () => {
  const [train, ...others] = ['train', 'eval', 'decomposed'].map((mode) => textOf(fixture(`residual-${mode}`)))
  for (const other of others) assert.is(other, train)
  assert.match(train!, /batchNorm\('stem\.1'\)/)
  assert.match(train!, /dropout\(0\.5\)/)
})

test('dropout, stochastic depth and a norm that stays fixed are kept; dropout of channels is named', () => {
  const made = fixture('dropped-train')
  const text = textOf(made)
  assert.match(text, /stochasticDepth\(0\.2\)/)
  assert.match(text, /dropout\(0\.25\)/)
  assert.match(text, /batchNorm\('body\.1', \{ frozen: true \}\)/)
  assert.match(text, /batchNorm\('stem\.1'\)/)
  assert.equal(made.left, ['channels'])
  assert.equal(made.buffers, ['factor'])
  // Outside training, PyTorch runs no stochastic depth, and all norms have their statistics.
  const kinds = ({ model }: Imported): readonly string[] => model.layers.map((l) => l.kind)
  const plain = fixture('dropped-eval')
  assert.equal(
    kinds(plain),
    kinds(made).filter((kind) => kind !== 'stochasticDepth'),
  )
  assert.not.match(textOf(plain), /frozen/)
})

test('a weight normalised by its own rows is standardised, with its gain behind the convolution', () => {
  const text = textOf(fixture('standard-train'))
  assert.match(text, /conv2d\('0', 6, 3, \{ pad: 0, standardize: 0\.000001, bias: false \}\)/)
  assert.match(text, /seq\(layerScale\('0\.gain'\), affine\(0\.5\), bias\('0\.bias'\), silu\(\)\)/)
  assert.match(text, /conv2d\('2', 80, 1, \{ standardize: 0\.000001, bias: false \}\)/)
  assert.match(text, /seq\(layerScale\('2\.gain'\), affine\(0\.5\), bias\('2\.bias'\), relu\(\)\)/)
})

test('norms without a bias, trained numbers for all channels and vectors of factors keep their names and shapes', () => {
  const made = fixture('factors-train')
  assert.equal(made.constants, [])
  assert.equal(Object.fromEntries(made.parameters.map((p) => [p.name, p.shape])), {
    'stem.weight': [6, 3, 3, 3],
    'stem.bias': [6],
    'act.scale': [1],
    'act.bias': [1],
    'norm.weight': [6],
    'group.weight': [6],
    'inner.weight': [6, 6, 1, 1],
    'inner.bias': [6],
    gamma: [6],
    'lab.scale': [1],
    'lab.bias': [1],
    'head.weight': [4, 6],
    'head.bias': [4],
  })
  assert.match(textOf(fixture('rooted-train')), /rmsNorm\('norm', \{ eps: 0\.001 \}\)/)
})

test('weights have the names of the state dict', () => {
  const out = join(folder, 'residual.ts')
  const { save } = importOnnx(join(fixtures, 'residual-train.pt2'), { out })
  const index = JSON.parse(
    partsOf(join(fixtures, 'residual-train.pt2')).get('residual-train/data/weights/model_weights_config.json')!.toString(),
  ) as { readonly config: object }
  assert.equal([...got(openTensors('weights', save)).tensors.keys()].sort(), Object.keys(index.config).sort())
})

/** The names and shapes of the state dict of a program. */
const stateDict = (name: string): Readonly<Record<string, string>> => {
  const text = partsOf(join(fixtures, `${name}.pt2`))
    .get(`${name}/data/weights/model_weights_config.json`)!
    .toString()
  const { config } = JSON.parse(text) as {
    readonly config: Readonly<
      Record<string, { readonly tensor_meta: { readonly sizes: readonly { readonly as_int: number }[] } }>
    >
  }
  return Object.fromEntries(
    Object.entries(config).map(([key, { tensor_meta }]) => [key, tensor_meta.sizes.map((s) => s.as_int).join()]),
  )
}

/** The weights of a program, imported, loaded and saved as a run does it. */
const savedAgain = (name: string): TensorFile => {
  const out = join(folder, `${name}.ts`)
  const { save } = importOnnx(join(fixtures, `${name}.pt2`), { out })
  const state = modelState(got(forwardOf(fixture(name).model)).graph)
  const held = new Map<string, Uint8Array>()
  const store: StateStore = {
    read: (key) => right(held.get(key)!),
    write: (key, bytes) => right(void held.set(key, bytes)),
  }
  const { origin } = got(loadWeights(save, state, store))
  const again = join(folder, `${name}-again.safetensors`)
  got(saveWeights(again, state, store, origin, 0))
  return got(openTensors('weights', again))
}

const WHOLE = [
  'biased',
  'relative',
  'cosines',
  'factors',
  'last',
  'matrices',
  'mixed',
  'powers',
  'readout',
  'residual',
  'rotary',
  'standard',
  'tokens',
]
test('saved weights have the names, the shapes and the numbers of the state dict', () => {
  for (const name of WHOLE.map((n) => `${n}-train`)) {
    const again = savedAgain(name)
    assert.equal(Object.fromEntries([...again.tensors].map(([key, { shape }]) => [key, shape.join()])), stateDict(name), name)
    const file = got(openModel(join(fixtures, `${name}.pt2`)))
    for (const { name: value } of file.graph.initializer ?? []) {
      const held = file.tensor({ name: value ?? '' }, '')
      const own = isLeft(held) ? undefined : again.tensors.get(held.right.name)
      if (isLeft(held) || own === undefined) continue
      assert.equal([...got(readTensor(again, own))], [...got(held.right.read())], `${name}: ${held.right.name}`)
    }
  }
})

// ---------------------------------------------------------------- programs that are made here

const put = (bytes: Uint8Array, name = 'made.pt2'): string => {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}
const made = (program: Made): Either<SpillwayError, Imported> => read(put(archiveOf(programOf(program))))
const refusal = (e: Either<SpillwayError, unknown>): string => (isLeft(e) ? errorText(e.left) : 'nothing')
const X = { self: tensor('x') }
const IMAGE = [2, 4, 8, 8]
const relu = (from: string, to: string, op = 'relu'): Node => [`${op}.default`, { self: tensor(from) }, { [to]: IMAGE }]

// biome-ignore format: a table
const MEANINGS: Readonly<Record<string, readonly [readonly Node[], string]>> = {
  'a change in place': [[relu('x', 'a'), relu('a', 'b', 'tanh_'), ['add.Tensor', { self: tensor('a'), other: tensor('b') }, { y: IMAGE }]],
    'relu(), tanh(), residual(identity, identity)'],
  'a change in place of a view': [
    [['view.default', { ...X, size: ints(2, 256) }, { a: [2, 256] }], ['tanh_.default', { self: tensor('a') }, { y: [2, 256] }]], 'flatten(), tanh()'],
  'a dropout in place that drops nothing': [[relu('x', 'a'), ['feature_dropout_.default', { input: tensor('a'), p: { as_float: 0 } }, { b: IMAGE }], relu('b', 'y', 'tanh')], 'relu(), tanh()'],
  'a multiple of a term': [[relu('x', 'a'), ['add.Tensor', { ...X, other: tensor('a'), alpha: { as_int: 2 } }, { y: IMAGE }]], 'residual(seq(relu(), affine(2)), identity)'],
  'hardtanh': [[['hardtanh_.default', { ...X, min_val: { as_float: 0 }, max_val: { as_float: 6 } }, { y: IMAGE }]], 'relu6()'],
  'a clamp from below': [[['clamp.default', { ...X, min: { as_int: 0 } }, { y: IMAGE }]], 'relu()'],
  'a chunk': [[['chunk.default', { ...X, chunks: { as_int: 2 }, dim: { as_int: 1 } }, { a: [2, 2, 8, 8], b: [2, 2, 8, 8] }],
    ['cat.default', { tensors: tensors('b', 'a'), dim: { as_int: 1 } }, { y: IMAGE }]], 'concat(sliceChannels(2, 2), sliceChannels(0, 2))'],
  'stochastic depth by rounded random numbers': [[
    ['rand.default', { size: ints(2, 1, 1, 1) }, { a: [2, 1, 1, 1] }], ['add.Tensor', { self: tensor('a'), other: { as_float: 0.75 } }, { b: [2, 1, 1, 1] }],
    ['floor.default', { self: tensor('b') }, { c: [2, 1, 1, 1] }], ['div.Tensor', { ...X, other: { as_float: 0.75 } }, { d: IMAGE }],
    ['mul.Tensor', { self: tensor('d'), other: tensor('c') }, { y: IMAGE }]], 'affine(1), stochasticDepth(0.25)'],
  'an average to other sizes': [[['adaptive_avg_pool2d.default', { ...X, output_size: ints(3, 4) }, { y: [2, 4, 3, 4] }]], "adaptiveAvgPool('body', [3, 4])"],
  'a maximum of all pixels': [[['adaptive_max_pool2d.default', { ...X, output_size: ints(1, 1) }, { y: [2, 4, 1, 1], i: [2, 4, 1, 1] }]], 'maxPool(8)'],
  'a pixel unshuffle': [[['pixel_unshuffle.default', { ...X, downscale_factor: { as_int: 2 } }, { y: [2, 16, 4, 4] }]], 'pixelUnshuffle(2)'],
  'a channel shuffle': [[['channel_shuffle.default', { ...X, groups: { as_int: 2 } }, { y: IMAGE }]], 'channelShuffle(2)'],
  'a pool after padding of −∞': [[['constant_pad_nd.default', { ...X, pad: ints(0, 1, 0, 1), value: { as_float: '-Infinity' } }, { a: [2, 4, 9, 9] }],
    ['max_pool2d.default', { self: tensor('a'), kernel_size: ints(3, 3), stride: ints(2, 2) }, { y: [2, 4, 4, 4] }]],
    'maxPool(3, { stride: 2, ceil: true })'],
  'a roll and its inverse': [[['roll.default', { ...X, shifts: ints(-3, 2), dims: ints(2, 3) }, { a: IMAGE }], relu('a', 'b'),
    ['roll.default', { self: tensor('b'), shifts: ints(3, -2), dims: ints(2, 3) }, { y: IMAGE }]], 'relu()'],
  'a roll by no rows': [[['roll.default', { ...X, shifts: ints(8), dims: ints(2) }, { a: IMAGE }], relu('a', 'y')], 'relu()'],
  'a flattened difference': [[['rsub.Scalar', { ...X, other: { as_float: 1 } }, { a: IMAGE }], ['flatten.using_ints', { self: tensor('a'), start_dim: { as_int: 1 } }, { y: [2, 256] }]],
    'affine(-1, 1), flatten()'],
}
for (const [what, [nodes, source]] of Object.entries(MEANINGS))
  test(`${what} is ${source}`, () => {
    assert.is(/export const net = seq\(\s*([\s\S]*?),?\s*\)\n\nexport/.exec(textOf(got(made({ nodes }))))![1]!, source)
  })

const view = (to: string, from = 'x'): Node => [
  'view.default',
  { self: tensor(from), size: ints(2, 4, 64) },
  { [to]: [2, 4, 64] },
]
const conv = (more: object = {}): Node => ['conv2d.default', { input: tensor('x'), weight: tensor('w'), ...more }, { y: IMAGE }]

// biome-ignore format: a table
const REFUSED: readonly (readonly [string, Made, RegExp])[] = [
  ['an unknown operator', { nodes: [relu('x', 'y', 'celu')] }, /node '\/body\/y' \(aten\.celu\.default\): this operator is not supported; allowed: relu, leaky_relu, prelu/],
  ['an operator with no way around', { nodes: [relu('x', 'y', 'fft_fft')] }, /\(aten\.fft_fft\.default\): this operator is not supported; allowed: _adaptive_avg_pool2d, /],
  ['a view of a value that changes in place', { nodes: [view('a'), relu('x', 'b', 'tanh_'), relu('a', 'y')] }, /it reads 'a', whose memory an earlier node changes in place/],
  ['a value whose view changes in place', { nodes: [['view.default', { ...X, size: ints(2, 256) }, { a: [2, 256] }], ['tanh_.default', { self: tensor('a') }, { b: [2, 256] }], relu('x', 'y')] }, /it reads 'x', whose memory/],
  ['a weight that changes in place', { nodes: [['add_.Tensor', { self: tensor('w'), other: { as_int: 1 } }, { a: [4] }], relu('x', 'y')], weights: { w: [4] } }, /it changes 'w', which is stored in the file/],
  ['random numbers for each element', { nodes: [['rand.default', { size: ints(...IMAGE) }, { a: IMAGE }], ['mul.Tensor', { ...X, other: tensor('a') }, { y: IMAGE }]] }, /it makes random numbers \[2,4,8,8\]; allowed: one for each image/],
  ['random numbers that are added', { nodes: [['rand.default', { size: ints(2, 1, 1, 1) }, { a: [2, 1, 1, 1] }], ['add.Tensor', { ...X, other: tensor('a') }, { y: IMAGE }]] }, /it computes with random numbers/],
  ['causal attention', { nodes: [['scaled_dot_product_attention.default', { query: tensor('x'), key: tensor('x'), value: tensor('x'), is_causal: { as_bool: true } }, { y: IMAGE }]] }, /it is causal/],
  ['a norm without statistics', { nodes: [['batch_norm.default', { input: tensor('x') }, { y: IMAGE }]] }, /track_running_stats=True/],
  ['a norm without weights', { nodes: [['layer_norm.default', { input: tensor('x'), normalized_shape: ints(8) }, { y: IMAGE }]] }, /elementwise_affine=True/],
  ['a divisor of a pool', { nodes: [['avg_pool2d.default', { ...X, kernel_size: ints(2, 2), divisor_override: { as_int: 3 } }, { y: [2, 4, 4, 4] }]] }, /divisor_override/],
  ['one image of the batch', { nodes: [['select.int', { ...X, dim: { as_int: 0 }, index: { as_int: 0 } }, { y: [4, 8, 8] }]] }, /it takes one image of the batch/],
  ['the batch in parts', { nodes: [['view.default', { ...X, size: ints(2, 384) }, { y: [2, 384] }]], input: [3, 4, 8, 8] }, /parts of other dimensions/],
  ['scale factors that give no whole size', { nodes: [['upsample_bilinear2d.vec', { input: tensor('x'), align_corners: { as_bool: false }, scale_factors: { as_floats: [1.3, 1.3] } }, { y: [2, 4, 10, 10] }]] }, /do not give whole sizes/],
  ['a weight of other sizes', { nodes: [conv()], weights: { w: [4, 3, 3, 3] } }, /its weight is for 3 channels, its input has 4/],
  ['a roll of all elements', { nodes: [['roll.default', { ...X, shifts: ints(1) }, { y: IMAGE }]] }, /it rolls all elements as one row/],
  ['a roll of the batch', { nodes: [['roll.default', { ...X, shifts: ints(1), dims: ints(0) }, { y: IMAGE }]] }, /it rolls the batch/],
  ['an array that an image is multiplied by', { nodes: [['new_ones.default', { ...X, size: ints(4, 1, 1) }, { a: [4, 1, 1] }], ['mul.Tensor', { ...X, other: tensor('a') }, { y: IMAGE }]] }, /is a computed constant; allowed: values computed by layers/],
  ['an array with a value of the image', { nodes: [['new_zeros.default', { ...X, size: ints(...IMAGE) }, { a: IMAGE }], ['sub.Tensor', { self: tensor('a'), other: tensor('x') }, { y: IMAGE }]] }, /it computes with a constant array and a value of the image/],
  ['an array that is added to in place', { nodes: [['new_zeros.default', { ...X, size: ints(4) }, { a: [4] }], ['add_.Tensor', { self: tensor('a'), other: { as_int: 1 } }, { y: [4] }]] }, /it changes an array in place; allowed: fill, copy/],
  ['another type', { nodes: [['to.dtype', X, { y: IMAGE }], relu('y', 'z', 'sin')] }, /sin/],
  ['three dimensions', { nodes: [relu('x', 'y')], input: [2, 4, 8] }, /its input 'x' has 3 dimensions/],
]
for (const [what, program, words] of REFUSED) test(`${what} is refused`, () => assert.match(refusal(made(program)), words))

test('averages and norms of tokens behind their channels are those of a row', () => {
  const rows = [2, 4, 64]
  const few = [2, 4, 16]
  const nodes: readonly Node[] = [
    ['view.default', { ...X, size: ints(2, 4, 64) }, { a: rows }],
    ['avg_pool1d.default', { self: tensor('a'), kernel_size: ints(4), stride: ints(4) }, { b: few }],
    [
      'batch_norm.default',
      Object.fromEntries(
        [['input', 'b'], ...['weight', 'bias', 'running_mean', 'running_var'].map((n) => [n, `norm.${n}`])].map(([n, v]) => [
          n!,
          tensor(v!),
        ]),
      ),
      { c: few },
    ],
    ['transpose.int', { self: tensor('c'), dim0: { as_int: 1 }, dim1: { as_int: 2 } }, { d: [2, 16, 4] }],
    ['linear.default', { input: tensor('d'), weight: tensor('fc.weight') }, { e: [2, 16, 4] }],
    ['transpose.int', { self: tensor('e'), dim0: { as_int: 1 }, dim1: { as_int: 2 } }, { f: few }],
    ['view.default', { self: tensor('f'), size: ints(2, 4, 1, 16) }, { y: [2, 4, 1, 16] }],
  ]
  const vectors = Object.fromEntries(['weight', 'bias', 'running_mean', 'running_var'].map((n) => [`norm.${n}`, [4]]))
  const own = got(made({ nodes, weights: { ...vectors, 'fc.weight': [4, 4] } }))
  assert.match(
    textOf(own),
    /turnPixels\(\),\s+turnPixels\(\),\s+avgPool\(\[1, 4\]\),\s+batchNorm\('norm'\),\s+pixelLinear\('fc', 4/,
  )
  assert.equal(own.model.output, [2, 4, 1, 16])
  const padded: Node = [
    'avg_pool1d.default',
    { self: tensor('a'), kernel_size: ints(4), stride: ints(4), padding: ints(2) },
    { y: [2, 4, 17] },
  ]
  assert.match(refusal(made({ nodes: [nodes[0]!, padded] })), /it averages a row with padding/)
})

test('attention of one pixel reads its channels as heads', () => {
  const heads = [2, 4, 1, 4]
  const nodes: readonly Node[] = [
    ['view.default', { ...X, size: ints(2, 1, 4, 4) }, { a: [2, 1, 4, 4] }],
    ['transpose.int', { self: tensor('a'), dim0: { as_int: 1 }, dim1: { as_int: 2 } }, { b: heads }],
    ['scaled_dot_product_attention.default', { query: tensor('b'), key: tensor('b'), value: tensor('b') }, { c: heads }],
    ['transpose.int', { self: tensor('c'), dim0: { as_int: 1 }, dim1: { as_int: 2 } }, { d: [2, 1, 4, 4] }],
    ['view.default', { self: tensor('d'), size: ints(2, 16, 1, 1) }, { y: [2, 16, 1, 1] }],
  ]
  assert.match(textOf(got(made({ nodes, input: [2, 16, 1, 1] }))), /attention\('[^']*', 4\)/)
})

test('a norm by the mean of squares is an RMS norm, as a product with a reciprocal root and as a quotient', () => {
  const ONE = [2, 1, 8, 8]
  const squares: readonly Node[] = [
    ['pow.Tensor_Scalar', { ...X, exponent: { as_int: 2 } }, { a: IMAGE }],
    ['mean.dim', { self: tensor('a'), dim: ints(1), keepdim: { as_bool: true } }, { b: ONE }],
    ['add.Scalar', { self: tensor('b'), other: { as_float: 0.001 } }, { c: ONE }],
  ]
  const weighted = (from: string): readonly Node[] => [
    ['view.default', { self: tensor('norm.weight'), size: ints(1, 4, 1, 1) }, { f: [1, 4, 1, 1] }],
    ['mul.Tensor', { self: tensor(from), other: tensor('f') }, { y: IMAGE }],
  ]
  const product: readonly Node[] = [
    ['rsqrt.default', { self: tensor('c') }, { d: ONE }],
    ['mul.Tensor', { ...X, other: tensor('d') }, { e: IMAGE }],
  ]
  const quotient: readonly Node[] = [
    ['sqrt.default', { self: tensor('c') }, { d: ONE }],
    ['div.Tensor', { ...X, other: tensor('d') }, { e: IMAGE }],
  ]
  for (const way of [product, quotient]) {
    const own = got(made({ nodes: [...squares, ...way, ...weighted('e')], weights: { 'norm.weight': [4] } }))
    assert.match(textOf(own), /seq\(rmsNorm\('norm', \{ eps: 0\.001 \}\)\)/)
  }
  assert.match(
    refusal(made({ nodes: [...squares, ['mul.Tensor', { ...X, other: tensor('c') }, { y: IMAGE }]] })),
    /is a part of a norm of channels/,
  )
})

test('all unsupported nodes are listed at once, those behind others included', () => {
  const nodes = [relu('x', 'a', 'celu'), relu('a', 'b'), relu('b', 'c', 'erf'), relu('c', 'y')]
  const found = got(unsupportedIn(put(archiveOf(programOf({ nodes }))), {}))
  assert.equal([...found.keys()], ["node '/body/a' (aten.celu.default)", "node '/body/c' (aten.erf.default)"])
  assert.is(got(unsupportedIn(put(archiveOf(programOf({ nodes: [relu('x', 'y')] }))), {})).size, 0)
})

test('a program has the size of its example', () => {
  const file = got(openModel(put(archiveOf(programOf({ nodes: [relu('x', 'y')] })))))
  assert.match(
    refusal(importedFrom(file, { image: [16, 16] })),
    /has the size of its example, 8x8: export it with an example of 16x16/,
  )
  assert.equal(got(importedFrom(file, { image: [8, 8], batch: 5 })).model.input, [5, 4, 8, 8])
})

// ---------------------------------------------------------------- other archives

const WEIGHTED: Made = { nodes: [conv({ padding: ints(1, 1) })], weights: { w: [4, 4, 3, 3] } }
const edited = (part: string, edit: (text: string) => string, odd = {}): string => {
  const parts = programOf(WEIGHTED)
  parts.set(`p/${part}`, Buffer.from(edit(parts.get(`p/${part}`)!.toString())))
  return refusal(read(put(archiveOf(parts, odd))))
}
const GRAPH = 'models/model.json'
const INDEX = 'data/weights/model_weights_config.json'

test('a part that is a pickle is named, with the cure', () => {
  assert.is(refusal(made(WEIGHTED)), 'nothing')
  assert.match(
    edited(INDEX, (s) => s.replace('"use_pickle":false', '"use_pickle":true')),
    /its part 'data\/weights\/weight_0' of 'w' is a pickle, which is never read; save plain tensors/,
  )
  for (const name of ['weights', 'constants']) {
    const parts = programOf(WEIGHTED)
    parts.set(`p/data/${name}/model.pt`, Buffer.from('pickle'))
    assert.match(refusal(read(put(archiveOf(parts)))), new RegExp(`its part 'data/${name}/model\\.pt' is a pickle`))
  }
  const old = new Map([
    ['serialized_exported_program.json', Buffer.from('{}')],
    ['serialized_state_dict.pt', Buffer.from('pickle')],
  ])
  assert.match(refusal(read(put(archiveOf(old)))), /of an older PyTorch, whose weights are a pickle/)
  assert.match(
    refusal(read(put(archiveOf(new Map([['m/data.pkl', Buffer.from('')]]))))),
    /a file of torch\.save or torch\.jit\.save/,
  )
  assert.match(refusal(read(put(archiveOf(new Map([['a.txt', Buffer.from('')]]))))), /no program of torch\.export\.save/)
})

test('sizes that the file does not have are refused before anything is allocated', () => {
  const size = (s: string, from: string, to: string): string =>
    s.replace(`"sizes":[{"as_int":${from}`, `"sizes":[{"as_int":${to}`)
  assert.match(
    edited(INDEX, (s) => size(s, '4', '400')),
    /its tensor 'w' F32\[400,4,3,3\] exceeds its storage of 144 numbers/,
  )
  assert.match(
    edited(INDEX, (s) => size(s, '4', '9007199254740991')),
    /exceeds its storage/,
  )
  assert.match(
    edited(INDEX, (s) => s.replace('"storage_offset":{"as_int":0}', '"storage_offset":{"as_int":1}')),
    /exceeds its storage/,
  )
  assert.match(
    edited(INDEX, (s) => s.replace('"strides":[{"as_int":36}', '"strides":[{"as_int":-36}')),
    /no fixed sizes and strides/,
  )
  assert.match(
    edited(INDEX, (s) => s, { 'p/data/weights/weight_0': { bytes: 2 ** 31 } }),
    /overflows file bounds/,
  )
  assert.match(
    edited(GRAPH, (s) => s, { [`p/${GRAPH}`]: { method: 8 } }),
    /its part 'models\/model\.json' is compressed/,
  )
  assert.match(
    edited(GRAPH, () => `${'['.repeat(100)}`),
    /deeper than 64/,
  )
  assert.match(
    edited(GRAPH, () => `[${'[],'.repeat(2 ** 22)}[]]`),
    /more than 4194304 lists and objects/,
  )
})

test('sizes that are not fixed are refused', () => {
  const open = (s: string): string =>
    s.replace('"y":{"dtype":7,"sizes":[{"as_int":2}', '"y":{"dtype":7,"sizes":[{"as_expr":{"expr_str":"s77"}}')
  assert.match(edited(GRAPH, open), /the sizes of its value 'y' are not fixed; export the model without dynamic_shapes/)
})

test('other schemas, missing parts and several programs are refused', () => {
  assert.match(
    edited(GRAPH, (s) => s.replace('"major":8', '"major":9')),
    /its schema is version 9\.20; allowed: version 8/,
  )
  assert.match(
    edited(GRAPH, (s) => s.slice(0, -5)),
    /its part 'models\/model\.json': it is not JSON/,
  )
  assert.match(
    edited(GRAPH, (s) => s.replace('"nodes"', '"knots"')),
    /its part 'models\/model\.json'/,
  )
  assert.match(
    edited(INDEX, (s) => s.replace('"w":', '"v":')),
    /its tensor 'w' is not in the index of its weights/,
  )
  assert.match(
    edited(INDEX, (s) => s.replace('"dtype":7', '"dtype":10')),
    /its tensor 'w' has element type 10/,
  )
  const parts = programOf(WEIGHTED)
  parts.delete(`p/${INDEX}`)
  assert.match(refusal(read(put(archiveOf(parts)))), /it has no part 'data\/weights\/model_weights_config\.json'/)
  const two = programOf(WEIGHTED)
  two.set('p/models/other.json', two.get(`p/${GRAPH}`)!)
  assert.match(refusal(read(put(archiveOf(two)))), /it has 2 programs \(model, other\); allowed: one/)
})

/** A number from 0 to below `below`, the same for each run. */
const drawn = (seed: number, below: number): number => {
  const n = Math.sin(seed) * 1e4
  return Math.floor((n - Math.floor(n)) * below)
}

test('a truncated or changed archive is refused with an error, or gives the same network', () => {
  const whole = readFileSync(join(fixtures, 'dropped-train.pt2'))
  for (let i = 0; i < (FULL ? 600 : 60); i++) {
    const cut = refusal(read(put(whole.subarray(0, drawn(i, whole.length)))))
    assert.match(cut, /made\.pt2 is refused: |made\.pt2 is empty/, cut)
    const changed = Buffer.from(whole)
    for (let n = 0; n <= i % 4; n++) changed[drawn(i * 8 + n, whole.length)] = drawn(i * 8 + n + 4, 256)
    const e = read(put(changed))
    if (isLeft(e)) assert.match(errorText(e.left), /made\.pt2/)
  }
})

/** Random changes within the JSON keep the archive whole, so they reach the graph. */
test('a program with changed JSON is refused with an error, or gives a network', () => {
  const parts = partsOf(join(fixtures, 'dropped-train.pt2'))
  const name = 'dropped-train/models/model.json'
  const text = parts.get(name)!.toString()
  const numbers = [...text.matchAll(/\d+|"[^"]*"/g)]
  for (let i = 0; i < (FULL ? 2000 : 100); i++) {
    const [a, b] = [numbers[drawn(i, numbers.length)]!, numbers[drawn(i + 0.5, numbers.length)]!]
    const changed = text.slice(0, a.index) + b[0] + text.slice(a.index + a[0].length)
    const e = read(put(archiveOf(new Map([...parts, [name, Buffer.from(changed)]]))))
    if (isLeft(e)) assert.match(errorText(e.left), /made\.pt2|size of its example/)
  }
})

test.run()
