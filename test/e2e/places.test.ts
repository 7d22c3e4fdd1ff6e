// Places of inputs and outputs: no output replaces an input, another output, data, or a file of another kind. All pairs of an input and an
// output option run in this process; some commands run whole. Invariant: after a refusal every input has its bytes.
import {
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import ts from 'typescript'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readingModel } from '../../src/cli/modelreads'
import { files as dataFiles, folder as imageFolder } from '../../src/data/data'
import { readingData } from '../../src/data/reads'
import { errorText, exitCode, type SpillwayError } from '../../src/errors/errors'
import { placesOf as exportPlaces } from '../../src/exchange/export'
import { FILES } from '../../src/files/kinds'
import { npyHead } from '../../src/files/npy'
import { checkedPlaces, reading, type Write, writing } from '../../src/files/places'
import { writeTensors } from '../../src/files/safetensors'
import { writeWholeText } from '../../src/files/whole'
import { placesOf as predictPlaces } from '../../src/predict/ready'
import { placesOf as trainPlaces } from '../../src/train/beforehand'
import type { Either } from 'fp-ts/Either'

const { main } = require('../../src/cli') as typeof import('../../src/cli')

const root = realpathSync(mkdtempSync(join(tmpdir(), 'spillway-places-')))
const before = process.cwd()
process.chdir(root)
test.after(() => {
  process.chdir(before)
  rmSync(root, { recursive: true })
})

// ---------------------------------------------------------------- inputs

const tensors = (path: string): void =>
  void writeTensors(path, [{ name: 'a', type: 'F32', shape: [1], read: () => ({ _tag: 'Right', right: new Uint8Array(4) }) }])
const array = (path: string): void => writeFileSync(path, Buffer.concat([npyHead('f4', [1]), Buffer.alloc(4)]))

mkdirSync('flat')
mkdirSync('classes/ant', { recursive: true })
mkdirSync('classes/bee')
mkdirSync('pairs/images', { recursive: true })
mkdirSync('pairs/masks')
mkdirSync('elsewhere')
writeFileSync('elsewhere/0.png', 'pixels')
array('flat/input.npy')
array('flat/target.npy')
for (const at of ['classes/ant/0.png', 'classes/bee/1.png', 'pairs/images/0.png', 'pairs/masks/0.png'])
  writeFileSync(at, 'pixels')
symlinkSync(join(root, 'elsewhere/0.png'), 'classes/bee/2.png')
writeFileSync('list.csv', 'image,label\nelsewhere/0.png,1\n')
writeFileSync('part.ts', "import sizes from './sizes.json'\nexport const width = sizes.width\n")
writeFileSync('sizes.json', '{"width": 4}')
writeFileSync(
  'net.ts',
  "import { conv2d, globalAvgPool, model, seq } from 'spillway'\nimport { width } from './part'\n" +
    "export default model([2, 3, 8, 8], seq(conv2d('a', width, 3), conv2d('b', 2, 1), globalAvgPool('pool')))\n",
)
tensors('w.safetensors')
tensors('data.safetensors')
array('one.npy')
writeFileSync('plan.json', '{"format":"spillway-plan","version":1,"checksum":"0","plan":{}}\n')

const bytesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((e) => {
    const path = join(folder, e.name)
    return e.isDirectory() ? bytesIn(path) : [`${path} ${statSync(path).ino} ${readFileSync(path, 'latin1')}`]
  })
const untouched = bytesIn(root)

const refusalOf = (answer: Either<SpillwayError, unknown>): string => {
  if (!isLeft(answer)) return ''
  assert.is(exitCode(answer.left), 2)
  return errorText(answer.left)
}

// ---------------------------------------------------------------- all pairs

const flag = (name: string): string => `--${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`
type Given = Readonly<Record<string, string>>
interface Command {
  readonly inputs: readonly (readonly [option: string, path: string])[]
  readonly outputs: readonly string[]
  readonly places: (o: Given) => Either<SpillwayError, void>
}

