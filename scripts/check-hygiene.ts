// Forbidden contents of the repository. In: every file that git tracks or would add. Out: forgotten `.only`, paths of a developer's machine, registry
// addresses, conflict marks, oversized files, sources without a header, long lines in docs.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'

interface File {
  readonly name: string
  readonly text: string
}

const MAX_BYTES = 1024 * 1024

/** Each rule finds the offending text in a line. Parts are joined so that this file passes its own check. */
const LINE_RULES: readonly { readonly what: string; readonly finds: RegExp; readonly where?: RegExp }[] = [
  { what: 'a forgotten .only', finds: /^\s*[\w$]+\.only\s*\(/, where: /^test\/.*\.ts$/ },
  {
    what: 'a path of this machine',
    finds: new RegExp(`(^|[\\s'"\`(=:])/(${['work', 'root', 'home/\\w+', 'Users/\\w+'].join('|')})/`),
  },
  {
    what: 'a path of a temporary folder of this machine',
    finds: /(^|[\s'"`(=:])\/(tmp)\/[a-z][\w.-]*\/[\w./-]+/,
    where: /\.(ts|js|json|hpp|cpp|h|md)$/,
  },
  {
    what: 'a registry address',
    finds: new RegExp(`//(${['registry\\.', 'pypi\\.', 'deb\\.', 'files\\.pythonhosted'].join('|')})`),
    // `setup cuda` fetches published wheels from PyPI itself on systems without pip.
    where: /^(?!src\/cuda\/wheels\.ts$)/,
  },
  { what: 'a conflict mark', finds: new RegExp(`^(${'<'.repeat(7)}|${'>'.repeat(7)})( |$)`) },
  { what: 'a tarball address in the lock file', finds: /"resolved"\s*:/, where: /package-lock\.json$/ },
]

const HEADED = /^(src|dsl|staging|models|scripts|bench|native|examples)\/.*\.(ts|js|cpp|hpp|h)$/
const HEADER_LINES = 5
const DOC_COLUMNS = 150

/** The end of a header's opening paragraph: a worked example, or paragraphs of a specification. */
const ENDS_OPENING = /^\/\/\s*$|worked example/i

/** A source opens with a comment: input, output, invariant; at most five lines before anything further. */
const headerProblems = ({ name, text }: File): string[] => {
  if (!HEADED.test(name)) return []
  const lines = text.split('\n').filter((line, index) => !(index === 0 && line.startsWith('#!')))
  const start = lines.findIndex((line) => !/^\s*(#pragma once|\/\/ (serial|timeout \d+))?\s*$/.test(line))
  const header = lines.slice(Math.max(start, 0))
  if (!header[0]?.startsWith('//')) return [`${name}:1: opens without a comment that says what comes in and what goes out`]
  const length = header.findIndex((line, index) => !line.startsWith('//') || (index > 0 && ENDS_OPENING.test(line)))
  return length > HEADER_LINES ? [`${name}:1: opens with ${length} comment lines; at most ${HEADER_LINES}`] : []
}

const lineProblems = ({ name, text }: File): string[] =>
  text
    .split('\n')
    .flatMap((line, index) =>
      LINE_RULES.filter((rule) => (rule.where?.test(name) ?? true) && rule.finds.test(line)).map(
        (rule) => `${name}:${index + 1}: ${rule.what}: ${line.trim().slice(0, 100)}`,
      ),
    )

/** Tables aside, which have no line breaks. */
const docProblems = ({ name, text }: File): string[] =>
  !/^(README|docs\/(internals\/)?[^/]+)\.md$/.test(name)
    ? []
    : text.split('\n').flatMap((line, index) => {
        const isLong = line.length > DOC_COLUMNS && !line.startsWith('|')
        return isLong ? [`${name}:${index + 1}: ${line.length} columns; docs have at most ${DOC_COLUMNS}`] : []
      })

/** An optional package for another platform that npm could not look up stands there without a version, and `npm ci` refuses it. */
const lockProblems = ({ name, text }: File): string[] => {
  if (name !== 'package-lock.json') return []
  const { packages = {} }: { packages?: Record<string, { version?: string; optionalDependencies?: Record<string, string> }> } =
    JSON.parse(text)
  const named = Object.values(packages).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}))
  const known = (dependency: string): boolean =>
    Object.keys(packages).some((place) => place.endsWith(`node_modules/${dependency}`))
  const unknown = named.filter((dependency) => !known(dependency))
  const bare = Object.keys(packages).filter((place) => place !== '' && packages[place]?.version === undefined)
  return [...bare, ...unknown].map((what) => `${name}: ${what} has no locked version: npm ci would refuse the lock file`)
}

const isText = (bytes: Buffer): boolean => !bytes.subarray(0, 8192).includes(0)

/** Tracked files and those that git would add. */
export const filesOf = (root: string): string[] =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: root, encoding: 'utf8' })
    .split('\0')
    .filter((name) => name !== '' && fs.existsSync(path.join(root, name)))

export const hygieneProblems = (root: string): string[] =>
  filesOf(root).flatMap((name) => {
    const bytes = fs.readFileSync(path.join(root, name))
    const size = bytes.length > MAX_BYTES ? [`${name}: ${bytes.length} bytes; at most ${MAX_BYTES} belong in the repository`] : []
    if (!isText(bytes)) return size
    const file = { name, text: bytes.toString('utf8') }
    return [...size, ...lineProblems(file), ...headerProblems(file), ...docProblems(file), ...lockProblems(file)]
  })

if (require.main === module) {
  const problems = hygieneProblems(path.dirname(__dirname))
  for (const problem of problems) console.error(problem)
  console.error(problems.length === 0 ? 'hygiene: fine' : `hygiene: ${problems.length} problems`)
  process.exitCode = problems.length === 0 ? 0 : 1
}
