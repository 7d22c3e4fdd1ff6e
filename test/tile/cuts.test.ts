// Cuts of the forward pass: clean positions, crossing values, balanced cuts.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Graph } from '../../staging/graph/graph'
import { balancedCuts, type ForwardProfile, profileForward, splitAt } from '../../staging/tile/cuts'
import { Sketch } from '../graph/sketch'
import { trained } from './trained'

const outline = (p: ForwardProfile): string[] =>
  p.cuts.map((c) => `${p.ops[c.at - 1]!.layer} | ${p.ops[c.at]!.layer} ${c.bytes / (4 * 64)}${c.clean ? ' clean' : ''}`)

/** c0 [c1 r1 c2 + ] r2 loss on 8x8: a plane of one channel is 256 bytes. */
const residual = (): Graph => {
  const s = new Sketch([1, 1, 8, 8])
  const x = s.conv(s.image, 'c0', 2)
  return trained(s, s.relu(s.op('add', {}, [s.conv(s.relu(s.conv(x, 'c1', 3), 'r1'), 'c2', 2), x], 'sum'), 'r2'))
}

test('a residual block is crossed by its skip: clean are the places before and after', () => {
  assert.equal(outline(profileForward(residual())), [
    'c0 | c1 2 clean',
    'c1 | r1 5',
    'r1 | c2 5',
    'c2 | sum 4',
    'sum | r2 2 clean',
    'r2 | loss 2 clean',
  ])
})

test('concatenated branches cross together; only the join is clean', () => {
  const s = new Sketch([1, 1, 8, 8])
  const x = s.conv(s.image, 'c0', 1)
  const g = trained(s, s.conv(s.op('concat', {}, [s.conv(x, 'a', 2), s.conv(x, 'b', 3)], 'join'), 'c1', 1))
  assert.equal(outline(profileForward(g)), ['c0 | a 1 clean', 'a | b 3', 'b | join 5', 'join | c1 5 clean', 'c1 | loss 1 clean'])
})

test('statistics cross without counting: they are held in any case', () => {
  const s = new Sketch([2, 1, 8, 8])
  const g = trained(s, s.norm(s.conv(s.image, 'c', 1), 'n'))
  assert.equal(outline(profileForward(g)), ['c | n 2 clean', 'n | n 2 clean', 'n | loss 2 clean'])
})

test('bytes made before each position', () => {
  assert.equal(
    profileForward(residual()).madeBefore.map((b) => b / 256),
    [0, 2, 5, 8, 10, 12, 14, 14],
  )
})

test('balanced cuts fall on the clean places nearest to equal shares', () => {
  const p = profileForward(residual())
  assert.equal(balancedCuts(p, 1), [])
  // Half of 14 planes is 7; clean places lie at 2, 12 and 14 planes.
  assert.equal(balancedCuts(p, 2), [1])
  // Thirds are 4.67 and 9.33.
  assert.equal(balancedCuts(p, 3), [1, 5])
  assert.equal(balancedCuts(p, 24), [1, 5, 6], 'no more cuts than clean places')
})

test('without a clean place all places are legal', () => {
  const s = new Sketch([1, 1, 8, 8])
  const a = s.conv(s.image, 'a', 1)
  const b = s.conv(s.image, 'b', 1)
  const p = profileForward(trained(s, s.op('add', {}, [a, b], 'sum')))
  const inner = {
    ...p,
    cuts: p.cuts.filter((c) => !c.clean).concat(p.cuts.filter((c) => c.clean).map((c) => ({ ...c, clean: false }))),
  }
  assert.ok(balancedCuts(inner, 3).length > 0)
  assert.equal(
    outline(p).filter((l) => !l.endsWith('clean')),
    ['b | sum 2'],
  )
})

test('splitting a list keeps all of it in order', () => {
  assert.equal(splitAt([1, 2, 3, 4, 5], [2, 4]), [[1, 2], [3, 4], [5]])
  assert.equal(splitAt([1, 2], []), [[1, 2]])
  assert.equal(splitAt([1, 2], [2]), [[1, 2]], 'no empty parts')
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 20 }), fc.array(fc.nat({ max: 20 })), (list, at) => {
      const sorted = [...new Set(at)].filter((i) => i <= list.length).sort((a, b) => a - b)
      const parts = splitAt(list, sorted)
      assert.equal(parts.flat(), list)
      assert.ok(parts.every((p) => p.length > 0))
      assert.is(parts.length, list.length ? sorted.filter((i) => i > 0 && i < list.length).length + 1 : 0)
    }),
    { seed: 5 },
  )
})

test.run()
