// docs/reference/mistakes.md: wrong calls and their answers. In: the calls of this file. Out: the page, with the answers that the calls get
// now. Invariant: each call is refused before the first step, and no file of its folder changes.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { npyHead } from '../../src/files/npy'
import { code, table } from './markdown'

/** The compiled package: model files import it. */
const compiled = <A>(file: string): A => createRequire(join(__dirname, '../..', 'x.js'))(`./dist/src/${file}.js`) as A
const { main } = compiled<typeof import('../../src/cli')>('cli')
const spillway = compiled<typeof import('../../src')>('index')

// ---------------------------------------------------------------- the folder of the calls

const NET = `import { conv2d, globalAvgPool, linear, model, relu, seq } from 'spillway'
export default model([2, 3, 8, 8], seq(conv2d('a', 4, 3), relu(), globalAvgPool('pool'), linear('fc', 3)))
`
const PIXELS = `import { conv2d, model, seq } from 'spillway'
export default model([2, 3, 8, 8], seq(conv2d('a', 3, 3)))
`
const array = (type: 'f4' | 'i4', shape: readonly number[], values: readonly number[] = []): Buffer => {
  const size = shape.reduce((n, x) => n * x, 1)
  const numbers = type === 'f4' ? new Float32Array(size) : new Int32Array(size)
  numbers.set(values)
  return Buffer.concat([npyHead(type, shape), Buffer.from(numbers.buffer)])
}

const furnish = async (): Promise<void> => {
  const sharp = (await import('sharp')).default
  const photo = await sharp({ create: { width: 8, height: 8, channels: 3, background: '#a04080' } })
    .png()
    .toBuffer()
  const write = (path: string, content: string | Buffer): void => {
    mkdirSync(join(path, '..'), { recursive: true })
    writeFileSync(path, content)
  }
  write('net.ts', NET)
  write('pixels.ts', PIXELS)
  write('broken.ts', 'export default (\n')
  write('nothing.ts', 'export const a = 1\n')
  write('text.txt', 'no model\n')
  for (const name of ['ant', 'bee', 'cow']) for (const i of [0, 1]) write(`train/${name}/${i}.png`, photo)
  for (const name of ['ant', 'yak']) write(`other/${name}/0.png`, photo)
  for (const i of [0, 1]) write(`photos/${i}.png`, photo)
  write('nested/ant/0.png', photo)
  write('nested/ant/more/1.png', photo)
  write('nested/bee/0.png', photo)
  write('nested/bee/notes.txt', 'text\n')
  mkdirSync('empty')
  write('words.csv', 'image,label\nphotos/0.png,2\nphotos/1.png,n/a\nphotos/0.png,1\n')
  write('outside.csv', 'image,label\nphotos/0.png,0\nphotos/1.png,7\n')
  write('negative.csv', 'image,label\nphotos/0.png,-1\n')
  write('missing.csv', 'image,label\nphotos/9.png,0\n')
  write('columns.csv', 'picture,class\nphotos/0.png,0\n')
  write('arrays/input.npy', array('f4', [4, 3, 8, 8]))
  write('arrays/target.npy', array('i4', [4], [0, 1, 2, 3]))
  write('short/input.npy', array('f4', [4, 3, 8, 8]))
  write('short/target.npy', array('i4', [3]))
  write('wide/input.npy', array('f4', [4, 3, 8, 9]))
  write('wide/target.npy', array('i4', [4]))
  write('good/input.npy', array('f4', [4, 3, 8, 8]))
  write('good/target.npy', array('i4', [4], [0, 1, 2, 0]))
  write('alone/input.npy', array('f4', [4, 3, 8, 8]))
  write('cut.npy', array('f4', [4, 3, 8, 8]).subarray(0, 500))
  write('cut.safetensors', Buffer.from([255, 0, 0, 0, 0, 0, 0, 0, 123]))
  write('cut.onnx', 'no protocol buffer')
  write('cut.pt2', Buffer.from('PK\x03\x04 no archive'))
  write('keys.json', '{"train":{"bacth":8}}\n')
  write('values.json', '{"train":{"batch":"eight"}}\n')
  write('plan.json', '{"format":"spillway-plan","version":1,"checksum":"0","plan":{}}\n')
}

const bytesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((e) => {
    if (e.isSymbolicLink()) return []
    const path = join(folder, e.name)
    return e.isDirectory() ? [path, ...bytesIn(path)] : [`${path} ${statSync(path).ino} ${readFileSync(path, 'latin1')}`]
  })

