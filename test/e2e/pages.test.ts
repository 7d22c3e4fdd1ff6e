// own process
// timeout 600
// The blocks of README and docs, in their order: programs compile as users compile them, and run; commands are parsed by the command line's own
// parser, and run, in a folder of each page's own. Left-out blocks have a reason, and another check.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import * as ts from 'typescript'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { npyHead } from '../../src/files/npy'
import { FULL, GATE, gateTest } from '../full'

const ROOT = join(__dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'spillway-pages-'))
const home = process.cwd()
process.env['XDG_CACHE_HOME'] = join(folder, 'cache')
test.after(() => {
  process.chdir(home)
  rmSync(folder, { recursive: true })
})

// ---------------------------------------------------------------- blocks

interface Block {
  readonly page: string
  /** As a reader finds it. */
  readonly at: string
  readonly language: string
  readonly text: string
}

const blocksOf = (page: string): readonly Block[] => {
  const lines = readFileSync(join(ROOT, page), 'utf8').split('\n')
  const fences = lines.flatMap((line, i) => (line.startsWith('```') ? [i] : []))
  return fences.flatMap((from, k) =>
    k % 2 === 1
      ? []
      : [
          {
            page,
            at: `${page}:${from + 1}`,
            language: lines[from]!.slice(3),
            text: `${lines.slice(from + 1, fences[k + 1]).join('\n')}\n`,
          },
        ],
  )
}
const PAGES = [
  'README.md',
  ...['docs', 'docs/internals'].flatMap((folder) =>
    readdirSync(join(ROOT, folder))
      .sort()
      .flatMap((f) => (f.endsWith('.md') ? [`${folder}/${f}`] : [])),
  ),
]
const BLOCKS = PAGES.flatMap(blocksOf)
const programs = BLOCKS.filter((b) => b.language === 'ts')
/** Other programs import the README's first one, except on pages whose first program is a `my-net.ts` of their own. */
const MY_NET = programs[0]!
const OWN_NETS = ['docs/getting-started.md']

// ---------------------------------------------------------------- programs

/** The contents that the words around a block describe, or leave to the reader. */
const TOLD: Readonly<Record<string, string>> = {
  'docs/internals/development.md': `import { type Family } from 'spillway'
import { resnet18 } from 'spillway/models/resnet'
`,
}

const sourceOf = (text: string): ts.SourceFile => ts.createSourceFile('block.ts', text, ts.ScriptTarget.ES2022, true)
const namesIn = (node: ts.Node): readonly string[] => [
  ...(ts.isIdentifier(node) ? [node.text] : []),
  ...node.getChildren().flatMap(namesIn),
]
const exported = (): readonly string[] => Object.keys(createRequire(join(ROOT, 'x.js'))('./dist/src/index.js'))

/** A block that imports nothing has the imports that it would need, and the model of the README. */
const withImports = ({ page, text }: Block): string => {
  if (/^import /m.test(text)) return text
  const whole = `${TOLD[page] ?? ''}${text}`
  const names = new Set(namesIn(sourceOf(whole)))
  const used = exported().filter((name) => names.has(name))
  const net = names.has('net') && !/\bconst net\b/.test(whole) ? "import net from './my-net'\n" : ''
  return `import { ${used.join(', ')} } from 'spillway'\n${net}${whole}`
}

const nameOf = (block: Block): string => block.at.replace(/\W+/g, '-')
const fileOf = (block: Block): string => (block === MY_NET ? 'my-net' : nameOf(block))

/** The compiler's errors for all of them, each in a module of one project that has the package. */
const faultsOf = (blocks: readonly Block[]): readonly string[] => {
  mkdirSync(join(folder, 'node_modules'), { recursive: true })
  symlinkSync(ROOT, join(folder, 'node_modules/spillway'))
  const files = blocks.map((b) => join(folder, `${fileOf(b)}.ts`))
  blocks.forEach((b, i) => writeFileSync(files[i]!, withImports(b)))
  const program = ts.createProgram(files, {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ['lib.es2022.d.ts'],
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules/@types')],
    strict: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
  })
  return ts
    .getPreEmitDiagnostics(program)
    .map((d) => `${d.file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(d.messageText, '\n')}`)
}