const DATA = ['flat/input.npy', 'data.safetensors', 'list.csv'].map((path) => ['data', path] as const)
const MODEL = ['net.ts', 'part.ts', 'sizes.json'].map((path) => ['model', path] as const)
const kindsOf = (
  writes: Readonly<Record<string, Write['kind']>>,
  reads: readonly string[],
): Pick<Command, 'outputs' | 'places'> => ({
  outputs: Object.keys(writes),
  places: (o) =>
    checkedPlaces(
      [
        ...readingModel('net.ts'),
        ...reads.flatMap((name) => (name === 'data' ? readingData('--data', o[name]) : reading(flag(name), o[name]))),
      ],
      Object.entries(writes).flatMap(([name, kind]) => writing(flag(name), kind, o[name])),
    ),
})

const COMMANDS: Readonly<Record<string, Command>> = {
  train: {
    inputs: [...MODEL, ...DATA, ['evaluate', 'flat/target.npy'], ['weights', 'w.safetensors'], ['plan', 'plan.json']],
    outputs: ['save', 'saveBest', 'log', 'report', 'tensorboard', 'checkpointDir'],
    places: (o) => trainPlaces(o, flag, readingModel('net.ts')),
  },
  predict: {
    inputs: [...MODEL, ...DATA, ['data', 'one.npy'], ['weights', 'w.safetensors']],
    outputs: ['out', 'report'],
    places: (o) => predictPlaces({ weights: 'w.safetensors', data: 'one.npy', ...o }, flag, readingModel('net.ts')),
  },
  export: {
    inputs: [...MODEL, ['weights', 'w.safetensors']],
    outputs: ['out'],
    places: (o) => exportPlaces({ weights: 'w.safetensors', out: 'x.onnx', ...o }, flag, readingModel('net.ts')),
  },
  plan: {
    inputs: [...MODEL, ['plan', 'plan.json']],
    ...kindsOf({ save: 'plan', report: 'report', trace: 'trace', emit: 'module' }, ['plan']),
  },
  compare: { inputs: MODEL, ...kindsOf({ plot: 'plot', csv: 'table' }, []) },
  evaluate: { inputs: [...MODEL, ...DATA, ['weights', 'w.safetensors']], ...kindsOf({ out: 'result' }, ['weights', 'data']) },
}

for (const [name, { inputs, outputs, places }] of Object.entries(COMMANDS))
  test(`${name}: no output replaces an input or another output`, () => {
    let count = 0
    for (const out of outputs) {
      for (const [option, path] of inputs) {
        const given = option === 'model' ? {} : { [option]: path === 'list.csv' ? path : path.replace(/^flat\/.*/, 'flat') }
        const link = join('links', `${count++}`)
        mkdirSync(link, { recursive: true })
        symlinkSync(join(root, path), join(link, 'soft'))
        linkSync(path, join(link, 'hard'))
        for (const named of [path, join(root, path), join(link, 'soft'), join(link, 'hard')]) {
          const words = refusalOf(places({ ...given, [out]: named }))
          assert.ok(words.includes(flag(out)) || words.includes(named), `${name} ${out} ${named}: ${words}`)
          assert.match(words, /choose|use |not a folder|it is/, `${name} ${out} ${named}`)
        }
      }
      for (const other of outputs.filter((o) => o !== out)) {
        const one = refusalOf(places({ [out]: 'new', [other]: join(root, 'new') }))
        const both = ['tensorboard', 'checkpointDir', 'log', 'out']
        // Folders may be shared: their files have different names.
        if (both.includes(out) && both.includes(other)) assert.is(one, '')
        else assert.match(one, new RegExp(`${flag(out)}.*choose two names|${flag(other)}.*choose two names`), `${out} ${other}`)
      }
    }
    rmSync('links', { recursive: true })
    assert.equal(bytesIn(root), untouched)
  })

// ---------------------------------------------------------------- kinds, folders of data, links

