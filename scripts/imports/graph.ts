// The import graph. In: the checkout. Out: one edge for each import, re-export, dynamic import and require of a source
// file, resolved to a file of the checkout, a package or a Node module.
import * as fs from 'node:fs'
import { builtinModules } from 'node:module'
import * as path from 'node:path'
import * as ts from 'typescript'

export interface Edge {
  readonly from: string
  readonly line: number
  /** `import type` or `export type`: gone at run time. */
  readonly typeOnly: boolean
  readonly target:
    | { readonly tag: 'file'; readonly path: string }
    | { readonly tag: 'package'; readonly name: string }
    | { readonly tag: 'node'; readonly name: string }
    | { readonly tag: 'addon' }
    | { readonly tag: 'nowhere'; readonly request: string }
}

export const SOURCE_FOLDERS = ['src', 'dsl', 'staging', 'models', 'bench', 'examples', 'test', 'scripts'] as const

const isSource = (name: string): boolean => /\.[cm]?tsx?$/.test(name) && !name.endsWith('.d.ts')

export const sourceFiles = (root: string): string[] =>
  SOURCE_FOLDERS.filter((folder) => fs.existsSync(path.join(root, folder)))
    .flatMap((folder) =>
      fs.readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => path.join(folder, name)),
    )
    .filter((file) => isSource(file) && !file.includes('fixtures/'))
    .sort()

const EXTENSIONS = ['', '.ts', '.tsx', '.js', '.json', '/index.ts', '/index.js']

const resolveFile = (root: string, from: string, request: string): string | null => {
  const base = path.join(path.dirname(from), request)
  const isFile = (file: string): boolean => fs.statSync(path.join(root, file), { throwIfNoEntry: false })?.isFile() ?? false
  return EXTENSIONS.map((extension) => base + extension).find(isFile) ?? null
}

const targetOf = (root: string, from: string, request: string): Edge['target'] => {
  if (request.endsWith('.node')) return { tag: 'addon' }
  if (request === 'spillway') return { tag: 'file', path: 'src/index.ts' }
  if (request.startsWith('spillway/models/')) return { tag: 'file', path: `${request.slice('spillway/'.length)}.ts` }
  if (request.startsWith('.') || request.startsWith('/')) {
    const file = resolveFile(root, from, request)
    return file === null ? { tag: 'nowhere', request } : { tag: 'file', path: file }
  }
  if (request.startsWith('node:') || builtinModules.includes(request)) return { tag: 'node', name: request.replace(/^node:/, '') }
  const parts = request.split('/')
  return { tag: 'package', name: parts.slice(0, request.startsWith('@') ? 2 : 1).join('/') }
}

interface Request {
  readonly text: string
  readonly node: ts.Node
  readonly typeOnly: boolean
}

const isTypeOnlyImport = (node: ts.ImportDeclaration): boolean => {
  const clause = node.importClause
  if (!clause) return false
  if (clause.isTypeOnly) return true
  const named = clause.namedBindings
  return (
    !clause.name && !!named && ts.isNamedImports(named) && named.elements.length > 0 && named.elements.every((e) => e.isTypeOnly)
  )
}

const isRequire = (node: ts.CallExpression): boolean =>
  node.expression.kind === ts.SyntaxKind.ImportKeyword ||
  (ts.isIdentifier(node.expression) && node.expression.text === 'require') ||
  /^(require\.resolve|process\.dlopen)$/.test(node.expression.getText())

/** Requests of one file; computed ones (`require(name)`) cannot be seen and are left to review. */
const requestsOf = (source: ts.SourceFile): Request[] => {
  const found: Request[] = []
  const add = (literal: ts.Node | undefined, node: ts.Node, typeOnly: boolean): void => {
    if (literal && ts.isStringLiteralLike(literal)) found.push({ text: literal.text, node, typeOnly })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, node, isTypeOnlyImport(node))
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node, node.isTypeOnly)
    else if (ts.isImportTypeNode(node)) add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined, node, true)
    else if (ts.isExternalModuleReference(node)) add(node.expression, node, false)
    else if (ts.isCallExpression(node) && isRequire(node)) add(node.arguments[0], node, false)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** A path that ends in .node, or a call of dlopen: only one file may know them. */
const loadsAddon = (text: string): boolean => /process\.dlopen\s*\(|['"`/][\w./-]*\w\.node['"`]/.test(text)

export const importsOf = (root: string, file: string): Edge[] => {
  const text = fs.readFileSync(path.join(root, file), 'utf8')
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true)
  const edges = requestsOf(source).map(
    (request): Edge => ({
      from: file,
      line: source.getLineAndCharacterOfPosition(request.node.getStart()).line + 1,
      typeOnly: request.typeOnly,
      target: targetOf(root, file, request.text),
    }),
  )
  const knowsAddon = /^(src|dsl|staging|models)\//.test(file) && loadsAddon(text) && !edges.some((e) => e.target.tag === 'addon')
  return knowsAddon ? [...edges, { from: file, line: 1, typeOnly: false, target: { tag: 'addon' } }] : edges
}