/** As commands are shortened: a run that says its steps or epochs is of two, or one. */
const onLittle = (text: string): string => text.replace(/\bsteps: \d+/g, 'steps: 2').replace(/\bepochs: \d+/g, 'epochs: 1')

/** Top-level awaits are awaited. */
const asFunction = (text: string): string => {
  const file = sourceOf(onLittle(text))
  const isAbove = (s: ts.Statement): boolean => ts.isImportDeclaration(s) || ts.isModuleDeclaration(s)
  const above = file.statements.filter(isAbove).map((s) => s.getFullText(file))
  const body = file.statements.filter((s) => !isAbove(s))
  const last = body.at(-1)
  const said = body.map((s) =>
    s === last && ts.isExpressionStatement(s) ? `\nreturn ${s.expression.getText(file)}` : s.getFullText(file),
  )
  return `${above.join('')}\nexport const done = async () => {${said.join('')}\n}\n`
}

const quietly = async <A>(f: () => Promise<A>): Promise<{ readonly answer: A; readonly said: string }> => {
  const streams = [process.stdout, process.stderr] as const
  const writes = streams.map((s) => s.write)
  let said = ''
  for (const s of streams)
    s.write = ((text: string | Uint8Array): boolean => {
      said += text.toString()
      return true
    }) as typeof s.write
  const log = console.log
  console.log = () => {}
  try {
    return { answer: await f(), said }
  } finally {
    console.log = log
    streams.forEach((s, i) => {
      s.write = writes[i]!
    })
  }
}

/** The name of a configuration file, in its first line. */
const configName = ({ text }: Block): string | undefined => /^\/\/ (\w+\.config\.ts)\n/.exec(text)?.[1]

/** As the command line loads model files: every import of the package is the compiled one. */
const ran = async (block: Block, where: string): Promise<void> => {
  const text = withImports(block)
  const isModule = /^export default /m.test(text)
  const file = join(where, configName(block) ?? `${nameOf(block)}-run.ts`)
  writeFileSync(file, isModule ? text : asFunction(text))
  const { done } = createRequire(file)(file) as { readonly done?: () => Promise<unknown> }
  await quietly(async () => done?.())
}

// ---------------------------------------------------------------- commands