// ---------------------------------------------------------------- the calls

interface Group {
  readonly title: string
  /** Arguments of `spillway`. */
  readonly commands: readonly string[]
}

const flag = (command: string, name: string, ...values: readonly string[]): readonly string[] =>
  values.map((v) => `${command} net.ts ${name} ${v}`)

const GROUPS: readonly Group[] = [
  {
    title: 'Commands and models',
    commands: [
      'fly',
      'trian net.ts',
      'train',
      'plan',
      'train nowhere.ts',
      'train net.ts --stepz 3',
      'train net.ts --step 3',
      'plan net.ts --bugdet 1GiB',
      'train resnet21',
      'train broken.ts --steps 1',
      'train nothing.ts --steps 1',
      'train text.txt --steps 1',
      'train photos --steps 1',
      'plan vgg16-features --classes 10 --image 64 --machine v100-pcie-16g',
      'fits resnet21 --in 1GiB',
      'new My-Project',
      'new photos',
      'new my-project --template detect',
      'completion csh',
      'verify nowhere.json',
      'verify text.txt',
      'verify net.ts',
      'verify plan.json',
      'check nowhere.ts',
      'check photos',
    ],
  },
  {
    title: 'Configuration files',
    commands: ['nowhere.json', 'text.txt', 'plan.json', 'keys.json', 'values.json'].map(
      (file) => `train net.ts --config ${file}`,
    ),
  },
  {
    title: 'Places of outputs',
    commands: [
      'train net.ts --steps 1 --save net.ts',
      'train net.ts --steps 1 --report net.ts',
      'train net.ts --steps 1 --log net.ts',
      'train net.ts --steps 1 --save a --report a',
      'train net.ts --steps 1 --log l --report l',
      'train net.ts --steps 1 --save w.pth',
      'train net.ts --steps 1 --save w.onnx',
      'train net.ts --steps 1 --save w.npz',
      'train net.ts --steps 1 --save photos',
      'train net.ts --steps 1 --save nowhere/w.safetensors',
      'train net.ts --steps 1 --checkpoint-dir text.txt',
      'train net.ts --steps 1 --data good --save good/target.npy',
      'train net.ts --steps 1 --data good --save good/w.safetensors',
      'train net.ts --steps 1 --weights w.safetensors --save w.safetensors',
      'train net.ts --steps 1 --save photos/0.png',
      'train net.ts --steps 1 --spill text.txt',
      'plan net.ts --emit net.ts --loss cross-entropy',
      'plan net.ts --save p --emit p --loss cross-entropy',
      'plan net.ts --report r --trace r',
      'plan net.ts --save net.ts',
      'plan net.ts --report w.safetensors',
      'predict pixels.ts --weights p.safetensors --data photos --out photos --format png --as classes',
      'predict net.ts --weights w.safetensors --data photos --out w.safetensors',
      'predict net.ts --weights w.safetensors --data photos --out net.ts',
      'export net.ts --weights w.safetensors --out w.safetensors',
      'export net.ts --weights w.safetensors --out net.ts',
      'import cut.onnx --out net.ts',
      'import cut.onnx --out cut.onnx',
      'compare net.ts --plot net.ts',
    ],
  },
  {
    title: 'Data and labels',
    commands: [
      'train net.ts --loss cross-entropy --epochs 1 --data nowhere',
      'train net.ts --loss cross-entropy --epochs 1 --data empty',
      'train net.ts --loss cross-entropy --epochs 1 --data text.txt',
      'train net.ts --loss cross-entropy --epochs 1 --data cut.npy',
      'train net.ts --loss cross-entropy --epochs 1 --data arrays',
      'train net.ts --loss cross-entropy --epochs 1 --data short',
      'train net.ts --loss cross-entropy --epochs 1 --data wide',
      'train net.ts --loss cross-entropy --epochs 1 --data alone',
      'train net.ts --loss cross-entropy --epochs 1 --data words.csv',
      'train net.ts --loss cross-entropy --epochs 1 --data outside.csv',
      'train net.ts --loss cross-entropy --epochs 1 --data negative.csv',
      'train net.ts --loss cross-entropy --epochs 1 --data missing.csv',
      'train net.ts --loss cross-entropy --epochs 1 --data columns.csv',
      'train net.ts --loss cross-entropy --epochs 1 --data nested --strict-data',
      'train net.ts --loss cross-entropy --epochs 1 --data train --evaluate other',
      'train net.ts --loss cross-entropy --epochs 1 --data train --evaluate nowhere',
      'train net.ts --loss cross-entropy --epochs 1 --data train --evaluate empty',
      'train net.ts --loss cross-entropy --epochs 1 --data train --metrics accuracy',
      'train net.ts --loss cross-entropy --epochs 1 --data train --evaluate train --metrics acuracy',
      'train net.ts --loss cross-entropy --epochs 1 --data train --evaluate train --metrics top99',
      'train net.ts --loss cross-entropy --epochs 1 --data train --evaluate train --metrics top0',
      'train net.ts --loss cross-entropy --epochs 1 --data train --samples 4',
      'train net.ts --epochs 1 --data train',
      'train net.ts --epochs 1 --steps 2 --data train',
      'train net.ts --steps 1 --shuffle',
      'train net.ts --steps 1 --augment flip',
      'train net.ts --loss cross-entropy --epochs 1 --data train --augment flip,spin',
      'train net.ts --loss cross-entropy --epochs 1 --data train --fit squeeze',
      'train net.ts --steps 1 --mean 0.5',
      'train net.ts --loss cross-entropy --epochs 1 --data train --mean 0.5,0.5',
      'train net.ts --loss cross-entropy --epochs 1 --data good --depth 16',
      'train pixels.ts --epochs 1 --data train --loss cross-entropy',
      'evaluate net.ts --loss cross-entropy --weights w.safetensors --data other',
      'evaluate net.ts --loss cross-entropy --weights w.safetensors --data nowhere',
      'evaluate net.ts --loss cross-entropy --weights w.safetensors',
      'predict net.ts --weights w.safetensors --data empty --out out',
      'predict net.ts --weights w.safetensors --data nowhere --out out',
      'predict net.ts --weights w.safetensors --out out',
    ],
  },
  {
    title: 'Weights and other files',
    commands: [
      'train net.ts --steps 1 --weights nowhere.safetensors',
      'train net.ts --steps 1 --weights cut.safetensors',
      'train net.ts --steps 1 --weights text.txt',
      'train net.ts --steps 1 --weights photos',
      'train pixels.ts --steps 1 --weights w.safetensors',
      'train net.ts --steps 1 --weights-skip fc.*',
      'train net.ts --steps 1 --weights w.safetensors --weights-skip head.*',
      'train net.ts --steps 1 --weights w.safetensors --weights-strip module.',
      'train net.ts --steps 1 --resume',
      'train net.ts --steps 1 --resume-ranks',
      'train net.ts --steps 1 --freeze head.*',
      'train net.ts --steps 1 --freeze a.*,fc.*',
      'evaluate net.ts --data train',
      'evaluate net.ts --loss cross-entropy --weights nowhere.safetensors --data train',
      'evaluate pixels.ts --loss cross-entropy --weights w.safetensors --data train',
      'predict net.ts --data photos --out out',
      'predict net.ts --weights cut.safetensors --data photos --out out',
      'export net.ts --weights w.safetensors',
      'export net.ts --out net.onnx',
      'import cut.onnx --out new.ts',
      'import nowhere.onnx --out new.ts',
      'import text.txt --out new.ts',
      'import cut.pt2 --out new.ts',
    ],
  },
  {
    title: 'Values of options',
    commands: [
      ...flag('train', '--steps', '0', '-1', '1.5', 'ten', '9999999999999999'),
      ...flag('train', '--epochs', '0', 'two'),
      ...flag('train', '--batch', '0', '-3', '1e3'),
      ...flag('plan', '--image', '0', '1x0', '64x', '64x64x64', '99999999'),
      ...flag('train', '--samples', '0', 'NaN'),
      ...flag('train', '--layout', 'NHWC', 'chw'),
      ...flag('train', '--mean', 'half'),
      ...flag('train', '--std', '0', '1,,2'),
      ...flag('train', '--depth', '12'),
      ...flag('train', '--seed', '-1', '0.5'),
      ...flag('train', '--budget', '-1', 'much', '12XiB', '0x10'),
      ...flag('fits', '--in', '-1', 'much'),
      ...flag('fits', '--up-to', '0', 'all'),
      ...flag('fits', '--effort', '0s'),
      ...flag('train', '--throttle', '0', 'Infinity'),
      ...flag('train', '--host-memory', '-1', 'half'),
      ...flag('plan', '--spill-writes-per-step', 'few'),
      ...flag('train', '--time-limit', '3', 'soon'),
      ...flag('train', '--checkpoint-every', '0', '2'),
      ...flag('train', '--on-nonfinite', 'stop'),
      ...flag('train', '--precision', 'fp8', 'FP32'),
      ...flag('plan', '--algorithms', 'best', 'Fixed'),
      ...flag('plan', '--measure', 'never'),
      ...flag('plan', '--strategy', 'magic', 'swap:', 'checkpoint:sqr'),
      ...flag('plan', '--machine', 'moon', 'v100'),
      ...flag('train', '--device', 'gpu', 'v100-pcie-16g'),
      ...flag('plan', '--allocator', 'malloc', 'va:x'),
      ...flag('train', '--lr', '-1', 'NaN', 'fast'),
      ...flag('train', '--loss', 'hinge', 'mse+', 'cross-entropy+mse', '0.5*0.5*mse'),
      ...flag('train', '--optimizer', 'newton'),
      ...flag('train', '--momentum', '1', '2', '-0.1'),
      ...flag('train', '--weight-decay', '-1'),
      ...flag('train', '--ignore-index', '1.5'),
      ...flag('train', '--class-weights', '1,-1', '1,,2', 'many'),
      ...flag('train', '--label-smoothing', '-0.5', '2'),
      ...flag('train', '--clip-norm', '0', 'much'),
      ...flag('train', '--accumulate', '0', 'all'),
      ...flag('train', '--average', '1', '-0.5'),
      ...flag('train', '--layer-decay', '0', '1.5'),
      ...flag('train', '--schedule', 'sine'),
      ...flag('train', '--warmup', '-1', 'some'),
      ...flag('plan', '--mode', 'predikt'),
      ...flag('plan', '--as', 'classes'),
      ...flag('compare', '--budgets', '0', '-8', '1.5'),
      ...flag('compare', '--strategies', 'auto,magic'),
      ...flag('compare', '--allocators', 'pages,malloc'),
      ...flag('compare', '--host-memory', 'half'),
      ...flag('compare', '--spill-writes-per-step', '1MiB'),
      ...flag('train', '--classes', '0', 'ten'),
      'plan net.ts --budget 1KiB --machine v100-pcie-16g',
      'plan net.ts --batch 1000000000 --machine v100-pcie-16g',
    ],
  },
  {
    title: 'Several processes',
    commands: [
      ...flag('plan', '--network', 'ethernet-25g', 'token-ring'),
      ...flag('plan', '--norms', 'local', 'global'),
      ...flag('plan', '--shard', 'gradients', 'weights'),
      ...flag('plan', '--ranks', '0', '3'),
      ...flag('plan', '--bands', '0', '2'),
      ...flag('train', '--engine', 'threads', 'nccl'),
      ...flag('train', '--ranks', '0', '2'),
      'plan net.ts --ranks 2 --mode predict',
      'train net.ts --engine threads --ranks 3',
      'train net.ts --device cpu --machine ref',
    ],
  },
]

