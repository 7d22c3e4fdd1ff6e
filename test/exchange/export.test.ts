// Exports of every network of the zoo, decoded again: well formed, every value of the shape of ONNX's own rules, and node by node the file that
// test/fixtures/check_onnx.py ran through onnxruntime beside PyTorch (onnx.json). Read back, each is the same network.
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { modelAt, type Net, type Shape } from '../../dsl'
import { type Forward, forwardOf, onnxOf, tryExportOnnx } from '../../src/exchange/export'
import { importedFrom } from '../../src/exchange/import'
import { WRITTEN } from '../../src/exchange/inference'
import {
  type AttributeProto,
  ATTRIBUTE,
  ELEMENT,
  type GraphProto,
  type ModelProto,
  modelType,
  onnxPieces,
  OPSET,
  outsidePieces,
} from '../../src/exchange/onnx'
import { readOnnx } from '../../src/exchange/read'
import { decoded, numberOf } from '../../src/files/protobuf'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import { writeTensors } from '../../src/files/safetensors'
import { zooEntry, zooNets } from '../../src/zoo'
import { fingerprint } from '../../staging/graph/fingerprint'
import { modelState } from '../../src/train/weights'
import { FULL } from '../full'
import { SMALL } from './nets'
import { bare } from './roundtrip'
import { inferred, type Known } from './shapes'

const folder = mkdtempSync(join(tmpdir(), 'spillway-export-'))
test.after(() => rmSync(folder, { recursive: true }))

const got = <A>(e: Either<SpillwayError, A>): A => {
  if (isLeft(e)) throw new Error(errorText(e.left))
  return e.right
}
const forward = (net: Net, input: Shape): Forward => got(forwardOf(got(modelAt(input, net))))

/** Read again by the definitions alone; weights are left out of the bytes. */
const graphOf = (f: Forward): GraphProto => {
  const pieces = [
    ...outsidePieces(
      onnxOf(f, () => right(new Uint8Array(0))),
      'w.data',
    ),
  ].map(got)
  const read = decoded<ModelProto>(modelType(), Buffer.concat(pieces), { depth: 9, messages: 1e6, elements: 1e6 })
  assert.not(isLeft(read))
  const model = (read as { readonly right: ModelProto }).right
  assert.is(numberOf(model.opsetImport![0]!.version!), OPSET)
  return model.graph!
}

// ---------------------------------------------------------------- well-formedness

const dimsOf = (v: NonNullable<GraphProto['valueInfo']>[number]): readonly number[] =>
  v.type!.tensorType!.shape!.dim!.map((d) => (d.dimParam === 'batch' ? 0 : numberOf(d.dimValue!)))

/** Checks every node; gives how many values were compared. */
const wellFormed = (g: GraphProto): number => {
  const known = new Map<string, Known>()
  const said = new Map([...g.valueInfo!, ...g.output!].map((v) => [v.name!, dimsOf(v)]))
  const define = (name: string, k: Known): void => {
    assert.not(known.has(name), `${name} is defined twice`)
    known.set(name, k)
  }
  for (const v of g.input!) define(v.name!, { shape: dimsOf(v) })
  for (const t of g.initializer!) define(t.name!, { shape: t.dims!.map(numberOf) })
  assert.is(new Set(g.node!.map((n) => n.name || n.output![0])).size, g.node!.length)
  let compared = 0
  for (const n of g.node!) {
    const name = n.output![0]!
    if (n.opType === 'Constant') {
      const { dims, rawData, dataType } = n.attribute![0]!.t!
      const ints = dataType === ELEMENT.INT64 ? [...new BigInt64Array(new Uint8Array(rawData!).buffer)].map(Number) : undefined
      define(name, { shape: dims!.map(numberOf), ints })
      continue
    }
    const ins = n.input!.map((i) => (i === '' ? { shape: [] } : known.get(i)))
    assert.not(ins.includes(undefined), `${n.name} reads ${n.input} before they are defined`)
    const shape = inferred(n, ins as Known[])
    assert.equal(shape, said.get(name), `${n.name} (${n.opType})`)
    define(name, { shape })
    compared++
  }
  assert.ok(known.has(g.output![0]!.name!))
  return compared
}

const textOf = (a: AttributeProto): string => {
  if (a.type === ATTRIBUTE.TENSOR) return Buffer.from(a.t!.rawData!).toString('hex')
  if (a.type === ATTRIBUTE.FLOAT) return Buffer.from(new Float32Array([a.f!]).buffer).toString('hex')
  if (a.type === ATTRIBUTE.STRING) return Buffer.from(a.s!).toString()
  return a.type === ATTRIBUTE.INTS ? a.ints!.map(String).join(',') : String(a.i)
}
/** As check_onnx.py has it. */
const digest = (g: GraphProto): string => {
  const lines = g.node!.map((n) =>
    [n.opType, n.name, n.input!.join(), n.output!.join(), ...n.attribute!.map((a) => `${a.name}=${textOf(a)}`)].join(' '),
  )
  return createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 16)
}

interface Checked {
  readonly input: Shape
  readonly nodes: number
  readonly digest: string
  /** The difference of onnxruntime from PyTorch in double precision, by the largest element; and of PyTorch in single precision. */
  readonly difference: number
  readonly pytorch: number
}
const checked = JSON.parse(readFileSync(join(__dirname, '../fixtures/onnx.json'), 'utf8')) as Readonly<Record<string, Checked>>
/** For a step, its exported net. */
const netOf = (name: string): Net => zooNets.find((z) => z.name === (name === 'pix2pixhd' ? 'pix2pixhd.generator' : name))!.net