/** Lines, their ends joined, without remarks. */
const commandsOf = ({ text }: Block): readonly string[] =>
  text
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => line.replace(/(^|\s)#.*$/, '').trim())
    .filter((line) => line !== '')

/** Blocks that do not run here, with the place that runs them, or the reason why none does. */
const ELSEWHERE: readonly (readonly [begins: string, why: string])[] = [
  ['npx ts-node examples/serve.ts', 'test/e2e/predictor.test.ts'],
  ['curl --data-binary', 'test/e2e/predictor.test.ts'],
  ['npm start', 'it trains for a minute; bench/acceptance/install.ts runs it on Debian 13'],
  ['npm test', 'this is a part of it'],
  ['npm install ./spillway', 'bench/acceptance/install.ts and prebuilt.ts install what npm pack makes'],
  ['npm run build', 'npm test begins with it; the cuda plugin needs nvcc'],
  ['export SPILLWAY_', 'it sets a variable of the shell'],
  ['tensorboard', 'test/fixtures/check_tensorboard.py has TensorBoard read such files'],
  ['cmake', 'it needs other versions of oneDNN; npm run bench -- onednn builds them'],
  ['scripts/gpu-', 'test/house/gpu-check.test.ts tries both'],
  ['node -r ./scripts/testing/typescript.js scripts/gen-ops.ts', 'npm run check -- op-table writes the same and compares'],
  ['python3 test/fixtures/', 'it needs PyTorch'],
  ['mpirun', 'it needs an MPI; test/e2e/ranks-mpi.test.ts runs it where there is one'],
  ['srun', 'it needs Slurm'],
  ['apt-get install', 'it changes the machine'],
  ['npx spillway train my-net.ts --loss cross-entropy --data slides/', 'test/src/data/slides.test.ts draws slides'],
  ['npx spillway train slide-net.ts --loss cross-entropy --data slides/', 'test/src/data/slides.test.ts draws slides'],
  ['npx spillway predict my-net.ts --weights my-net.safetensors --data slide.svs', 'test/src/data/slides.test.ts draws slides'],
  ['npx spillway doctor', 'what it answers is of the machine; test/house/doctor.test.ts runs it'],
  ['npx spillway train resnet50 --device cuda', 'it needs a GPU'],
  ['npx spillway setup cuda', 'it fetches 0.88 GB; npm run acceptance -- cuda runs it'],
  [
    'npx spillway train my-net.ts --loss cross-entropy --data cats/ --epochs 5 --weights pre',
    'test/e2e/finetune.test.ts has such files',
  ],
  [
    'npx spillway train resnet50 --image 224 --data cats/ --weights',
    'PyTorch wrote its weights; test/e2e/finetune.test.ts has smaller ones',
  ],
]

/** Files and scripts that a command names are there. */
const namesWhatIs = (command: string): void => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { readonly scripts: object }
  for (const [, script] of command.matchAll(/npm run ([\w:]+)/g)) assert.ok(script! in scripts, command)
  for (const [file] of command.matchAll(/(?<![\w/])(?:scripts|test)\/[\w./-]+\.\w+/g))
    assert.ok(existsSync(join(ROOT, file)), file)
}

/** The command line's own parser takes it. */
const taken = async (args: readonly string[]): Promise<void> => {
  const { declare } = createRequire(join(ROOT, 'x.js'))('./dist/src/cli/flags.js')
  const [name, ...rest] = args
  const command: Command = declare(
    new Command(name).exitOverride().configureOutput({ writeErr: () => {}, writeOut: () => {} }),
    name,
    () => Promise.resolve(),
  )
  // A configuration file may give the model.
  for (const argument of command.registeredArguments) if (argument.name() === 'model') argument.argOptional()
  await command.parseAsync(rest, { from: 'user' }).catch((e: { readonly code?: string }) => {
    if (e.code !== 'commander.helpDisplayed') throw e
  })
}

/** The same command on small data: two steps or one epoch, small images, batches of two. A plan keeps its sizes: its budget fits them. */
const shortened = (args: readonly string[]): readonly string[] => {
  if (args[0] === 'plan') return [...args, '--measure', 'while']
  const less: Readonly<Record<string, string>> = { '--steps': '2', '--epochs': '1', '--image': '64', '--batch': '2' }
  const short = args.map((a, i) => less[args[i - 1] ?? ''] ?? a)
  return args[0] !== 'train' ? short : [...short, ...(args.includes('--image') ? [] : ['--image', '64'])]
}

