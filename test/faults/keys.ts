// Keys of options, misspelt: each key of each options type that the package exports, as its declarations list them, with a letter less, a
// letter more, and two letters exchanged. Invariant: none compiles, none runs, and both name the key that was meant; a network as JSON and
// a model file, which nothing type-checks, are refused in the same words. No option may be null. An options type that is missing here fails.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import * as assert from 'uvu/assert'
import { modelAt } from '../../dsl'
import * as layers from '../../dsl/layers'
import { layerKinds } from '../../dsl/layers/registry'
import { modelNamed } from '../../src/cli/model'
import { errorText } from '../../src/errors/errors'
import { editDistance } from '../../staging/core/nearest'
import { check, exportedKeys, runProgram } from '../types/checker'
import { FULL } from '../full'
import type { Counts, Family } from './family'

const PRELUDE = `import * as s from '../../src'
import { resnet20Cifar } from '../../models/cifar'
const net = s.model([1, 3, 8, 8], s.seq(s.conv2d('c', 2, 3), s.globalAvgPool()))
const own = { over: net.net, optimizer: s.sgd({ lr: 0.1 }), losses: {} }
const plan = s.stage(net, { machine: 'v100-pcie-16g' })
const some: s.Staged = plan
const rates = { flopsPerSecond: 1, bytesPerSecond: 1, memoryBytes: 1, linkBytesPerSecond: 1 }
export const answers: unknown[] = []
`

