// timeout 120
// The compiled declarations as an editor loads them: sound by themselves, without those of fp-ts and io-ts, whose own functions take
// what they name; a user's declarations can name them, too.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as ts from 'typescript'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fewOrAll, gateTest } from '../full'

const ROOT = join(__dirname, '../..')
const FOLDER = mkdtempSync(join(tmpdir(), 'spillway-declarations-'))
const OPTIONS: ts.CompilerOptions = {
  strict: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  typeRoots: [join(ROOT, 'node_modules/@types')],
  declaration: true,
  emitDeclarationOnly: true,
  skipLibCheck: false,
}

interface Compiled {
  readonly said: readonly string[]
  readonly files: readonly string[]
  readonly declaration: string
}

/** Both programs read the same declarations, which are parsed once. */
const parsed = new Map<string, ts.SourceFile | undefined>()
const host = ts.createCompilerHost(OPTIONS)
const { getSourceFile } = host
host.getSourceFile = (file, ...rest) => {
  if (!file.endsWith('.d.ts')) return getSourceFile(file, ...rest)
  if (!parsed.has(file)) parsed.set(file, getSourceFile(file, ...rest))
  return parsed.get(file)
}

const compiled = (name: string, text: string, more: ts.CompilerOptions = {}): Compiled => {
  const file = join(FOLDER, `${name}.ts`)
  writeFileSync(file, text)
  const program = ts.createProgram([file], { ...OPTIONS, ...more }, host)
  const written: string[] = []
  const { diagnostics } = program.emit(undefined, (_, text) => void written.push(text))
  const said = [...ts.getPreEmitDiagnostics(program), ...diagnostics].map((d) =>
    ts.flattenDiagnosticMessageText(d.messageText, '\n'),
  )
  return { said, files: program.getSourceFiles().map((f) => f.fileName), declaration: written.join('') }
}

test.before(() => {
  mkdirSync(join(FOLDER, 'node_modules'))
  symlinkSync(join(ROOT, 'node_modules/fp-ts'), join(FOLDER, 'node_modules/fp-ts'))
  symlinkSync(ROOT, join(FOLDER, 'node_modules/spillway'))
})

gateTest('no declaration of fp-ts or io-ts is loaded, and exports of a script have names', () => {
  const { said, files, declaration } = compiled(
    'plain',
    `import { model, conv2d, trainTask, tryStage } from 'spillway'
export const net = model([1, 3, 8, 8], conv2d('a', 4, 3))
export const answer = tryStage(net)
export const later = trainTask
export const peak = answer._tag === 'Right' ? answer.right.plan.peakPages.toFixed() : answer.left.tag
`,
  )
  assert.equal(said, [])
  assert.ok(files.some((f) => f.endsWith('/dist/shapes.d.ts')))
  assert.equal(
    files.filter((f) => /\/(fp-ts|io-ts)\//.test(f)),
    [],
  )
  assert.match(declaration, /answer: import\("spillway"\)\.Either<import\("spillway"\)\.SpillwayError, /)
})

/** The newest refuses names that 5.9 takes. */
for (const compiler of fewOrAll(['typescript-newest'], ['typescript', 'typescript-newest']))
  test(`all types of the API can be named in a declaration: ${compiler}`, () => {
    const file = join(FOLDER, 'declared.ts')
    copyFileSync(join(ROOT, 'bench/acceptance/declared.ts'), file)
    const options = ['--strict', '--declaration', '--emitDeclarationOnly', '--outDir', join(FOLDER, 'out'), '--target', 'es2022']
    const modules = ['--module', 'nodenext', '--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')]
    const alone = compiler === 'typescript' ? [] : ['--ignoreConfig']
    const tsc = join(ROOT, 'node_modules', compiler, 'bin/tsc')
    const { stdout, status } = spawnSync(process.execPath, [tsc, ...options, ...modules, ...alone, file], { encoding: 'utf8' })
    assert.is(stdout, '')
    assert.is(status, 0)
    assert.match(readFileSync(join(FOLDER, 'out/declared.d.ts'), 'utf8'), /export declare const own: /)
  })

gateTest("fp-ts's own functions take what the package gives", () => {
  const { said } = compiled(
    'fpts',
    `import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import { type Either, model, conv2d, type SpillwayError, trainTask, tryStage } from 'spillway'
const net = model([1, 3, 8, 8], conv2d('a', 4, 3))
export const pages: number = pipe(tryStage(net), E.map((s) => s.plan.peakPages), E.getOrElse(() => 0))
export const back: Either<SpillwayError, number> = pipe(tryStage(net), E.map(() => 1))
export const steps = pipe(TE.fromEither(tryStage(net)), TE.flatMap((s) => trainTask(net, s, { steps: 1 })))
`,
    // The first test checks the declarations themselves.
    { skipLibCheck: true },
  )
  assert.equal(said, [])
})

test.after(() => rmSync(FOLDER, { recursive: true }))
test.run()