/** Expressions of a script without types: `net` is the model above, `plan` its plan. */
const SCRIPTS: readonly string[] = [
  'stage(null)',
  'stage({})',
  'stage(3, { budget: 1 })',
  'train(null, plan, { steps: 1 })',
  'train(net, null, { steps: 1 })',
  "predict(null, plan, { weights: 'w.safetensors', data: 'photos' })",
  "evaluate(net, {}, { weights: 'w.safetensors', data: 'train' })",
  "stage(net, { algorithms: 'x' })",
  "stage(net, { measure: '' })",
  'stage(net, { tiles: [{}] })',
  "stage(net, { tiles: [{ from: 'a', to: 'a', H: '2' }] })",
  "stage(net, { tiles: [{ from: 'b', to: 'a', H: 2 }] })",
  "stage(net, { checkpoints: ['b'] })",
  'stage(net, { checkpoints: [3] })',
  'stage(net, { loss: null })',
  "stage(net, { loss: 'hinge' })",
  "stage(net, { optimizer: 'adam' })",
  'stage(net, { optimizer: sgd({ lr: -1 }) })',
  'stage(net, { optimizer: sgd({ lr: 0.1, momentum: 1 }) })',
  'stage(net, { budget: null })',
  "stage(net, { budget: '4GiB' })",
  'stage(net, { budget: -1 })',
  "stage(net, { strategy: 'magic' })",
  "stage(net, { machine: 'moon' })",
  "stage(net, { mode: 'evalute' })",
  "stage(net, { as: 'classes' })",
  'stage(net, { budgt: 1 })',
  'stage(net, { ranks: 0 })',
  "stage(net, { mode: 'predict', ranks: 2 })",
  'train(net, plan, {})',
  'train(net, plan, { steps: 0 })',
  "train(net, plan, { steps: '1' })",
  'train(net, plan, { steps: 1, epochs: 1 })',
  "train(net, plan, { steps: 1, data: '' })",
  'train(net, plan, { steps: 1, data: null })',
  "train(net, plan, { steps: 1, onNonfinite: 'x' })",
  "train(net, plan, { steps: 1, schedule: 'cosine' })",
  "train(net, plan, { steps: 1, save: '' })",
  "train(net, plan, { steps: 1, save: 'w.pth' })",
  "train(net, plan, { steps: 1, shuffle: 'yes' })",
  "train(net, plan, { steps: 1, sav: 'w' })",
  'train(net, plan, { steps: 1, keep: null })',
  'train(net, plan, { steps: 1, stop: {} })',
  'train(net, plan, { steps: 1, data: source({ length: 2, read: () => ({ input: new Float32Array(5), target: 0 }) }) })',
  'train(net, plan, { steps: 1, data: source({ length: 2, read: () => ({ input: new Float32Array(192), target: 7 }) }) })',
  'train(net, plan, { steps: 1, data: source({ length: 2, read: () => ({ input: new Float32Array(192) }) }) })',
  'train(net, plan, { steps: 1, data: source({ length: 2, read: () => ({ input: new BigInt64Array(192), target: 0 }) }) })',
  'train(net, plan, { steps: 1, data: source({ length: 2, read: () => null }) })',
  "predict(net, plan, { weights: 'w.safetensors', data: 'photos' })",
  "evaluate(net, plan, { weights: 'w.safetensors', data: 'train' })",
  "validation({ data: '' })",
  "folder('')",
  "folder('photos', { fit: null })",
  "files('good', { mean: [] })",
  "source({ length: 1, read: () => ({}), layout: '' })",
  "metric({ name: '' })",
  'cosine({ floor: null })',
  "upsample({ scale: 2, mode: 'x' })",
  "exportOnnx(net, { weights: 'w.safetensors' })",
  "importOnnx('cut.onnx', { out: null })",
  "model([1, 3, 8, 8], seq(conv2d('a', 4, 3), conv2d('a', 4, 3)))",
  "model([1, 3, 8], seq(conv2d('a', 4, 3)))",
  "model([1, 3, 8, 8], seq(conv2d('a', 0, 3)))",
  "model([1, 3, 2, 2], seq(conv2d('a', 4, 5, { pad: 0 })))",
  "model([1, 3, 8, 8], seq(conv2d('a', 4, 3, { groups: 2 })))",
  "model([1, 3, 8, 8], seq(maxPool('p', 16)))",
]