/** The owner of a type's options, and the call with them; only these are required. */
type Call = readonly [of: string, call: (wrong: string) => string]
const CALLS: Readonly<Record<string, readonly Call[]>> = {
  SgdOptions: [['sgd', (o) => `s.sgd({ lr: 0.1, ${o} })`]],
  AdamOptions: [['adam', (o) => `s.adam({ lr: 0.1, ${o} })`]],
  AdamwOptions: [['adamw', (o) => `s.adamw({ lr: 0.1, ${o} })`]],
  RmspropOptions: [['rmsprop', (o) => `s.rmsprop({ lr: 0.1, ${o} })`]],
  NadamOptions: [['nadam', (o) => `s.nadam({ lr: 0.1, ${o} })`]],
  LionOptions: [['lion', (o) => `s.lion({ lr: 0.1, ${o} })`]],
  DiceOptions: [['dice', (o) => `s.dice({ ${o} })`]],
  SoftCrossEntropyOptions: [['softCrossEntropy', (o) => `s.softCrossEntropy({ ${o} })`]],
  FocalOptions: [['focal', (o) => `s.focal({ ${o} })`]],
  HuberOptions: [['huber', (o) => `s.huber({ ${o} })`]],
  CrossEntropyWithOptions: [['crossEntropyWith', (o) => `s.crossEntropyWith({ ${o} })`]],
  FromBytesOptions: [['fromBytes', (o) => `s.fromBytes({ ${o} })`]],
  BatchNormOptions: [['batchNorm', (o) => `s.batchNorm('n', { ${o} })`]],
  ClassesOptions: [['a network', (o) => `resnet20Cifar({ classes: 2, ${o} })`]],
  Conv2dOptions: [['conv2d', (o) => `s.conv2d('n', 2, 3, { ${o} })`]],
  ConvTranspose2dOptions: [['convTranspose2d', (o) => `s.convTranspose2d('n', 2, 3, { ${o} })`]],
  ImageNormOptions: [
    ['groupNorm', (o) => `s.groupNorm('n', 1, { ${o} })`],
    ['instanceNorm', (o) => `s.instanceNorm('n', { ${o} })`],
  ],
  AttentionOptions: [['attention', (o) => `s.attention('n', 1, { ${o} })`]],
  GlobalResponseNormOptions: [['globalResponseNorm', (o) => `s.globalResponseNorm('n', { ${o} })`]],
  BiasOptions: [['bias', (o) => `s.bias('n', { ${o} })`]],
  PositionOptions: [['position', (o) => `s.position('n', { ${o} })`]],
  LayerNormOptions: [['layerNorm', (o) => `s.layerNorm('n', { ${o} })`]],
  LayerScaleOptions: [['layerScale', (o) => `s.layerScale('n', 1, { ${o} })`]],
  RotaryOptions: [['rotary', (o) => `s.rotary(4, { ${o} })`]],
  RmsNormOptions: [['rmsNorm', (o) => `s.rmsNorm('n', { ${o} })`]],
  LocalResponseNormOptions: [['localResponseNorm', (o) => `s.localResponseNorm(5, { ${o} })`]],
  PreluOptions: [['prelu', (o) => `s.prelu('n', { ${o} })`]],
  PoolOptions: [['maxPool', (o) => `s.maxPool(2, { ${o} })`]],
  AvgPoolOptions: [['avgPool', (o) => `s.avgPool('n', 2, { ${o} })`]],
  UpsampleOptions: [['upsample', (o) => `s.upsample({ scale: 2, ${o} })`]],
  WeightOptions: [
    ['linear', (o) => `s.linear('n', 2, { ${o} })`],
    ['pixelLinear', (o) => `s.pixelLinear('n', 2, { ${o} })`],
  ],
  Sides: [
    ['padding', (o) => `s.model([1, 3, 8, 8], s.conv2d('n', 2, 3, { pad: { top: 1, left: 1, bottom: 1, right: 1, ${o} } }))`],
    ['padding', (o) => `s.model([1, 3, 8, 8], s.reflectionPad2d({ top: 1, left: 1, bottom: 1, right: 1, ${o} }))`],
  ],
  Minimize: [['minimize', (o) => `s.minimize('a', { ...own, ${o} })`]],
  InputOverride: [['asTrainable', (o) => `s.asTrainable(net, { ${o} })`]],
  StageOptions: [
    ['stage', (o) => `s.stage(net, { ${o} })`],
    ['stage', (o) => `s.tryStage(net, { ${o} })`],
  ],
  StageAsyncOptions: [['stageAsync', (o) => `s.stageAsync(net, { ${o} })`]],
  PlanByHand: [['stage', (o) => `s.stage(net, { machine: 'v100-pcie-16g', ${o} })`]],
  TileRange: [
    ['a tile range', (o) => `s.stage(net, { tiles: [{ from: 'c', to: 'c', ${o} }] })`],
    ['a tile range', (o) => `s.stageAsync(net, { tiles: [{ from: 'c', to: 'c', ${o} }] })`],
  ],
  ParameterGroup: [
    ['a parameter group', (o) => `s.stage(net, { machine: 'v100-pcie-16g', groups: [{ match: 'c.*', ${o} }] })`],
    ['a parameter group', (o) => `s.stageAsync(net, { groups: [{ match: 'c.*', ${o} }] })`],
  ],
  Updates: [['stage', (o) => `s.stage(net, { machine: 'v100-pcie-16g', ${o} })`]],
  ExportOptions: [
    ['exportOnnx', (o) => `s.exportOnnx(net, { weights: 'w', out: 'o', ${o} })`],
    ['exportOnnx', (o) => `s.tryExportOnnx(net, { weights: 'w', out: 'o', ${o} })`],
  ],
  ImportOptions: [
    ['importOnnx', (o) => `s.importOnnx('a', { out: 'o', ${o} })`],
    ['importOnnx', (o) => `s.tryImportOnnx('a', { out: 'o', ${o} })`],
  ],
  ImageOptions: [['folder', (o) => `s.folder('a', { ${o} })`]],
  MachineRates: [['registerMachine', (o) => `s.registerMachine('mine' as never, { ...rates, ${o} })`]],
  OwnSource: [['source', (o) => `s.source({ length: 1, read: () => ({}), ${o} })`]],
  RegionSource: [['source', (o) => `s.source({ length: 1, size: [1, 1], read: () => ({}), ${o} })`]],
  StreamOptions: [['source', (o) => `s.source([], { ${o} })`]],
  Numbers: [['files', (o) => `s.files('a', { ${o} })`]],
  SlideOptions: [['slides', (o) => `s.slides('a', { ${o} })`]],
  FilesOptions: [['files', (o) => `s.files('a', { ${o} })`]],
  ValidationOptions: [['validation', (o) => `s.validation({ data: 'd', ${o} })`]],
  KeepOptions: [['keep', (o) => `s.train(net, plan, { steps: 1, checkpointDir: 'c', keep: { ${o} } })`]],
  SteppedOptions: [['stepped', (o) => `s.stepped({ ${o} })`]],
  CosineOptions: [['cosine', (o) => `s.cosine({ ${o} })`]],
  PolynomialOptions: [['polynomial', (o) => `s.polynomial({ ${o} })`]],
  OneCycleOptions: [['oneCycle', (o) => `s.oneCycle({ ${o} })`]],
  PlateauOptions: [['plateau', (o) => `s.plateau({ ${o} })`]],
  FindRateOptions: [['findRate', (o) => `s.findRate(net, plan, { ${o} })`]],
  TrainOptions: [
    ['fit', (o) => `s.fit(net, plan, { steps: 1, ${o} }).next()`],
    ['train', (o) => `s.train(net, plan, { steps: 1, ${o} })`],
    ['train', (o) => `s.trainTask(net, plan, { steps: 1, ${o} })()`],
  ],
  PredictorOptions: [['openPredictor', (o) => `s.openPredictor(net, some, { weights: 'w', ${o} })`]],
  PredictOptions: [['predict', (o) => `s.predict(net, some, { weights: 'w', data: 'd', ${o} })`]],
  LoadingOptions: [['train', (o) => `s.train(net, plan, { steps: 1, weights: 'w', ${o} })`]],
  EvaluateOptions: [['evaluate', (o) => `s.evaluate(net, some, { weights: 'w', data: 'd', ${o} })`]],
  LargestOptions: [
    ['largest', (o) => `s.largest(net, 'batch', { ${o} })`],
    ['largest', (o) => `s.tryLargest(net, 'batch', { ${o} })`],
  ],
  MetricOptions: [['metric', (o) => `s.metric({ name: 'n', start: () => 0, add: (s) => s, value: (s) => s, ${o} })`]],
  RunOptions: [
    ['run', (o) => `s.run(net, plan, { steps: 1, ${o} })`],
    ['run', (o) => `s.tryRun(net, plan, { steps: 1, ${o} })`],
  ],
}
/** Types of this name are options, and these others. */
const OPTIONS =
  /Options$|^(?:Sides|Minimize|InputOverride|MachineRates|Numbers|PlanByHand|TileRange|ParameterGroup|Updates|OwnSource|RegionSource)$/
