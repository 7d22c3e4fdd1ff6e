// timeout 400
// Plan modules beside their models: accepted as written; refused in words when the model changed since, when what they say
// was changed, when they do not fit a device; the same words at run time.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Model } from '../../dsl'
import { errorText } from '../../src/errors/errors'
import { elaboratedFor } from '../../src/stage/identity'
import { moduleText, openModule, type PlanModule } from '../../src/stage/planmodule'
import { tryRun } from '../../src/train/run'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { FULL } from '../full'
import { check, type Programs, runProgram } from './checker'
import { refusedPlan } from './refusal'

const MACHINE = 'v100-pcie-16g'
const modelText = (body: string, input = '[2, 3, 256, 192]'): string => `import {
  batchNorm, block, blocks, concat, conv2d, device, flatten, globalAvgPool, identity, leakyRelu, linear, maxPool, mib, model, planModule,
  relu, repeat, residual, seq, stage, tryRun,
} from '../../src/index'
const unit = <N extends string, C extends number>(name: N, c: C) => seq(conv2d(name, c, 3), batchNorm(\`\${name}_bn\`), relu())
export const net = model(${input}, ${body})
`
const BODY = `seq(
  conv2d('c1', 8, 3), relu(), conv2d('c2', 8, 3), relu(), maxPool('p1', 2),
  blocks('stage1', unit('a', 8), repeat(2, residual(unit('b', 8), identity))),
  block('mixed', concat(conv2d('left', 4, 1), seq(conv2d('right', 4, 3), relu()))),
  globalAvgPool('gap'), linear('fc', 10))`

const modelOf = (body: string, input?: string): Model => runProgram(modelText(body, input))['net'] as Model
const net = modelOf(BODY)

const emitted = (o: StageOptions): string => {
  const staged = tryStage(net, { machine: MACHINE, name: 'own', ...o })
  if (isLeft(staged)) throw new Error(errorText(staged.left))
  const step = elaboratedFor(net, staged.right.plan)
  if (isLeft(step)) throw new Error(errorText(step.left))
  const { plan, family = [plan] } = staged.right
  return moduleText([plan, ...family.slice(1)], step.right, { importing: '', type: 'typeof net', resized: false })
    .replace(/^import .*$/gm, '')
    .replace('export default', 'export const plan =')
}
const tiled = emitted({ tiles: [{ from: 'c1', to: 'p1', H: 4, W: 2 }], checkpoints: ['stage1.0.a'] })
const swapped = emitted({ strategy: 'swap:vdnn-all', budget: 2 ** 25 })
const frozen = emitted({ freeze: ['c1.*', 'stage1.*'], groups: [{ match: '*.bias', lr: 0.01 }] })
/** Several processes: shares of the batch, over a network; bands of rows. */
const shared = emitted({ ranks: 2, shard: 'gradients', network: 'ethernet-25g' })
const banded = emitted({ ranks: 2, bands: 2 })
const text = (module: string, body = BODY, input?: string): string => modelText(body, input) + module