// ---------------------------------------------------------------- answers

interface Answer {
  readonly code?: number
  readonly text: string
}

/** Runs with the streams of the process kept. Out: the result, and the text of stdout. */
const quietly = async <A>(f: () => Promise<A>): Promise<readonly [A, string]> => {
  const writes = [process.stdout, process.stderr].map((s) => s.write)
  let out = ''
  process.stdout.write = ((text: string) => {
    out += text
    return true
  }) as typeof process.stdout.write
  process.stderr.write = (() => true) as typeof process.stderr.write
  try {
    return [await f(), out]
  } finally {
    process.stdout.write = writes[0] as typeof process.stdout.write
    process.stderr.write = writes[1] as typeof process.stderr.write
  }
}

const commanded = async (command: string): Promise<Answer> => {
  const [exit, out] = await quietly(() => main([...command.split(' '), '--json']))
  return { code: exit, text: (JSON.parse(out || '{}') as { error?: { message: string } }).error?.message ?? 'done' }
}

const scripted = async (expression: string, given: Readonly<Record<string, unknown>>): Promise<Answer> => {
  const names = { ...spillway, ...given }
  const call = new Function(...Object.keys(names), `return ${expression}`)
  try {
    const [answer] = await quietly(async () => call(...Object.values(names)))
    return {
      text: (answer as { _tag?: string })?._tag === 'Left' ? spillway.errorText((answer as { left: never }).left) : 'done',
    }
  } catch (e) {
    return { text: (e as Error).message }
  }
}

