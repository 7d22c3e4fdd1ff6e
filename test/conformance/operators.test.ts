// each of staging/ops
// Every operator of the table, on ref in both precisions and on cpu, against PyTorch: the numbers of
// test/fixtures/operators, made by make_operators.py beside it. Activations are laid out channels-last here.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type NativeArray, loadNative } from '../../src/device/native'
import type { DeviceName } from '../../staging/devices'
import { castOps } from '../../staging/ops/cast'
import { inputDef, type OperandDef } from '../../staging/ops/op'
import { opDef, opDefs } from '../../staging/ops/registry'

interface Tensor {
  readonly dims: readonly number[]
  readonly dtype?: 'i32' | 'u8'
  readonly values: readonly number[]
}
interface Case {
  readonly name: string
  readonly kind: string
  readonly attrs: readonly number[]
  /** Default: 1. */
  readonly step?: number
  readonly ins: readonly Tensor[]
  readonly outs: readonly Tensor[]
  readonly mutated?: Readonly<Record<string, Tensor>>
}

const FOLDER = join(__dirname, '../fixtures/operators')
const cases = readdirSync(FOLDER).flatMap(
  (file) => (JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as { readonly cases: readonly Case[] }).cases,
)

/** The place in memory of element i of B, C, H, W order. */
const place = (def: OperandDef, dims: readonly number[]): ((i: number) => number) => {
  if (def.role !== 'data' && def.laid !== 'is') return (i) => i
  const [, c = 1, h = 1, w = 1] = dims
  return (i) => ((Math.floor(i / (c * h * w)) * h + (Math.floor(i / w) % h)) * w + (i % w)) * c + (Math.floor(i / (h * w)) % c)
}

const toMemory = (def: OperandDef, t: Tensor, dtype: 'f32' | 'f64'): NativeArray => {
  const at = place(def, t.dims)
  const Elements = { i32: Int32Array, u8: Uint8Array, f32: Float32Array, f64: Float64Array }[t.dtype ?? dtype]
  const data = new Elements(t.values.length)
  t.values.forEach((v, i) => {
    data[at(i)] = v
  })
  const [, c = 1, h = 1, w = 1] = t.dims
  return {
    dims: t.dims,
    dtype: t.dtype ?? dtype,
    data,
    ...(def.laid === 'is' ? { strides: [h * w * c, 1, w * c, c] } : {}),
  }
}

/** Distance in norm from the expected values, relative to them; integers are right or wrong. */
const errorOf = (def: OperandDef, got: NativeArray, expected: Tensor): number => {
  const at = place(def, expected.dims)
  if (expected.dtype === 'i32') return expected.values.every((v, i) => v === got.data[at(i)]) ? 0 : Infinity
  const norm = (f: (v: number, i: number) => number): number =>
    Math.sqrt(expected.values.reduce((sum, v, i) => sum + f(v, i) ** 2, 0))
  return (
    norm((v, i) => v - got.data[at(i)]!) /
    Math.max(
      norm((v) => v),
      1e-3,
    )
  )
}

const run = (device: DeviceName, dtype: 'f32' | 'f64', c: Case): readonly { readonly what: string; readonly error: number }[] => {
  const def = opDef(c.kind)
  const ins = c.ins.map((t, i) => toMemory(inputDef(def, i), t, dtype))
  // Outputs start as NaN: an element that the kernel leaves alone shows.
  const outs = c.outs.map((t, i) => toMemory(def.outs[i]!, { ...t, values: t.values.map(() => Number.NaN) }, dtype))
  loadNative().runKernel({ device, kind: c.kind, attrs: c.attrs, ins, outs, step: c.step ?? 1 })
  return [
    ...c.outs.map((t, i) => ({ what: `output ${i}`, error: errorOf(def.outs[i]!, outs[i]!, t) })),
    ...Object.entries(c.mutated ?? {}).map(([i, t]) => ({
      what: `input ${i}`,
      error: errorOf(inputDef(def, Number(i)), ins[Number(i)]!, t),
    })),
  ]
}

const settings = [
  { device: 'ref', dtype: 'f64', tolerance: 1e-8 },
  { device: 'ref', dtype: 'f32', tolerance: 1e-6 },
  { device: 'cpu', dtype: 'f32', tolerance: 1e-5 },
] as const

for (const { device, dtype, tolerance } of settings)
  for (const c of cases)
    test(`${c.name} on ${device} in ${dtype}`, () => {
      const errors = run(device, dtype, c)
      assert.ok(errors.length > 0, 'the case checks nothing')
      for (const { what, error } of errors) assert.ok(error <= tolerance, `${what}: relative error ${error}`)
    })

test('every operator that PyTorch has is in the fixture', () => {
  const covered = new Set(cases.map((c) => c.kind))
  const drawn = opDefs.filter((d) => d.random).map((d) => d.kind)
  // test/e2e/ranks.test.ts and test/e2e/bands.test.ts test operators over ranks.
  const plumbing = [
    'fill',
    'copy',
    'merge_sum',
    'merge_moments',
    'all_sum',
    'all_moments',
    'all_sums',
    'sum_parts',
    'take_part',
    'put_part',
    'take_rows',
    'sum_rows',
  ]
  const ours = [...drawn, ...plumbing, 'lay_out', ...castOps.map((d) => d.kind)]
  assert.equal(
    opDefs.map((d) => d.kind).filter((k) => !covered.has(k) && !ours.includes(k)),
    [],
  )
})

test.run()
