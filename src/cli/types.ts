// The compiler's messages for a model file. In: the file. Out: the name of the compiler, or its errors with line and column. It is the project's own
// TypeScript from 5.9 on, and this package's otherwise, with the project's tsconfig if there is one; it runs as the program `tsc`, which every
// version has. Invariant: nothing is written except a configuration, below node_modules or with temporary files.
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants as modes, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import { constants, setPriority, tmpdir } from 'node:os'
import { dirname, extname, join, relative, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { constUndefined, pipe } from 'fp-ts/function'
import type { SpillwayError, TypeFault } from '../errors/errors'
import { packageFolder } from '../files/version'

export interface TypesAnswer {
  /** The version of the compiler. */
  readonly typescript: string
}

interface Compiler {
  readonly version: string
  readonly tsc: string
}

const attempt = <A>(f: () => A): A | undefined => E.toUnion(E.tryCatch(f, constUndefined))

/** As Node finds it from a file. */
const found = (from: string, request: string): string | undefined => attempt(() => createRequire(from).resolve(request))

const compilerFrom = (from: string): Compiler | undefined => {
  const manifest = found(from, 'typescript/package.json')
  if (manifest === undefined) return undefined
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string }
  return { version, tsc: join(dirname(manifest), 'bin', 'tsc') }
}

const isNewEnough = ({ version }: Compiler): boolean => {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 5 || (major === 5 && minor >= 9)
}

/** The project's compiler, else one beside this package (a checkout of Spillway has one); undefined if neither is new enough. */
const compilerFor = (file: string): Compiler | undefined =>
  [compilerFrom(file), compilerFrom(__filename)].find((c) => c && isNewEnough(c))

/** TypeScript is an optional peer dependency: only `check` cannot do without it. */
const compilerMissing = (file: string): SpillwayError => {
  const old = compilerFrom(file)
  const found = old === undefined ? 'the project does not have it' : `the project has ${old.version}`
  return {
    tag: 'Usage',
    message: `\`check\` needs TypeScript 5.9 or newer, but ${found}; install it: npm install --save-dev typescript@latest`,
  }
}

/** The nearest of that name, from a folder upwards. */
const above = (folder: string, name: string): string | undefined => {
  const here = join(folder, name)
  if (existsSync(here)) return here
  return dirname(folder) === folder ? undefined : above(dirname(folder), name)
}

const canWrite = (folder: string): boolean => attempt(() => accessSync(folder, modes.W_OK) === undefined) ?? false

/** Below the project's own packages, so that those that declare types are found as from the project. */
const cacheFor = (folder: string): string => {
  const packages = above(folder, 'node_modules')
  return packages !== undefined && canWrite(packages) ? join(packages, '.cache', 'spillway') : tmpdir()
}

const OWN = packageFolder()
/** If the file's project does not have the package, models are loaded with this one, and checked with its types. */
const pathsFor = (file: string): object =>
  found(file, 'spillway/package.json') !== undefined
    ? {}
    : { paths: { spillway: [join(OWN, 'dist/src/index.d.ts')], 'spillway/models/*': [join(OWN, 'dist/models/*.d.ts')] } }

const typesOfNode = (): string => dirname(dirname(found(__filename, '@types/node/package.json')!))

/** For a file in no project. */
const USUAL = {
  strict: true,
  target: 'es2022',
  module: 'esnext',
  moduleResolution: 'bundler',
  esModuleInterop: true,
  types: ['node'],
}

const configFor = (file: string): object => {
  const project = above(dirname(file), 'tsconfig.json')
  const isScript = /^\.[cm]?js$/.test(extname(file))
  return {
    ...(project === undefined ? {} : { extends: project }),
    compilerOptions: {
      ...(project === undefined ? { ...USUAL, typeRoots: [typesOfNode()] } : {}),
      ...pathsFor(file),
      ...(isScript ? { allowJs: true, checkJs: true, noImplicitAny: false } : {}),
      ...{ noEmit: true, emitDeclarationOnly: null, composite: false, incremental: false, tsBuildInfoFile: null },
      ...{ skipLibCheck: true, rootDir: '/' },
    },
    files: [file],
    include: [],
    references: [],
  }
}

/** From here where it is below, else in full. */
const shown = (file: string): string => {
  const from = relative(process.cwd(), file)
  return from.startsWith('..') ? file : from
}

