// The exports of the package and the options of its functions, with their documentation. In: src/index.ts. Out: for each name its
// summary, its parameters, its examples. Invariant: the texts are those an editor shows on hover.
import { join } from 'node:path'
import * as ts from 'typescript'

export const ROOT = join(__dirname, '../..')
const DOOR = join(ROOT, 'src/index.ts')

export interface Documented {
  readonly name: string
  readonly about: string
  readonly parameters: ReadonlyMap<string, string>
  readonly examples: readonly string[]
  /** It exists for the compiler only. */
  readonly isType: boolean
  /** Another package declares and documents it. */
  readonly isForeign: boolean
}

/** A property of an interface of options. */
export interface Option extends Documented {
  readonly type: string
  readonly isOptional: boolean
}

export interface Api {
  readonly exports: readonly Documented[]
  /** Interfaces of options by name, exported or reached by an exported function. */
  readonly options: ReadonlyMap<string, readonly Option[]>
  /** Declaration of an exported function, without its body and its docs. */
  readonly signature: (name: string) => string
  /** Name of the interface of options that an exported function takes; undefined if it takes none. */
  readonly optionsOf: (name: string) => string | undefined
}

const OPTIONS = /Options$|^PlanByHand$|^TileRange$|^InputOverride$/
/** Interfaces of internal modules with such a name. */
const INTERNAL = ['SweepOptions', 'DeviceOptions', 'MachineOptions', 'SessionOptions', 'FeedOptions', 'LogOptions']
const INTERNAL_FILES = /\/src\/(cli|device)\//

/** The exports by name, for imports. */
export const namesOf = ({ exports: all }: Api): Exported => new Map(all.map((e) => [e.name, e.isType]))
/** For each export: true if it is a type. */
export type Exported = ReadonlyMap<string, boolean>

const isForeign = (s: ts.Symbol): boolean =>
  s.declarations?.every((d) => d.getSourceFile().fileName.includes('node_modules')) === true

const documented = (checker: ts.TypeChecker, name: string, symbol: ts.Symbol): Documented => {
  const tags = symbol.getJsDocTags(checker).map(({ name: tag, text }) => ({ tag, text: ts.displayPartsToString(text) }))
  return {
    name,
    about: ts.displayPartsToString(symbol.getDocumentationComment(checker)),
    parameters: new Map(
      tags.flatMap(({ tag, text }) => {
        const [parameter = '', ...words] = text.split(/\s+/)
        return tag === 'param' ? [[parameter, words.join(' ')]] : []
      }),
    ),
    examples: tags.flatMap(({ tag, text }) => (tag === 'example' ? [text.trim()] : [])),
    isType: (symbol.flags & ts.SymbolFlags.Value) === 0,
    isForeign: isForeign(symbol),
  }
}

const programOf = (): ts.Program =>
  ts.createProgram([DOOR], {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.Node16,
    moduleResolution: ts.ModuleResolutionKind.Node16,
    strict: true,
    skipLibCheck: true,
    types: ['node'],
  })

const optionsIn = (checker: ts.TypeChecker, file: ts.SourceFile): readonly (readonly [string, readonly Option[]])[] =>
  file.statements
    .filter((s): s is ts.InterfaceDeclaration => ts.isInterfaceDeclaration(s) && OPTIONS.test(s.name.text))
    .filter((s) => !INTERNAL.includes(s.name.text) && !INTERNAL_FILES.test(file.fileName))
    .map((s) => [
      s.name.text,
      checker
        .getDeclaredTypeOfSymbol(checker.getSymbolAtLocation(s.name)!)
        .getProperties()
        .map((option) => ({
          ...documented(checker, `${s.name.text}.${option.name}`, option),
          type: typeText(option),
          isOptional: (option.flags & ts.SymbolFlags.Optional) !== 0,
        })),
    ])

/** The written type, without the `undefined` of optional properties; for a type parameter, its bound. */
const typeText = (option: ts.Symbol): string => {
  const declared = option.declarations?.find(ts.isPropertySignature)
  const text = (declared?.type?.getText() ?? '').replace(/ \| undefined$/, '').replace(/\s+/g, ' ')
  const parameters = declared && ts.isInterfaceDeclaration(declared.parent) ? (declared.parent.typeParameters ?? []) : []
  return parameters.find((p) => p.name.text === text)?.constraint?.getText() ?? text
}

export const readApi = (): Api => {
  const program = programOf()
  const checker = program.getTypeChecker()
  const aliased = (s: ts.Symbol): ts.Symbol => (s.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(s) : s)
  const symbols = checker
    .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(DOOR)!)!)
    .map((s) => [s.name, aliased(s)] as const)
  const byName = new Map(symbols)
  const isOwn = ({ fileName }: ts.SourceFile): boolean => /\/(dsl|src)\//.test(fileName) && !fileName.includes('node_modules')
  return {
    exports: symbols.map(([name, symbol]) => documented(checker, name, symbol)),
    options: new Map(
      program
        .getSourceFiles()
        .filter(isOwn)
        .flatMap((file) => optionsIn(checker, file)),
    ),
    signature: (name) => signatureOf(byName.get(name)),
    optionsOf: (name) => /\b(\w+Options)\b/.exec(headOf(byName.get(name)))?.[1],
  }
}

type Made = ts.ArrowFunction | ts.FunctionDeclaration
const functionOf = (symbol: ts.Symbol | undefined): Made | undefined => {
  const [declared] = symbol?.declarations ?? []
  const made = declared && ts.isVariableDeclaration(declared) ? declared.initializer : declared
  return made && (ts.isArrowFunction(made) || ts.isFunctionDeclaration(made)) ? made : undefined
}

/** Type parameters and parameters, as they are written. */
const headOf = (symbol: ts.Symbol | undefined): string => {
  const made = functionOf(symbol)
  return [...(made?.typeParameters ?? []), ...(made?.parameters ?? [])].map((p) => p.getText()).join(', ')
}

/** `conv2d(name, out, kernel, options?)`; a constant is its name. */
const signatureOf = (symbol: ts.Symbol | undefined): string => {
  const made = functionOf(symbol)
  if (!made) return symbol?.name ?? ''
  const parameters = made.parameters.map(
    (p) => `${p.dotDotDotToken ? '...' : ''}${p.name.getText()}${p.questionToken || p.initializer ? '?' : ''}`,
  )
  return `${symbol!.name}(${parameters.join(', ')})`
}