test('every kind of file refuses the names and the files of other kinds', () => {
  for (const [kind, { endings }] of Object.entries(FILES))
    for (const other of ['w.pth', 'net.ts', 'list.csv', 'w.safetensors', 'x.npz', 'photo.png', 'plan.json', 'x.onnx', 'p.html']) {
      const words = refusalOf(checkedPlaces([], writing('--out', kind as Write['kind'], other)))
      const isOwn = (endings as readonly string[]).some((end) => other.endsWith(end))
      if (!isOwn) assert.match(words, /^--out .* writes an? .*, but the name ends in \.\w+: use \S+\.\w+$/, `${kind} ${other}`)
    }
  const replacing = (kind: Write['kind'], path: string) => refusalOf(checkedPlaces([], writing('--out', kind, path)))
  assert.match(
    replacing('module', 'net.ts'),
    /^--out net.ts would replace a file that is not a generated plan module: choose another name, or remove/,
  )
  assert.match(replacing('model', 'net.ts'), /not a generated model file/)
  assert.match(replacing('trace', 'plan.json'), /not a trace/)
  assert.is(replacing('plan', 'plan.json'), '')
  assert.is(replacing('weights', 'w.safetensors'), '')
  writeFileSync('empty.html', '')
  assert.is(replacing('report', 'empty.html'), '')
  rmSync('empty.html')
})

test('an output in a folder of data is refused if the next run would read it', () => {
  const cases: readonly (readonly [data: string, o: Given, refused: boolean])[] = [
    ['flat', { save: 'flat/w.safetensors' }, true],
    ['flat', { save: 'flat/deeper.safetensors/../../w2.safetensors' }, false],
    ['flat', { report: 'flat/report.html' }, false],
    ['flat', { checkpointDir: 'flat' }, true],
    ['flat', { checkpointDir: 'flat/state' }, false],
    ['classes', { log: 'classes/log' }, true],
    ['classes', { save: 'classes/ant/w.safetensors' }, true],
    ['pairs', { log: 'pairs/log' }, false],
    ['pairs', { checkpointDir: 'pairs/masks' }, true],
    ['list.csv', { save: 'elsewhere/w.safetensors' }, false],
  ]
  for (const [data, o, refused] of cases) {
    const words = refusalOf(trainPlaces({ data, ...o }))
    if (refused)
      assert.match(words, /is in the folder of data .* and would be read as data: choose a place outside it/, JSON.stringify(o))
    else assert.is(words, '', JSON.stringify(o))
  }
  const predicted = (data: string, out: string) =>
    refusalOf(predictPlaces({ weights: 'w.safetensors', data, out, format: 'png' }))
  assert.match(predicted('classes', 'elsewhere'), /would replace classes\/bee\/2\.png of data/)
  assert.match(predicted('list.csv', 'elsewhere'), /would replace .*elsewhere\/0\.png of data/)
  assert.match(predicted('elsewhere/0.png', 'elsewhere'), /would replace/)
  assert.is(predicted('pairs/images', 'pairs/out'), '')
  // Data of scripts have their paths, too, and an evaluation has its data.
  assert.match(refusalOf(trainPlaces({ data: dataFiles('flat'), save: 'flat/w.safetensors' })), /read as data/)
  assert.match(refusalOf(trainPlaces({ data: imageFolder('classes'), log: 'classes/log' })), /read as data/)
})

test('a link keeps its place: its target is replaced', () => {
  mkdirSync('links')
  writeFileSync('links/target.txt', 'old')
  symlinkSync('target.txt', 'links/link.txt')
  symlinkSync('missing.txt', 'links/dangling.txt')
  writeWholeText('links/link.txt', 'new')
  writeWholeText('links/dangling.txt', 'new')
  assert.ok(lstatSync('links/link.txt').isSymbolicLink() && lstatSync('links/dangling.txt').isSymbolicLink())
  assert.equal([readFileSync('links/target.txt', 'utf8'), readFileSync('links/missing.txt', 'utf8')], ['new', 'new'])
  writeWholeText('links/link.txt', 'own', 'replace')
  assert.not.ok(lstatSync('links/link.txt').isSymbolicLink())
  assert.is(readFileSync('links/target.txt', 'utf8'), 'new')
  rmSync('links', { recursive: true })
})

