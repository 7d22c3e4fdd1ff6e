// Paper 4's depth-first order: one branch after the other, the join when all of its inputs are there.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { depthFirst, type Node } from '../../staging/graph/order'
import { Sketch } from './sketch'

/** Ops written as 'out < in in'. */
const order = (...written: string[]): string => {
  const id = (name: string): number => name.charCodeAt(0)
  const nodes = written.map((w): Node => {
    const [out, ins] = w.split('<') as [string, string]
    return {
      outs: [id(out.trim())],
      ins: ins
        .trim()
        .split(' ')
        .filter((n) => n !== '')
        .map(id),
    }
  })
  return depthFirst(nodes)
    .map((i) => written[i]![0])
    .join('')
}

test('a fork follows one branch to the join, then the next', () => {
  assert.is(order('f<', 'a<f', 'c<f', 'b<a', 'd<c', 'j<b d'), 'fabcdj')
  assert.is(order('f<', 'a<f', 'c<f', 'e<f', 'b<a', 'd<c', 'g<e', 'j<b d g', 'k<j'), 'fabcdegjk')
})

test('nested forks', () => {
  assert.is(order('f<', 'a<f', 'z<f', 'b<a', 'c<a', 'd<b c', 'j<d z'), 'fabcdzj')
})

test('a residual join waits for its body', () => {
  assert.is(order('a<', 'j<a c', 'b<a', 'c<b', 'k<j'), 'abcjk')
})

test('an op that reads one value twice runs once', () => {
  assert.is(order('a<', 'b<a a', 'c<b'), 'abc')
})

test('several roots run in the order in which they were written', () => {
  assert.is(order('a<', 'b<', 'c<a', 'd<b', 'j<c d'), 'acbdj')
})

test('a cycle is a broken invariant', () => {
  assert.throws(() => order('a<b', 'b<a'), /cycle/)
})

test('deep chains do not exhaust the stack', () => {
  const n = 20000
  const nodes = Array.from({ length: n }, (_, i): Node => ({ outs: [i], ins: i === 0 ? [] : [i - 1] }))
  assert.equal(depthFirst(nodes.reverse())[0], n - 1)
})

test('any graph: a permutation in which every op follows its inputs', () => {
  const graphs = fc
    .integer({ min: 1, max: 25 })
    .chain((n) =>
      fc.tuple(
        ...Array.from({ length: n }, (_, i) =>
          i === 0 ? fc.constant<number[]>([]) : fc.array(fc.integer({ min: 0, max: i - 1 }), { maxLength: 3 }),
        ),
      ),
    )
  fc.assert(
    fc.property(graphs, fc.infiniteStream(fc.nat()), (ins, random) => {
      const nodes = ins.map((from, i): Node => ({ ins: from, outs: [i] }))
      const shuffled = nodes
        .map((node) => ({ node, key: random.next().value as number }))
        .sort((a, b) => a.key - b.key)
        .map((s) => s.node)
      const result = depthFirst(shuffled)
      assert.equal(
        [...result].sort((a, b) => a - b),
        [...nodes.keys()],
      )
      const done = new Set<number>()
      for (const i of result) {
        for (const v of shuffled[i]!.ins) assert.ok(done.has(v))
        done.add(shuffled[i]!.outs[0]!)
      }
    }),
    { numRuns: 300, seed: 13 },
  )
})

test('the builder applies it', () => {
  const s = new Sketch([1, 4, 8, 8])
  const x = s.relu(s.image, 'stem')
  const a1 = s.conv(x, 'a1', 4)
  const b1 = s.conv(x, 'b1', 4)
  const a2 = s.conv(a1, 'a2', 4)
  const b2 = s.conv(b1, 'b2', 4)
  s.op('add', {}, [a2, b2], 'join')
  assert.equal(
    s.b.build().ops.map((o) => o.layer),
    ['stem', 'a1', 'a2', 'b1', 'b2', 'join'],
  )
})

test.run()