test('networks of every family ran in onnxruntime within 1e-5 of PyTorch, or of its single precision', () => {
  const families = new Set(Object.keys(checked).map((name) => zooEntry(name)?.family))
  assert.equal([...families].sort(), [...new Set(zooNets.map((z) => z.family))].sort())
  // If PyTorch's own single precision differs more, the difference is less than that.
  for (const [name, { difference, pytorch }] of Object.entries(checked))
    assert.ok(difference <= Math.max(1e-5, 1.25 * pytorch), `${name}: ${difference}, PyTorch ${pytorch}`)
})

for (const [name, { input, nodes, digest: sum }] of Object.entries(checked))
  test(`${name}: well formed, of the shapes that ONNX's rules say, and the nodes that onnxruntime ran`, () => {
    const f = forward(netOf(name), input)
    const g = graphOf(f)
    assert.ok(wellFormed(g) > 10)
    assert.is(g.node!.length, nodes)
    assert.is(digest(g), sum)
    assert.equal(
      g.initializer!.map((t) => [t.name, t.dims!.map(numberOf)]),
      modelState(f.graph).weights.map((v) => [v.name, [...v.shape]]),
    )
  })

// ---------------------------------------------------------------- and back

const outside = join(folder, 'w.data')
writeFileSync(outside, '')
truncateSync(outside, 2 ** 31)

/** One of each family, but that of the steps. */
const FEW = ['vgg16', 'resnet18', 'densenet121', 'googlenet', 'mobilenetv2', 'efficientnet-b0', 'convnext-tiny', 'unet']
for (const z of zooNets.filter(({ name }) => FULL || FEW.includes(name)))
  test(`${z.name}: exported and imported, it is the same graph`, () => {
    const f = forward(z.net, z.input)
    const onnx = onnxOf(f, () => right(new Uint8Array(0)))
    wellFormed(graphOf(f))
    const file = join(folder, 'net.onnx')
    writeFileSync(file, Buffer.concat([...outsidePieces(onnx, 'w.data')].map(got)))
    const imported = got(importedFrom(got(readOnnx(file)), {}))
    assert.equal([...imported.model.input], [...z.input])
    assert.is(fingerprint(bare(got(forwardOf(imported.model)))), fingerprint(bare(f)))
  })

// ---------------------------------------------------------------- what the zoo does not have

for (const [name, { net, input, back }] of Object.entries(SMALL))
  test(`${name}: well formed, and back`, () => {
    const f = forward(net, input)
    const file = join(folder, 'small.onnx')
    const onnx = onnxOf(f, (v) => right(new Uint8Array(v.shape.reduce((n, d) => n * d, 4))))
    wellFormed(graphOf(f))
    writeFileSync(file, Buffer.concat([...onnxPieces(onnx)].map(got)))
    const imported = importedFrom(got(readOnnx(file)), { batch: input[0] })
    if (isLeft(imported)) return assert.match(errorText(imported.left), back ?? /never/)
    const same = fingerprint(bare(got(forwardOf(imported.right.model)))) === fingerprint(bare(f))
    assert.is(same, back === undefined)
  })

test('every operator that can be written is written by one of these', () => {
  const kinds = new Set(Object.values(SMALL).flatMap(({ net, input }) => forward(net, input).graph.ops.map((o) => o.kind)))
  assert.equal(
    WRITTEN.filter((k) => !kinds.has(k)),
    [],
  )
})

// ---------------------------------------------------------------- files

const bytesOf = (shape: readonly number[]): Uint8Array =>
  new Uint8Array(Float32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, (_, i) => i + 0.5).buffer)
const weightsFor = (file: string, f: Forward, skip?: string): string => {
  const path = join(folder, file)
  const values = modelState(f.graph).weights.filter((v) => v.name !== skip)
  got(
    writeTensors(
      path,
      values.map((v) => ({ name: v.name, type: 'F32', shape: v.shape, read: () => right(bytesOf(v.shape)) })),
    ),
  )
  return path
}

test('weights are stored by name in the file, or in one beside it', () => {
  const { net, input } = SMALL['norms']!
  const model = got(modelAt(input, net))
  const f = forward(net, input)
  const weights = weightsFor('w.safetensors', f)
  for (const externalData of [false, true]) {
    const out = join(folder, `norms${Number(externalData)}.onnx`)
    const made = got(tryExportOnnx(model, { weights, out, externalData }))
    assert.is(made.data, externalData ? `${out}.data` : undefined)
    const file = got(readOnnx(out))
    for (const t of file.graph.initializer!) {
      const tensor = got(file.tensor(t, ''))
      assert.equal(got(tensor.read()), bytesOf(tensor.dims))
    }
    assert.is(file.graph.initializer!.length, modelState(f.graph).weights.length)
  }
})

test('weights that do not fit are refused before a file is written; a step asks for one of its nets', () => {
  const { net, input } = SMALL['norms']!
  const out = join(folder, 'never.onnx')
  const refusal = (e: Either<SpillwayError, unknown>): string => (isLeft(e) ? errorText(e.left) : 'nothing')
  const model = got(modelAt(input, net))
  const weights = weightsFor('less.safetensors', forward(net, input), 'e.running_var')
  assert.match(
    refusal(tryExportOnnx(model, { weights, out })),
    /less\.safetensors does not match the model: 'e\.running_var' \[8\] is missing/,
  )
  assert.match(refusal(tryExportOnnx(model, { weights, out, net: 'generator' })), /the model has one net without a name/)
  const step = got(zooEntry('pix2pixhd')!.build([1, 36, 64, 64]))
  assert.match(refusal(tryExportOnnx(step, { weights, out, net: 'painter' })), /'painter' is not known; allowed: generator$/)
  assert.throws(() => readFileSync(out), /ENOENT/)
})
test.run()
