// The command line: `spillway COMMAND`. In: arguments. Out: the exit code; words and JSON on the way. Invariant: errors/errors.ts maps errors to exit
// codes; with --json stdout holds one object. Only the named command is declared, and its own modules are loaded when it runs, so that other commands
// cost nothing.
import { existsSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { type Either, flatMap, isLeft, left, right } from 'fp-ts/Either'
import { type CommandName, COMMANDS } from './cli/commands'
import { live } from './cli/live'
import { type Done, fail, type Output, outputFor, type Runner, watchStreams } from './cli/output'
import { type SpillwayError, SpillwayException, usage } from './errors/errors'
import { nearest } from '../staging/core/nearest'
import { version } from './files/version'

const NAMES = Object.keys(COMMANDS) as readonly CommandName[]

/** Every command with its purpose; the commands of the arguments with all of their options. */
const declareNamed = (program: Command, args: readonly string[], run: Runner): void => {
  for (const name of NAMES) {
    const c = program.command(name).description(COMMANDS[name])
    if (!args.includes(name)) continue
    const flags = require('./cli/flags') as typeof import('./cli/flags')
    flags.declare(c, name, run)
  }
}

/** The command of the arguments. */
const namedIn = (program: Command, args: readonly string[]): Command | undefined =>
  program.commands.find((c) => c.name() === args.find((a) => !a.startsWith('-')))

// ---------------------------------------------------------------- the configuration file

/** Names of the file in the working folder. */
export const CONFIG_FILES = ['ts', 'js', 'mjs', 'cjs', 'json'].map((ending) => `spillway.config.${ending}`)

/** The file of the last --config; null for --no-config, undefined without both. */
const configNamed = (args: readonly string[]): string | null | undefined =>
  args.reduce<string | null | undefined>((before, arg, i) => {
    if (arg === '--no-config') return null
    if (arg.startsWith('--config=')) return arg.slice('--config='.length)
    // The parser refuses a missing value.
    return arg === '--config' && args[i + 1]?.startsWith('--') === false ? args[i + 1] : before
  }, undefined)

/** Returns the configuration file for these arguments, or undefined. */
export const configFile = (args: readonly string[]): Either<SpillwayError, string | undefined> => {
  const given = configNamed(args)
  if (given !== undefined) return right(given ?? undefined)
  const [file, other] = CONFIG_FILES.filter((name) => existsSync(name))
  return other === undefined
    ? right(file)
    : left(usage(`this folder has ${file} and ${other}: remove one of them, or choose one with --config`))
}

/** Gives the command the options of its configuration file. Without a file, it loads no module. */
const configured = (program: Command, args: readonly string[]): Either<SpillwayError, void> => {
  const c = namedIn(program, args)
  if (!c?.options.some((o) => o.long === '--config') || args.includes('--help') || args.includes('-h')) return right(undefined)
  return flatMap((file: string | undefined): Either<SpillwayError, void> => {
    if (file === undefined) return right(undefined)
    const { configure } = require('./cli/config') as typeof import('./cli/config')
    return configure(c, file, args)
  })(configFile(args))
}

// ---------------------------------------------------------------- what commander refuses

const flagsOf = (c: Command): readonly string[] =>
  c.options.map((o) => o.long).filter((l): l is string => l !== undefined && l !== null)

const helpOf = (c?: Command): string => `spillway ${c ? `${c.name()} ` : ''}--help`

/** Commander's refusals in our words, with the nearest flags or commands. */
const refusal = (e: CommanderError, program: Command, args: readonly string[]): SpillwayError => {
  const message = e.message.replace(/^error: /, '').replace(/\s*\(Did you mean[\s\S]*$/, '')
  const current = namedIn(program, args)
  const quoted = /'([^' =]+)/.exec(message)?.[1] ?? ''
  if (e.code === 'commander.unknownOption')
    return usage(message, nearest(quoted, flagsOf(current ?? program), 3), `'${helpOf(current)}' lists all`)
  if (e.code === 'commander.unknownCommand') return usage(message, nearest(quoted, NAMES, 3), `'${helpOf()}' lists all`)
  if (e.code === 'commander.missingArgument' && current)
    return usage(`${message}; use: spillway ${current.name()} ${current.usage()}`)
  return usage(message)
}

const isHelp = (e: CommanderError): boolean => e.exitCode === 0

const newProgram = (out: Output): Command => {
  const quiet = { writeErr: () => {}, outputError: () => {}, writeOut: (text: string) => void out.stream.write(text) }
  const program = new Command('spillway')
    .description('Trains convolutional networks larger than device memory.')
    .version(version())
    .exitOverride()
    .configureOutput(quiet)
    .showSuggestionAfterError(false)
  return program
}

const answered = async (args: readonly string[]): Promise<number> => {
  const out = outputFor(args.includes('--json'))
  const program = newProgram(out)
  let done: Done = left(usage('no command given', NAMES))
  declareNamed(program, args, async (work) => {
    done = await work(out)
  })
  for (const c of program.commands) c.copyInheritedSettings(program)
  if (args.length === 0) {
    program.outputHelp()
    return 2
  }
  try {
    const config = configured(program, args)
    if (isLeft(config)) done = config
    else await program.parseAsync(args, { from: 'user' })
  } catch (e) {
    if (e instanceof CommanderError) {
      if (isHelp(e)) return 0
      done = left(refusal(e, program, args))
    } else if (e instanceof SpillwayException) done = left(e.error)
    else if (isSystemError(e)) done = left({ tag: 'FileRefused', kind: 'output', file: e.path ?? '(unnamed)', reason: e.message })
    else throw e
  }
  // A rank that does not lead ends as it was told.
  return isLeft(done) ? fail(out, done.left) : Number(process.exitCode ?? 0)
}

/** Runs one command line; never throws for anything that a user did. */
export const main = async (args: readonly string[]): Promise<number> => {
  try {
    return await answered(args)
  } finally {
    live.end()
  }
}

/** Errors of the file system: a full disk, a missing folder. */
const isSystemError = (e: unknown): e is NodeJS.ErrnoException =>
  e instanceof Error && typeof (e as NodeJS.ErrnoException).syscall === 'string'

export { watchStreams }

if (require.main === module) {
  watchStreams()
  main(process.argv.slice(2)).then(
    (code) => {
      process.exitCode = code
    },
    (e: unknown) => {
      console.error(e)
      process.exitCode = 1
    },
  )
}