/** Later changes of the model, and their messages. */
const allChanges: readonly (readonly [what: string, body: string, says: string, input?: string])[] = [
  [
    'a kernel',
    BODY.replace("'c2', 8, 3", "'c2', 8, 5"),
    "stale plan: 'c2' (conv2d) has changed since it was staged; stage again",
  ],
  [
    'a width deep inside',
    BODY.replace("'right', 4, 3", "'right', 6, 3"),
    "stale plan: 'mixed.right' (conv2d) has changed since it was staged; stage again",
  ],
  [
    'a bias',
    BODY.replace("'left', 4, 1", "'left', 4, 1, { bias: false }"),
    "stale plan: 'mixed.left' (conv2d) has changed since it was staged; stage again",
  ],
  [
    'a number of copies',
    BODY.replace('repeat(2,', 'repeat(3,'),
    "stale plan: 'stage1.repeat' (repeat) has changed since it was staged; stage again",
  ],
  [
    'a name',
    BODY.replace("'p1'", "'pool'"),
    "stale plan: it has 'p1' (maxPool) where the model has 'pool' (maxPool); stage again",
  ],
  [
    'a kind',
    BODY.replace('relu(), max', 'leakyRelu(0.1), max'),
    "stale plan: it has 'relu' (relu) where the model has 'leakyRelu' (leakyRelu); stage again",
  ],
  ['a layer less', BODY.replace(", linear('fc', 10)", ''), "stale plan: 'fc' (linear) is no longer in the model; stage again"],
  ['a layer more', BODY.replace('10))', '10), relu())'), "stale plan: 'relu' (relu) is new in the model; stage again"],
  [
    'a scope',
    BODY.replace("'mixed'", "'mixed2'"),
    "stale plan: it has 'mixed' (block) where the model has 'mixed2' (block); stage again",
  ],
  [
    'the wiring alone',
    BODY.replace("residual(unit('b', 8), identity)", "seq(unit('b', 8), residual(identity, identity))"),
    "stale plan: it has 'stage1.residual' (residual) where the model has 'stage1.b' (conv2d); stage again",
  ],
  [
    'the image',
    BODY,
    "stale plan: 'input' was [2,3,256,192] in the plan and is [2,3,256,194] now; stage again",
    '[2, 3, 256, 194]',
  ],
]
/** The same network, written in another way. */
const allRewritten: readonly (readonly [what: string, body: string])[] = [
  ['pairs for numbers', BODY.replace("'c2', 8, 3", "'c2', 8, [3, 3], { stride: [1, 1], dilation: [1, 1] }")],
  ['a pair for a pool', BODY.replace("maxPool('p1', 2)", "maxPool('p1', [2, 2], { pad: [0, 0] })")],
  [
    'sequences in sequences',
    BODY.replace("relu(), conv2d('c2', 8, 3), relu()", "seq(relu(), seq(conv2d('c2', 8, 3)), seq(), relu())"),
  ],
  ['a sequence around one layer', BODY.replace("conv2d('left', 4, 1)", "seq(seq(conv2d('left', 4, [1, 1])))")],
  ['a sequence at the end', BODY.replace("linear('fc', 10)", "seq(linear('fc', 10), seq())")],
  ['layers for a sequence', BODY.replace("unit('a', 8)", "seq(conv2d('a', 8, 3), seq(batchNorm('a_bn')), relu())")],
]
/** One of each: a layer, a name, a kind, a layer less and more, the wiring, the image, a pair, sequences. */
const FEW = [
  'a kernel',
  'a name',
  'a kind',
  'a layer less',
  'a layer more',
  'the wiring alone',
  'the image',
  'pairs for numbers',
  'layers for a sequence',
]
const isTaken = ([what]: readonly [string, ...unknown[]]): boolean => FULL || FEW.includes(what)
const changes = allChanges.filter(isTaken)
const rewritten = allRewritten.filter(isTaken)
/** Changes of the module by hand, and their messages. */
const edits: readonly (readonly [from: RegExp, to: string, says: string])[] = [
  [/H: 4, W: 2/, 'H: 257, W: 2', "257 tiles along 'H' exceed the size of layer 'c1' (conv2d), which is 256"],
  [
    /to: 'p1', H: 4/,
    "to: 'fc', H: 4",
    "layer 'stage1.0.a_bn' (batchNorm) sums over 'H'; end the range before it, and begin the next range with it",
  ],
  [
    /peak: \d+/,
    'peak: 99999999999999',
    'the plan needs 99999999999999 bytes at its peak, more than its budget of BUDGET; stage again',
  ],
]
const BUDGET = /budget: (\d+)/.exec(tiled)![1]!
const PEAK = /peak: (\d+)/.exec(tiled)![1]!
const pair = "\nexport const other = model([2, 3, 256, 192], seq(conv2d('c1', 4, 3)))\n"

const programs: Programs = Object.fromEntries([
  ['tiled', text(tiled)],
  ['swapped', text(swapped)],
  ...changes.map(([what, body, , input]) => [what, text(tiled, body, input)]),
  ...rewritten.map(([what, body]) => [what, text(tiled, body)]),
  ...edits.map(([from, to], i) => [`edit${i}`, text(tiled.replace(from, to))]),
  ['frozen', text(frozen)],
  ['shared', text(shared)],
  ['banded', text(banded)],
  ['shared, another model', text(shared, BODY.replace("'c2', 8, 3", "'c2', 8, 5"))],
  ['banded, another image', text(banded, BODY, '[2, 3, 256, 194]')],
  ['pair', `${text(tiled)}${pair}tryRun(other, plan, { steps: 1 })`],
  ['staged pair', `${text('')}${pair}tryRun(other, stage(net), { steps: 1 })\ntryRun(net, stage(net), { steps: 1 })`],
  ['small device', `${text(tiled)}tryRun(net, plan, { steps: 1, device: device('small', mib(2)) })`],
  ['large device', `${text(tiled)}tryRun(net, plan, { steps: 1, device: device('large', mib(20480)) })`],
])
const checked = check(programs)
const moduleOf = (module: string): PlanModule => runProgram(text(module))['plan'] as PlanModule

