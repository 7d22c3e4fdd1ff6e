// FP64 instructions of the norm kernels in the compiled code: the committed table obeys its ceilings and has all norms. The gate compiles the kernels
// and compares, where nvcc and nvdisasm are.
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateTest } from '../full'

interface Counts {
  readonly element: number
  readonly once: number
}
type Rows = Readonly<Record<string, Counts>>
const doubles = require('../../scripts/cuda/doubles') as {
  readonly CEILINGS: Counts
  readonly RESULT: string
  readonly above: (rows: Rows) => readonly string[]
  readonly functionsOf: (text: string) => readonly { readonly name: string; readonly code: readonly string[] }[]
  readonly measured: () => Rows
  readonly missingTool: () => string | null
  readonly doublesOf: (f: unknown, how: { readonly lanes: number; readonly operands: number; readonly isSum: boolean }) => Counts
}

const committed = JSON.parse(readFileSync(doubles.RESULT, 'utf8')) as { readonly ceilings: Counts; readonly rows: Rows }

const KERNELS = [
  ...['bn_stats', 'GradientTerm OpenGate', 'GradientTerm RectifiedNorm', 'GradientTerm ResidualGate', 'joined_norm_bwd_reduce'],
  ...['MapByChannel NormOf', 'MapByChannel RectifiedNorm', 'MapByChannel NormGradient', 'MapByChannel RectifiedGradient'],
  ...[
    'NormOfParts',
    'GradientOfParts',
    'ResidualSum',
    'ResidualGradient',
    'LayerNorm',
    'LayerNormGradient',
    'layer_norm_bwd_weights',
  ],
]

test('the committed table has each norm in both stored types, below the ceilings', () => {
  assert.equal(committed.ceilings, doubles.CEILINGS)
  for (const kernel of KERNELS)
    for (const stored of ['', ' bf16'])
      assert.ok(
        Object.keys(committed.rows).some((row) => row.startsWith(`${kernel}${stored} x`)),
        `no row for ${kernel}${stored}`,
      )
  assert.equal(doubles.above(committed.rows), [])
})

test('a row above its ceiling is reported', () => {
  assert.equal(doubles.above({ 'bn_stats x4': { element: 4, once: 0 } }), [
    'bn_stats x4: 4 FP64 instructions (element); allowed: 0.25',
  ])
})

/** Code of two nested loops, as nvdisasm writes it. */
const CODE = `
.text.kernel:
        /*0000*/                   F2F.F64.F32 R2, R3 ;
.L_x_0:
.L_x_1:
        /*0010*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0020*/                   FADD R5, R5, R4 ;
        /*0030*/              @!P0 BRA \`(.L_x_1) ;
        /*0040*/                   F2F.F64.F32 R6, R5 ;
        /*0050*/                   DADD R8, R8, R6 ;
        /*0060*/               @P1 BRA \`(.L_x_0) ;
        /*0070*/                   EXIT ;
`

test('instructions of an outer loop count once for a run of terms', () => {
  const [kernel] = doubles.functionsOf(CODE)
  assert.is(kernel!.code.length, 8)
  assert.equal(doubles.doublesOf(kernel, { lanes: 1, operands: 1, isSum: true }), { element: 0.125, once: 1 })
})

test('instructions of the innermost loop count for each element', () => {
  const [kernel] = doubles.functionsOf(CODE.replace('FADD', 'DFMA'))
  assert.equal(doubles.doublesOf(kernel, { lanes: 2, operands: 1, isSum: true }), { element: 0.563, once: 1 })
})

gateTest('the compiled code has the committed counts', () => {
  const why = doubles.missingTool()
  if (why) return console.log(`skipped: ${why}`)
  assert.equal(doubles.measured(), committed.rows)
})

test.run()