/** Options as the compiler computes them; they have no keys of their own. */
const COMPUTED = ['CheckedOptions']

// ---------------------------------------------------------------- misspelt

/** A letter less, a letter more, two exchanged; legal keys and the empty one are left out. */
const misspelt = (key: string, legal: readonly string[]): readonly string[] => {
  const at = key.length >> 1
  const swaps = [...Array(Math.max(0, key.length - 1)).keys()].find((i) => key[i] !== key[i + 1])
  const swapped = swaps === undefined ? [] : [key.slice(0, swaps) + key[swaps + 1] + key[swaps] + key.slice(swaps + 2)]
  return [key.slice(0, at) + key.slice(at + 1), `${key.slice(0, at)}q${key.slice(at)}`, ...swapped].filter(
    (wrong) => wrong !== '' && !legal.includes(wrong),
  )
}

let keysFound: ReadonlyMap<string, readonly string[]> | undefined
/** The keys of each exported type of options; finding them checks all of src. */
const keysOfApi = (): ReadonlyMap<string, readonly string[]> => (keysFound ??= exportedKeys('src/index.ts', OPTIONS))

interface Case {
  readonly of: string
  readonly key: string
  readonly wrong: string
  readonly text: string
}
const allCases = (): readonly Case[] => {
  const exported = keysOfApi()
  assert.equal(
    [...exported.keys()].filter((type) => !COMPUTED.includes(type)).sort(),
    Object.keys(CALLS).sort(),
    'every options type that is exported has a call',
  )
  return Object.entries(CALLS).flatMap(([type, calls]) => {
    const keys = exported.get(type)!
    assert.ok(keys.length > 0, type)
    return calls.flatMap(([of, call]) =>
      keys.flatMap((key) => misspelt(key, keys).map((wrong) => ({ of, key, wrong, text: call(`${wrong}: 0`) }))),
    )
  })
}

