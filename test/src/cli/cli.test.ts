// The command line as a contract: exit codes, one JSON object on stdout, fields, words.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { main } from '../../../src/cli'
import type { Explanation } from '../../../staging/search/explain'
import { FULL } from '../../full'

const root = join(__dirname, '..', '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'spillway-cli-'))
test.after(() => rmSync(folder, { recursive: true }))

interface Answer {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** In a process of its own, as users run it. */
const spawned = (...args: string[]): Answer => {
  const r = spawnSync(
    process.execPath,
    ['-r', require.resolve('../../../scripts/testing/typescript'), join(root, 'src', 'cli.ts'), ...args],
    {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 1 << 28,
      timeout: 100_000,
      killSignal: 'SIGKILL',
    },
  )
  return { code: r.status, out: r.stdout, err: r.stderr }
}

/** In this process: the same entry, with caught output. */
const spillway = async (...args: string[]): Promise<Answer> => {
  const caught = { out: '', err: '' }
  const [out, err] = [process.stdout.write, process.stderr.write]
  const into =
    (k: 'out' | 'err') =>
    (text: string | Uint8Array): boolean => {
      caught[k] += text.toString()
      return true
    }
  process.stdout.write = into('out') as typeof out
  process.stderr.write = into('err') as typeof err
  try {
    const code = await main(args)
    return { code, ...caught }
  } finally {
    process.stdout.write = out
    process.stderr.write = err
  }
}
/** The one object on stdout; fails when there is anything else. */
const objectOf = <T = Readonly<Record<string, unknown>>>(a: Answer): T => {
  assert.is(a.out.trim().split('\n').length, 1, a.out)
  return JSON.parse(a.out) as T
}
interface Refusal {
  readonly tag: string
  readonly message: string
  readonly smallestBytes: number
  readonly sizes?: readonly string[]
}
const refusalOf = (a: Answer): Refusal => objectOf<{ readonly error: Refusal }>(a).error
interface PlanAnswer {
  readonly strategy: string
  readonly budgetBytes: number
  readonly peakBytes: number
  readonly liveBytes: number
  readonly makespanSeconds: number
  readonly [field: string]: unknown
}
const SIMULATED = ['--machine', 'v100-pcie-16g']

/** The promises of the command line; other networks may join. */
const NAMES = [
  ...['vgg11', 'vgg13', 'vgg16', 'vgg19'].flatMap((n) => [n, `${n}-bn`, `${n}-features`]),
  'alexnet',
  'darknet19',
  'darknet19-features',
  'darknet19-features-plain',
  'googlenet',
  'inception3',
  'inception4',
  'resnet18',
  'resnet34',
  'resnet50',
  'resnet101',
  'resnet152',
  'resnet20-cifar',
  'resnet32-cifar',
  'resnet44-cifar',
  'resnet56-cifar',
  'resnet110-cifar',
  'densenet121',
  'densenet161',
  'densenet169',
  'densenet201',
  'unet',
  'deeplabv3plus-resnet50',
  'deeplabv3plus-resnet101',
]

test('names of the zoo are found, and nearly right ones suggested', async () => {
  const planned = await spillway('plan', 'resnet20-cifar', ...SIMULATED, '--json')
  assert.is(planned.code, 0, planned.err)
  const refused = await spillway('plan', 'densenet211', ...SIMULATED, '--json')
  assert.is(refused.code, 2)
  assert.match(refusalOf(refused).message, 'densenet201')
})

test('models lists the zoo', async () => {
  const a = await spillway('models', '--json')
  assert.is(a.code, 0, a.err)
  const { models } = objectOf<{ models: { name: string; parameters: number; layers: number; input: number[] }[] }>(a)
  assert.equal(
    models.find((m) => m.name === 'vgg16'),
    { name: 'vgg16', parameters: 138357544, layers: 40, input: [1, 3, 224, 224], loss: 'cross-entropy' },
  )
  const names = new Set(models.map((m) => m.name))
  assert.equal(
    NAMES.filter((n) => !names.has(n)),
    [],
  )
})

const PLAN_FIELDS = [
  'model',
  'input',
  'parameters',
  'strategy',
  'allocator',
  'machine',
  'budgetBytes',
  'peakBytes',
  'liveBytes',
  'inCoreBytes',
  'hostBytes',
  'diskBytes',
  'computeSeconds',
  'makespanSeconds',
  'boundSeconds',
  'gap',
  'recomputeSeconds',
  'haloRatio',
  'bytesOut',
  'bytesIn',
  'segments',
  'instructions',
  'planningSeconds',
  'measuringSeconds',
  'callTimes',
]

test('plan has every field, keeps the budget, and writes its files; the plan verifies, a damaged one does not', async () => {
  const [plan, report, trace] = ['plan.json', 'report.html', 'trace.json'].map((n) => join(folder, n)) as [string, string, string]
  const a = await spillway(
    'plan',
    'darknet19-features',
    '--image',
    '160x192',
    '--batch',
    '2',
    ...SIMULATED,
    '--budget',
    '400MiB',
    '--save',
    plan,
    '--report',
    report,
    '--trace',
    trace,
    '--json',
  )
  assert.is(a.code, 0, a.err)
  const o = objectOf<PlanAnswer>(a)
  for (const f of PLAN_FIELDS) assert.ok(o[f] !== undefined && o[f] !== null, `${f} is missing`)
  assert.is('explanation' in o, false)
  assert.equal([o['model'], o['input'], o['budgetBytes']], ['darknet19-features', [2, 3, 160, 192], 400 * 1024 ** 2])
  assert.ok(o.peakBytes <= o.budgetBytes && o.liveBytes <= o.peakBytes)
  assert.match(readFileSync(report, 'utf8'), /<svg/)
  assert.ok(Array.isArray(JSON.parse(readFileSync(trace, 'utf8'))['traceEvents'] ?? JSON.parse(readFileSync(trace, 'utf8'))))
  const verified = await spillway('verify', plan, '--json')
  assert.is(verified.code, 0, verified.err)
  assert.equal([objectOf(verified)['verified'], objectOf(verified)['peakBytes']], [true, o['peakBytes']])
  writeFileSync(plan, readFileSync(plan, 'utf8').replace('"peakPages":', '"peakPages":1'))
  const damaged = await spillway('verify', plan, '--json')
  assert.is(damaged.code, 2)
  assert.is(refusalOf(damaged).tag, 'PlanFormat')
  writeFileSync(plan, '\x89PNG')
  assert.is((await spillway('verify', plan)).code, 2)
  assert.is((await spillway('verify', folder)).code, 2)
})

test('plan --explain writes text, JSON and a table on the page', async () => {
  const page = join(folder, 'explained.html')
  const ask = ['plan', 'resnet20-cifar', '--batch', '128', ...SIMULATED, '--budget', '40MiB', '--effort', '0.1s']
  const text = await spillway(...ask, '--explain')
  assert.match(text.out, /The largest values, 10 of \d+\. Prices are seconds/)
  assert.match(text.out, /binding: (memory: full in loop \d+|the link: busy|none: memory)/)
  const json = await spillway(...ask, '--explain', 'layer1.0.conv1', '--json', '--report', page)
  const { explanation, makespanSeconds } = objectOf<{ explanation: Explanation; makespanSeconds: number }>(json)
  assert.is(explanation.simulatedSeconds, makespanSeconds)
  assert.ok(explanation.loops.length > 10 && explanation.values.every((v) => v.bytes > 0 && v.decision !== ''))
  assert.match(readFileSync(page, 'utf8'), '<h2>Decisions</h2>')
})

test('a budget that cannot work: exit 3, the smallest that can; that one works, a page less does not', async () => {
  const small = ['plan', 'darknet19-features-plain', '--image', '64', ...SIMULATED, '--strategy', 'swap:greedy', '--json']
  const a = await spillway(...small, '--budget', '2MiB')
  assert.is(a.code, 3)
  const error = refusalOf(a)
  assert.is(error.tag, 'BudgetInfeasible')
  assert.ok(error.smallestBytes > 2 * 1024 ** 2 && error.smallestBytes % (2 * 1024 ** 2) === 0)
  assert.match(error.message, /smallest budget that works/)
  assert.is((await spillway(...small, '--budget', '1MiB')).code, 3)
  const works = await spillway(...small, '--budget', String(error.smallestBytes))
  assert.is(works.code, 0, works.err)
  assert.is((await spillway(...small, '--budget', String(error.smallestBytes - 2 * 1024 ** 2))).code, 3)
})

test('a refused step names a batch and an image that fit', async () => {
  const without = ['plan', 'resnet20-cifar', '--machine', 'cpu', '--algorithms', 'fixed', '--budget', '40MiB', '--json']
  const error = refusalOf(await spillway(...without, '--batch', '512'))
  assert.is(error.sizes?.length, 2, error.message)
  for (const size of error.sizes ?? []) {
    assert.match(size, /^--(batch|image) \d+$/)
    const [flag, value] = size.split(' ')
    const smaller = await spillway(...without, flag!, value!, ...(flag === '--batch' ? [] : ['--batch', '512']))
    assert.is(smaller.code, 0, `${size}: ${smaller.err}`)
  }
  assert.match(error.message, `${error.sizes?.join(' or ')} fits; 'spillway fits resnet20-cifar --batch 512`)
})

const wrongCalls: readonly (readonly [what: string, args: readonly string[], words: RegExp])[] = [
  [
    'an unknown model',
    ['plan', 'resnet51', ...SIMULATED],
    /model 'resnet51' is not known; nearest: resnet50.*; 'spillway models' lists all/,
  ],
  ['an unknown command', ['trian', 'vgg16'], /unknown command 'trian'; nearest: train.*; 'spillway --help' lists all/],
  [
    'an unknown flag',
    ['plan', 'vgg16', '--bugdet', '1GiB'],
    /unknown option '--bugdet'; nearest: --budget.*; 'spillway plan --help' lists all/,
  ],
  ['a bad size', ['plan', 'vgg16', '--budget', 'much'], /--budget: 'much' is not a size; examples: 512MiB, 11GiB, 1048576/],
  [
    'an option in place of a folder',
    ['train', 'vgg16', '--checkpoint-dir', '--resume'],
    /--checkpoint-dir needs a value, but found '--resume'; a file of that name is '\.\/--resume'/,
  ],
  ['an option in place of a size', ['plan', 'vgg16', '--budget', '--json'], /--budget needs a value, but found '--json'$/m],
  ['a bad image', ['plan', 'vgg16', '--image', '0x5'], /--image: '0x5' .* 509x389/],
  ['an image that the model does not take', ['plan', 'unet', '--image', '100', ...SIMULATED], /only the channels may differ/],
  [
    'an unknown strategy',
    ['plan', 'resnet18', '--image', '64', ...SIMULATED, '--strategy', 'swap:gredy'],
    /swap:gredy.*swap:greedy/,
  ],
  [
    'an explanation of an unknown layer',
    ['plan', 'resnet20-cifar', ...SIMULATED, '--explain', 'layer1.0.conv9'],
    /value or layer 'layer1\.0\.conv9' is not known; nearest: layer1\.0\.conv\d/,
  ],
  [
    'an explanation of a prediction',
    ['plan', 'resnet20-cifar', ...SIMULATED, '--mode', 'predict', '--explain'],
    /--explain: .* strategy 'auto', for training/,
  ],
  [
    'an effort that is too large',
    ['plan', 'resnet20-cifar', ...SIMULATED, '--effort', '2h'],
    /the effort is 7200; allowed: 0\.1 to 3600 seconds/,
  ],
  ['an unknown machine', ['plan', 'resnet18', '--machine', 'v100'], /machine 'v100' is not known; nearest: v100-/],
  ['an unknown device', ['train', 'resnet18', '--device', 'gpu'], /device 'gpu' is not known; allowed: cpu, ref, null, cuda/],
  ['an unknown precision', ['plan', 'resnet18', '--precision', 'fp8'], /--precision 'fp8' is not known; allowed: fp32, tf32/],
  [
    'an unknown optimizer',
    ['plan', 'resnet18', '--optimizer', 'adma'],
    /--optimizer 'adma' is not known; allowed: sgd, adam, adamw/,
  ],
  [
    'a loss for a step, to plan',
    ['plan', 'pix2pixhd', '--image', '64x128', ...SIMULATED, '--loss', 'mse'],
    /--loss cannot be set for a step: it has its own losses and optimizers/,
  ],
  [
    'a loss and an optimizer for a step, to compare',
    [
      'compare',
      'pix2pixhd',
      '--image',
      '64x128',
      ...SIMULATED,
      '--budgets',
      '1',
      '--loss',
      'mse',
      '--optimizer',
      'adamw',
      '--lr',
      '7',
    ],
    /--loss, --optimizer, --lr cannot be set for a step: it has its own losses and optimizers/,
  ],
  ['a missing argument', ['plan'], /missing required argument 'model'; use: spillway plan \[options\] <model>/],
  ['a missing plan file', ['verify', 'nowhere.json'], /plan file nowhere.json: no such file/],
  ['data below a file', ['train', 'resnet20-cifar', `--data=${__filename}/nowhere`], /data file .*nowhere: no such file/],
  ['a missing model file', ['plan', './nowhere.ts'], /model file \.\/nowhere\.ts: no such file/],
  ['resume without a directory', ['train', 'resnet18', '--image', '64', '--device', 'null', '--resume'], /checkpoint directory/],
  ['steps that are none', ['train', 'resnet18', '--steps', '0'], /--steps: '0' is not a whole number of at least 1/],
]
test('a device that this machine lacks: exit 1, with the way to it', async () => {
  const r = await spillway('train', 'resnet18', '--image', '64', '--device', 'cuda')
  assert.is(r.code, 1, r.err)
  assert.match(r.err, /the cuda device (is not built .*spillway setup cuda|cannot be used)/)
})

test('a plan that cannot run here is marked so, and training with it is refused before the first step', async () => {
  const asked = ['--image', '32768', '--algorithms', 'fixed', '--strategy', 'in-core', '--budget', '1000TiB']
  const plan = await spillway('plan', 'resnet18', '--machine', 'null', ...asked, '--json')
  assert.is(plan.code, 0, plan.err)
  const { lacks } = objectOf<{ readonly lacks: readonly string[] }>(plan)
  assert.is(lacks.length, 1)
  assert.match(lacks[0]!, /^this machine has .* of free memory, but the plan needs .* on the device: use --budget \d+/)
  assert.match(plan.err, `note: this machine cannot run the plan: ${lacks[0]}`)
  const train = await spillway('train', 'resnet18', '--device', 'null', ...asked, '--steps', '1', '--json')
  assert.is(train.code, 2, train.err)
  assert.match(refusalOf(train).message, /^this machine cannot run the plan: this machine has/)
})

for (const [what, args, words] of wrongCalls)
  test(`${what}: exit code 2 with an error, as text and as JSON`, async () => {
    const a = await spillway(...args, '--json')
    assert.is(a.code, 2, a.err)
    assert.match(refusalOf(a).message, words)
    assert.match(a.err, words)
  })

test("a model of one's own from a TypeScript file; one that throws or exports nonsense is refused in words", async () => {
  const file = join(folder, 'own.ts')
  const dsl = join(root, 'dsl')
  writeFileSync(
    file,
    `import { model, seq, conv2d, relu } from ${JSON.stringify(dsl)}\nexport default model([1, 3, 32, 32], seq(conv2d('c1', 8, 3), relu()))\n`,
  )
  const a = await spillway('plan', file, '--json', ...SIMULATED)
  assert.is(a.code, 0, a.err)
  assert.equal([objectOf(a)['model'], objectOf(a)['parameters']], ['own', 8 * 27 + 8])
  writeFileSync(join(folder, 'throws.ts'), 'throw new Error("not today")\n')
  const thrown = await spillway('plan', join(folder, 'throws.ts'), '--json', ...SIMULATED)
  assert.is(thrown.code, 2)
  assert.match(refusalOf(thrown).message, /not today/)
  // The second call fails as Sucrase's translation of the first does.
  for (const call of ['maxPol(2)', '{ maxPol: undefined as any }.maxPol.call(0, typeof (() => maxPol(2)))']) {
    const text = `import { model, maxPol } from ${JSON.stringify(dsl)}\nconst x = ${call}\nexport default model([1, 3, 32, 32], x)\n`
    writeFileSync(join(folder, 'typo.ts'), text)
    const typo = await spillway('plan', join(folder, 'typo.ts'), '--json', ...SIMULATED)
    assert.is(typo.code, 2)
    assert.match(refusalOf(typo).message, /is refused: '.*dsl' does not export 'maxPol'; nearest: maxPool, /)
  }
  writeFileSync(join(folder, 'nonsense.ts'), 'export default 42\n')
  const nonsense = await spillway('plan', join(folder, 'nonsense.ts'), '--json', ...SIMULATED)
  assert.is(nonsense.code, 2)
  assert.match(refusalOf(nonsense).message, /default export/)
})

test('compare sweeps budgets over strategies', async () => {
  const a = await spillway(
    'compare',
    'darknet19-features-plain',
    '--image',
    '192',
    ...SIMULATED,
    '--budgets',
    '3',
    '--strategies',
    'in-core,swap:greedy',
    '--json',
  )
  assert.is(a.code, 0, a.err)
  const o = objectOf<{ cases: (PlanAnswer & { feasible: boolean })[]; smallestBytes: number; inCoreBytes: number }>(a)
  assert.is(o.cases.length, 6)
  assert.ok(o.smallestBytes <= o.inCoreBytes)
  const [first, last] = [o.cases[0]!, o.cases[5]!]
  assert.equal([first.strategy, first.feasible, first.budgetBytes], ['in-core', false, o.smallestBytes])
  assert.ok(last.feasible && last.peakBytes <= last.budgetBytes && last.makespanSeconds > 0)
})

test('plan, fits and compare take the precisions of a named GPU: bf16 takes less memory', async () => {
  const on = ['darknet19-features-plain', '--image', '192', '--batch', '16', '--machine', 'l4-24g']
  const peak = async (...precision: readonly string[]): Promise<number> => {
    const a = await spillway('compare', ...on, ...precision, '--strategies', 'in-core', '--budgets', '1GiB', '--json')
    assert.is(a.code, 0, a.err)
    return objectOf<{ cases: PlanAnswer[] }>(a).cases[0]!.peakBytes
  }
  const [float, half] = [await peak(), await peak('--precision', 'bf16')]
  assert.ok(half < float, `${half} of ${float}`)
  for (const command of ['plan', 'fits', 'compare']) {
    const a = await spillway(command, ...on.slice(0, -1), 't4-16g', '--precision', 'bf16')
    assert.is(a.code, 2)
    assert.match(a.err, /precision 'bf16' is not allowed on machine 't4-16g': this GPU has no bf16 products; allowed: fp32/)
  }
})

test('compare takes sizes, and writes a table and a plot in one unit', async () => {
  const [csv, plot] = [join(folder, 'compared.csv'), join(folder, 'compared.svg')]
  const small = ['compare', 'darknet19-features-plain', '--image', '192', ...SIMULATED, '--strategies', 'in-core,swap:greedy']
  const a = await spillway(...small, '--budgets', '64MiB,1GiB', '--csv', csv, '--plot', plot, '--json')
  assert.is(a.code, 0, a.err)
  const { cases } = objectOf<{ cases: (PlanAnswer & { feasible: boolean })[] }>(a)
  assert.equal(
    cases.map((c) => c.budgetBytes / 2 ** 20),
    [64, 64, 1024, 1024],
  )
  const [head, ...rows] = readFileSync(csv, 'utf8').trim().split('\n')
  const columns = head!.split(',')
  assert.is(rows.length, 4)
  for (const [i, row] of rows.entries()) {
    const cells = row.split(',')
    assert.is(cells.length, columns.length)
    const of = (name: string): string => cells[columns.indexOf(name)]!
    const c = cases[i]!
    assert.equal([of('strategy'), Number(of('budgetBytes'))], [c.strategy, c.budgetBytes])
    assert.is(of('makespanSeconds'), c.feasible ? String(c.makespanSeconds) : '')
  }
  const svg = readFileSync(plot, 'utf8')
  assert.match(svg, /role="img" aria-label=".*in-core.*: step \/ in-core compute over budget, MiB"/)
  assert.match(svg, '<title>')
  const wrong = await spillway(...small, '--budgets', '2GiB,much', '--json')
  assert.is(wrong.code, 2)
  assert.match(refusalOf(wrong).message, /--budgets: 'much' is not a size/)
})

test('compare limits host memory, and a disk takes the rest, as in plan', async () => {
  const on = ['darknet19-features-plain', '--image', '192', ...SIMULATED, '--json']
  const budget = '192MiB'
  const tier = ['--host-memory', '20MiB']
  const compared = async (...more: readonly string[]) => {
    const a = await spillway('compare', ...on, '--strategies', 'swap:window', '--budgets', budget, ...more)
    return { ...a, cases: objectOf<{ cases: (PlanAnswer & { tier?: object })[] }>(a).cases }
  }
  const planned = async (...more: readonly string[]) =>
    spillway('plan', ...on, '--strategy', 'swap:window', '--budget', budget, ...more)
  const [limited, refused] = [await compared(...tier), await planned(...tier)]
  const { of, needsBytes, hasBytes } = objectOf<{ error: { of: string; needsBytes: number; hasBytes: number } }>(refused).error
  assert.equal(limited.cases[0]!.tier, { of, needsBytes, hasBytes })
  assert.match(limited.err, /does not fit: needs .* of host memory/)
  const spilled = [...tier, '--spill', folder]
  const [a, b] = [(await compared(...spilled)).cases[0]!, objectOf<PlanAnswer>(await planned(...spilled))]
  assert.equal([a.makespanSeconds, a.peakBytes], [b.makespanSeconds, b.peakBytes])
  assert.match(refusalOf(await spillway('compare', ...on, '--spill-writes-per-step', '1MiB')).message, /add --spill DIR/)
})

test('compare replays each plan on the selected allocators', async () => {
  const small = [
    'darknet19-features-plain',
    '--image',
    '192',
    ...SIMULATED,
    '--budgets',
    '1',
    '--strategies',
    'in-core',
    '--json',
  ]
  const allocators = ['pages', 'best-fit', 'va:1MiB', 'gtbm']
  const a = await spillway('compare', ...small, '--allocators', allocators.join())
  assert.is(a.code, 0, a.err)
  const { cases } = objectOf<{
    cases: (PlanAnswer & { allocator: string; requestedBytes?: number; meanUnusable?: number; mappingSeconds?: number })[]
  }>(a)
  assert.equal(
    cases.map((c) => c.allocator),
    allocators,
  )
  const [pages, ...replayed] = cases
  for (const c of replayed) {
    const mapped = c.makespanSeconds - pages!.makespanSeconds
    assert.ok(Math.abs(mapped - c.mappingSeconds!) <= 1e-9 + 0.2 * mapped, `${c.allocator}: ${mapped} s longer`)
  }
  assert.is(pages!.meanUnusable, undefined)
  for (const c of replayed)
    assert.ok(c.peakBytes >= c.requestedBytes! && c.meanUnusable! >= 0 && c.meanUnusable! <= 1, c.allocator)
  assert.equal(
    replayed.map((c) => c.mappingSeconds! > 0),
    [false, true, false],
  )
  assert.match(a.err, /best-fit, unusable free space/)
  const wrong = await spillway('compare', ...small, '--allocators', 'pages,worst-fit')
  assert.is(wrong.code, 2)
  assert.match(refusalOf(wrong).message, /worst-fit/)
})

test('the process ends with the code that the command gave', () => {
  const good = spawned('models', '--json')
  assert.equal([good.code, good.err], [0, ''])
  assert.ok(objectOf<{ models: unknown[] }>(good).models.length > 5)
  if (FULL) {
    const wrong = spawned('plan', 'resnet51', '--json')
    assert.is(wrong.code, 2)
    assert.is(refusalOf(wrong).tag, 'Usage')
  }
  const infeasible = spawned(
    'plan',
    'darknet19-features-plain',
    '--image',
    '64',
    ...SIMULATED,
    '--strategy',
    'in-core',
    '--budget',
    '2MiB',
    '--json',
  )
  assert.is(infeasible.code, 3)
})

test('help and version end well', async () => {
  for (const args of [['--help'], ['plan', '--help'], ['--version']]) assert.is((await spillway(...args)).code, 0)
  assert.is((await spillway()).code, 2)
})

test('--classes sets the head of a zoo network; other models refuse it', async () => {
  const plan = (...more: readonly string[]) => spillway('plan', ...more, '--machine', 'v100-pcie-16g', '--json')
  const saved = join(folder, 'four.json')
  assert.is((await plan('resnet20-cifar', '--classes', '4', '--save', saved)).code, 0)
  assert.match(readFileSync(saved, 'utf8'), /"linear\.weight".*?\[4,64\]|\[4,64\].*?"linear\.weight"/s)
  const refused = async (says: RegExp, ...args: readonly string[]): Promise<void> => {
    const { code, err } = await plan(...args)
    assert.is(code, 2)
    assert.match(err, says)
  }
  await refused(/vgg16-features: it has no head for classes/, 'vgg16-features', '--classes', '4')
  await refused(
    /--classes applies to zoo networks; the file \.\/net\.ts sets its own number of classes/,
    './net.ts',
    '--classes',
    '4',
  )
  await refused(
    /--emit cannot be used with --classes: /,
    'resnet20-cifar',
    '--classes',
    '4',
    '--emit',
    join(folder, 'four.plan.ts'),
  )
})

test('plan --mode plans prediction and evaluation without data; neither trains', async () => {
  const plan = (...args: string[]) => spillway('plan', 'resnet20-cifar', ...SIMULATED, '--json', ...args)
  const [training, predicting, evaluating] = [
    objectOf<PlanAnswer>(await plan()),
    objectOf<PlanAnswer>(await plan('--mode', 'predict', '--as', 'classes', '--save', join(folder, 'predicts.json'))),
    objectOf<PlanAnswer>(await plan('--mode', 'evaluate', '--report', join(folder, 'evaluates.html'))),
  ]
  for (const forward of [predicting, evaluating]) {
    assert.ok(forward.peakBytes <= training.peakBytes)
    assert.ok(forward.makespanSeconds < training.makespanSeconds / 2)
  }
  assert.is((await spillway('verify', join(folder, 'predicts.json'))).code, 0)
  assert.match(readFileSync(join(folder, 'evaluates.html'), 'utf8'), 'How this plan works')
  for (const [args, words] of [
    [['--mode', 'predict', '--emit', 'x.ts'], /--emit writes only training plans/],
    [['--mode', 'predict', '--loss', 'mse'], /--loss cannot be used with mode 'predict'/],
    [['--mode', 'evaluate', '--freeze', '*'], /which does not train/],
    [['--mode', 'evaluate', '--as', 'probabilities'], /allowed in an evaluation: values, classes/],
    [['--as', 'classes'], /needs --mode/],
    [['--mode', 'predikt'], /--mode 'predikt' is not known; allowed: train, predict, evaluate/],
  ] as const) {
    const answer = await plan(...args)
    assert.is(answer.code, 2)
    assert.match(refusalOf(answer).message, words)
  }
})

test('a refusal caused by the default loss names that loss', async () => {
  const [net, data] = [join(folder, 'lossless.ts'), join(folder, 'cats')]
  const from = JSON.stringify(join(root, 'src'))
  writeFileSync(net, `import { conv2d, model } from ${from}\nexport default model([1, 3, 8, 8], conv2d('a', 2, 3))\n`)
  for (const name of ['one', 'two']) {
    mkdirSync(join(data, name), { recursive: true })
    writeFileSync(join(data, name, '0.png'), 'none')
  }
  const hint = /; the model has no loss and --loss is missing, so the loss is mse; for classes, use --loss cross-entropy$/
  const train = await spillway('train', net, '--data', data, '--device', 'null', '--json')
  const evaluate = await spillway('evaluate', net, '--data', data, '--weights', net, '--device', 'null', '--json')
  for (const answer of [train, evaluate]) {
    assert.is(answer.code, 2)
    assert.match(refusalOf(answer).message, hint)
  }
  const given = await spillway('train', net, '--data', data, '--loss', 'mse', '--device', 'null', '--json')
  assert.not.match(refusalOf(given).message, hint)
  // Another loss does not cure this, though its words speak of a class.
  const classless = join(folder, 'class')
  mkdirSync(classless, { recursive: true })
  const nothing = await spillway('train', net, '--data', classless, '--device', 'null', '--json')
  assert.is(nothing.code, 2)
  assert.match(refusalOf(nothing).message, /\bclass\b/)
  assert.not.match(refusalOf(nothing).message, hint)
})

test('of several processes predictions in one file are refused, and plans for others than these', async () => {
  const started = { OMPI_COMM_WORLD_SIZE: '4', OMPI_COMM_WORLD_RANK: '1' }
  Object.assign(process.env, started)
  try {
    const predicted = await spillway('predict', 'unet', '--weights=none.safetensors', '--data=none', '--out=all.npy')
    assert.is(predicted.code, 2)
    assert.match(predicted.err, /--out all.npy is one file, but 4 processes write their own files: use a folder/)
    for (const [words, ...more] of [
      [/--ranks 8 differs from the 4 processes that mpirun started: run plan without it/, '--ranks=8'],
      [/mpirun started 4 processes, but machine 'v100-nvlink-16g' is only simulated/, '--machine=v100-nvlink-16g'],
      [/mpirun started 4 processes, but only one process can plan with --mode predict/, '--mode=predict'],
    ] as const) {
      const planned = await spillway('plan', 'resnet20-cifar', ...more)
      assert.is(planned.code, 2)
      assert.match(planned.err, words)
    }
  } finally {
    for (const name of Object.keys(started)) delete process.env[name]
  }
})

test('fits ends when its model is not known, although its second thread waits for a question', () => {
  const { code, err } = spawned('fits', 'resnet21', '--in', '1GiB')
  assert.is(code, 2, err)
  assert.match(err, /model 'resnet21' is not known/)
})

test.run()
