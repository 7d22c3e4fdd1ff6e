// `npm run bench -- NAME`: runs one bench of the table. In: command-line arguments. Out: the bench's own output and exit code; without a name, the
// table; with --help, the options of a name. Wrong names and options end with code 2 and the nearest legal one.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { nearest } from '../staging/core/nearest'
import { BENCHES, type Suite } from './table'

type Suites = Readonly<Record<string, Suite>>
const TABLE: Readonly<Record<string, Suites>> = BENCHES

class Wrong extends Error {}

/** The command of each suite, as it is typed. */
const COMMANDS = Object.entries(TABLE).flatMap(([name, suites]) =>
  Object.keys(suites).map((suite, i) => ({ suite, command: i === 0 ? name : `${name} --suite ${suite}` })),
)

/** Throws with the nearest of `known`. Suites are known by their own names, too. */
const refuse = (kind: string, given: string, known: readonly string[], commands: typeof COMMANDS = []): never => {
  const [close = ''] = nearest(given, [...known, ...commands.map((c) => c.suite)], 1)
  const near = known.includes(close) ? close : commands.find((c) => c.suite === close)!.command
  throw new Wrong(`there is no ${kind} '${given}'; did you mean '${near}'? There are: ${known.join(', ')}`)
}

const tableText = (): string =>
  Object.entries(TABLE)
    .flatMap(([name, suites]) => [
      name,
      ...Object.entries(suites).map(
        ([suite, { text, takes, needs }]) =>
          `  ${suite.padEnd(14)} ${text} (${takes}${needs === undefined ? '' : `, needs ${needs}`})`,
      ),
    ])
    .join('\n')

const helpText = (name: string, suites: Suites): string =>
  Object.entries(suites)
    .flatMap(([suite, { text, writes, takes, needs, names, options }], i) => [
      `npm run bench -- ${name}${i === 0 ? '' : ` --suite ${suite}`}${names === undefined ? '' : ` ${names}`}`,
      `  ${text}`,
      `  takes ${takes}${needs === undefined ? '' : `, needs ${needs}`}; writes ${writes.join(', ') || 'no file'}`,
      ...Object.entries(options).map(([option, o]) => {
        const standard = o.default === undefined ? '' : ` (default ${o.default})`
        return `  ${`--${option}${o.value === undefined ? '' : ` ${o.value}`}`.padEnd(18)} ${o.text}${standard}`
      }),
    ])
    .join('\n')

/** Checks the arguments that the suite's module parses. */
const check = (args: readonly string[], { options, names }: Suite): void => {
  const known = Object.fromEntries(
    Object.entries(options).map(([name, o]) => [name, { type: o.value === undefined ? 'boolean' : 'string' } as const]),
  )
  const { tokens } = parseArgs({ args: [...args], options: known, strict: false, tokens: true, allowPositionals: true })
  for (const token of tokens) {
    if (token.kind === 'option' && !(token.name in options))
      refuse(
        'option',
        token.rawName,
        Object.keys(options).map((o) => `--${o}`),
      )
    if (token.kind === 'option' && options[token.name]?.value !== undefined && token.value === undefined)
      throw new Wrong(`${token.rawName} needs a value: ${token.rawName} ${options[token.name]!.value}`)
    if (token.kind === 'positional' && names === undefined) throw new Wrong(`'${token.value}': this bench takes options only`)
  }
}

/** Runs the suite in a process of its own. Returns its exit code. */
const run = (all: readonly string[]): number => {
  const [name, ...given] = all
  if (name === undefined || name === '--help') {
    console.log(`${tableText()}\nnpm run bench -- NAME --help shows the options. A name without --suite runs its first suite.`)
    return 0
  }
  const suites = TABLE[name] ?? refuse('bench', name, Object.keys(TABLE), COMMANDS)
  if (given.includes('--help')) {
    console.log(helpText(name, suites))
    return 0
  }
  const at = given.indexOf('--suite')
  const chosen = at < 0 ? Object.keys(suites)[0]! : (given[at + 1] ?? '')
  const suite = suites[chosen] ?? refuse('suite', chosen, Object.keys(suites))
  const args = at < 0 ? given : [...given.slice(0, at), ...given.slice(at + 2)]
  check(args, suite)
  const own = suite.file === 'cpu/run.ts' ? ['--suite', chosen] : []
  return (
    spawnSync(process.execPath, [...process.execArgv, join(__dirname, suite.file), ...own, ...args], { stdio: 'inherit' })
      .status ?? 1
  )
}

try {
  process.exitCode = run(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof Wrong)) throw error
  console.error(error.message)
  process.exitCode = 2
}
