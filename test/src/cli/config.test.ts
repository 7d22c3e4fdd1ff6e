// Configuration files: each value is parsed as the text of its flag, flags of the command line win, faults name the file and the key. Commands use
// the file of the folder, that of --config, or none; no output replaces it; the record of a run has its options.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { CONFIG_FILES, configFile, main } from '../../../src/cli'
import type { CommandName } from '../../../src/cli/commands'
import { declare } from '../../../src/cli/flags'
import { errorText } from '../../../src/errors/errors'
import { DEVICE } from '../../e2e/runs'

const ROOT = join(__dirname, '..', '..', '..')
const root = realpathSync(mkdtempSync(join(tmpdir(), 'spillway-config-')))
const before = process.cwd()
process.chdir(root)
test.after(() => {
  process.chdir(before)
  rmSync(root, { recursive: true })
})
const runs = process.env['SPILLWAY_RUN_FOLDER']
process.env['SPILLWAY_RUN_FOLDER'] = join(root, 'runs')
test.after(() => {
  if (runs === undefined) delete process.env['SPILLWAY_RUN_FOLDER']
  else process.env['SPILLWAY_RUN_FOLDER'] = runs
})
// Files in this folder import the sources of this checkout.
mkdirSync('node_modules/spillway', { recursive: true })
writeFileSync('node_modules/spillway/index.js', `module.exports = require(${JSON.stringify(join(ROOT, 'src', 'index.ts'))})\n`)
writeFileSync(
  'net.ts',
  `import { conv2d, model, relu, seq } from 'spillway'
export default model([2, 1, 8, 8], seq(conv2d('a', 2, 3), relu(), conv2d('b', 1, 3)))
`,
)

/** Runs `work`. Returns its answer and its output. */
const caught = async <A>(work: () => Promise<A>): Promise<{ readonly answer: A; readonly out: string; readonly err: string }> => {
  const texts: Record<'out' | 'err', string[]> = { out: [], err: [] }
  const [out, err] = [process.stdout.write, process.stderr.write]
  process.stdout.write = ((text: string) => texts.out.push(text) > 0) as typeof out
  process.stderr.write = ((text: string) => texts.err.push(text) > 0) as typeof err
  try {
    return { answer: await work(), out: texts.out.join(''), err: texts.err.join('') }
  } finally {
    process.stdout.write = out
    process.stderr.write = err
  }
}

