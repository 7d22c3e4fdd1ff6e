// `spillway new NAME`: a project from a template, which trains at once. In: a name, a template. Out: a folder with a model, a script and their
// settings. Invariant: a folder with files in it is left as it is.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import { attempt } from '../errors/exceptions'
import { packageFolder, version } from '../files/version'
import { madeFolder, writeWholeText } from '../files/whole'
import type { Done, Output } from './output'
import { TEMPLATES, type TemplateName } from './templates'

export interface NewOptions {
  readonly template?: TemplateName
}

/** npm's rule for the name of a package, without scopes. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,213}$/

const named = (name: string): Either<SpillwayError, string> =>
  NAME.test(name)
    ? E.right(name)
    : E.left(
        usage(
          `'${name}' is not a name for a project; allowed: lower-case letters, digits, '.', '_' and '-', and a letter or a digit at the start`,
        ),
      )

const empty = (folder: string): Either<SpillwayError, void> => {
  if (!existsSync(folder)) return E.right(undefined)
  if (!statSync(folder).isDirectory()) return E.left(usage(`${folder} is a file; choose another name, or move it away`))
  const files = readdirSync(folder).sort()
  return files.length === 0
    ? E.right(undefined)
    : E.left(usage(`the folder ${folder} is not empty (${files[0]}); choose another name, or an empty folder`))
}

// ---------------------------------------------------------------- files

/** TypeScript that ts-node runs, and @types/node with its types. */
const TOOLS = { '@types/node': '^20', 'ts-node': '^10.9.2', typescript: '~5.9' }

/** The dependency of a project on this package: the checkout, or the tarball or version of the calling project. */
export const dependencyFor = (project: string, own = packageFolder()): string => {
  const from = (folder: string, path: string): string => `file:${relative(resolve(project), resolve(folder, path))}`
  if (basename(dirname(own)) !== 'node_modules') return from(own, '')
  const caller = dirname(dirname(own))
  const { dependencies, devDependencies } = (attempt(() => JSON.parse(readFileSync(join(caller, 'package.json'), 'utf8'))) ??
    {}) as Readonly<Record<string, Readonly<Record<string, string>> | undefined>>
  const requested = dependencies?.['spillway'] ?? devDependencies?.['spillway']
  if (requested?.startsWith('file:')) return from(caller, requested.slice('file:'.length))
  return requested ?? `^${version()}`
}

const json = (object: object): string => `${JSON.stringify(object, null, 2)}\n`

const settings = (name: string): Readonly<Record<string, string>> => ({
  'package.json': json({
    name,
    version: '0.0.0',
    private: true,
    type: 'commonjs',
    scripts: {
      train: 'ts-node train.ts',
      plan: 'spillway plan net.ts --loss cross-entropy',
      check: 'spillway check net.ts --loss cross-entropy',
    },
    dependencies: { spillway: dependencyFor(name) },
    devDependencies: TOOLS,
  }),
  'tsconfig.json': json({
    compilerOptions: {
      target: 'ES2022',
      module: 'node16',
      moduleResolution: 'node16',
      strict: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: true,
      types: ['node'],
    },
  }),
  '.gitignore': 'node_modules/\nruns/\n*.safetensors\n',
})

/** The files of a project by their names. The pictures are one file for all templates, beside their folders. */
export const filesOf = (template: TemplateName, name: string): Readonly<Record<string, string>> => {
  const from = join(packageFolder(), 'examples', 'templates')
  const text = (file: string): string => readFileSync(join(from, file), 'utf8')
  const own = ['README.md', 'net.ts', 'train.ts'].map((file) => [
    file,
    text(join(template, file)).replaceAll("'../shapes'", "'./shapes'"),
  ])
  return { ...settings(name), ...Object.fromEntries(own), 'shapes.ts': text('shapes.ts') }
}

export const newProject = (name: string, { template = 'classify' }: NewOptions, out: Output): Done =>
  pipe(
    named(name),
    E.tap(empty),
    E.tap(madeFolder),
    E.map(() => Object.entries(filesOf(template, name))),
    E.tap(E.traverseArray(([file, text]) => writeWholeText(join(name, file), text))),
    E.map((files) =>
      out.answer(
        { project: name, template, files: files.map(([file]) => file) },
        [`${name}: ${TEMPLATES[template]}`, '', `  cd ${name}`, '  npm install', '  npm run train'].join('\n'),
      ),
    ),
  )
