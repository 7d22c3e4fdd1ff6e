// docs/reference/layers.md: every layer and combinator of the DSL. In: their documentation, their rules, the op table. Out: the page.
// Invariant: shapes, tiling and parameters are those of the code: each example is built at two sizes, and the difference is the rule.
// Worked example: maxPool(2) makes 24×36 of 48×72 and 32×48 of 64×96: H/2 and W/2.
import { isRight } from 'fp-ts/Either'
import * as spillway from '../../src'
import { layerKinds, ruleOf } from '../../dsl/layers/registry'
import type { Net, Shape } from '../../dsl/net'
import { type Api, type Documented, type Exported, namesOf, type Option } from './exports'
import { importsFor } from './examples'
import { code, fenced, generatedNote, plain, splitDefault, table } from './markdown'

type Group = readonly [title: string, about: string, names: readonly string[]]
const GROUPS: readonly Group[] = [
  ['Convolutions and linear layers', 'Layers with weights.', ['conv2d', 'convTranspose2d', 'linear', 'pixelLinear']],
  [
    'Norms',
    'Layers that normalise. The first one uses statistics of the batch, the others of one image.',
    ['batchNorm', 'groupNorm', 'instanceNorm', 'layerNorm', 'rmsNorm', 'unitNorm', 'localResponseNorm', 'globalResponseNorm'],
  ],
  [
    'Activations',
    'Functions of one element, and softmax. Only `prelu` has weights.',
    [
      'relu',
      'leakyRelu',
      'prelu',
      'relu6',
      'elu',
      'gelu',
      'geluTanh',
      'silu',
      'mish',
      'hardSwish',
      'hardSigmoid',
      'sigmoid',
      'softplus',
      'reciprocal',
      'tanh',
      'softmax',
      'clamp',
      'affine',
    ],
  ],
  [
    'Pooling',
    'Layers that summarise windows of pixels.',
    ['maxPool', 'avgPool', 'adaptiveAvgPool', 'globalAvgPool', 'globalMaxPool', 'generalizedMeanPool', 'gatedAttentionPool'],
  ],
  [
    'Shape and input',
    'Layers that change the form of an image.',
    [
      'flatten',
      'upsample',
      'reflectionPad2d',
      'sliceChannels',
      'channelShuffle',
      'turnPixels',
      'rotary',
      'pixelShuffle',
      'pixelUnshuffle',
      'fromBytes',
    ],
  ],
  ['Attention and trained values', 'Pixels that read each other, and values that are added.', ['attention', 'bias', 'position']],
  ['Regularisation', 'Layers that act in training, and a trained scale.', ['dropout', 'stochasticDepth', 'layerScale']],
  [
    'Combinators',
    'Functions that combine layers to networks.',
    [
      'seq',
      'residual',
      'concat',
      'skip',
      'scaled',
      'atInputSize',
      'masked',
      'values',
      'value',
      'repeat',
      'block',
      'blocks',
      'counted',
      'identity',
      'classifier',
    ],
  ],
]

// ---------------------------------------------------------------- facts

/** The value of an expression over the package's exports. */
const evaluated = (text: string): unknown =>
  new Function(...Object.keys(spillway), `return (${text}\n)`)(...Object.values(spillway))

