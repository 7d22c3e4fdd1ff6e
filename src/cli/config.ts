// The options of a configuration file. In: the file, a command with its declared flags. Out: the command with the options that the command line does not
// give; a note of them. Invariant: the parser of the flag reads each value as text, so a file and a flag get the same errors.
// Worked example: { train: { batch: 8, shuffle: false, freeze: ['a.*', 'b.*'] } } is `--batch 8 --no-shuffle --freeze 'a.*' --freeze 'b.*'`.
import { extname } from 'node:path'
import type { Argument, Command, Option } from 'commander'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { show } from '../../dsl/decode'
import { lacksDefault, unwrapped } from '../../dsl/load'
import { parsedJson } from '../../staging/core/codecs'
import { nearest } from '../../staging/core/nearest'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { onRefusal } from '../errors/exceptions'
import { configuredBy } from '../files/configured'
import { readText } from '../files/whole'
import { startedBy } from '../ranks/engine'
import { COMMANDS } from './commands'
import { CODE_FILES, loaded } from './load'
import { readingCode } from './modelreads'
import { isRepeatable } from './options'
import { note } from './output'

/** An option of the file: its parsed value, and the flags that give it. */
interface Setting {
  readonly key: string
  readonly value: unknown
  readonly flags: readonly string[]
}

type Section = Readonly<Record<string, unknown>>

/** Flags of the command line only. */
const TYPED_ONLY = ['json', 'config']

/** Options that exclude each other: a flag for one replaces the other in the file. */
const RIVALS: Readonly<Record<string, string>> = { steps: 'epochs', epochs: 'steps', device: 'machine', machine: 'device' }

/** A plain object: a promise or a map would have no keys. */
const isSection = (u: unknown): u is Section =>
  typeof u === 'object' && u !== null && [Object.prototype, null].includes(Object.getPrototypeOf(u))

/** Places a fault in the file. */
const inFile =
  (file: string, at?: string) =>
  (e: SpillwayError): SpillwayError =>
    e.tag === 'Usage' ? { ...e, message: `${file}: ${at === undefined ? '' : `${at}: `}${e.message}` } : e

// ---------------------------------------------------------------- the file

/** JSON is data; any other file is code. */
const contentOf = (file: string): Either<SpillwayError, unknown> => {
  const refused = (reason: string): SpillwayError => ({ tag: 'FileRefused', kind: 'configuration', file, reason })
  if (extname(file) === '.json')
    return pipe(
      readText('configuration', file),
      E.flatMap((text) => E.mapLeft(refused)(parsedJson(text))),
    )
  if (!CODE_FILES.includes(extname(file)))
    return E.left(usage(`--config ${file}: its name has another ending; allowed: .json, ${CODE_FILES.join(', ')}`))
  return pipe(
    loaded('configuration', file),
    E.filterOrElse(
      (exported) => !lacksDefault(exported),
      () => refused('it has no default export; add: export default defineConfig({ … })'),
    ),
    E.map(unwrapped),
  )
}

/** The part of a command; all names of commands are checked. */
const sectionOf = (file: string, command: string): Either<SpillwayError, Section> =>
  pipe(
    contentOf(file),
    E.flatMap((content) => {
      if (!isSection(content))
        return E.left(usage(`${file}: it is ${show(content)}; allowed: an object with commands, e.g. { train: { batch: 8 } }`))
      const names = Object.keys(COMMANDS)
      const unknown = Object.keys(content).find((name) => !names.includes(name))
      if (unknown !== undefined) return E.left(inFile(file)(unknownName('command', unknown, names)))
      const section = content[command] ?? {}
      return isSection(section)
        ? E.right(section)
        : E.left(usage(`${file}: ${command} is ${show(section)}; allowed: an object with options, e.g. { batch: 8 }`))
    }),
  )

// ---------------------------------------------------------------- an option

const isText = (u: unknown): u is string | number => typeof u === 'string' || typeof u === 'number'

/** The texts of a value, as flags have them: one, or several of a repeatable option. */
const textsOf = (o: Option, value: unknown): readonly string[] | undefined => {
  if (isText(value)) return [String(value)]
  if (!Array.isArray(value) || !value.every(isText)) return undefined
  return isRepeatable(o) ? value.map(String) : [value.join(',')]
}

const wrong = (value: unknown, allowed: string): Either<SpillwayError, never> =>
  E.left(usage(`it is ${show(value)}; allowed: ${allowed}`))

/** A switch, or an option with an optional value. */
const switched = (options: readonly Option[], key: string, value: boolean): Either<SpillwayError, Setting | undefined> => {
  const o = options.find((other) => other.negate !== value)
  if (o && !o.required) return E.right({ key, value, flags: [o.long!] })
  // Without a negative flag, false is the absence of the flag.
  if (!value && options.every((other) => !other.required)) return E.right(undefined)
  return wrong(value, `a string, a number or a list${options.some((other) => other.negate) ? ', or false' : ''}`)
}

