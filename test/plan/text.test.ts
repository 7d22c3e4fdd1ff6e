// Plans as text: grids, left values of segments, pages by kind.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compileSegments } from '../../staging/compile'
import { bytesOf, mib } from '../../staging/core/bytes'
import { gridText, planText } from '../../staging/plan/text'
import { UNTILED } from '../../staging/plan/plan'
import { machines } from '../../staging/sim/machines'
import { forwardOps } from '../../staging/tile/segments'
import { Sketch } from '../graph/sketch'
import { grid, segmentsOf, trained } from '../tile/trained'

test('grids', () => {
  assert.equal([UNTILED, grid(1, 4, 1), grid(2, 4, 3), grid(3, 1, 1)].map(gridText), ['whole', '4×1', '2 × 4×3', '3 × 1×1'])
})

test('a plan of three segments, line by line', () => {
  const s = new Sketch([1, 2, 256, 256], 'tiny')
  const g = trained(s, s.relu(s.norm(s.conv(s.image, 'c', 16, 3, undefined, false), 'n'), 'r'))
  const ids = forwardOps(g).map((o) => o.id)
  const segments = segmentsOf(g, [
    { ops: ids.slice(0, 2), grid: grid(1, 4, 1) },
    { ops: ids.slice(2), grid: UNTILED },
  ])
  const plan = compileSegments(g, segments, { strategy: 'by hand', machine: machines['v100-pcie-16g']!, budgetBytes: mib(60) })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  const [title, numbers, ...lines] = planText(plan.right).split('\n')
  assert.is(title, 'tiny 1×2×256×256 · by hand · v100-pcie-16g')
  const p = plan.right
  assert.is(
    numbers,
    `peak ${p.peakPages} of 30 pages · tier 0 pages · 5 segments, ${p.calls.length} calls, ${p.cells.length} cells, ${p.storages.length} storages`,
  )
  assert.equal(lines.slice(0, 5), [
    'forward   4×1    c … n     2 ops              c n.stats:moments',
    'forward   whole  n … loss  3 ops, 1 in place',
    'backward  whole  loss … n  7 ops, 2 in place',
    'backward  4×1    c         1 ops              c.weight.grad:sum',
    'update    whole  c         1 ops',
  ])
  assert.match(lines[5]!, /^held {3}fed: \d+ pages in \d+, persistent: 1 pages in 1, /)
  const fed = p.residencies.filter((r) => r.swapIn?.from === 'source')
  assert.is(
    lines[6],
    `moved  out: 0 pages in 0, in: 0 pages in 0, fed: ${fed.reduce((n, r) => n + r.to - r.from, 0)} pages in ${fed.length}`,
  )
  const held = p.residencies.reduce((n, r) => n + r.to - r.from, 0)
  assert.is(
    [...lines[5]!.matchAll(/(\d+) pages/g)].reduce((n, m) => n + Number(m[1]), 0),
    held,
    'all residencies are counted',
  )
  assert.is(lines[7], '')
  assert.is(bytesOf(30), p.budgetBytes)
})

test.run()