// ---------------------------------------------------------------- whole commands

const ended = async (args: readonly string[]): Promise<{ readonly code: number; readonly words: string }> => {
  const words: string[] = []
  const write = process.stderr.write.bind(process.stderr)
  process.stderr.write = (text: string | Uint8Array) => words.push(String(text)) > 0
  try {
    return { code: await main(args), words: words.join('') }
  } finally {
    process.stderr.write = write
  }
}

const LINES: readonly (readonly [line: string, words: RegExp])[] = [
  ['train net.ts --save net.ts', /--save net\.ts would replace net\.ts of the model/],
  ['train net.ts --report part.ts', /--report part\.ts would replace part\.ts of the model's imports/],
  [
    'train net.ts --save w.pth',
    /--save w\.pth: --save writes a safetensors file, but the name ends in \.pth: use w\.safetensors/,
  ],
  ['train net.ts --data flat --save flat/target.npy', /--save flat\/target\.npy is in the folder of --data flat/],
  ['train net.ts --save a --report a', /--save and --report both name a: choose two names/],
  ['train net.ts --log l.csv --report l.csv', /--log and --report both name l\.csv/],
  ['plan net.ts --emit net.ts', /--emit net\.ts would replace net\.ts of the model/],
  ['plan net.ts --save p --emit p', /--save and --emit both name p/],
  ['plan net.ts --report r --trace r', /--report and --trace both name r/],
  ['predict net.ts --weights w.safetensors --data classes --out classes', /--out classes is in the folder of --data classes/],
  [
    'predict net.ts --weights w.safetensors --data flat --out w.safetensors',
    /--out w\.safetensors would replace w\.safetensors of --weights/,
  ],
  ['predict net.ts --weights w.safetensors --data flat --out photo.png', /--out writes .*, but the name ends in \.png/],
  ['export net.ts --weights w.safetensors --out w.safetensors', /--out w\.safetensors would replace w\.safetensors of --weights/],
  ['import x.onnx --out net.ts', /--out net\.ts would replace a file that is not a generated model file/],
  ['evaluate net.ts --weights w.safetensors --data list.csv --out list.csv', /--out list\.csv would replace list\.csv of --data/],
]

for (const [line, expected] of LINES)
  test(`spillway ${line}`, async () => {
    const { code, words } = await ended(line.split(' '))
    assert.match(words, expected)
    assert.is(code, 2)
    assert.equal(bytesIn(root), untouched)
  })

test('an emitted module holds the path and the name of its model as text, whatever they contain', async () => {
  const odd = "odd\n'; process.exit(9); \u2028"
  mkdirSync(odd)
  const file = `ne't\n"\\${'`'}.ts`
  writeFileSync(
    join(odd, file),
    readFileSync('net.ts', 'utf8').replace('./part', '../part').replace('spillway', join(before, 'dsl')),
  )
  const { code, words } = await ended(['plan', join(odd, file), '--machine', 'null', '--emit', 'odd.plan.ts'])
  assert.is(code, 0, words)
  const text = readFileSync('odd.plan.ts', 'utf8')
  const { statements } = ts.createSourceFile('odd.plan.ts', text, ts.ScriptTarget.ES2022)
  const imports = statements.filter(ts.isImportDeclaration).map((s) => (s.moduleSpecifier as ts.StringLiteral).text)
  assert.equal(imports, ['spillway', `./${join(odd, file.replace(/\.ts$/, ''))}`])
  assert.is(statements.length, 3)
  assert.ok(ts.isExportAssignment(statements[2]!))
  // The same name again: a generated module may be replaced.
  assert.is((await ended(['plan', join(odd, file), '--machine', 'null', '--emit', 'odd.plan.ts'])).code, 0)
  rmSync('odd.plan.ts')
  rmSync(odd, { recursive: true })
})

test.run()
