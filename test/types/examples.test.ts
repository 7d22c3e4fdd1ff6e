// timeout 600
// What an editor shows over a name of the API. Every export and every option says what it is; every function, constant and option has an
// example, and all of them compile as they stand.
import { join } from 'node:path'
import * as ts from 'typescript'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { check } from './checker'

const root = join(__dirname, '../..')
const door = join(root, 'src/index.ts')
const program = ts.createProgram([door], {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.Node16,
  moduleResolution: ts.ModuleResolutionKind.Node16,
  strict: true,
  skipLibCheck: true,
  types: ['node'],
})
const checker = program.getTypeChecker()

interface Documented {
  readonly name: string
  readonly about: string
  readonly examples: readonly string[]
  readonly wantsExample: boolean
}

const documented = (name: string, symbol: ts.Symbol, wantsExample: boolean): Documented => ({
  name,
  about: ts.displayPartsToString(symbol.getDocumentationComment(checker)),
  examples: symbol
    .getJsDocTags(checker)
    .filter((tag) => tag.name === 'example')
    .map((tag) => ts.displayPartsToString(tag.text)),
  wantsExample,
})

const aliased = (s: ts.Symbol): ts.Symbol => (s.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(s) : s)
const exported = checker
  .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(door)!)!)
  .map((s) => ({ name: s.name, symbol: aliased(s) }))
  // What other packages define, they document.
  .filter(({ symbol }) => !symbol.declarations?.every((d) => d.getSourceFile().fileName.includes('node_modules')))

/** What users write in braces: the interfaces of options, exported or reached by an exported function. */
const OPTIONS = /Options$|^PlanByHand$|^TileRange$|^InputOverride$/
const isOwn = ({ fileName }: ts.SourceFile): boolean => /\/(dsl|src)\//.test(fileName) && !fileName.includes('node_modules')
/** These are of the inside, whatever they are called. */
const INSIDE = ['SweepOptions', 'DeviceOptions', 'MachineOptions', 'SessionOptions', 'FeedOptions', 'LogOptions']
const inside = (name: string, file: string): boolean =>
  INSIDE.includes(name) || file.includes('/src/cli/') || file.includes('/src/device/')

const optionsIn = (file: ts.SourceFile): readonly Documented[] =>
  file.statements
    .filter((s): s is ts.InterfaceDeclaration => ts.isInterfaceDeclaration(s) && OPTIONS.test(s.name.text))
    .filter((s) => !inside(s.name.text, file.fileName))
    .flatMap((s) =>
      checker
        .getDeclaredTypeOfSymbol(checker.getSymbolAtLocation(s.name)!)
        .getProperties()
        .map((option) => documented(`${s.name.text}.${option.name}`, option, true)),
    )

const all = [
  ...exported.map(({ name, symbol }) => documented(name, symbol, (symbol.flags & ts.SymbolFlags.Value) !== 0)),
  ...program.getSourceFiles().filter(isOwn).flatMap(optionsIn),
]

test('every export and every option says what it is', () => {
  assert.ok(all.length > 250, `${all.length} names`)
  assert.equal(
    all.filter((d) => d.about === '').map((d) => d.name),
    [],
  )
})

test('every function, constant and option has an example', () =>
  assert.equal(
    all.filter((d) => d.wantsExample && d.examples.length === 0).map((d) => d.name),
    [],
  ))

/** What examples speak of: a model, its plan, a step of two nets. */
const values = exported.filter(({ symbol }) => symbol.flags & ts.SymbolFlags.Value).map(({ name }) => name)
const PRELUDE = `import { ${values.join(', ')} } from '../../src'
import type { PlanModule, Staged } from '../../src'
import * as either from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
const net = model([8, 3, 64, 64], seq(
  conv2d('conv1', 64, 3), relu(), maxPool('pool1', 2), conv2d('conv2', 64, 3), relu(), maxPool('pool2', 2)))
declare const plan: Staged<typeof net>
declare const planned: PlanModule
declare const thrown: unknown
declare const pixels: (sample: number) => Float32Array
declare const labels: (sample: number) => Int32Array
declare const length: number
declare const read: (sample: number) => { readonly input: Float32Array; readonly target: Int32Array }
const generator = seq(conv2d('g', 3, 3), tanh())
const critic = seq(conv2d('c', 1, 3), sigmoid())
const gate = seq(globalAvgPool(), sigmoid())
const same = seq(conv2d('s', 3, 3), relu())
const label = fed('label', [1, 3, 256, 256])
const photo = fed('photo', [1, 3, 256, 256])
const fake = apply(generator, label)
const judged = apply(critic, fake)
const objectives = step(minimize('critic', { over: critic, optimizer: adam({ lr: 1e-4 }), losses: { real: loss(mse, judged, 1) } }))
`

const examples = all.flatMap(({ name, examples }) => examples.map((text) => ({ name, text })))

test('every example compiles as it stands', () => {
  const bodies = examples.map(({ text }, i) => `export const example${i} = async () => {\n${text}\n}\n`)
  const program = `${PRELUDE}${bodies.join('')}`
  const firstLine = PRELUDE.split('\n').length
  const lines = bodies.map((body) => body.split('\n').length - 1)
  const starts = [...lines, 0].map((_, i) => firstLine + lines.slice(0, i).reduce((n, more) => n + more, 0))
  const wrong = check({ examples: program })
    .places('examples')
    .map(({ line, message }) => {
      const i = starts.findIndex((start, k) => line >= start && line < starts[k + 1]!)
      return i < 0 ? `prelude, line ${line}: ${message}` : `${examples[i]!.name}: ${examples[i]!.text}: ${message}`
    })
  assert.equal(wrong, [])
})

test.run()