const shown =
  (root: string) =>
  (text: string): string =>
    text.replaceAll(`${root}/`, '').replace(/\s*\n\s*/g, ' ')

/** Throws if a call is not refused, or changes the folder. */
const rowsOf = async (
  calls: readonly string[],
  answerOf: (call: string) => Promise<Answer>,
): Promise<readonly (readonly [string, Answer])[]> => {
  const rows: (readonly [string, Answer])[] = []
  for (const call of calls) {
    const before = bytesIn('.')
    const answer = await answerOf(call)
    if (answer.text === 'done' || answer.code === 0) throw new Error(`${call} is not refused`)
    const changed = bytesIn('.').filter((line, i) => line !== before[i])
    if (changed.length > 0) throw new Error(`${call} changes ${changed[0]!.slice(0, 80)}`)
    rows.push([call, answer])
  }
  return rows
}

const LEAST_CALLS = 200

/** The page, from a folder with a model, data and weights. */
export const mistakesPage = async (): Promise<string> => {
  const parent = mkdtempSync(join(tmpdir(), 'spillway-mistakes-'))
  const root = join(parent, 'project')
  mkdirSync(root)
  mkdirSync(join(parent, 'node_modules'))
  symlinkSync(join(__dirname, '../..'), join(parent, 'node_modules', 'spillway'))
  const [home, cache] = [process.cwd(), process.env['XDG_CACHE_HOME']]
  // Threads load the modules of this process from the present folder.
  symlinkSync(__dirname.replace(/reference$/, ''), join(root, 'scripts'))
  process.chdir(root)
  process.env['XDG_CACHE_HOME'] = join(parent, 'cache')
  try {
    await furnish()
    const trained =
      'train net.ts --loss cross-entropy --epochs 1 --data train --loss cross-entropy --algorithms fixed --save w.safetensors'
    const { code: exit, text } = await commanded(trained)
    if (exit !== 0) throw new Error(`${trained}: ${text}`)
    const net = spillway.model(
      [2, 3, 8, 8],
      spillway.seq(spillway.conv2d('a', 4, 3), spillway.relu(), spillway.globalAvgPool('pool'), spillway.linear('fc', 3)),
    )
    const plan = spillway.stage(net, { loss: spillway.crossEntropy, algorithms: 'fixed' })
    const sections: string[] = []
    let calls = 0
    for (const { title, commands } of GROUPS) {
      const rows = await rowsOf(commands, commanded)
      calls += rows.length
      sections.push(
        `## ${title}\n\n${table(
          ['`spillway …`', 'exit code', 'answer'],
          rows.map(([call, a]) => [code(call), String(a.code), code(shown(root)(a.text).replaceAll('`', "'"))]),
        )}`,
      )
    }
    const rows = await rowsOf(SCRIPTS, (call) => scripted(call, { net, plan }))
    calls += rows.length
    sections.push(
      `## Scripts without types\n\n${table(
        ['call', 'answer'],
        rows.map(([call, a]) => [code(call), code(shown(root)(a.text).replaceAll('`', "'"))]),
      )}`,
    )
    if (calls < LEAST_CALLS) throw new Error(`${calls} calls`)
    return `<!-- Generated by scripts/gen-mistakes.ts from the commands and functions. Do not edit. -->

# Wrong calls and their answers

${calls} wrong calls of commands and functions, with the answers that they get. Each is refused before the first step, and changes no file.
The page on [runs](../runs.md) explains the exit codes. In an editor, types refuse most of the calls of scripts while you type.

The folder has a classifier of three classes (\`net.ts\`), a net with a label per pixel (\`pixels.ts\`), and weights of the first
(\`w.safetensors\`). The class folders of \`train\` are ant, bee and cow; those of \`other\` are ant and yak.

<div class="commands">

${sections.join('\n\n')}

</div>
`
  } finally {
    process.chdir(home)
    if (cache === undefined) delete process.env['XDG_CACHE_HOME']
    else process.env['XDG_CACHE_HOME'] = cache
    rmSync(parent, { recursive: true, force: true })
  }
}
