// The type checker as a test instrument. In: programs as text, placed in a folder of this repository without being written there. Out: their error
// messages, an editor's hover texts, and the cost of checking. Invariant: strict options, as in tsconfig.json, if no others are given; errors
// anywhere else than in the given programs are thrown.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import * as ts from 'typescript'

const root = join(__dirname, '../..')
const folder = join(root, 'test/types')

const options: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.Node16,
  moduleResolution: ts.ModuleResolutionKind.Node16,
  lib: ['lib.es2022.d.ts'],
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: true,
  esModuleInterop: true,
  noEmit: true,
  noErrorTruncation: true,
}

export type Programs = Readonly<Record<string, string>>

const pathOf = (name: string): string => join(folder, `${name}.ts`)

const hostOf = (programs: Programs, more: ts.CompilerOptions = {}): ts.LanguageServiceHost => {
  const text = (path: string): string | undefined => {
    const name = Object.keys(programs).find((n) => pathOf(n) === path)
    return name === undefined ? ts.sys.readFile(path) : programs[name]
  }
  return {
    getCompilationSettings: () => ({ ...options, ...more }),
    getScriptFileNames: () => Object.keys(programs).map(pathOf),
    getScriptVersion: () => '1',
    getScriptSnapshot: (path) => {
      const t = text(path)
      return t === undefined ? undefined : ts.ScriptSnapshot.fromString(t)
    },
    getCurrentDirectory: () => root,
    getDefaultLibFileName: (o) => ts.getDefaultLibFilePath(o),
    fileExists: (path) => existsSync(path) || Object.keys(programs).some((n) => pathOf(n) === path),
    readFile: text,
    directoryExists: ts.sys.directoryExists,
    getDirectories: ts.sys.getDirectories,
  }
}

export interface Checked {
  /** Messages of one program, without their places. */
  readonly errors: (name: string) => readonly string[]
  /** The same with the lines where they stand, from 1. */
  readonly places: (name: string) => readonly { readonly line: number; readonly message: string }[]
  /** An editor's text over the first place of `text`. */
  readonly hover: (name: string, text: string) => string
  /** The text that an editor shows for the first place where `text` stands. */
  readonly docs: (name: string, text: string) => string
  /** All options that are given in a program, with their texts. */
  readonly allDocs: (name: string) => readonly { readonly option: string; readonly text: string }[]
  /** The type of a top-level constant, written out. */
  readonly typeOf: (name: string, constant: string) => string
  /** The names that an editor offers at the end of the first place where `text` stands. */
  readonly completions: (name: string, text: string) => readonly string[]
}

const placeOf = (programs: Programs, name: string, text: string): number => {
  const at = programs[name]?.indexOf(text) ?? -1
  if (at < 0) throw new Error(`program '${name}' has no '${text}'`)
  return at
}

/**
 * Parsed files on disk are the same for all programs of a process; the given programs are parsed for each. (Parsing the DSL, `src` and
 * Node's types takes a second.)
 */
const onDisk = ts.createDocumentRegistry()
const registryFor = (programs: Programs): ts.DocumentRegistry => {
  const own = ts.createDocumentRegistry()
  const paths = new Set(Object.keys(programs).map(pathOf))
  const of = (path: string): ts.DocumentRegistry => (paths.has(path) ? own : onDisk)
  return {
    acquireDocument: (path, ...rest) => of(path).acquireDocument(path, ...rest),
    acquireDocumentWithKey: (path, ...rest) => of(path).acquireDocumentWithKey(path, ...rest),
    updateDocument: (path, ...rest) => of(path).updateDocument(path, ...rest),
    updateDocumentWithKey: (path, ...rest) => of(path).updateDocumentWithKey(path, ...rest),
    getKeyForCompilationSettings: (settings) => onDisk.getKeyForCompilationSettings(settings),
    // Files on disk stay.
    releaseDocument: () => {},
    releaseDocumentWithKey: () => {},
    reportStats: () => onDisk.reportStats(),
  }
}

/** Files without errors under these options, in any program. */
const faultless = new Set<string>()

const outsideErrors = (program: ts.Program, programs: Programs, more: ts.CompilerOptions): void => {
  const own = new Set(Object.keys(programs).map(pathOf))
  for (const f of program.getSourceFiles()) {
    if (own.has(f.fileName) || (!f.fileName.startsWith(join(root, 'dsl')) && !f.fileName.startsWith(join(root, 'models'))))
      continue
    const key = `${JSON.stringify(more)} ${f.fileName}`
    if (faultless.has(key)) continue
    faultless.add(key)
    const [e] = program.getSemanticDiagnostics(f)
    if (e) throw new Error(`${f.fileName}: ${ts.flattenDiagnosticMessageText(e.messageText, '\n')}`)
  }
}