/** `my-net.ts(3,14): error TS2345: …`, and lines that go on with it, further in. */
const faultsIn = (text: string, folder: string): readonly TypeFault[] =>
  text.split(/\n(?=\S)/).flatMap((block) => {
    const [, at, line = 0, column = 0, code, message] =
      /^(?:(.+)\((\d+),(\d+)\): )?error (TS\d+): ([\s\S]*)$/.exec(block.trimEnd()) ?? []
    const file = at === undefined ? '' : shown(resolve(folder, at))
    return code === undefined ? [] : [{ file, line: Number(line), column: Number(column), code, message: message! }]
  })

interface Call {
  readonly folder: string
  readonly config: string
  readonly args: readonly string[]
}
/** Writes the configuration, which the caller removes. */
const callOf = (file: string, { tsc }: Compiler): Call => {
  const folder = cacheFor(dirname(file))
  const config = join(folder, `check-${process.pid}.json`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(config, JSON.stringify(configFor(file)))
  return { folder, config, args: [tsc, '--pretty', 'false', '-p', config] }
}

const answerOf = (file: string, compiler: Compiler): Either<SpillwayError, TypesAnswer> => {
  const { version } = compiler
  const { folder, config, args } = callOf(file, compiler)
  try {
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28 })
    const faults = faultsIn(stdout, folder)
    if (status === 0) return E.right({ typescript: version })
    return E.left(
      faults.length > 0
        ? { tag: 'TypesRefused', file: shown(file), typescript: version, faults }
        : { tag: 'FileRefused', kind: 'model', file, reason: `TypeScript ${version} reports: ${stdout}${stderr}` },
    )
  } finally {
    rmSync(config, { force: true })
  }
}

export const typesOf = (text: string): Either<SpillwayError, TypesAnswer> =>
  pipe(
    resolve(text),
    E.fromPredicate(existsSync, (): SpillwayError => ({ tag: 'FileMissing', kind: 'model', file: text })),
    E.flatMap((file) => {
      const compiler = compilerFor(file)
      return compiler === undefined ? E.left(compilerMissing(file)) : answerOf(file, compiler)
    }),
  )

// ---------------------------------------------------------------- beside a command that loads the file

/** The type check beside other work. */
export interface TypesBeside {
  /** Waits at most this time; an unfinished check is ended, and nothing is printed. */
  readonly end: (mostMs: number) => Promise<void>
}

/** Ends the program when nobody holds the other end of this pipe any more, however its parent ended; on a thread, for `tsc` listens to nothing. */
const WATCH = `new (require('node:net').Socket)({ fd: 3 }).on('error', () => {}).on('close', () => process.kill(process.pid, 'SIGKILL')).resume()`
const WATCHED = `import { Worker } from 'node:worker_threads'; new Worker(${JSON.stringify(WATCH)}, { eval: true, execArgv: [] }).unref()`
const ENDS_WITH_US = ['--import', `data:text/javascript,${encodeURIComponent(WATCHED)}`]

/** A longer check is not quick. */
const MOST_MS = 10_000

/** With a compiler and settings of its own: a project gets no messages that it does not ask for. */
const ownCompiler = (file: string): Compiler | undefined => {
  const own = /^\.[cm]?ts$/.test(extname(file)) && existsSync(file) ? compilerFrom(file) : undefined
  return own && isNewEnough(own) && above(dirname(file), 'tsconfig.json') !== undefined ? own : undefined
}

/** Starts the check of a model file, with lower priority than all other work; `warn` gets the faults at once. */
export const typesBeside = (text: string, warn: (faults: readonly TypeFault[]) => void): TypesBeside | undefined => {
  const file = resolve(text)
  const compiler = ownCompiler(file)
  const call = compiler && attempt(() => callOf(file, compiler))
  if (call === undefined) return undefined
  const child = spawn(process.execPath, [...ENDS_WITH_US, ...call.args], {
    cwd: call.folder,
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
  })
  const open = child.stdio[3] as Socket
  open.on('error', () => {})
  open.unref()
  const clean = (): void => {
    child.kill('SIGKILL')
    rmSync(call.config, { force: true })
  }
  process.once('exit', clean)
  attempt(() => setPriority(child.pid!, constants.priority.PRIORITY_BELOW_NORMAL))
  const late = setTimeout(clean, MOST_MS).unref()
  let printed = ''
  child.stdout?.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const ended = new Promise<void>((done) => {
    child.once('error', () => done())
    child.once('close', (code) => {
      const faults = code === null ? [] : faultsIn(printed, call.folder)
      if (faults.length > 0) warn(faults)
      done()
    })
  })
  return {
    end: async (mostMs) => {
      const given = setTimeout(clean, mostMs)
      await ended
      clearTimeout(given)
      clearTimeout(late)
      process.removeListener('exit', clean)
      clean()
    },
  }
}
