// The calls that time operators are legal ones: whole images and tiles from inside them, cut to a sample, placed by their shapes alone, and asked of
// the kernels.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { nativeCall } from '../../../src/machine/operands'
import { keyOf, sampleOf } from '../../../src/machine/timing'
import { loadNative } from '../../../src/device/native'
import { extentOf } from '../../../staging/core/box'
import { type Graph, isLaid, type Op } from '../../../staging/graph/graph'
import { laidOut, readers } from '../../../staging/graph/laid'
import { type CallShapes, inputDef, touched } from '../../../staging/ops/op'
import { opDef } from '../../../staging/ops/registry'
import { must, Sketch, trainingFrom } from '../../graph/sketch'

const native = loadNative()

/** A network of the operators that are not element-wise, on an image of an odd size. */
const network = (): Graph => {
  const s = new Sketch([2, 3, 611, 509])
  const reflected = s.op('reflect_pad', { padTop: 3, padLeft: 2, padBottom: 1, padRight: 3 }, [s.image], 'reflect')
  const down = s.conv(reflected, 'down', 8, 3, { padTop: 1, padLeft: 1, padBottom: 1, padRight: 1, strideH: 2, strideW: 2 })
  const normed = s.op('lrn', { size: 3, alpha: 0.1, beta: 0.75, k: 1 }, [s.op('softmax', {}, [down], 'softmax')], 'lrn')
  const [, c, h, w] = s.shape(normed) as [number, number, number, number]
  const attrs = {
    strideH: 2,
    strideW: 3,
    padTop: 1,
    padLeft: 0,
    padBottom: 1,
    padRight: 0,
    dilationH: 1,
    dilationW: 2,
    groups: 1,
    outputPadH: 1,
    outputPadW: 0,
  }
  const up = s.op('conv_transpose2d', attrs, [normed, s.weight('up.weight', [c, 4, 3, 3]), s.weight('up.bias', [4])], 'up')
  const [, , upH, upW] = s.shape(up) as [number, number, number, number]
  const sizes = [
    [0, 2 * upH, 2 * upW],
    [1, h, 3 * w],
    [2, 611, 509],
  ] as const
  const resized = sizes.reduce((x, [mode, outH, outW], i) => {
    const [, , inH, inW] = s.shape(x) as [number, number, number, number]
    return s.op('upsample', { mode, inH, inW, outH, outW }, [x], `resample${i}`)
  }, up)
  const optimizer = { kind: 'sgd', lr: 0.1, momentum: 0, weightDecay: 0, nesterov: false } as const
  const head = s.conv(resized, 'head', 2, 1)
  return must(trainingFrom(s.b.build(), head, { loss: 'mse', optimizer }))
}

/** The shapes of a tile of `rows` rows from inside the image. */
const tileOf = (g: Graph, id: number, rows: number): CallShapes => {
  const op = g.ops[id]!
  const def = opDef(op.kind)
  const shapes = { ins: op.ins.map((v) => g.values[v]!.shape), outs: op.outs.map((v) => g.values[v]!.shape) }
  const anchor = def.anchor === 'out' ? shapes.outs[0]! : shapes.ins[def.anchor]!
  if (anchor.length !== 4 || anchor[2]! < 3 * rows) return shapes
  const cut = (shape: readonly number[], i: number, outs: boolean): readonly number[] => {
    const access = (outs ? def.outs[i]! : inputDef(def, i)).access?.(op.attrs, shapes).H
    return access && shape.length === 4
      ? shape.map((n, d) => (d === 2 ? extentOf(touched(access, [rows, 2 * rows], n)) : n))
      : shape
  }
  return { ins: shapes.ins.map((x, i) => cut(x, i, false)), outs: shapes.outs.map((x, i) => cut(x, i, true)) }
}

const g = network()
for (const rows of [1e9, 100, 13])
  test(`samples of ${rows > 1e6 ? 'whole images' : `tiles of ${rows} rows`} are legal`, () => {
    for (const op of g.ops.filter((o) => o.phase !== 'update')) {
      const sample = sampleOf(op.kind, op.attrs, tileOf(g, op.id, rows), 'f32')
      const { kind: wire, attrs, ins, outs } = nativeCall(op.kind, sample.attrs, sample.s, 'f32')
      for (const device of ['ref', 'cpu'] as const)
        assert.ok(
          native.ways({ device, kind: wire, attrs, ins, outs }).length > 0,
          `${op.kind} on ${device}: ${JSON.stringify(sample)}`,
        )
    }
  })

test('calls with laid-out weights, and the calls that lay them out, are timed separately at any size', () => {
  const laid = laidOut(g, new Set(readers(g).keys()))
  const isOf = ({ kind, ins }: Op): boolean => kind === 'lay_out' || ins.some((v) => isLaid(laid.values[v]!))
  const asked = laid.ops.filter(isOf)
  assert.ok(asked.some((op) => op.kind === 'lay_out') && asked.some((op) => op.kind === 'conv_transpose2d_bwd_data'))
  for (const op of asked) {
    const reads = op.kind !== 'lay_out'
    const shapes: CallShapes = { ...tileOf(laid, op.id, 100), ...(reads ? { laid: true } : {}) }
    const sample = sampleOf(op.kind, op.attrs, shapes, 'f32')
    if (reads) assert.is.not(keyOf(op.kind, sample, 0), keyOf(op.kind, { ...sample, s: { ...sample.s, laid: false } }, 0))
    for (const device of ['ref', 'cpu'] as const)
      assert.ok(native.ways({ device, ...nativeCall(op.kind, sample.attrs, sample.s, 'f32') }).length > 0, op.kind)
  }
  const huge = sampleOf('lay_out', {}, { ins: [[4096, 4096, 3, 3]], outs: [[4096, 4096, 3, 3]] }, 'f32')
  assert.ok(huge.s.ins[0]![0]! < 4096)
  assert.ok(native.ways({ device: 'cpu', ...nativeCall('lay_out', {}, huge.s, 'f32') }).length > 0)
})

test.run()
