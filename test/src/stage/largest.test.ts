// `largest` and `spillway fits`: the size that is found has a plan, and the next larger one has none.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  batchNorm,
  conv2d,
  errorText,
  globalAvgPool,
  type Growing,
  type LargestOptions,
  largest,
  linear,
  maxPool,
  mib,
  type Model,
  modelAt,
  relu,
  SpillwayException,
  seq,
  skip,
  tryLargest,
  tryStage,
  upsample,
  zooEntry,
} from '../../../src'
import { fitsText } from '../../../src/cli/fits'
import { machineNamed } from '../../../src/machine/machine'
import { batchesFrom } from '../../../src/stage/batches'
import { type Fits, type FitsAsked, fitsOf, partsOf, stepAsked } from '../../../src/stage/fits'
import { fitsBeside, imagesThread } from '../../../src/stage/fitsbeside'
import { prepare } from '../../../src/stage/prepare'
import { compile } from '../../../staging/compile'
import { certain } from '../../../staging/core/certain'
import type { Graph } from '../../../staging/graph/graph'
import { hasPlan } from '../../../staging/planner/fastest'
import { fullTest } from '../../full'

const MACHINE = 'v100-pcie-16g'
const machine = certain('the machine is known')(machineNamed(MACHINE, {}))

const classifier = seq(
  conv2d('conv1', 16, 3),
  batchNorm('bn1'),
  relu(),
  maxPool(2),
  conv2d('conv2', 32, 3),
  relu(),
  globalAvgPool('pool'),
  linear('fc', 10),
)
const plain = seq(conv2d('a', 8, 3), relu(), conv2d('b', 8, 3), relu(), conv2d('c', 8, 3))
/** Only images whose height and width are even. */
const halves = seq(conv2d('a', 8, 3), skip(maxPool(2), conv2d('b', 8, 3), upsample({ scale: 2 })), conv2d('c', 3, 1))

const at = (input: readonly number[], net: unknown): Model => certain('a legal model')(modelAt(input, net))
// The overloads want a model's own type: here it is any.
const staged = tryStage as (model: Model, o: object) => ReturnType<typeof tryStage>
const hasStage = (input: readonly number[], net: unknown, o: LargestOptions): boolean => {
  const { upTo: _, ...options } = o
  return isRight(staged(at(input, net), { ...options, ...(options.strategy === 'auto' ? { effort: 0.1 } : {}) }))
}

type Case = readonly [
  net: unknown,
  input: readonly [number, number, number, number],
  Growing,
  LargestOptions & { budget: number },
]

const isExact = ([net, input, growing, o]: Case): void => {
  const what = `${growing} ${o.strategy}`
  const found = largest(at(input, net), growing, { machine: MACHINE, ...o })
  assert.is(found.because, 'budget', what)
  assert.ok(found.peakBytes <= o.budget, what)
  assert.ok(hasStage(found.input, net, { machine: MACHINE, ...o }), `${what} ${found.input}`)
  assert.not(hasStage(found.next!, net, { machine: MACHINE, ...o }), `${what} ${found.next}`)
  assert.is(found.input[2]! * input[3], found.input[3]! * input[2], 'an image keeps its proportions')
}

test('the size that is found has a plan, and the next larger one has none', () => {
  const cases: readonly Case[] = [
    [classifier, [2, 3, 64, 64], 'batch', { strategy: 'in-core', budget: mib(32) }],
    [classifier, [2, 3, 48, 64], 'image', { strategy: 'in-core', budget: mib(24) }],
    [plain, [1, 3, 64, 64], 'batch', { strategy: 'swap:greedy', budget: mib(24), upTo: 64 }],
    [plain, [2, 3, 96, 96], 'batch', { strategy: 'checkpoint:sqrt', budget: mib(16), upTo: 64 }],
    [classifier, [2, 3, 64, 64], 'image', { strategy: 'auto', budget: mib(8), upTo: 9 }],
  ]
  cases.forEach(isExact)
})

