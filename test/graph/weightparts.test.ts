// Weights in parts of rows: such a step is sound, computes the same gradients, and has the fingerprint and the state of the staged step.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { beginningsIn } from '../../src/train/weightparts'
import { compileSegments } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import { decodeGraph, filedGraph } from '../../staging/graph/codec'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Graph, isPersistent } from '../../staging/graph/graph'
import { asStaged } from '../../staging/graph/laid'
import { asOne } from '../../staging/graph/ranks'
import { type Counts, countsWithin, cutsIn, familiesOf, weightsInParts } from '../../staging/graph/weightparts'
import { inHalf } from '../../staging/grad/rewrite/half'
import { toTape } from '../../staging/plan/tape'
import { inCoreSegments } from '../../staging/schedule/incore'
import { soundGraph } from '../../staging/verify/soundgraph'
import { machine } from '../property/compare'
import { trained } from '../tile/trained'
import { convAttrs, samePad, Sketch } from './sketch'

/** A convolution, a transposed one, one with groups, a linear layer, and a weight that two layers share. */
const network = (): Graph => {
  const s = new Sketch([2, 3, 6, 6])
  const first = s.relu(s.conv(s.image, 'c1', 48), 'r1')
  const second = s.relu(s.conv(first, 'c2', 40, 3, { ...samePad(3), strideH: 2, strideW: 2 }), 'r2')
  const up = s.op(
    'conv_transpose2d',
    { ...convAttrs({ strideH: 2, strideW: 2 }), outputPadH: 0, outputPadW: 0 },
    [second, s.weight('up.weight', [40, 32, 2, 2]), s.weight('up.bias', [32])],
    'up',
  )
  const deep = s.conv(s.relu(up, 'r3'), 'deep', 32, 3, { ...samePad(3), groups: 32 })
  const flat = s.relu(s.linear(deep, 'fc', 33), 'r4')
  const shared = s.weight('shared.weight', [33, 33])
  const again = s.op('linear', {}, [flat, shared], 's1')
  return trained(s, s.op('linear', {}, [s.relu(again, 'r5'), shared], 's2'))
}

const COUNTS: Counts = { 'c1.weight': 3, 'c2.weight': 2, 'up.weight': 3, 'fc.weight': 2, 'shared.weight': 3 }
const inParts = (g: Graph, counts = COUNTS): Graph => {
  const split = weightsInParts(g, counts)
  if (!split) throw new Error('a weight has fewer rows than parts')
  return split
}

test('weights of dense products can be in parts, those of groups cannot', () => {
  assert.equal(
    familiesOf(network()).map((f) => f.weight.name),
    ['c1.weight', 'c2.weight', 'up.weight', 'fc.weight', 'shared.weight'],
  )
  assert.is(weightsInParts(network(), { 'deep.weight': 2 }), undefined)
  assert.is(weightsInParts(network(), { 'c1.weight': 4 }), undefined, 'more parts than blocks of 16 rows')
  assert.is(weightsInParts(network(), { 'c1.weight': 1 }), undefined)
})

test('parts are as many as the bytes of an operator need, up to blocks of 16 rows', () => {
  const families = familiesOf(network())
  const { bytes } = families.find((f) => f.weight.name === 'c2.weight')!
  assert.is(countsWithin(families, bytes)['c2.weight'], undefined)
  assert.is(countsWithin(families, bytes - 1)['c2.weight'], 2)
  assert.is(countsWithin(families, 1)['c2.weight'], 3)
})

for (const [precision, g] of [
  ['fp32', network()],
  ['bf16', inHalf('bf16')(network())],
] as const)
  test(`in ${precision} a step with weights in parts is sound, and is the step as it was staged`, () => {
    const split = inParts(g)
    assert.is(soundGraph(split), undefined)
    assert.is(asStaged(split), g)
    assert.is(asOne(split), g)
    assert.is(fingerprint(split), fingerprint(g))
    const filed = JSON.parse(JSON.stringify(filedGraph(split)))
    const read = decodeGraph(filed)
    assert.ok(isRight(read) && fingerprint(read.right) === fingerprint(g))
    assert.equal(JSON.parse(JSON.stringify(isRight(read) && read.right)), JSON.parse(JSON.stringify(split)))
    for (const parts of [{ 'c1.weight': 9 }, { 'no.weight': 2 }, { 'c1.weight': 1 }])
      assert.ok(isLeft(decodeGraph({ ...filed, parts })), JSON.stringify(parts))
  })

test('parts are all rows of a weight, its bias and its state, in order', () => {
  const g = network()
  const cuts = cutsIn(inParts(g))
  const whole = new Map(g.values.filter(isPersistent).map((v) => [v.name, v.shape]))
  assert.equal(
    [...cuts.keys()].sort(),
    [...whole.keys()].filter((name) => !/^(deep|up\.bias)/.test(name) && !name.startsWith('up.bias')).sort(),
  )
  for (const [name, parts] of cuts) {
    const [rows, ...rest] = whole.get(name)!
    const each = rest.reduce((n, d) => n * d, 1)
    let at = 0
    for (const v of parts) {
      assert.equal([v.cut!.first, v.shape.slice(1)], [at * each, rest])
      at += v.shape[0]!
    }
    assert.is(at, rows)
  }
})

const on = machine('cpu')

/** The loss of a step, and the momenta after it: these are the gradients. */
const stepOf = async (
  graph: Graph,
): Promise<{ readonly loss: number; readonly gradients: ReadonlyMap<string, Float32Array> }> => {
  const plan = compileSegments(graph, inCoreSegments(graph), { strategy: 'by hand', machine: on, budgetBytes: mib(256) })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  const session = new (loadNative().Session)(toTape(plan.right), { device: 'cpu', threads: 1 })
  try {
    for (const { name, of, first } of beginningsIn(graph)) session.init(name, 7, of, first)
    const ran = await session.run({ steps: 1, seed: 7, source: { kind: 'synthetic', seed: 7, samples: 2 } })
    const cuts = cutsIn(graph)
    const names = graph.values.filter((v) => v.role === 'state').map((v) => v.cut?.of ?? v.name)
    const gradients = new Map(
      [...new Set(names)].map((name) => {
        const parts = (cuts.get(name) ?? [{ name }]).map((v) => session.read(v.name))
        return [name, new Float32Array(Uint8Array.from(Buffer.concat(parts)).buffer)] as const
      }),
    )
    return { loss: ran.steps[0]!.loss, gradients }
  } finally {
    session.dispose()
  }
}

test('gradients of parts are those of whole weights, up to rounding', async () => {
  const g = network()
  const [whole, parts] = [await stepOf(g), await stepOf(inParts(g))]
  assert.ok(Math.abs(whole.loss - parts.loss) <= 1e-6 * whole.loss, `${whole.loss} ${parts.loss}`)
  assert.equal([...parts.gradients.keys()].sort(), [...whole.gradients.keys()].sort())
  for (const [name, expected] of whole.gradients) {
    const got = parts.gradients.get(name)!
    const most = Math.max(...expected.map(Math.abs))
    assert.ok(most > 0 && got.length === expected.length, name)
    const off = Math.max(...expected.map((x, i) => Math.abs(x - got[i]!)))
    assert.ok(off <= 1e-5 * most, `${name}: ${off} of ${most}`)
  }
})

test.run()
