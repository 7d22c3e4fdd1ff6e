// Examples of the reference as programs. In: texts of `@example`, or blocks of a page. Out: the text with the imports it needs; the errors of
// the compiler, all examples in one program. Invariant: an example is a module of its own in a project that has the package.
// Worked example: `conv2d('conv1', 64, 3)` becomes `import { conv2d } from 'spillway'` and the call.
import { join } from 'node:path'
import * as ts from 'typescript'
import { type Exported, ROOT } from './exports'

/** Names that examples use without declaring them: a model, its plan, a step of two nets. */
export const PRELUDE = `import {
  adam, apply, conv2d, fed, globalAvgPool, loss, maxPool, minimize, model, mse, type PlanModule, relu, seq, sigmoid, type Staged, step, tanh,
} from 'spillway'

export const net = model([8, 3, 64, 64], seq(
  conv2d('conv1', 64, 3), relu(), maxPool('pool1', 2), conv2d('conv2', 64, 3), relu(), maxPool('pool2', 2)))
export declare const plan: Staged<typeof net>
export declare const planned: PlanModule
export declare const pixels: (sample: number) => Float32Array
export declare const labels: (sample: number) => Int32Array
export declare const length: number
export declare const read: (sample: number) => { readonly input: Float32Array; readonly target: Int32Array }
export const generator = seq(conv2d('g', 3, 3), tanh())
export const critic = seq(conv2d('c', 1, 3), sigmoid())
export const gate = seq(globalAvgPool(), sigmoid())
export const same = seq(conv2d('s', 3, 3), relu())
export const label = fed('label', [1, 3, 256, 256])
export const photo = fed('photo', [1, 3, 256, 256])
export const fake = apply(generator, label)
export const judged = apply(critic, fake)
export const objectives = step(minimize('critic', { over: critic, optimizer: adam({ lr: 1e-4 }), losses: { real: loss(mse, judged, 1) } }))
`
export const PRELUDE_NAMES = [...PRELUDE.matchAll(/^export (?:declare )?const (\w+)/gm)].map(([, name]) => name!)

// ---------------------------------------------------------------- imports

/** Identifiers that name a property or a member, not a value of the scope. */
const namesMember = (n: ts.Identifier): boolean => {
  const p = n.parent
  return (
    (ts.isPropertyAccessExpression(p) && p.name === n) ||
    (ts.isPropertyAssignment(p) && p.name === n) ||
    (ts.isPropertySignature(p) && p.name === n) ||
    (ts.isMethodDeclaration(p) && p.name === n) ||
    (ts.isBindingElement(p) && p.propertyName === n) ||
    ts.isNamedTupleMember(p)
  )
}
const declares = (n: ts.Identifier): boolean => {
  const p = n.parent as ts.NamedDeclaration
  return (
    p.name === n &&
    (ts.isVariableDeclaration(p) ||
      ts.isBindingElement(p) ||
      ts.isParameter(p) ||
      ts.isFunctionDeclaration(p) ||
      ts.isTypeAliasDeclaration(p) ||
      ts.isInterfaceDeclaration(p) ||
      ts.isImportSpecifier(p) ||
      ts.isImportClause(p))
  )
}

/** Names that the text uses and does not declare, sorted. */
export const freeNames = (text: string): readonly string[] => {
  const used = new Set<string>()
  const declared = new Set<string>()
  const visit = (n: ts.Node): void => {
    if (ts.isIdentifier(n)) {
      if (declares(n)) declared.add(n.text)
      else if (!namesMember(n)) used.add(n.text)
    }
    ts.forEachChild(n, visit)
  }
  visit(ts.createSourceFile('example.ts', text, ts.ScriptTarget.ES2022, true))
  return [...used].filter((name) => !declared.has(name)).sort((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1))
}

/** The import of those names of the text that the package exports; empty if there are none, or if the text imports itself. */
export const importsFor = (text: string, exported: Exported): string => {
  const names = /^import /m.test(text)
    ? []
    : freeNames(text).filter((name) => exported.has(name) && !PRELUDE_NAMES.includes(name))
  return names.length === 0
    ? ''
    : `import { ${names.map((name) => (exported.get(name) ? `type ${name}` : name)).join(', ')} } from 'spillway'\n`
}

// ---------------------------------------------------------------- the compiler

export interface Example {
  /** The export or the page, for messages. */
  readonly of: string
  readonly text: string
}

const FOLDER = join(ROOT, 'build/examples')

const moduleOf = ({ text }: Example, exported: Exported): string => {
  const given = freeNames(text).filter((name) => PRELUDE_NAMES.includes(name))
  const prelude = given.length === 0 ? '' : `import { ${given.join(', ')} } from './prelude'\n`
  return `${importsFor(text, exported)}${prelude}${text}\nexport {}\n`
}

/** Errors of all examples, each with its export and its text. Nothing is written: the files exist for the compiler only. */
export const faultsOf = (examples: readonly Example[], exported: Exported): readonly string[] => {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ['lib.es2022.d.ts'],
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules/@types')],
    paths: { spillway: [join(ROOT, 'src/index.ts')], 'spillway/models/*': [join(ROOT, 'models/*')] },
    esModuleInterop: true,
    strict: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
  }
  const places = examples.map((_, i) => join(FOLDER, `example${i}.ts`))
  const texts = new Map<string, string>([[join(FOLDER, 'prelude.ts'), PRELUDE]])
  examples.forEach((e, i) => {
    texts.set(places[i]!, moduleOf(e, exported))
  })
  const host = ts.createCompilerHost(options, true)
  const { directoryExists, fileExists, getSourceFile, readFile } = host
  host.directoryExists = (folder) => folder === FOLDER || directoryExists!(folder)
  host.fileExists = (file) => texts.has(file) || fileExists(file)
  host.readFile = (file) => texts.get(file) ?? readFile(file)
  host.getSourceFile = (file, ...rest) => {
    const text = texts.get(file)
    return text === undefined ? getSourceFile(file, ...rest) : ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true)
  }
  const program = ts.createProgram([...texts.keys()], options, host)
  const faults = (file: string): readonly string[] => {
    const source = program.getSourceFile(file)!
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map((d) =>
      ts.flattenDiagnosticMessageText(d.messageText, '\n'),
    )
  }
  return [
    ...faults(join(FOLDER, 'prelude.ts')).map((message) => `prelude: ${message}`),
    ...examples.flatMap(({ of, text }, i) => faults(places[i]!).map((message) => `${of}: ${message}\n${text}`)),
  ]
}