/** With other options of the compiler, too. */
export const check = (programs: Programs, more: ts.CompilerOptions = {}): Checked => {
  const service = ts.createLanguageService(hostOf(programs, more), registryFor(programs))
  const program = service.getProgram()
  if (!program) throw new Error('the language service has no program')
  // The sources themselves are written for strict options; users without these read declarations.
  if (more.strict !== false) outsideErrors(program, programs, more)
  const checker = program.getTypeChecker()
  const places: Checked['places'] = (name) =>
    [...service.getSyntacticDiagnostics(pathOf(name)), ...service.getSemanticDiagnostics(pathOf(name))].map((d) => ({
      line: 1 + (d.file?.getLineAndCharacterOfPosition(d.start ?? 0).line ?? 0),
      message: ts.flattenDiagnosticMessageText(d.messageText, '\n'),
    }))
  return {
    places,
    errors: (name) => places(name).map((p) => p.message),
    hover: (name, text) =>
      ts.displayPartsToString(service.getQuickInfoAtPosition(pathOf(name), placeOf(programs, name, text))?.displayParts),
    docs: (name, text) =>
      ts.displayPartsToString(service.getQuickInfoAtPosition(pathOf(name), placeOf(programs, name, text))?.documentation),
    allDocs: (name) => {
      const file = program.getSourceFile(pathOf(name))!
      const given = (node: ts.Node): readonly ts.PropertyAssignment[] => [
        ...(ts.isPropertyAssignment(node) ? [node] : []),
        ...node.getChildren(file).flatMap(given),
      ]
      return given(file).map((node) => ({
        option: node.getText(file),
        text: ts.displayPartsToString(service.getQuickInfoAtPosition(pathOf(name), node.getStart(file))?.documentation),
      }))
    },
    typeOf: (name, constant) => {
      const file = program.getSourceFile(pathOf(name))!
      const symbol = checker.getSymbolsInScope(file, ts.SymbolFlags.Variable).find((s) => s.name === constant)
      if (!symbol) throw new Error(`program '${name}' has no constant '${constant}'`)
      return checker.typeToString(
        checker.getTypeOfSymbolAtLocation(symbol, file),
        file,
        ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.InTypeAlias,
      )
    },
    completions: (name, text) =>
      (service.getCompletionsAtPosition(pathOf(name), placeOf(programs, name, text) + text.length, {})?.entries ?? []).map(
        (e) => e.name,
      ),
  }
}

export interface Cost {
  readonly instantiations: number
  /** This process's own time: a busy machine does not count. */
  readonly seconds: number
}

/** The cost of checking one program with all of its imports. */
export const costOf = (text: string): Cost => {
  const programs = { cost: text }
  const service = ts.createLanguageService(hostOf(programs), registryFor(programs))
  const program = service.getProgram()! as ts.Program & { getInstantiationCount(): number }
  const start = process.cpuUsage()
  const errors = program.getSemanticDiagnostics(program.getSourceFile(pathOf('cost')))
  const { user, system } = process.cpuUsage(start)
  const seconds = (user + system) / 1e6
  if (errors.length > 0) throw new Error(ts.flattenDiagnosticMessageText(errors[0]!.messageText, '\n'))
  return { instantiations: program.getInstantiationCount(), seconds }
}

/** The properties of each type that a module exports under such a name. */
export const exportedKeys = (file: string, name: RegExp): ReadonlyMap<string, readonly string[]> => {
  const path = join(root, file)
  // Programs that are checked later share the parsed files.
  const host = { ...hostOf({}), getScriptFileNames: () => [path] }
  const program = ts.createLanguageService(host, registryFor({})).getProgram()!
  const checker = program.getTypeChecker()
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(path)!)!)
  const keysOf = (s: ts.Symbol): readonly string[] => {
    const declared = checker.getDeclaredTypeOfSymbol(s.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(s) : s)
    const types = declared.isUnion() ? declared.types : [declared]
    return [...new Set(types.flatMap((t) => checker.getPropertiesOfType(t).map((p) => p.name)))]
  }
  return new Map(exported.filter((s) => name.test(s.name)).map((s) => [s.name, keysOf(s)]))
}

/** Runs a program, types ignored, as a JavaScript user's would run; returns its exports, or throws its error. */
export const runProgram = (text: string): Readonly<Record<string, unknown>> => {
  const js = ts.transpileModule(text, {
    compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022, esModuleInterop: true },
  })
  const module = { exports: {} as Record<string, unknown> }
  const load = (id: string): unknown => require(join(folder, id))
  new Function('require', 'module', 'exports', js.outputText)(load, module, module.exports)
  return module.exports
}
