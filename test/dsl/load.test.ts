// Nets from outside: model files, JSON descriptions, JavaScript programs. Errors have their place.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { asTrainable, conv2d, maxPool, model, modelAt, relu, repeat, seq, value, values } from '../../dsl'
import { layerKinds, ruleOf } from '../../dsl/layers/registry'
import { zooNets } from '../../src/zoo'
import { renderError } from '../../staging/core/errors'
import { graphText } from '../../staging/graph/text'
import { fewOrAll } from '../full'
import { forward } from './forward'

const net = seq(conv2d('c', 8, 3), relu(), maxPool('p', 2))
const words = (e: ReturnType<typeof asTrainable>): string =>
  isLeft(e) ? renderError(e.left) : e.right.kind === 'step' ? 'a step' : `${e.right.input} -> ${e.right.output}`

test('a default export: a model, a net with a size, either wrapped', () => {
  assert.is(words(asTrainable(model([1, 3, 8, 8], net))), '1,3,8,8 -> 1,8,4,4')
  assert.is(words(asTrainable({ default: model([1, 3, 8, 8], net) })), '1,3,8,8 -> 1,8,4,4')
  assert.is(words(asTrainable(model([1, 4, 8, 8], net), { batch: 2, height: 6 })), '2,4,6,8 -> 2,8,3,4')
  assert.is(words(asTrainable(net, { height: 10, width: 12 })), '1,3,10,12 -> 1,8,5,6')
  assert.is(words(asTrainable({ default: net }, { batch: 4, height: 10, width: 12 })), '4,3,10,12 -> 4,8,5,6')
})
test('values that are no model are refused', () => {
  const bare =
    'not a model: the default export: it is a net without an input size; export default model([B,C,H,W], net), or give an image size (--image)'
  assert.is(words(asTrainable(net)), bare)
  assert.is(
    words(asTrainable(undefined)),
    'not a model: the model file: it has no default export; add: export default model([N, C, H, W], net)',
  )
  assert.is(
    words(asTrainable(7)),
    'not a model: the default export: it is 7; allowed: model([B,C,H,W], net), a net, or step(...)',
  )
  assert.is(
    words(asTrainable({ a: 1, b: 2 }, { height: 8, width: 8 })),
    'not a model: the default export: it is an object with a, b; allowed: model([B,C,H,W], net), a net, or step(...)',
  )
  assert.is(
    words(asTrainable(model([1, 3, 8, 8], net), { height: 1 })),
    "layer 'p' (maxPool): a window of 2x2 does not fit its input [1,8,1,8]",
  )
  assert.is(
    words(asTrainable({ kind: 'model', input: [1, 3, 8], net })),
    "'input': its shape is [1,3,8]; allowed: four whole numbers [B,C,H,W] of at least 1",
  )
})