/** Runs a command in this process. */
const spillway = async (
  ...args: readonly string[]
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> => {
  const { answer: code, ...texts } = await caught(() => main(args))
  return { code, ...texts }
}

test('a folder without a file loads no module', async () => {
  const { code } = await spillway('plan', 'no-such-network')
  assert.is(code, 2)
  assert.not.ok(require.cache[require.resolve('../../../src/cli/config')])
})

/** The options of a command line with this file; or the error. The command does not run. */
const optionsWith = async (name: CommandName, file: string | undefined, ...args: readonly string[]): Promise<object | string> => {
  const { configure } = require('../../../src/cli/config') as typeof import('../../../src/cli/config')
  const c = declare(new Command(name), name, () => Promise.resolve()).exitOverride()
  const done = file === undefined ? undefined : configure(c, file, [name, ...args])
  if (done && isLeft(done)) return errorText(done.left)
  await caught(() => c.parseAsync(args, { from: 'user' }))
  return c.opts()
}

let files = 0
/** Writes a JSON file with these options of a command. */
const configOf = (name: string, section: unknown): string => {
  const file = `c${files++}.json`
  writeFileSync(file, JSON.stringify({ [name]: section }))
  return file
}

/** Options of a file, and the flags with the same effect. */
const EQUAL: readonly (readonly [name: CommandName, section: object, flags: readonly string[]])[] = [
  ['train', { batch: 8, lr: 1e-7, evaluateEvery: '2' }, ['--batch', '8', '--lr', '1e-7', '--evaluate-every', '2']],
  ['train', { budget: '4GiB', hostMemory: 2 ** 32 }, ['--budget', '4GiB', '--host-memory', '4294967296']],
  ['train', { image: '12x8', timeLimit: '1h30m', depth: 16 }, ['--image', '12x8', '--time-limit', '1h30m', '--depth', '16']],
  ['train', { shuffle: false, resume: true, save: false }, ['--no-shuffle', '--resume', '--no-save']],
  ['train', { shuffle: true, resume: false, save: 'w.safetensors' }, ['--shuffle', '--save', 'w.safetensors']],
  ['train', { metrics: ['accuracy', 'top3'], mean: [0.5, 0.4] }, ['--metrics', 'accuracy,top3', '--mean', '0.5,0.4']],
  ['train', { metrics: 'accuracy', augment: 'flip, crop' }, ['--metrics', 'accuracy', '--augment', 'flip,crop']],
  ['train', { freeze: ['a.*', 'b.*'], weightsSkip: 'fc.*' }, ['--freeze', 'a.*', '--freeze', 'b.*', '--weights-skip', 'fc.*']],
  ['train', { freeze: [], classWeights: [1, 2] }, ['--class-weights', '1,2']],
  ['train', { loss: 'mse+0.5*l1', schedule: 'cosine:floor=0.1' }, ['--loss', 'mse+0.5*l1', '--schedule', 'cosine:floor=0.1']],
  ['plan', { explain: true }, ['--explain']],
  ['plan', { explain: 'layer1' }, ['--explain', 'layer1']],
  ['plan', { explain: false }, []],
  [
    'compare',
    { budgets: ['2GiB', '4GiB'], strategies: ['tiled', 'auto'] },
    ['--budgets', '2GiB,4GiB', '--strategies', 'tiled,auto'],
  ],
  ['predict', { format: 'png', as: 'classes', strictData: true }, ['--format', 'png', '--as', 'classes', '--strict-data']],
]
for (const [name, section, flags] of EQUAL)
  test(`${name} ${JSON.stringify(section)} is ${flags.join(' ')}`, async () => {
    assert.equal(
      await optionsWith(name, configOf(name, section), 'net.ts'),
      await optionsWith(name, undefined, 'net.ts', ...flags),
    )
  })

test('flags of the command line replace options of the file', async () => {
  const file = configOf('train', { batch: 8, budget: '4GiB', shuffle: false, freeze: ['a.*'], epochs: 20, device: 'cuda' })
  const flags = ['--batch', '2', '--shuffle', '--freeze', 'b.*', '--steps', '5', '--machine', 'cpu']
  assert.equal(
    await optionsWith('train', file, 'net.ts', ...flags),
    await optionsWith('train', undefined, 'net.ts', ...flags, '--budget', '4GiB'),
  )
})

/** Sections with a fault, and the words after the name of the file. */
const FAULTS: readonly (readonly [name: CommandName, section: unknown, words: string])[] = [
  ['train', { batch: 'x' }, "train.batch: --batch: 'x' is not a whole number of at least 1"],
  ['train', { batch: 1.5 }, "train.batch: --batch: '1.5' is not a whole number of at least 1"],
  ['train', { batch: [1, 2] }, "train.batch: --batch: '1,2' is not a whole number of at least 1"],
  ['train', { budget: '4 parsecs' }, "train.budget: --budget: '4 parsecs'"],
  ['train', { metrics: ['acuracy'] }, "train.metrics: metric 'acuracy' is not known; nearest: accuracy"],
  ['train', { device: '--cpu' }, "train.device: --device needs a value, but found '--cpu'"],
  ['predict', { format: 'gif' }, "predict.format: --format 'gif' is not known; allowed: "],
  ['train', { batch: true }, 'train.batch: it is true; allowed: a string, a number or a list'],
  ['train', { save: true }, 'train.save: it is true; allowed: a string, a number or a list, or false'],
  ['train', { resume: 'yes' }, 'train.resume: it is "yes"; allowed: true or false'],
  ['train', { batch: null }, 'train.batch: it is null; allowed: a string, a number, true, false, or a list'],
  ['train', { freeze: [['a.*']] }, 'train.freeze: it is '],
  ['train', { bacth: 8 }, "'bacth' is not an option of train; nearest: batch, "],
  ['train', { 'checkpoint-dir': 'c' }, "'checkpoint-dir' is not an option of train; nearest: checkpointDir, "],
  ['train', { json: true }, "'json' is not an option of train; "],
  ['check', { model: 'net.ts' }, "'model' is not an option of check; "],
  ['train', { model: 7 }, 'train.model: it is 7; allowed: a zoo network or a model file'],
  ['train', [], 'train is []; allowed: an object with options'],
]
for (const [name, section, words] of FAULTS)
  test(`refuses ${name} ${JSON.stringify(section)}`, async () => {
    const file = configOf(name, section)
    const said = await optionsWith(name, file, 'net.ts')
    assert.ok(String(said).startsWith(`${file}: ${words}`), String(said))
  })

test('an unknown command is refused, with the nearest names', async () => {
  const file = configOf('trian', { batch: 8 })
  assert.match(String(await optionsWith('plan', file, 'net.ts')), `${file}: command 'trian' is not known; nearest: train, `)
})

/** Files of each kind, and of faults. */
const FILES: readonly (readonly [file: string, text: string, says: string | undefined])[] = [
  [
    'a.ts',
    "import { defineConfig } from 'spillway'\nexport default defineConfig({ train: { batch: 8 as number } })\n",
    undefined,
  ],
  ['a.js', 'module.exports = { train: { batch: 8 } }\n', undefined],
  ['a.cjs', "const { defineConfig } = require('spillway')\nmodule.exports = defineConfig({ train: { batch: 8 } })\n", undefined],
  ['a.json', '{ "train": { "batch": 8 } }', undefined],
  [
    'named.ts',
    'export const config = { train: {} }\n',
    'configuration file named.ts is refused: it has no default export; add: ',
  ],
  ['later.ts', 'export default Promise.resolve({ train: {} })\n', 'later.ts: it is '],
  ['list.ts', 'export default [1]\n', 'list.ts: it is [1]; allowed: an object with commands'],
  ['throws.ts', "\nthrow new Error('no disk')\n", 'configuration file throws.ts is refused: throws.ts:2:7: no disk'],
  ['text.txt', "throw new Error('it ran')\n", '--config text.txt: its name has another ending; allowed: .json, .ts, '],
  ['half.json', '{ "train": ', 'configuration file half.json is refused: it is not JSON: '],
  ['json.json', 'console.log(1)', 'configuration file json.json is refused: it is not JSON: '],
]
for (const [file, text, says] of FILES)
  test(`reads ${file}`, async () => {
    writeFileSync(file, text)
    const answer = await optionsWith('train', file, 'net.ts')
    if (says === undefined) assert.equal(answer, { batch: 8 })
    else assert.ok(String(answer).startsWith(says), String(answer))
  })

// ---------------------------------------------------------------- the place of the file

test('the folder has one file; --config names another; the last of --config and --no-config counts', () => {
  const found = (...args: readonly string[]): string | undefined => {
    const file = configFile(args)
    return isRight(file) ? file.right : errorText(file.left)
  }
  assert.is(found('train'), undefined)
  for (const name of CONFIG_FILES) {
    writeFileSync(name, '{}')
    assert.is(found('train'), name)
    rmSync(name)
  }
  for (const name of CONFIG_FILES.slice(0, 2)) writeFileSync(name, '{}')
  assert.match(found('train') ?? '', 'this folder has spillway.config.ts and spillway.config.js: remove one of them')
  assert.is(found('train', '--config', 'a.ts'), 'a.ts')
  assert.is(found('train', '--config=a.ts', '--config', 'b.ts'), 'b.ts')
  assert.is(found('train', '--config', 'a.ts', '--no-config'), undefined)
  for (const name of CONFIG_FILES.slice(0, 2)) rmSync(name)
})

const SIMULATED = { machine: 'v100-pcie-16g', algorithms: 'fixed', strategy: 'in-core' }
interface Planned {
  readonly model: string
  readonly input: readonly number[]
}

test('a command uses the file of the folder, and notes the options that took effect', async () => {
  writeFileSync(
    'spillway.config.json',
    JSON.stringify({ plan: { ...SIMULATED, model: 'net.ts', batch: 3 }, train: { batch: 5 } }),
  )
  const plain = await spillway('plan', '--json')
  assert.is(plain.code, 0, plain.err)
  const planned = JSON.parse(plain.out) as Planned
  assert.equal([planned.model, planned.input[0]], ['net', 3])
  assert.is(plain.err, 'note: options of spillway.config.json: machine, algorithms, strategy, model, batch\n')
  const typed = await spillway('plan', 'net.ts', '--batch', '4', '--json')
  assert.is((JSON.parse(typed.out) as Planned).input[0], 4)
  assert.is(typed.err, 'note: options of spillway.config.json: machine, algorithms, strategy\n')
  const none = await spillway('plan', '--no-config')
  assert.match(none.err, "missing required argument 'model'")
  const other = await spillway('plan', '--config', configOf('plan', { ...SIMULATED, model: 'net.ts' }), '--json')
  assert.is((JSON.parse(other.out) as Planned).input[0], 2)
  const missing = await spillway('plan', '--config', 'nowhere.ts')
  assert.is(missing.code, 2)
  assert.match(missing.err, 'configuration file nowhere.ts: no such file')
  rmSync('spillway.config.json')
})

test('help and commands without options do not run the file', async () => {
  writeFileSync('spillway.config.cjs', "throw new Error('it ran')\n")
  assert.match((await spillway('plan', '--help')).out, '--no-config')
  assert.is((await spillway('models', '--json')).code, 0)
  const ran = await spillway('plan', 'net.ts')
  assert.is(ran.code, 2)
  assert.match(ran.err, 'spillway.config.cjs:1:7: it ran')
  rmSync('spillway.config.cjs')
})

test('no output replaces the file or its imports', async () => {
  writeFileSync('shared.ts', 'export const batch = 2\n')
  writeFileSync('own.ts', "import { batch } from './shared'\nexport default { plan: { batch } }\n")
  const written = async (...args: readonly string[]): Promise<string> =>
    (await spillway('plan', 'net.ts', '--config', 'own.ts', ...args)).err
  assert.match(
    await written('--emit', 'own.ts'),
    '--emit own.ts would replace own.ts of the configuration file, an input of this run',
  )
  assert.match(
    await written('--save', 'shared.ts'),
    "--save shared.ts would replace shared.ts of the configuration file's imports",
  )
  const free = await spillway(
    'plan',
    'net.ts',
    '--no-config',
    '--machine',
    'v100-pcie-16g',
    '--strategy',
    'in-core',
    '--save',
    'p.json',
  )
  assert.is(free.code, 0, free.err)
})

test('the record of a run has the options of the file as flags', async () => {
  const section = { model: 'net.ts', device: DEVICE, algorithms: 'fixed', lr: 0.25, epochs: 4, shuffle: false, freeze: ['b.*'] }
  const run = await spillway('train', '--config', configOf('train', section), '--steps', '1', '--run', 'first')
  assert.is(run.code, 0, run.err)
  const { command, options, steps } = JSON.parse(readFileSync('runs/first/recipe.json', 'utf8')) as {
    readonly command: readonly string[]
    readonly options: Readonly<Record<string, unknown>>
    readonly steps: number
  }
  const { lr, shuffle, freeze } = options
  assert.equal({ lr, shuffle, freeze, steps }, { lr: '0.25', shuffle: false, freeze: '["b.*"]', steps: 1 })
  const flags = `train net.ts --config c${files - 1}.json --steps 1 --run first --device ${DEVICE} --algorithms fixed --lr 0.25 --no-shuffle --freeze b.*`
  assert.equal(command.slice(1), flags.split(' '))
})

test('an ES module works in the compiled command line, without a build', () => {
  writeFileSync(
    'spillway.config.mjs',
    `import { defineConfig } from 'spillway'\nexport default defineConfig({ plan: ${JSON.stringify({ ...SIMULATED, batch: 3 })} })\n`,
  )
  const r = spawnSync(process.execPath, [join(ROOT, 'scripts', 'spillway.js'), 'plan', 'net.ts', '--json'], { encoding: 'utf8' })
  rmSync('spillway.config.mjs')
  assert.is(r.status, 0, r.stderr)
  assert.is((JSON.parse(r.stdout) as Planned).input[0], 3)
  assert.match(r.stderr, 'note: options of spillway.config.mjs: machine, algorithms, strategy, batch\n')
})

test.run()