const wordsOf = (command: string): readonly string[] => [...command.matchAll(/'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2]!)

/** Pages whose programs and commands `npm test` runs; it compiles and parses those of the others, and full mode runs all. */
const ALWAYS = ['README.md']
const runs = (page: string): boolean => FULL || ALWAYS.includes(page)

const commanded = async (command: string, page: string): Promise<void> => {
  const [npx, spillway, ...args] = wordsOf(command)
  const isOurs = npx === 'npx' && spillway === 'spillway'
  if (isOurs) await taken(args)
  if (ELSEWHERE.some(([begins]) => command.startsWith(begins))) return namesWhatIs(command)
  assert.ok(isOurs, `${command}: run it, or say what does`)
  if (!runs(page)) return
  // A page imports its own exports.
  if (args.includes('model.onnx')) copyFileSync('my-net.onnx', 'model.onnx')
  // PyTorch writes programs; a small one stands for each.
  for (const name of args.filter((a) => a.endsWith('.pt2'))) copyFileSync(join(ROOT, 'test/fixtures/pt2/dropped-train.pt2'), name)
  const { main } = createRequire(join(ROOT, 'x.js'))('./dist/src/cli.js') as typeof import('../../src/cli')
  const { answer, said } = await quietly(() => main(shortened(args)))
  assert.is(answer, 0, `${command}\n${said}`)
}

// ---------------------------------------------------------------- what is said

/** A mask of ten classes whose fourth sample has an eleventh. */
const refusedMask = async (where: string): Promise<string> => {
  mkdirSync(join(where, 'masks'))
  const labels = new Int32Array(4 * 64)
  labels[3 * 64 + 5 * 8 + 7] = 10
  writeFileSync(join(where, 'masks/input.npy'), Buffer.concat([npyHead('f4', [4, 1, 8, 8]), Buffer.alloc(4 * 64 * 4)]))
  writeFileSync(join(where, 'masks/target.npy'), Buffer.concat([npyHead('i4', [4, 1, 8, 8]), Buffer.from(labels.buffer)]))
  const s = createRequire(join(ROOT, 'x.js'))('./dist/src/index.js') as typeof import('../../src')
  const net = s.model([1, 1, 8, 8], s.conv2d('a', 10, 3))
  return s.train(net, s.stage(net, { loss: s.crossEntropy }), { steps: 4, data: 'masks' }).then(
    () => 'nothing',
    (e: Error) => e.message.replace(`${where}/`, ''),
  )
}

const SUMMARY = 'plan vgg16-features --image 512 --machine v100-pcie-16g --strategy tiled --budget 250MiB'
const EXPLANATION =
  'plan resnet18 --image 224 --batch 16 --machine v100-pcie-16g --budget 150MiB --effort 1s --explain layer1.0.conv1'
const SIZES = 'fits resnet50 --in 4GiB --machine v100-pcie-16g --batch 64'
let known: string | undefined
/** The output of the page's commands, which run once for all of its blocks. */
const saidNow = async (): Promise<string> => {
  if (known !== undefined) return known
  const { main } = createRequire(join(ROOT, 'x.js'))('./dist/src/cli.js') as typeof import('../../src/cli')
  const summary = await quietly(() => main(SUMMARY.split(' ')))
  const explanation = await quietly(() => main(EXPLANATION.split(' ')))
  const sizes = await quietly(() => main(SIZES.split(' ')))
  known = [summary, explanation, sizes].map(({ said }) => said).join('\n')
  return known
}

/** Lines of a block that the present output lacks; planning times are no claim. */
const missingIn = (text: string, said: string): readonly string[] => {
  const plain = (line: string): string => line.replace(/planned in .*/, 'planned').trim()
  const now = said.split('\n').map(plain)
  return text.split('\n').filter((line) => !['', '…'].includes(plain(line)) && !now.includes(plain(line)))
}

/** Blocks that are neither a program nor a command: output, or a drawing; and their checks. */
const SAID: Readonly<Record<string, (block: Block, where: string) => Promise<void>>> = {
  'docs/reading-a-plan.md': async ({ text }) => assert.equal(missingIn(text, await saidNow()), []),
  'docs/runs.md': async ({ text }, where) => assert.is(await refusedMask(where), text.trim()),
  // test/exchange/import.test.ts has files refused in these words.
  'docs/exchange.md': () => Promise.resolve(),
  // test/e2e/pytorch-training.test.ts has PyTorch load such files.
  'docs/cookbook.md': () => Promise.resolve(),
  // test/src/train/loading.test.ts has tables of this form.
  'docs/fine-tuning.md': () => Promise.resolve(),
  // scripts/imports/layers.ts and native.ts are these drawings, which every check holds.
  'docs/internals/development.md': () => Promise.resolve(),
}

// ---------------------------------------------------------------- all of them

gateTest('every program of README and docs compiles in a project that has the package', () => {
  assert.ok(programs.length > 15, `${programs.length} programs`)
  assert.equal(faultsOf(programs), [])
})

/** Files that pages name: small images of two classes, small scenes with masks, a small slide, and weights. */
const furnished = async (where: string, page: string): Promise<void> => {
  mkdirSync(where)
  // Threads load the modules of this process, by the working folder then.
  symlinkSync(join(ROOT, 'scripts'), join(where, 'scripts'))
  writeFileSync(join(where, 'my-net.ts'), (OWN_NETS.includes(page) ? programs.find((b) => b.page === page)! : MY_NET).text)
  const weights = join(folder, 'README-md/weights.safetensors')
  if (existsSync(weights)) copyFileSync(weights, join(where, 'weights.safetensors'))
  writeFileSync(join(where, 'list.csv'), 'image,label\ntrain/one/0.png,0\ntrain/two/1.png,1\n')
  const sizes = { width: 64, height: 64 }
  writeFileSync(
    join(where, 'instances.json'),
    JSON.stringify({
      images: [0, 1].map((id) => ({ id, file_name: `${id}.png`, ...sizes })),
      categories: [{ id: 1, name: 'cat' }],
      annotations: [{ id: 1, image_id: 0, category_id: 1, segmentation: [[0, 0, 30, 0, 30, 30]] }],
    }),
  )
  const { default: sharp } = await import('sharp')
  for (const [k, at] of [
    'cats/one',
    'cats/two',
    'train/one',
    'train/two',
    'val/one',
    'val/two',
    'validation/one',
    'pets/train/one',
    'pets/train/two',
    'pets/val/one',
    'pets/val/two',
    'photos',
    'scenes/images',
  ].entries()) {
    mkdirSync(join(where, at), { recursive: true })
    for (const i of [0, 1])
      await sharp({ create: { width: 64, height: 64, channels: 3, background: { r: 20 * k, g: 90 * i, b: 60 } } })
        .png()
        .toFile(join(where, at, `${i}.png`))
  }
  const slide = sharp({ create: { width: 400, height: 304, channels: 3, background: { r: 200, g: 90, b: 160 } } })
  await slide.tiff({ tile: true, pyramid: true, compression: 'jpeg' }).toFile(join(where, 'slide.tif'))
  mkdirSync(join(where, 'scenes/masks'))
  for (const i of [0, 1])
    await sharp(Buffer.alloc(64 * 64, i), { raw: { width: 64, height: 64, channels: 1 } })
      .toColourspace('b-w')
      .png()
      .toFile(join(where, `scenes/masks/${i}.png`))
}

test.before(() => {
  const { installModelLoader } = createRequire(join(ROOT, 'x.js'))('./scripts/model-loader.js')
  installModelLoader(ROOT)
})

for (const page of PAGES) {
  const blocks = BLOCKS.filter((b) => b.page === page)
  if (blocks.length === 0 || (page !== 'README.md' && !GATE)) continue
  test(`${page}: its code blocks are true`, async () => {
    const where = join(folder, page.replace(/\W+/g, '-'))
    await furnished(where, page)
    process.chdir(where)
    for (const block of blocks) {
      for (const run of ['run', 'state']) rmSync(join(where, run), { recursive: true, force: true })
      try {
        if (block.language === 'ts') await (runs(page) ? ran(block, where) : undefined)
        else if (block.language === 'sh') for (const command of commandsOf(block)) await commanded(command, page)
        else await SAID[page]!(block, where)
      } catch (e) {
        const { message, details = '' } = e as Error & { readonly details?: string }
        throw new Error(`${block.at}: ${message}${details}`, { cause: e })
      }
    }
  })
}

test('every command in a sentence of README and docs has options that there are', async () => {
  for (const page of PAGES) {
    const prose = readFileSync(join(ROOT, page), 'utf8').replace(/^```[\s\S]*?^```/gm, '')
    for (const [, command] of prose.matchAll(/`npx spillway ([^`]* --[^`]*)`/g)) {
      try {
        await taken(wordsOf(command!))
      } catch (e) {
        throw new Error(`${page}: npx spillway ${command}: ${(e as Error).message}`)
      }
    }
  }
})

test.run()
