// Graphs from files: written ones are read again; anything else is refused with place and reason, and nothing throws.
import * as fc from 'fast-check'
import { isLeft, isRight } from 'fp-ts/Either'
import * as t from 'io-ts'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { renderError } from '../../staging/core/errors'
import { decodeGraph, graphCodec } from '../../staging/graph/codec'
import { fingerprint } from '../../staging/graph/fingerprint'
import type { Graph } from '../../staging/graph/graph'
import { must, Sketch, trainingFrom } from './sketch'

const sample = (): Graph => {
  const s = new Sketch([2, 3, 9, 7])
  const x = s.relu(s.norm(s.conv(s.image, 'conv1', 4), 'bn'), 'relu')
  const joined = s.op('concat', {}, [s.maxPool(x, 'pool', 2), s.avgPool(x, 'avg', 2)], 'cat')
  const y = s.op('add', {}, [s.conv(joined, 'conv2', 8), joined], 'add')
  return must(
    trainingFrom(s.b.build(), y, {
      loss: 'mse',
      optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9, weightDecay: 1e-4, nesterov: false },
    }),
  )
}
type Json = { name: unknown; values: Record<string, unknown>[]; ops: Record<string, unknown>[] }
const asJson = (g: Graph): Json => JSON.parse(JSON.stringify(g)) as Json

test('a written graph is read unchanged', () => {
  const g = sample()
  const read = must(decodeGraph(asJson(g)))
  assert.equal(read, g)
  assert.is(fingerprint(read), fingerprint(g))
})

test('fields that the format does not have are dropped', () => {
  const json = asJson(sample())
  json.ops[0]!.comment = 'mine'
  assert.equal(must(decodeGraph(json)), sample())
})

const opAt = (kind: string): number => sample().ops.findIndex((o) => o.kind === kind)
const valueAt = (name: string): number => sample().values.findIndex((v) => v.name === name)

const refusals: readonly (readonly [string, (j: Json) => void, RegExp])[] = [
  [
    'no name',
    (j) => {
      j.name = 3
    },
    /^not a graph: name: 3 is not a string of at most 1000 visible characters/,
  ],
  [
    'role',
    (j) => {
      j.values[2]!.role = 'weight'
    },
    /^not a graph: values\.2\..*role: "weight" is not/,
  ],
  [
    'negative id',
    (j) => {
      j.ops[0]!.ins = [-1]
    },
    /^not a graph: ops\.0\.ins\.0: -1 is not a whole number from 0/,
  ],
  [
    'value id',
    (j) => {
      j.values[2]!.id = 7
    },
    /values\[2\]: its id is 7; allowed: 2/,
  ],
  [
    'op id',
    (j) => {
      j.ops[2]!.id = 7
    },
    /ops\[2\]: its id is 7; allowed: 2/,
  ],
  [
    'operand out of range',
    (j) => {
      j.ops[1]!.ins = [4000]
    },
    /ops\[1\]: it reads value 4000; allowed: 0 to \d+/,
  ],
  [
    'read before written',
    (j) => {
      j.ops[1]!.ins = [valueAt('relu')]
    },
    /ops\[1\]: it reads 'relu' before it is computed/,
  ],
  [
    'swapped ops',
    (j) => {
      ;[j.ops[2], j.ops[3]] = [
        { ...j.ops[3]!, id: 2 },
        { ...j.ops[2]!, id: 3 },
      ]
    },
    /ops\[2\]: it reads 'bn' before/,
  ],
  [
    'written twice',
    (j) => {
      j.ops[3]!.outs = j.ops[2]!.outs
    },
    /ops\[3\]: it writes 'bn', which is already computed/,
  ],
  [
    'writes a parameter',
    (j) => {
      j.ops[0]!.outs = [valueAt('conv1.bias')]
    },
    /ops\[0\]: it writes 'conv1.bias', which is already computed/,
  ],
  [
    'never written',
    (j) => {
      j.ops = j.ops.slice(0, -4)
    },
    /values\[\d+\]: no operator computes 'conv1.weight.grad'/,
  ],
  [
    'unknown operator',
    (j) => {
      j.ops[0]!.kind = 'conv9d'
    },
    /there is no operator 'conv9d'/,
  ],
  [
    'plumbing',
    (j) => {
      j.ops[3]!.kind = 'copy'
      j.ops[3]!.attrs = {}
    },
    /there is no operator 'copy'/,
  ],
  [
    'missing attribute',
    (j) => {
      j.ops[3]!.attrs = {}
    },
    /layer 'relu' \(relu\): attributes \{\} are wrong; allowed: slope: float/,
  ],
  [
    'fraction',
    (j) => {
      Object.assign(j.ops[0]!.attrs as object, { strideH: 1.5 })
    },
    /attributes .* are wrong/,
  ],
  [
    'attribute of another type',
    (j) => {
      Object.assign(j.ops[0]!.attrs as object, { strideH: '1' })
    },
    /ops\.0\.attrs\.strideH: "1" is not number/,
  ],
  [
    'wrong shape',
    (j) => {
      j.values[valueAt('relu')]!.shape = [2, 4, 9, 8]
    },
    /shape/,
  ],
  [
    'shape of rank 5',
    (j) => {
      j.values[0]!.shape = [1, 2, 3, 9, 7]
    },
    /values\[0\]: 'image': its shape is \[1,2,3,9,7\]/,
  ],
  [
    'zero extent',
    (j) => {
      j.values[0]!.shape = [0, 3, 9, 7]
    },
    /a whole number of 1 or more/,
  ],
  [
    'too many bytes',
    (j) => {
      j.values[0]!.shape = [2 ** 40, 3, 2 ** 40, 7]
    },
    /2\^50 elements/,
  ],
  [
    'count',
    (j) => {
      Object.assign(j.ops[opAt('mse')]!.attrs as object, { count: 3 })
    },
    /count is 3; allowed: \d+/,
  ],
  [
    'too few inputs',
    (j) => {
      j.ops[opAt('add')]!.ins = [valueAt('conv2')]
    },
    /\(add\): it has 1 inputs; allowed: 2 or more/,
  ],
  [
    'too many outputs',
    (j) => {
      j.ops[opAt('mse')]!.outs = [valueAt('loss'), valueAt('add.grad')]
    },
    /it has 2 outputs; allowed: 1/,
  ],
  [
    'no start value',
    (j) => {
      j.values[valueAt('conv1.bias')]!.init = undefined
    },
    /param 'conv1.bias' has no start value/,
  ],
  [
    'start value of an activation',
    (j) => {
      j.values[valueAt('relu')]!.init = { dist: 'constant', a: 0 }
    },
    /'relu' has a start value/,
  ],
  [
    'name twice',
    (j) => {
      j.values[valueAt('conv1.bias')]!.name = 'conv1.weight'
    },
    /two inputs or parameters are named 'conv1.weight'/,
  ],
  [
    'mixed float types',
    (j) => {
      j.values[valueAt('relu')]!.dtype = 'f64'
    },
    /'relu' of role activation is f64; allowed: f32 or bf16/,
  ],
  [
    'whole numbers where floats are due',
    (j) => {
      j.values[valueAt('relu')]!.dtype = 'i32'
    },
    /'relu' of role activation is i32; allowed: f32 or bf16/,
  ],
  [
    'gradient of nothing',
    (j) => {
      j.values[valueAt('relu.grad')]!.gradOf = 999
    },
    /gradOf is 999/,
  ],
  [
    'gradient of another shape',
    (j) => {
      j.values[valueAt('relu.grad')]!.gradOf = 0
    },
    /and of 'image' differ/,
  ],
  [
    'an activation as gradient',
    (j) => {
      j.values[valueAt('relu')]!.gradOf = valueAt('bn')
    },
    /'relu' of role activation is a gradient/,
  ],
  [
    'output of the wrong role',
    (j) => {
      j.values[valueAt('relu')]!.role = 'stat'
    },
    /'relu' has role stat; allowed: activation, output, gradient/,
  ],
  [
    'an update in the forward phase',
    (j) => {
      j.ops[opAt('sgd')]!.phase = 'backward'
    },
    /sgd overwrites its inputs; its phase must be update/,
  ],
  [
    'a weight read after its update',
    (j) => {
      const data = opAt('conv2d_bwd_data')
      const ops = j.ops.filter((_, i) => i !== data)
      ops.splice(data + 1, 0, j.ops[data]!)
      j.ops = ops.map((o, id) => ({ ...o, id }))
    },
    /it reads 'conv2.weight' after its update/,
  ],
  [
    'an update that overwrites an activation',
    (j) => {
      j.ops[opAt('bn_running')]!.ins = [valueAt('bn.stats'), valueAt('conv1.bias'), valueAt('bn.stats')]
    },
    /operand 2 \(var\) is 'bn.stats', a value of role stat; allowed: a value of role param, state/,
  ],
]