/** Shortest calls of layers whose rule has no example. */
const CALLS: Readonly<Record<string, string>> = {
  conv2d: "conv2d('n', 64, 3)",
  convTranspose2d: "convTranspose2d('n', 32, 2, { stride: 2 })",
  linear: "linear('n', 10)",
  pixelLinear: "pixelLinear('n', 32)",
  batchNorm: "batchNorm('n')",
  groupNorm: "groupNorm('n', 8)",
  instanceNorm: 'instanceNorm()',
  localResponseNorm: 'localResponseNorm(5)',
  leakyRelu: 'leakyRelu(0.1)',
  softmax: 'softmax()',
  maxPool: 'maxPool(2)',
  avgPool: 'avgPool(2)',
  globalAvgPool: 'globalAvgPool()',
  adaptiveAvgPool: "adaptiveAvgPool('n', 8)",
  flatten: 'flatten()',
  upsample: 'upsample({ scale: 2 })',
  reflectionPad2d: 'reflectionPad2d(3)',
  pixelShuffle: 'pixelShuffle(2)',
  pixelUnshuffle: 'pixelUnshuffle(2)',
  fromBytes: 'fromBytes()',
  dropout: 'dropout(0.5)',
  identity: 'identity',
  seq: 'seq(relu(), maxPool(2))',
  residual: 'residual(relu(), identity)',
  concat: 'concat(relu(), identity)',
  skip: 'skip(relu())',
  scaled: 'scaled(globalAvgPool(), sigmoid())',
  atInputSize: 'atInputSize(maxPool(2))',
  masked: 'masked(32, relu(), maxPool(2))',
  values: "values(value('a', 'input', relu()), value('b', { joined: ['input', 'a'] }))",
}

const SIZES: readonly Shape[] = [
  [2, 48, 48, 72],
  [3, 96, 64, 96],
]
const FLAT: readonly Shape[] = SIZES.map(([b, c]) => [b, c, 1, 1])

interface Facts {
  readonly shape: string
  readonly tiles: string
  /** At both numbers of channels. */
  readonly parameters: readonly [number, number]
}

/** One size of the output, in terms of the input's. */
const sizeText = (axis: 0 | 1 | 2 | 3, ins: readonly Shape[], outs: readonly Shape[]): string => {
  const letter = 'BCHW'[axis]!
  const [x0, x1] = [ins[0]![axis], ins[1]![axis]]
  const [y0, y1] = [outs[0]![axis], outs[1]![axis]]
  if (ins.every(([, c, h, w], i) => axis === 1 && h * w > 1 && outs[i]![1] === c * h * w)) return 'C·H·W'
  if (x0 === y0 && x1 === y1) return x0 === x1 ? `${x0}` : letter
  if (y0 === y1) return `${y0}`
  if (y0 * x1 === y1 * x0) return y0 > x0 ? `${y0 / x0}·${letter}` : `${letter}/${x0 / y0}`
  const [slope, offset] = [(y1 - y0) / (x1 - x0), y0 - ((y1 - y0) / (x1 - x0)) * x0]
  const scaled = slope === 1 ? letter : slope > 1 ? `${slope}·${letter}` : `${letter}/${1 / slope}`
  return `${scaled} ${offset < 0 ? '−' : '+'} ${Math.abs(offset)}`
}