/** Every layer that has a rule, then the compositions. */
const kinds = [
  ...layerKinds,
  'seq',
  'block',
  'blocks',
  'counted',
  'repeat',
  'residual',
  'scaled',
  'atInputSize',
  'masked',
  'concat',
  'value',
  'values',
].join(', ')
test('values that are no network are refused with their place', () => {
  const cases: readonly (readonly [unknown, string])[] = [
    [{ kind: 'seq', layers: [relu, net] }, 'net.layers[0]: a function (was it meant to be called?) is not a layer'],
    [{ kind: 'seq', layers: 5 }, 'net.layers: 5 is not a list of layers'],
    [
      { kind: 'seq', layers: [net, { kind: 'convolution' }] },
      `net.layers[1]: there is no layer of kind 'convolution'; allowed: ${kinds}`,
    ],
    [{ kind: 'block', name: '', body: net }, 'net: a block needs a name'],
    [{ kind: 'residual', body: net }, 'net.shortcut: undefined is not a layer'],
    [{ ...conv2d('c', 8, 3), kernel: '3' }, 'net.kernel: "3" is not allowed in a conv2d'],
    [{ ...conv2d('c', 8, 3), out: undefined }, 'net.out: undefined is not allowed in a conv2d'],
    [{ ...conv2d('c', 8, 3), name: 5 }, 'net.name: 5 is not allowed in a conv2d'],
    [{ kind: 'repeat', times: '2', body: net }, 'net.times: "2" is not a number of copies'],
    [
      values({ ...value('a', 'input', net), reads: { added: ['input'] } as never }),
      'net.layers[0].reads: an object with added is not the name of a value, nor names that are added, joined, multiplied, attended by a number of heads or contracted over channels or pixels',
    ],
    [
      values({ ...value('a', 'input', net), reads: { attended: ['input', 'input'], heads: 2, window: 7 } as never }),
      'net.layers[0].reads: an object with attended, heads, window is not the name of a value, nor names that are added, joined, multiplied, attended by a number of heads or contracted over channels or pixels',
    ],
    [
      values({ ...value('a', 'input', net), reads: { contracted: ['input', 'input'], over: 'rows' } as never }),
      'net.layers[0].reads: an object with contracted, over is not the name of a value, nor names that are added, joined, multiplied, attended by a number of heads or contracted over channels or pixels',
    ],
    [
      { ...value('a', 'input'), reads: undefined },
      'net.reads: undefined is not the name of a value, nor names that are added, joined, multiplied, attended by a number of heads or contracted over channels or pixels',
    ],
    [values({ ...value('a', 'input'), name: '' as never }), 'net.layers[0]: a value needs a name'],
    [repeat(1e9, net), 'net: 1000000000 copies exceed the limit of 10000'],
    [{ kind: 'toString' }, `net: there is no layer of kind 'toString'; allowed: ${kinds}`],
  ]
  for (const [u, said] of cases) assert.is(words(modelAt([1, 3, 8, 8], u)), `not a model: ${said}`)
})
test('nesting without end is refused', () => {
  let deep: unknown = relu()
  for (let i = 0; i < 100_000; i++) deep = { kind: 'seq', layers: [deep] }
  assert.match(words(modelAt([1, 3, 8, 8], deep)), 'layers nest deeper than 200')
})
test('a net is its own JSON description', () => {
  // Networks of one family share their layers.
  for (const z of fewOrAll(
    zooNets.filter(({ family }, i) => family !== zooNets[i - 1]?.family),
    zooNets,
  )) {
    const graph = (n: unknown): string => {
      const m = modelAt(z.input, n)
      if (isLeft(m)) throw new Error(renderError(m.left))
      const e = forward(m.right, z.name)
      if (isLeft(e)) throw new Error(renderError(e.left))
      return graphText(e.right.graph)
    }
    assert.is(graph(JSON.parse(JSON.stringify(z.net))), graph(z.net))
  }
})
test('any JSON is refused or is a net: it never throws', () => {
  const kinds = fc.constantFrom(
    'seq',
    'block',
    'blocks',
    'repeat',
    'residual',
    'concat',
    'values',
    'value',
    'conv2d',
    'linear',
    'maxPool',
    'relu',
    'model',
    'nonsense',
  )
  const COMPOSED: Readonly<Record<string, readonly string[]>> = {
    seq: ['layers'],
    block: ['name', 'body'],
    blocks: ['name', 'layers'],
    repeat: ['times', 'body'],
    residual: ['body', 'shortcut'],
    concat: ['branches'],
    atInputSize: ['body'],
    masked: ['side', 'body'],
    values: ['layers'],
    value: ['name', 'reads', 'body'],
  }
  /** The fields of its kind: a node with others is refused for them alone. */
  const own = (all: { readonly kind: string }): object => {
    const fields = ruleOf(all.kind)?.codec.options.keys ?? COMPOSED[all.kind] ?? Object.keys(all)
    return Object.fromEntries(Object.entries(all).filter(([key]) => key === 'kind' || fields.includes(key)))
  }
  const { node } = fc.letrec((tie) => ({
    part: fc.oneof({ maxDepth: 3, withCrossShrink: true }, fc.constant(relu()), fc.jsonValue({ maxDepth: 1 }), tie('node')),
    node: fc
      .record(
        {
          kind: kinds,
          name: fc.oneof(fc.string(), fc.constant(undefined)),
          layers: fc.array(tie('part'), { maxLength: 3 }),
          body: tie('part'),
          shortcut: tie('part'),
          branches: fc.array(tie('part'), { maxLength: 2 }),
          reads: fc.oneof(fc.constant('input'), fc.constant({ added: ['input', 'input'] }), fc.jsonValue({ maxDepth: 1 })),
          times: fc.oneof(fc.integer({ min: -1, max: 4 }), fc.double()),
          out: fc.oneof(fc.integer({ min: -1, max: 9 }), fc.double()),
          bias: fc.boolean(),
          kernel: fc.integer({ min: -1, max: 9 }),
          stride: fc.integer({ min: -1, max: 3 }),
          pad: fc.integer({ min: -1, max: 3 }),
          dilation: fc.integer({ min: 0, max: 2 }),
          groups: fc.constant(1),
          init: fc.constant('fan-in-uniform'),
          ceil: fc.boolean(),
        },
        { requiredKeys: ['kind'] },
      )
      .chain((all) => fc.integer({ min: 0, max: 9 }).map((n) => (n === 0 ? all : own(all)))),
  }))
  let nets = 0
  fc.assert(
    fc.property(node, (u) => {
      const m = modelAt([1, 3, 8, 8], u)
      if (isRight(m)) nets++
      else assert.type(renderError(m.left), 'string')
      if (isRight(m) && m.right.layers.length > 0) assert.ok(isRight(forward(m.right)))
    }),
    { seed: 11, numRuns: 2000 },
  )
  assert.ok(nets > 20, `only ${nets} nets`)
})

test.run()
