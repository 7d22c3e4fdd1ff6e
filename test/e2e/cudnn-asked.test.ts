// own process
// timeout 1200
// cuDNN's answers for the zoo's convolutions on absent GPUs (scripts/cuda/answers.ts): it has an engine for each, in every precision, and, if it is
// the asked version, its answers equal the committed table. Longer, and only with cuDNN: with SPILLWAY_FULL=1; otherwise the inputs of simulated
// GPUs' plans are checked by themselves.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { askedOf, gpus, PRECISIONS, scratchOf, type Table, whatAsks } from '../../scripts/cuda/answers'
import { zooCalls } from '../../scripts/cuda/calls'
import { machines } from '../../staging/sim/machines'
import { opDef } from '../../staging/ops/registry'

const committed = (file: string): Table => JSON.parse(readFileSync(join(__dirname, '../../bench/results', file), 'utf8')) as Table
const table = committed('cudnn.json')
/** Turing multiplies no bf16. */
const NOTHING: readonly string[] = ['2080ti bf16', 't4 bf16']
const columns = table.about.columns.split(', ')
const NAMES = ['resnet18', 'unet', 'mobilenetv2']

const bytesIn = (cell: string): number => Number(cell.split('+')[1] ?? 0)
const cellsOf = (key: string): readonly string[] => table.rows[key]!.split(' ')

test("simulated GPUs plan with cuDNN's measured scratch if known, otherwise with bounds of the op table", () => {
  const [resnet] = zooCalls(['resnet18']).filter((c) => c.kind === 'conv2d_bwd_data')
  const { kind, attrs, shapes, key } = resnet!
  const wanted = (machine: string): number => machines[machine]!.workspace(kind, attrs, shapes)
  const bounded = opDef(kind).workspace!(attrs as never, shapes, 4)
  for (const [column, machine] of ['h200-pcie-141g', 'a100-pcie-40g', '2080ti-pcie-11g'].entries())
    assert.is(wanted(machine), bytesIn(cellsOf(key)[3 * column]!))
  assert.is(wanted('v100-pcie-16g'), bounded)
  const other = { ...shapes, ins: shapes.ins.map((s, i) => (i === 0 ? [7, ...s.slice(1)] : s)) }
  assert.is(machines['h200-pcie-141g']!.workspace(kind, attrs, other), bounded)
})

test('the scratch of simulated GPUs is that of the committed answers', () =>
  assert.equal(
    JSON.parse(readFileSync(join(__dirname, '../../staging/sim/scratch.json'), 'utf8')),
    JSON.parse(JSON.stringify(scratchOf(table))),
  ))

test('the table has convolutions of the zoo, with an engine of cuDNN for each', () => {
  for (const { key } of zooCalls(['resnet18', 'unet'])) assert.ok(table.rows[key], key)
  const today = process.env.SPILLWAY_FULL ? new Set(zooCalls().map(({ key }) => key)) : undefined
  for (const key of Object.keys(table.rows)) assert.ok(today?.has(key) ?? true, `${key} is no call of the zoo`)
  assert.equal(columns.length, Object.keys(gpus).length * PRECISIONS.length)
  for (const key of Object.keys(table.rows))
    cellsOf(key).forEach((c, i) => assert.is(/^\d/.test(c), !NOTHING.includes(columns[i]!), `${key}: ${c}`))
})

const asking = async (): Promise<void> => {
  const found = process.env.SPILLWAY_FULL ? await whatAsks() : { missing: 'with SPILLWAY_FULL=1' }
  if ('missing' in found) return void test(`skipped: ${found.missing}`, () => undefined)
  for (const [i, gpu] of Object.keys(gpus).entries())
    test(`${gpu}: cuDNN has an engine for each convolution of ${NAMES.join(', ')}`, () => {
      const { cudnn, answers } = askedOf(gpu, found.library, NAMES)
      for (const [key, answer] of Object.entries(answers)) {
        answer.forEach(([engine], p) =>
          assert.is(/^\d+$/.test(engine), !NOTHING.includes(`${gpu} ${PRECISIONS[p]}`), `${key}: ${answer}`),
        )
        if (cudnn === table.about.cudnn)
          assert.equal(
            answer.map(([engine, bytes]) => `${engine} ${bytes}`),
            cellsOf(key)
              .slice(i * PRECISIONS.length, (i + 1) * PRECISIONS.length)
              .map((c) => `${c.split('+')[0]} ${bytesIn(c)}`),
            key,
          )
      }
    })
}

asking().then(() => test.run())