/** Checks that words name the wrong key, its owner, and the intended key, or another as near. */
const assertSays = (said: string, { of, key, wrong }: Omit<Case, 'text'>): void => {
  const found = /`([^`]*)` is not an option of ([^;]*); did you mean `([^`]*)`\?/.exec(said)
  assert.ok(found, `${wrong} of ${of}: ${said}`)
  const [, named, whose, near = ''] = found!
  assert.equal([named, whose], [wrong, of])
  const distance = (a: string): number => editDistance(wrong.toLowerCase(), a.toLowerCase())
  assert.ok(distance(near) <= distance(key), `${wrong}: ${near}, not ${key}`)
}

/** If only the compiler's own words are there, they name the key too. */
const names = (said: string, { wrong }: Case): boolean => said.includes(`'${wrong}'`) || said.includes(`\`${wrong}\``)

const whatItThrows = async (call: () => unknown): Promise<string> => {
  try {
    const settled = (await call()) as { readonly _tag?: string; readonly left?: never } | undefined
    return settled?._tag === 'Left' ? errorText(settled.left!) : 'nothing'
  } catch (e) {
    return (e as Error).message
  }
}

// ---------------------------------------------------------------- null

/** Each option of each type is refused by its name if it is null. */
const refusedAsNull = async (): Promise<number> => {
  const exported = keysOfApi()
  const cases = Object.entries(CALLS).flatMap(([type, calls]) =>
    calls.flatMap(([of, call]) => exported.get(type)!.map((key) => ({ of, key, text: call(`${key}: null as never`) }))),
  )
  const { thunks } = runProgram(`${PRELUDE}export const thunks = [${cases.map((c) => `() => ${c.text}`).join(',\n')}]`)
  for (const [i, { of, key }] of cases.entries()) {
    const said = await whatItThrows(() => (thunks as readonly (() => unknown)[])[i]!())
    assert.ok(said.includes(key), `${key} of ${of}: ${said}`)
  }
  return cases.length
}

const someOf = <A>(all: readonly A[], count: number): readonly A[] => {
  const every = Math.max(1, all.length / count)
  return all.filter((_, i) => Math.floor(i / every) !== Math.floor((i - 1) / every))
}

// ---------------------------------------------------------------- what nothing type-checks

/** A layer of each kind that has a constructor without required options. */
const nodes = (): readonly { readonly kind: string }[] => {
  const made = layers as unknown as Readonly<Record<string, (...args: unknown[]) => { readonly kind: string }>>
  const args: Readonly<Record<string, readonly unknown[]>> = {
    conv2d: ['n', 2, 3],
    convTranspose2d: ['n', 2, 3],
    fromBytes: [{}],
    upsample: [{ scale: 2 }],
    dropout: [0.5],
    stochasticDepth: [0.5],
    leakyRelu: [0.5],
    reflectionPad2d: [1],
    localResponseNorm: [5],
    groupNorm: ['n', 1],
    linear: ['n', 2],
    pixelLinear: ['n', 2],
    maxPool: ['n', 2],
    avgPool: ['n', 2],
    adaptiveAvgPool: ['n', 2],
  }
  return layerKinds.filter((kind) => kind !== 'identity').map((kind) => made[kind]!(...(args[kind] ?? ['n'])))
}

const refusedAsJson = (most: number): number => {
  const cases = nodes().flatMap((node) =>
    Object.keys(node).flatMap((key) => misspelt(key, Object.keys(node)).map((wrong) => ({ node, key, wrong }))),
  )
  for (const { node, key, wrong } of someOf(cases, most)) {
    const made = modelAt([1, 2, 8, 8], JSON.parse(JSON.stringify({ kind: 'seq', layers: [{ ...node, [wrong]: 1 }] })))
    assert.ok(isLeft(made), `${node.kind}: ${wrong}`)
    assertSays(isLeft(made) ? errorText(made.left) : '', { of: node.kind, key, wrong })
  }
  return Math.min(cases.length, most)
}

const FILES: readonly (readonly [text: string, says: string])[] = [
  [
    "s.model([1, 3, 8, 8], s.maxPool('p', 3, { stride: 2, padding: 1 }))",
    '`padding` is not an option of maxPool; did you mean `pad`?',
  ],
  [
    "{ kind: 'model', input: [1, 3, 8, 8], network: s.relu(), net: s.relu() }",
    '`network` is not an option of a model; did you mean `net`?',
  ],
  [
    "s.model([1, 3, 8, 8], { kind: 'seq', layer: [], layers: [s.relu()] })",
    '`layer` is not an option of seq; did you mean `layers`?',
  ],
  [
    "{ kind: 'step', objectives: [{ name: 'a', nme: 0, over: [], optimizer: { kind: 'sgd' }, losses: {} }] }",
    '`nme` is not an option of an objective; did you mean `name`?',
  ],
]
const refusedAsFile = (): number => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-keys-'))
  const source = JSON.stringify(join(__dirname, '../../src'))
  for (const [i, [text, says]] of FILES.entries()) {
    const file = join(root, `model${i}.js`)
    writeFileSync(file, `const s = require(${source})\nmodule.exports = ${text}\n`)
    const made = modelNamed(file, {})
    const said = isLeft(made) ? errorText(made.left) : 'nothing'
    assert.ok(said.includes(says), said)
  }
  rmSync(root, { recursive: true })
  return FILES.length
}

