// `spillway export` and `spillway import` as they are typed: a net goes out and comes back, and each wrong call is refused in words, with 2.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { ELEMENT, modelType } from '../../../src/exchange/onnx'
import { encoded } from '../../../src/files/protobuf'
import { writeTensors } from '../../../src/files/safetensors'

const root = join(__dirname, '..', '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'spillway-exchange-'))
test.after(() => rmSync(folder, { recursive: true }))
const at = (name: string): string => join(folder, name)

const spillway = (...args: readonly string[]): { readonly code: number | null; readonly out: string; readonly err: string } => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['-r', require.resolve('../../../scripts/testing/typescript'), join(root, 'src', 'cli.ts'), ...args],
    { encoding: 'utf8', cwd: root },
  )
  return { code: status, out: stdout, err: stderr }
}

const NET = `import { batchNorm, conv2d, globalAvgPool, linear, model, relu, seq } from '${join(root, 'src')}'
export default model([1, 3, 16, 16], seq(conv2d('a', 4, 3), batchNorm('b'), relu(), globalAvgPool(), linear('c', 2)))
`
const SHAPES: Readonly<Record<string, readonly number[]>> = {
  'a.weight': [4, 3, 3, 3],
  'a.bias': [4],
  'b.weight': [4],
  'b.bias': [4],
  'b.running_mean': [4],
  'b.running_var': [4],
  'c.weight': [2, 4],
  'c.bias': [2],
}
const write = (name: string, shapes: typeof SHAPES): void => {
  const bytes = (shape: readonly number[]) => new Uint8Array(4 * shape.reduce((n, d) => n * d, 1)).fill(63)
  const made = writeTensors(
    at(name),
    Object.entries(shapes).map(([n, shape]) => ({ name: n, type: 'F32', shape, read: () => right(bytes(shape)) })),
  )
  if (isLeft(made)) throw new Error(errorText(made.left))
}
writeFileSync(at('net.ts'), NET)
write('w.safetensors', SHAPES)
write('more.safetensors', { ...SHAPES, 'd.weight': [1] })

test('a network is exported and imported at another size with its weights', () => {
  const out = spillway('export', at('net.ts'), '--weights', at('more.safetensors'), '--out', at('net.onnx'), '--json')
  assert.is(out.code, 0, out.err)
  assert.match(out.err, /note: left out, because the model does not have them: d\.weight/)
  const { nodes, parameters, opset, input } = JSON.parse(out.out) as Readonly<Record<string, unknown>>
  assert.equal({ nodes, parameters, opset, input }, { nodes: 6, parameters: 130, opset: 18, input: [1, 3, 16, 16] })
  const back = spillway('import', at('net.onnx'), '--out', at('back.ts'), '--image', '20x24', '--batch', '3')
  assert.is(back.code, 0, back.err)
  assert.match(back.out, /to train it further: spillway train .*back\.ts --weights .*back\.safetensors/)
  assert.match(readFileSync(at('back.ts'), 'utf8'), /model\(\[3, 3, 20, 24\], net\)/)
  assert.equal(readFileSync(at('back.safetensors')).subarray(-16), readFileSync(at('w.safetensors')).subarray(-16))
})