const TILES = ['B', 'H', 'W'] as const
const ROWS: Readonly<Record<(typeof TILES)[number], string>> = { B: 'the batch', H: 'rows', W: 'columns' }
const listed = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`

const tilesText = (ft: readonly string[], sums: readonly string[]): string => {
  const along = TILES.filter((d) => ft.includes(d))
  const added = TILES.filter((d) => !ft.includes(d) && sums.includes(d))
  return [
    ...(along.length > 0 ? [listed(along.map((d) => ROWS[d]))] : []),
    ...(added.length > 0 ? [`as a sum along ${listed(added.map((d) => ROWS[d]))}`] : []),
  ].join('; ')
}

/** The result of a net for images of two sizes; undefined if it takes neither. */
const factsOf = (net: Net): Facts | undefined => {
  for (const ins of [SIZES, FLAT]) {
    const models = ins.map((input) => spillway.modelAt(input, net))
    const [a, b] = models
    if (!(a && b && isRight(a) && isRight(b))) continue
    const outs = [a.right.output, b.right.output]
    const shape = ([0, 1, 2, 3] as const).map((axis) => sizeText(axis, ins, outs)).join(', ')
    const from = ins === FLAT ? 'B, C, 1, 1' : 'B, C, H, W'
    const layers = a.right.layers
    const sums = layers.length === 1 ? layers[0]!.sums : []
    return {
      shape: `[${from}] → [${shape}]`,
      tiles: tilesText(a.right.ft, sums),
      parameters: [a.right.parameters, b.right.parameters],
    }
  }
  return undefined
}

/** A line through both counts, in terms of C. */
const parametersText = ([p0, p1]: readonly [number, number]): string => {
  const [c0, c1] = [SIZES[0]![1], SIZES[1]![1]]
  const each = (p1 - p0) / (c1 - c0)
  const rest = p0 - each * c0
  const terms = [...(each === 0 ? [] : [each === 1 ? 'C' : `${each}·C`]), ...(rest === 0 ? [] : [`${rest}`])]
  return terms.length === 0 ? 'none' : code(terms.join(' + '))
}

// ---------------------------------------------------------------- the page

const optionRow = ({ name, about, type }: Option): readonly string[] => {
  const [text, usual] = splitDefault(about)
  return [code(name.replace(/^.*\./, '')), code(type), usual === '' ? '' : plain(usual), plain(text)]
}

const parameterRow = ([name, text]: readonly [string, string]): readonly string[] => [code(name), plain(text)]

const callOf = (name: string): string | undefined => CALLS[name] ?? ruleOf(name)?.example

const section = (api: Api, exported: Exported, d: Documented): string => {
  const call = callOf(d.name)
  const facts = call === undefined ? undefined : factsOf(evaluated(call) as Net)
  const rows = [
    ...(facts ? [`- Shape of ${code(call!)}: ${code(facts.shape)}`] : []),
    ...(facts ? [`- Tiles along: ${facts.tiles}`] : []),
    ...(facts ? [`- Trained parameters: ${parametersText(facts.parameters)}`] : []),
  ]
  const named = api.optionsOf(d.name)
  const options = named === undefined ? [] : (api.options.get(named) ?? [])
  const [example = ''] = d.examples
  return [
    `### ${d.name}`,
    fenced('ts', api.signature(d.name)),
    plain(d.about),
    rows.join('\n'),
    d.parameters.size === 0 ? '' : table(['parameter', 'meaning'], [...d.parameters].map(parameterRow)),
    options.length === 0 ? '' : table(['option', 'type', 'default', 'meaning'], options.map(optionRow)),
    fenced('ts', `${importsFor(example, exported)}\n${example}`.trim()),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

/** A layer of the DSL that no group lists, or a name that is none. */
const strays = (api: Api): readonly string[] => {
  const grouped = GROUPS.flatMap(([, , names]) => names)
  return [
    ...layerKinds.filter((kind) => !grouped.includes(kind)),
    ...grouped.filter((name) => !api.exports.some((e) => e.name === name)),
  ]
}

export const layersPage = (api: Api): string => {
  const missing = strays(api)
  if (missing.length > 0) throw new Error(`scripts/reference/layers.ts: put ${missing.join(', ')} into a group`)
  const exported = namesOf(api)
  const documented = (name: string): Documented => api.exports.find((e) => e.name === name)!
  const contents = GROUPS.map(([title, , names]) => [title, names.map((n) => `[${n}](#${n.toLowerCase()})`).join(' ')])
  return `${generatedNote('the layers (dsl/layers, dsl/compose.ts)')}
# Layers

Every layer and combinator of the package. All of them come from one import, \`import { conv2d, relu, seq } from 'spillway'\`.
A network is a value: a layer, or layers that a combinator joins. \`model([B, C, H, W], net)\` applies it to images of one size and checks
every shape at compile time.

Shapes are [batch, channels, rows, columns]. "Tiles along" lists the dimensions along which the planner can cut the layer into tiles.
"As a sum" means that each tile adds its part, and all tiles finish before a later layer reads the result. Layers without a name of
their own have the name of their kind.

${table(['group', 'layers'], contents)}

${GROUPS.map(([title, about, names]) => `## ${title}\n\n${about}\n\n${names.map((name) => section(api, exported, documented(name))).join('\n\n')}`).join('\n\n')}
`
}