/** An option by its value; undefined if it changes nothing. */
const settingOf = (options: readonly Option[], key: string, value: unknown): Either<SpillwayError, Setting | undefined> => {
  if (value === undefined) return E.right(undefined)
  if (typeof value === 'boolean') return switched(options, key, value)
  const o = options.find((other) => !other.negate)!
  if (o.isBoolean()) return wrong(value, 'true or false')
  const texts = textsOf(o, value)
  if (texts === undefined) return wrong(value, 'a string, a number, true, false, or a list of strings and numbers')
  if (texts.length === 0) return E.right(undefined)
  const { long, parseArg: parse } = o
  return pipe(
    onRefusal(() => (parse ? texts.reduce<unknown>((before, text) => parse(text, before), undefined) : texts[0])),
    E.map((parsed) => ({ key, value: parsed, flags: texts.flatMap((text) => [long!, text]) })),
  )
}

/** The argument MODEL, which a file may give, too. */
const modelArgument = (c: Command): Argument | undefined => c.registeredArguments.find((a) => a.name() === 'model')

const modelSetting = (value: unknown): Either<SpillwayError, Setting | undefined> =>
  value === undefined
    ? E.right(undefined)
    : typeof value === 'string' && !value.startsWith('-')
      ? E.right({ key: 'model', value, flags: [value] })
      : wrong(value, 'a zoo network or a model file')

const settingsIn = (file: string, c: Command, section: Section): Either<SpillwayError, readonly Setting[]> => {
  const byKey = new Map<string, readonly Option[]>()
  for (const o of c.options) {
    const key = o.attributeName()
    if (!TYPED_ONLY.includes(key)) byKey.set(key, [...(byKey.get(key) ?? []), o])
  }
  const keys = [...byKey.keys(), ...(modelArgument(c) ? ['model'] : [])]
  return pipe(
    Object.entries(section),
    E.traverseArray(([key, value]): Either<SpillwayError, Setting | undefined> => {
      const options = byKey.get(key)
      if (options) return E.mapLeft(inFile(file, `${c.name()}.${key}`))(settingOf(options, key, value))
      if (key === 'model' && modelArgument(c)) return E.mapLeft(inFile(file, `${c.name()}.model`))(modelSetting(value))
      const message = `${file}: '${key}' is not an option of ${c.name()}`
      return E.left(usage(message, nearest(key, keys, 3), `'spillway ${c.name()} --help' lists all`))
    }),
    E.map((settings) => settings.filter((s) => s !== undefined)),
  )
}

// ---------------------------------------------------------------- the command

/** True if the command line does not give the option, or another one in its place. */
const isOpen =
  (c: Command) =>
  ({ key }: Setting): boolean =>
    key === 'model'
      ? c.args.length === 0
      : c.getOptionValueSource(key) === undefined && c.getOptionValueSource(RIVALS[key] ?? key) === undefined

/** The arguments with the options of the file: a model follows the name of the command. */
const withFlags = (c: Command, args: readonly string[], settings: readonly Setting[]): readonly string[] => {
  const flagsOf = (isModel: boolean): readonly string[] =>
    settings.filter((s) => (s.key === 'model') === isModel).flatMap((s) => s.flags)
  const at = args.indexOf(c.name()) + 1
  return [...args.slice(0, at), ...flagsOf(true), ...args.slice(at), ...flagsOf(false)]
}

/** Sets the options after the command line is parsed, so that its flags win. */
const applied = (c: Command, file: string, args: readonly string[], all: readonly Setting[]): void => {
  const settings = all.filter(isOpen(c))
  for (const { key, value } of settings) if (key !== 'model') c.setOptionValueWithSource(key, value, 'config')
  configuredBy({ args: withFlags(c, args, settings), reads: readingCode('the configuration file', file) })
  // Among several processes the first one reports for all.
  if (settings.length > 0 && (startedBy(process.env)?.rank ?? 0) === 0)
    note(`options of ${file}: ${settings.map((s) => s.key).join(', ')}`)
}

/** Gives a declared command the options of a configuration file. */
export const configure = (c: Command, file: string, args: readonly string[]): Either<SpillwayError, void> =>
  pipe(
    sectionOf(file, c.name()),
    E.flatMap((section) => settingsIn(file, c, section)),
    E.map((settings) => {
      const model = settings.find((s) => s.key === 'model')
      if (model) modelArgument(c)?.argOptional().default(model.value)
      return void c.hook('preAction', () => applied(c, file, args, settings)).hook('postAction', () => configuredBy(undefined))
    }),
  )