fullTest('the largest batch is also found for other networks and budgets', () => {
  for (const net of [plain, classifier])
    for (const [growing, upTo] of [
      ['batch', 40],
      ['image', 200],
    ] as const)
      for (const budget of [mib(8), mib(10), mib(14)]) isExact([net, [2, 3, 64, 64], growing, { strategy: 'auto', budget, upTo }])
})

test('hasPlan answers as the planner does, at every budget', () => {
  for (const [strategy, net, input] of [
    ['in-core', classifier, [4, 3, 64, 64]],
    ['auto', classifier, [4, 3, 64, 64]],
    ['tiled', plain, [2, 3, 96, 96]],
    ['checkpoint:optimal', plain, [2, 3, 96, 96]],
  ] as const) {
    const { graph } = certain('the step is legal')(prepare(at(input, net), machine))
    const answers = [4, 6, 8, 12, 32].map((size) => {
      const o = { strategy, budgetBytes: mib(size), machine, effort: 0.1 }
      const planned = isRight(compile(graph, o))
      assert.is(hasPlan(graph, o), planned, `${strategy} in ${size} MiB`)
      return planned
    })
    assert.ok(answers.includes(true) && answers.includes(false), `${strategy} has both answers`)
  }
})

test('graphs of two batch sizes determine those of the others', () => {
  for (const name of ['resnet18', 'densenet121', 'unet', 'vgg16-features']) {
    const entry = zooEntry(name)!
    const [, c, h, w] = entry.defaultInput
    const graphOf = (batch: number): Graph => {
      const built = certain('a legal model')(entry.build([batch, c, h / 2, w / 2]))
      return certain('the step is legal')(prepare(built, machine, { loss: entry.loss })).graph
    }
    const graphs = batchesFrom(graphOf(2), graphOf(3))!
    assert.equal(graphs(7), graphOf(7), name)
  }
})

test('graphs that differ in more than the batch determine no other', () => {
  const graphOf = (input: readonly number[], net: unknown): Graph =>
    certain('the step is legal')(prepare(at(input, net), machine)).graph
  const first = graphOf([2, 3, 64, 64], plain)
  assert.is(batchesFrom(first, first), undefined)
  assert.is(batchesFrom(first, graphOf([3, 3, 65, 64], plain)), undefined)
  assert.is(batchesFrom(first, graphOf([3, 3, 64, 64], classifier)), undefined)
  assert.ok(batchesFrom(first, graphOf([3, 3, 64, 64], plain)))
})

test('the search of a plan ends at a multiple of the in-core size', () => {
  const net = at([1, 3, 64, 64], plain)
  const o = { machine: MACHINE, budget: mib(64) } as const
  const inCore = largest(net, 'batch', { ...o, strategy: 'in-core' }).input[0]!
  const twice = largest(net, 'batch', { ...o, upTo: 2 })
  assert.is(twice.input[0], 2 * inCore)
  assert.is(twice.next, undefined)
})

test('sizes that the model refuses are left out', () => {
  const { input, next } = largest(at([1, 3, 64, 64], halves), 'image', { machine: MACHINE, strategy: 'in-core', budget: mib(32) })
  assert.is(input[2]! % 2, 0)
  assert.is(next![2], input[2]! + 2)
})

test('wrong calls are refused with their fault', () => {
  const net = at([1, 3, 64, 64], plain)
  const refusal = (growing: string, o: object): string => {
    const answer = tryLargest(net, growing as never, o)
    return isLeft(answer) ? errorText(answer.left) : ''
  }
  assert.match(refusal('width', {}), "size 'width' is not known; allowed: batch, image")
  assert.match(refusal('batch', { machine: MACHINE, upTo: 0.5 }), 'upTo is 0.5; allowed: numbers of at least 1')
  assert.match(refusal('batch', { budgets: 4 }), '`budgets` is not an option of largest; did you mean `budget`?')
  assert.match(refusal('batch', { machine: MACHINE, strategy: 'automatic' }), "strategy 'automatic' is not known")
  assert.match(refusal('batch', { machine: MACHINE, budget: mib(1), strategy: 'in-core' }), 'the smallest budget that works is')
  assert.throws(
    () => largest({ kind: 'step' } as never, 'batch'),
    (e: unknown) => e instanceof SpillwayException && /a step has no size/.test(e.message),
  )
})