test('notes name the weights that several layers share, and powers that become constants', () => {
  const image = { elemType: ELEMENT.FLOAT, shape: { dim: [1, 2, 4, 4].map((dimValue) => ({ dimValue })) } }
  const conv = (input: string, output: string) => ({ name: output, opType: 'Conv', input: [input, 'both'], output: [output] })
  const node = (opType: string, input: readonly string[], output: string) => ({ name: output, opType, input, output: [output] })
  const number = (name: string, value: number) => ({
    name,
    dims: [1],
    dataType: ELEMENT.FLOAT,
    rawData: new Uint8Array(Float32Array.of(value).buffer),
  })
  const graph = {
    node: [
      conv('x', 'first'),
      node('Mul', ['first', 'lab.scale'], 'scaled'),
      conv('scaled', 'second'),
      node('Clip', ['second', 'eps'], 'positive'),
      node('Pow', ['positive', 'gem.p'], 'powers'),
      node('GlobalAveragePool', ['powers'], 'mean'),
      node('Pow', ['mean', 'inverse'], 'pooled'),
    ],
    input: [{ name: 'x', type: { tensorType: image } }],
    output: [{ name: 'pooled', type: { tensorType: image } }],
    initializer: [
      { name: 'both', dims: [2, 2, 1, 1], dataType: ELEMENT.FLOAT, rawData: new Uint8Array(16) },
      number('lab.scale', 0.5),
      { ...number('eps', 1e-6), dims: [] },
      number('gem.p', 3),
      number('inverse', 1 / 3),
    ],
  }
  writeFileSync(at('both.onnx'), encoded(modelType(), { irVersion: 8, opsetImport: [{ domain: '', version: 18 }], graph }))
  const { code, out, err } = spillway('import', at('both.onnx'), '--out', at('both.ts'), '--json')
  assert.is(code, 0, err)
  assert.match(err, /note: several layers share these weights; each gets its own copy: both/)
  assert.match(err, /note: these weights are one number for all channels and become constants, which are not trained: gem\.p/)
  const { copied, constants } = JSON.parse(out) as Readonly<Record<string, readonly string[]>>
  assert.equal([copied, constants], [['both'], ['gem.p']])
  assert.match(readFileSync(at('both.ts'), 'utf8'), /layerScale\('lab\.scale', 1, \{ shape: 'one' \}\)/)
})

const WRONG: readonly (readonly [readonly string[], RegExp])[] = [
  [['export', 'resnet18', '--out', at('x.onnx')], /--weights is missing: the weights to export/],
  [['export', 'resnet18', '--weights', at('w.safetensors')], /--out is missing: the ONNX file to write/],
  [
    ['export', 'resnet18', '--weights', at('none.safetensors'), '--out', at('x.onnx')],
    /weights file .*none\.safetensors: no such file/,
  ],
  [
    ['export', at('net.ts'), '--weights', at('w.safetensors'), '--out', at('no/x.onnx')],
    /ONNX file .*x\.onnx cannot be written: .*no does not exist/,
  ],
  [
    ['export', 'pix2pixhd', '--weights', at('w.safetensors'), '--out', at('x.onnx'), '--net', 'critic'],
    /'critic' is not known; allowed: generator/,
  ],
  [['import', at('net.onnx')], /--out is missing: the model file to write/],
  [['import', at('net.onnx'), '--out', at('x.js')], /is not a TypeScript file; its name must end with \.ts/],
  [
    ['import', at('net.ts'), '--out', at('x.ts')],
    /import takes an ONNX file or a \.pt2 file of torch\.export\.save, but '.*net\.ts' is a model file/,
  ],
  [['import', at('none.onnx'), '--out', at('x.ts')], /model file .*none\.onnx: no such file/],
  [['import', at('net.onnx'), '--weights', 'w', '--out', at('x.ts')], /unknown option '--weights'/],
]
for (const [args, words] of WRONG)
  test(`refused: ${args.map((a) => a.replace(`${folder}/`, '')).join(' ')}`, () => {
    const { code, err } = spillway(...args)
    assert.is(code, 2)
    assert.match(err, words)
    assert.not(existsSync(at('x.onnx')) || existsSync(at('x.ts')))
  })

test('weights that do not fit, and a file without a model, end with exit code 2', () => {
  const { 'c.bias': _, ...less } = SHAPES
  write('less.safetensors', less)
  assert.is(spillway('export', at('net.ts'), '--weights', at('less.safetensors'), '--out', at('x.onnx')).code, 2)
  assert.is(spillway('import', at('w.safetensors'), '--out', at('x.ts')).code, 2)
  write('damaged.onnx', SHAPES)
  assert.is(spillway('import', at('damaged.onnx'), '--out', at('x.ts')).code, 2)
})
test.run()
