// The amount of hand-written code. In: roots of checkouts (`count-statements.ts [ROOT …] [--apart REGEX] [--out FILE]`, default this one). Out: a
// table of statements in dsl, staging, src and native, without tests and generated code; statements of files whose path matches REGEX, such as those
// of new operators, apart; the same as JSON into FILE. Invariant: line breaks and formatting change no count. A statement is, in TypeScript, each one
// of the syntax tree but blocks, a function that is an expression, a member of a type; in C++ each semicolon outside a for's head, each if, for,
// while, switch and try, each body, each member that is initialised.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import * as ts from 'typescript'

const PARTS = ['dsl', 'staging', 'src', 'native'] as const
const APART = 'apart'
const ROWS = [...PARTS, APART]
const GENERATED = /^(native\/gen\/|dsl\/numbers\/tables\.ts$)/
/** Test code that older checkouts keep beside the product's. */
const TESTS = /^native\/(imitation\/|tools\/(fuzz|mutate))/

const COUNTED = new Set([ts.SyntaxKind.PropertySignature, ts.SyntaxKind.MethodSignature, ts.SyntaxKind.PropertyDeclaration])

const ofTypeScript = (file: string, text: string): number => {
  let count = 0
  const visit = (node: ts.Node): void => {
    const isStatement = node.kind >= ts.SyntaxKind.FirstStatement && node.kind <= ts.SyntaxKind.LastStatement
    const isDeclaration = ts.isDeclarationStatement(node) && !ts.isModuleBlock(node)
    const isBlock = ts.isBlock(node) || ts.isEmptyStatement(node)
    const isExpression = ts.isArrowFunction(node) && !ts.isBlock(node.body)
    const isMethod = ts.isMethodDeclaration(node) || ts.isConstructorDeclaration(node) || ts.isAccessor(node)
    if ((isStatement && !isBlock) || isDeclaration || isExpression || isMethod || COUNTED.has(node.kind)) count++
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true))
  return count
}

/** Comments, texts and macros' line ends gone: names, numbers and signs are left. */
const TOKEN =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|R"(\w*)\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|#\s*(?:include|pragma)[^\n]*|::|->|[A-Za-z_]\w*|\d[\w.']*|[^\s\w]/g
const tokensOf = (text: string): string[] =>
  [...text.matchAll(TOKEN)].map(([t]) => t).filter((t) => !/^(\/\/|\/\*|#\s*\w)/.test(t))

const CONTROL = new Set(['if', 'for', 'while', 'switch', 'try'])
/** Tokens between a function's arguments and its body. */
const BEFORE_BODY = new Set([')', 'const', 'noexcept', 'override', 'mutable', 'final'])

/** The index behind the bracket that closes the one at `from`. */
const behind = (tokens: readonly string[], from: number): number => {
  let depth = 0
  for (let i = from; i < tokens.length; i++) {
    if (/^[([{]$/.test(tokens[i]!)) depth++
    else if (/^[)\]}]$/.test(tokens[i]!) && --depth === 0) return i + 1
  }
  return tokens.length
}

/** Members that `: a(x), b{y} {` initialises, from its colon on, and its body; 0 when it is another colon. */
const initialised = (tokens: readonly string[], colon: number): number => {
  let count = 0
  for (let i = colon; tokens[i] === (count === 0 ? ':' : ','); count++) {
    let opens = i + 1
    while (/^(\w+|::)$/.test(tokens[opens] ?? '')) opens++
    if (opens === i + 1 || !/^[({]$/.test(tokens[opens] ?? '')) return 0
    i = behind(tokens, opens)
    // A body behind a bracket that is no `)` is not seen as a function's by itself.
    if (tokens[i] === '{') return count + (tokens[i - 1] === ')' ? 1 : 2)
  }
  return 0
}

/** Returns true if the bracket at `at` opens a function's body; a result's type may precede it. */
const opensBody = (tokens: readonly string[], at: number): boolean => {
  let before = at - 1
  while (/^([A-Za-z_]\w*|::|[<>,*&])$/.test(tokens[before] ?? '') && !BEFORE_BODY.has(tokens[before]!)) before--
  return tokens[before] === '->' || BEFORE_BODY.has(tokens[at - 1] ?? '')
}

const ofCpp = (text: string): number => {
  const tokens = tokensOf(text)
  const open: string[] = []
  /** True if the last closed brackets were those of a control statement. */
  const heads: boolean[] = []
  let count = 0
  let closedHead = false
  for (const [i, token] of tokens.entries()) {
    if (CONTROL.has(token)) count++
    if (token === ';' && open.at(-1) !== '(') count++
    if (token === ':' && BEFORE_BODY.has(tokens[i - 1] ?? '')) count += initialised(tokens, i)
    if (token === '{' && opensBody(tokens, i) && !(tokens[i - 1] === ')' && closedHead)) count++
    if (/^[([{]$/.test(token)) {
      open.push(token)
      const before = tokens[i - 1] === 'constexpr' ? tokens[i - 2] : tokens[i - 1]
      heads.push(token === '(' && CONTROL.has(before ?? ''))
    } else if (/^[)\]}]$/.test(token)) {
      open.pop()
      closedHead = heads.pop() ?? false
    }
  }
  return count
}

export const statementsIn = (file: string, text: string): number =>
  file.endsWith('.ts') ? ofTypeScript(file, text) : ofCpp(text)

const isCounted = (file: string): boolean =>
  PARTS.some((part) => file.startsWith(`${part}/`)) &&
  /\.(ts|cpp|hpp|h|cu|cuh)$/.test(file) &&
  !GENERATED.test(file) &&
  !TESTS.test(file)

/** Generated files say so in their first line. */
const isGenerated = (text: string): boolean => /^\/\/ Generated\b/.test(text)

export interface Count {
  readonly files: number
  readonly statements: number
}

const countOf = (root: string, apart: RegExp): Readonly<Record<string, Count>> => {
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).split('\n')
  const counted = files.filter(isCounted).flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    const part = apart.test(file) ? APART : file.split('/')[0]!
    return isGenerated(text) ? [] : [{ part, statements: statementsIn(file, text) }]
  })
  const sumOf = (some: typeof counted): Count => ({ files: some.length, statements: some.reduce((n, f) => n + f.statements, 0) })
  return {
    ...Object.fromEntries(ROWS.map((part) => [part, sumOf(counted.filter((f) => f.part === part))])),
    total: sumOf(counted.filter((f) => f.part !== APART)),
  }
}

const main = (args: readonly string[]): void => {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { out: { type: 'string' }, apart: { type: 'string', default: '^$' } },
  })
  const roots = positionals.length > 0 ? positionals : ['.']
  const counts = roots.map((root) => ({ commit: commitOf(root), counts: countOf(root, new RegExp(values.apart)) }))
  console.log(['part'.padEnd(9), ...roots.map((root) => basename(resolve(root)).padStart(20))].join(' '))
  for (const part of [...ROWS, 'total']) {
    const cells = counts.map((c) => `${c.counts[part]!.statements} in ${c.counts[part]!.files} files`.padStart(20))
    console.log([part.padEnd(9), ...cells].join(' '))
  }
  if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify({ apart: values.apart, counts }, null, 2)}\n`)
}

const commitOf = (root: string): string =>
  execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim()

if (require.main === module) main(process.argv.slice(2))
