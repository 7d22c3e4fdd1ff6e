// A program that gives each option of each public function, one call each. In: the declarations of `src/index.ts`. Out: the program, with the places
// of the options. Invariant: a function that takes options by name is in it, without a list of functions.
import { join } from 'node:path'
import * as ts from 'typescript'

const root = join(__dirname, '../..')

/** Parameters with options have one of these types. */
const OPTIONS = /Known<|Checked|Options|Fitting|Source\b/
/** Type parameters that are inferred from options. */
const INFERRED = /^(O|Given)$/

/** The object types that a type consists of. */
const objectsIn = (checker: ts.TypeChecker, type: ts.Type, seen = new Set<ts.Type>()): readonly ts.Type[] => {
  if (seen.has(type)) return []
  seen.add(type)
  if (type.isUnionOrIntersection()) return type.types.flatMap((t) => objectsIn(checker, t, seen))
  const constraint = type.flags & ts.TypeFlags.TypeParameter ? checker.getBaseConstraintOfType(type) : undefined
  if (constraint) return objectsIn(checker, constraint, seen)
  const isList = checker.isArrayType(type) || checker.isTupleType(type)
  return type.flags & ts.TypeFlags.Object && !isList && type.getCallSignatures().length === 0 ? [type] : []
}

const isOwn = ({ declarations = [] }: ts.Symbol): boolean =>
  declarations.some((d) => ts.isPropertySignature(d) && !d.getSourceFile().fileName.includes('node_modules'))

/** Arguments before the options, and options that others need. */
const BEFORE: Readonly<Record<string, readonly [args: string, also?: string]>> = {
  run: ['net, plan, ', 'steps: 1'],
  tryRun: ['net, plan, ', 'steps: 1'],
  train: ['net, plan, ', 'steps: 1'],
  trainTask: ['net, plan, ', 'steps: 1'],
  fit: ['net, plan, ', 'steps: 1'],
  source: ['', 'length: 1, read: () => ({ input: new Uint8Array(1) })'],
  findRate: ['net, plan, '],
  predict: ['net, plan, '],
  evaluate: ['net, plan, '],
  openPredictor: ['net, plan, '],
  stage: ['net, '],
  tryStage: ['net, '],
  stageAsync: ['net, '],
  upsample: ['', 'scale: 2'],
}

/** The type `any` stands for most values. */
const ANY = 'null! as any'
const VALUES: Readonly<Record<string, string>> = {
  groups: '[]',
  // Only images with a size have a fit.
  'source.fit': "'crop', size: [8, 8]",
}

/** Calls of a function with one option each. */
const callsOf = (checker: ts.TypeChecker, name: string, type: ts.Type): readonly string[] => {
  const calls = new Set<string>()
  for (const signature of type.getCallSignatures())
    signature.getParameters().forEach((parameter, at) => {
      const node = (parameter.valueDeclaration as ts.ParameterDeclaration | undefined)?.type
      const text = node?.getText() ?? ''
      if (!node || !OPTIONS.test(text)) return
      const inferred = (signature.typeParameters ?? []).filter(
        ({ symbol }) => INFERRED.test(symbol.name) && text.includes(symbol.name),
      )
      const types = inferred.length > 0 ? inferred : [checker.getTypeFromTypeNode(node)]
      const [before = `${ANY}, `.repeat(at), also] = BEFORE[name] ?? []
      for (const option of types
        .flatMap((t) => objectsIn(checker, t))
        .flatMap((t) => t.getProperties())
        .filter(isOwn)) {
        const given = `${option.name}: ${VALUES[`${name}.${option.name}`] ?? VALUES[option.name] ?? ANY}`
        const others = also === undefined || option.name === 'epochs' ? [] : [also]
        const all = also && new RegExp(`\\b${option.name}\\b`).test(also) ? [also] : [...others, given]
        calls.add(`s.${name}(${before}{ ${all.join(', ')} })`)
      }
    })
  return [...calls]
}

/** The program, and the offsets of the options. */
export const everyOption = (): { readonly text: string; readonly places: readonly number[] } => {
  const entry = join(root, 'src/index.ts')
  const program = ts.createProgram([entry], {
    strict: true,
    module: ts.ModuleKind.Node16,
    moduleResolution: ts.ModuleResolutionKind.Node16,
    target: ts.ScriptTarget.ES2022,
    types: ['node'],
  })
  const checker = program.getTypeChecker()
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!)
  const calls = exported.flatMap((e) => {
    const symbol = e.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(e) : e
    const isCalled = symbol.flags & (ts.SymbolFlags.Function | ts.SymbolFlags.Variable)
    return isCalled ? callsOf(checker, e.name, checker.getTypeOfSymbol(symbol)) : []
  })
  const head = `import * as s from '../../src/index'
const net = s.model([1, 3, 8, 8], s.conv2d('c', 4, 3))
const plan = s.stage(net, { budget: 4000000 })
`
  const text = head + calls.join('\n')
  return { text, places: [...text.matchAll(/\w+: (null! as any|\[\]|1) \}/g)].map((m) => m.index) }
}