test('a plan module compiles beside the model that it was staged for, and returns its plan', () => {
  assert.equal(
    ['tiled', 'swapped', 'frozen', 'large device'].flatMap((name) => checked.errors(name)),
    [],
  )
  for (const module of [tiled, swapped, frozen]) {
    const opened = openModule(net, moduleOf(module))
    assert.ok(isRight(opened), isLeft(opened) ? errorText(opened.left) : '')
  }
  assert.match(tiled, "{ phase: 'forward', from: 'c1', to: 'p1', H: 4, W: 2 }")
  assert.match(swapped, /swaps: \[\s*\{ value: /)
  assert.match(frozen, /updates: \{ freeze: \['c1\.\*', 'stage1\.\*'\], groups: \[\{ match: '\*\.bias', lr: 0\.01 \}\] \}/)
})

test('modules of several processes are those of the whole model: accepted beside it, stale beside another', () => {
  assert.equal(
    ['shared', 'banded'].flatMap((name) => checked.errors(name)),
    [],
  )
  const opened = [shared, banded].map((module) => openModule(net, moduleOf(module)))
  for (const one of opened) assert.ok(isRight(one), isLeft(one) ? errorText(one.left) : '')
  const [ofShares, ofBands] = opened.flatMap((one) => (isRight(one) ? [one.right] : []))
  assert.equal(
    [ofShares!.plan.graph.ranks, ofShares!.plan.graph.shard, ofShares!.plan.network?.name],
    [2, 'gradients', 'ethernet-25g'],
  )
  assert.equal([ofBands!.family?.length, ofBands!.plan.graph.bands], [2, { at: 0, of: 2 }])
  const stale = (how: string): string => `stale plan: ${how}; stage again`
  assert.equal(checked.errors('shared, another model').map(refusedPlan), [stale("'c2' (conv2d) has changed since it was staged")])
  assert.equal(checked.errors('banded, another image').map(refusedPlan), [
    stale("'input' was [2,3,256,192] in the plan and is [2,3,256,194] now"),
  ])
})

for (const [what, body, says, input] of changes)
  test(`a model that changed since: ${what}`, () => {
    assert.equal(checked.errors(what).map(refusedPlan), [says])
    const opened = openModule(modelOf(body, input), moduleOf(tiled))
    assert.is(isLeft(opened) && errorText(opened.left), says)
  })

for (const [what, body] of rewritten)
  test(`the same network: ${what}`, () => {
    assert.equal(checked.errors(what), [])
    const opened = openModule(modelOf(body), moduleOf(tiled))
    assert.ok(isRight(opened), isLeft(opened) ? errorText(opened.left) : '')
  })

for (const [i, [from, to, says]] of edits.entries())
  test(`a module that was edited: ${to}`, () => {
    assert.equal(checked.errors(`edit${i}`).map(refusedPlan), [says.replace('BUDGET', BUDGET)])
    const opened = openModule(net, moduleOf(tiled.replace(from, to)))
    assert.match(isLeft(opened) ? errorText(opened.left) : '', 'its types differ from its packed plan; stage again')
  })

test('a pair that does not match, and a device that is too small', async () => {
  const words = "stale plan: 'c1' (conv2d) has changed since it was staged; stage again"
  const argument = (program: string): readonly string[] =>
    checked.errors(program).map((e) => /parameter of type '"(.*)"'\.$/s.exec(e)?.[1] ?? e)
  const other = modelOf("seq(conv2d('c1', 4, 3))")
  assert.equal(argument('pair'), [words])
  assert.equal(argument('staged pair'), [words])
  const mismatch = await tryRun(other, moduleOf(tiled) as never, { steps: 1 } as never)
  assert.is(isLeft(mismatch) && errorText(mismatch.left), words)
  const small = `the plan needs ${PEAK} bytes at its peak, more than the 2097152 of device 'small'; stage for a smaller budget`
  assert.equal(checked.errors('small device').map(refusedPlan), [small])
  const refused = await tryRun(net, moduleOf(tiled) as never, { steps: 1, device: { name: 'small', memory: 2 ** 21 } } as never)
  assert.is(isLeft(refused) && errorText(refused.left), small)
})

test('damage is refused', () => {
  for (const packed of ['', 'AAAA', moduleOf(tiled).packed.slice(40)])
    assert.ok(isLeft(openModule(net, { ...moduleOf(tiled), packed })))
})

test.run()