for (const [name, spoil, words] of refusals)
  test(`refused: ${name}`, () => {
    const json = asJson(sample())
    spoil(json)
    const read = decodeGraph(json)
    assert.ok(isLeft(read))
    assert.is(read.left.tag, 'GraphFormat')
    assert.match(renderError(read.left), words)
  })

/** All places of a JSON value, as paths. */
const placesOf = (u: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] =>
  typeof u === 'object' && u !== null
    ? [path, ...Object.entries(u).flatMap(([k, v]) => placesOf(v, [...path, Array.isArray(u) ? Number(k) : k]))]
    : [path]

test('any one place replaced by anything: read as a legal graph or refused, never thrown', () => {
  const places = placesOf(asJson(sample())).filter((p) => p.length > 0)
  const junk = fc.oneof(
    fc.integer(),
    fc.double(),
    fc.string(),
    fc.constantFrom(null, true, [], {}, -0, 2 ** 53, '__proto__', [[]], { __proto__: null }),
  )
  const text = JSON.stringify(sample())
  let refused = 0
  fc.assert(
    fc.property(fc.nat(places.length - 1), junk, (i, value) => {
      const json = JSON.parse(text) as Json
      const path = places[i]!
      const parent = path.slice(0, -1).reduce<unknown>((u, k) => (u as Record<string | number, unknown>)[k], json) as Record<
        string | number,
        unknown
      >
      parent[path.at(-1)!] = value
      const read = decodeGraph(json)
      if (isLeft(read)) {
        refused++
        assert.ok(renderError(read.left).length > 10)
      } else assert.ok(isRight(decodeGraph(JSON.parse(JSON.stringify(read.right)))))
    }),
    { numRuns: 1500, seed: 14 },
  )
  assert.ok(refused > 1000, `${refused} refused`)
})

test('arbitrary JSON is refused', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (u) => isLeft(decodeGraph(u))),
    { numRuns: 300, seed: 15 },
  )
})

test('as a part of another codec', () => {
  const file = t.type({ version: t.literal(1), graph: graphCodec })
  assert.ok(isRight(file.decode({ version: 1, graph: asJson(sample()) })))
  const spoilt = asJson(sample())
  spoilt.ops[0]!.kind = 'conv9d'
  const read = file.decode({ version: 1, graph: spoilt })
  assert.ok(isLeft(read))
  assert.match(read.left[0]!.message!, /^not a graph: ops\[0\]: layer 'conv1': there is no operator 'conv9d'/)
})

test.run()