// ----------------------------------------------------------------

const run = async (most: number): Promise<Counts> => {
  const all = allCases()
  const cases = someOf(all, most)
  const places = check({ keys: `${PRELUDE}${cases.map((c) => `answers.push(${c.text})`).join('\n')}` }).places('keys')
  const first = PRELUDE.split('\n').length
  const byLine = new Map(places.map((p) => [p.line, p.message]))
  let inOurWords = 0
  for (const [i, c] of cases.entries()) {
    const said = byLine.get(first + i) ?? 'nothing'
    assert.ok(names(said, c), `${c.text} while typing: ${said}`)
    if (!said.includes(' is not an option of ')) continue
    assertSays(said, c)
    inOurWords++
  }
  assert.is(byLine.size, cases.length, 'nothing else is wrong')
  for (const c of cases)
    assertSays(await whatItThrows(() => runProgram(`${PRELUDE}export const answer = ${c.text}`)['answer']), c)
  return {
    keys: new Set(all.map((c) => `${c.of} ${c.key}`)).size,
    misspelt: cases.length,
    compiled: 0,
    ran: 0,
    inOurWordsWhileTyping: inOurWords,
    nulls: await refusedAsNull(),
    json: refusedAsJson(most),
    files: refusedAsFile(),
  }
}

export const family: Family = {
  what: 'a key of options that there is not is refused, while typing and at run time',
  few: FULL ? 24 : 12,
  all: 10_000,
  seconds: 300,
  run,
}