// ---------------------------------------------------------------- fits

/** Less than the step of 16 images in-core. */
const TIGHT = mib(40)
const askedAt = (input: readonly number[], budgetBytes: number): FitsAsked => {
  const model = at(input, classifier)
  return {
    subject: { at: (shape) => modelAt(shape, classifier), base: model.input as never, own: {}, machine },
    ...stepAsked(certain('the step is legal')(prepare(model, machine))),
    budgetBytes,
    machineWith: (o) => machineNamed(MACHINE, o),
  }
}
const fitsAt = (input: readonly number[], budgetBytes: number): Fits =>
  certain('the questions have answers')(fitsOf(askedAt(input, budgetBytes)))

let known: Fits | undefined
const tight = (): Fits => {
  known ??= fitsAt([16, 3, 128, 128], TIGHT)
  return known
}

test('changes are listed separately, the fastest first', () => {
  const { asked, changes, largest: sizes } = tight()
  assert.is(asked.fits, 'planned')
  assert.is(sizes.length, 4)
  assert.equal(changes.map((c) => c.flags[0]).sort(), ['--batch', '--freeze', '--image'])
  const seconds = changes.map((c) => (c.price ? 1 / c.price.imagesPerSecond : Infinity))
  assert.equal(
    seconds,
    [...seconds].sort((a, b) => a - b),
  )
  for (const c of changes) {
    assert.is(c.savedBytes, asked.inCoreBytes - c.inCoreBytes, c.change)
    assert.is(c.fits === 'in-core', c.inCoreBytes <= TIGHT, c.change)
  }
  // The smallest change of its kind: the next one is refused.
  const batch = changes.find((c) => c.flags[0] === '--batch')!
  assert.ok(batch.fits === 'in-core' && batch.input[0]! < 16)
  const image = changes.find((c) => c.flags[0] === '--image')!
  assert.equal(image.input, sizes.find((s) => s.growing === 'image' && s.of === 'in-core')!.largest!.input)
})

test('two threads have the answers of one', async () => {
  const o = askedAt([16, 3, 128, 128], TIGHT)
  const { base, own } = o.subject
  const { graph, trained = [], budgetBytes } = o
  const images = imagesThread()?.ask({
    graph,
    trained,
    budgetBytes,
    base,
    own,
    net: classifier,
    machine: { name: MACHINE, options: {} },
  })
  assert.equal(certain('the questions have answers')(await fitsBeside(o, images)), tight())
})

test('a step that fits needs no change; one that fits nowhere has its smallest budget', () => {
  assert.equal(fitsAt([2, 3, 32, 32], mib(64)).changes, [])
  const { asked } = fitsAt([2, 3, 32, 32], mib(2))
  assert.is(asked.fits, 'no')
  assert.ok(asked.smallestBytes! > mib(2))
})

test('the tables fit terminals of 60 to 200 columns', () => {
  // The last line is the flags, to be copied.
  for (const width of [60, 80, 200])
    for (const line of fitsText('net', MACHINE, tight(), 4, width).split('\n').slice(0, -1))
      assert.ok(line.length <= width, `${width}: ${line}`)
})

test('the parts of a network are the first name components with several values', () => {
  assert.equal(partsOf(['conv1.weight', 'layer1.0.conv1.weight', 'layer2.0.conv1.weight', 'fc.weight']), [
    'conv1',
    'layer1',
    'layer2',
    'fc',
  ])
  assert.equal(partsOf(['features.0.weight', 'features.3.weight', 'features.6.weight', 'classifier.1.weight']), [
    'features.0',
    'features.3',
    'features.6',
    'classifier.1',
  ])
})

test.run()
