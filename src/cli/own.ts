// Loss, optimizer and updates as flags: --loss, --optimizer, and one for each option of their tables' entries. In:
// the flags. Out: a loss and an optimizer, undefined without flags; or a Usage error.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Loss, Optimizer } from '../../dsl'
import type { Choice, Choices, ChoiceValue } from '../../staging/ops/choices'
import { LOSSES, type LossName, lossName, lossNames, lossWith, partsOf, sumOfParts } from '../../staging/ops/losses'
import { OPTIMIZERS, type OptimizerName, optimizerNames, optimizerWith } from '../../staging/ops/optimizer'
import type { Updates } from '../../staging/ops/updates'
import { type SpillwayError, usage } from '../errors/errors'
import { DEFAULT_LEARNING_RATE, DEFAULT_OPTIMIZER } from '../stage/defaults'
import { choiceOption, countOption, flagOf, integerOption, listOption, numberOption, repeated } from './options'

type Table = Readonly<Record<string, { readonly options: Choices }>>
/** The command line's name of an option. */
type KeyOf<Options> = { readonly [N in keyof Options]: Options[N] extends { readonly flag: infer F } ? F : N }[keyof Options]
type OptionsOf<T extends Table> = { readonly [K in keyof T]: KeyOf<T[K]['options']> }[keyof T] & string
const namesOf = (table: Table): readonly string[] => [...new Set(Object.values(table).flatMap((e) => Object.keys(e.options)))]
const choicesOf = (table: Table, name: string): readonly Choice[] =>
  Object.values(table).flatMap((e) => (e.options[name] === undefined ? [] : [e.options[name]]))
/** As the command line has it: the key of its value there. */
const keyOf = (table: Table, name: string): string => choicesOf(table, name)[0]?.flag ?? name
const keysOf = (table: Table): readonly string[] => namesOf(table).map((name) => keyOf(table, name))

const usualOptimizer = (kind: OptimizerName, given: object = {}): Optimizer =>
  optimizerWith(kind, { ...(kind === DEFAULT_OPTIMIZER.kind ? DEFAULT_OPTIMIZER : { lr: DEFAULT_LEARNING_RATE }), ...given })

type Flag = readonly [flag: string, about: string, parse?: (text: string, before?: unknown) => unknown]

/** `huber, focal default 2`: the entries that have an option, those with one default together. */
const ownersText = (owners: readonly string[], values: readonly unknown[]): string => {
  const groups = new Map<unknown, readonly string[]>()
  owners.forEach((kind, i) => groups.set(values[i], [...(groups.get(values[i]) ?? []), kind]))
  const isPlain = (value: unknown): boolean => value === undefined || typeof value === 'boolean'
  return [...groups].map(([value, kinds]) => `${kinds.join(', ')}${isPlain(value) ? '' : `: default ${value}`}`).join('; ')
}

/** A flag for each option of a table's entries, with its meaning, its owners and their defaults. */
const flagsOf = (table: Table, usual: (kind: string) => object): readonly Flag[] =>
  namesOf(table).map((name) => {
    const owners = Object.keys(table).filter((kind) => name in table[kind]!.options)
    const values = owners.map((kind) => (usual(kind) as Readonly<Record<string, unknown>>)[name])
    const choice = choicesOf(table, name)[0]!
    const flag = flagOf(keyOf(table, name))
    const text = `${choice.about ?? name} (${ownersText(owners, values)})`
    if (typeof values[0] === 'boolean') return [flag, text]
    if (choice.list) return [`${flag} <n,...>`, text, listOption(numberOption(flag))]
    return [`${flag} <n>`, text, (choice.whole ? integerOption : numberOption)(flag)]
  })

/** Losses by their names, each with its weight. */
type NamedLosses = readonly (readonly [weight: number, name: LossName])[]

/** `mse`, or `cross-entropy+0.5*dice`. */
const lossOption = (text: string): NamedLosses =>
  text.split('+').map((part) => {
    const [, weight, name = part] = /^([^*]*)\*([^*]*)$/.exec(part) ?? []
    return [weight === undefined ? 1 : numberOption('--loss')(weight), choiceOption('--loss', lossNames)(name.trim())]
  })

export const LOSS_FLAGS: readonly Flag[] = [
  [
    '--loss <name>',
    `loss: ${lossNames.join(', ')}; or a sum: cross-entropy+0.5*dice (default: the loss of the model, else mse)`,
    lossOption,
  ],
  ...flagsOf(LOSSES, (kind) => lossWith(kind as LossName, {}) as object),
]
export const OWN_FLAGS: readonly Flag[] = [
  ...LOSS_FLAGS,
  [
    '--optimizer <name>',
    `optimizer: ${optimizerNames.join(', ')} (default ${DEFAULT_OPTIMIZER.kind})`,
    choiceOption('--optimizer', optimizerNames),
  ],
  ...flagsOf(OPTIMIZERS, (kind) => usualOptimizer(kind as OptimizerName)),
  ['--freeze <pattern>', "do not train parameters that match, e.g. 'stem.*' (repeatable)", repeated],
  ['--clip-value <n>', 'limit each gradient element to plus or minus this value', numberOption('--clip-value')],
  ['--clip-norm <n>', 'scale all gradients down if their norm exceeds this value', numberOption('--clip-norm')],
  ['--accumulate <n>', 'steps per update; the update uses their mean gradient (default 1)', countOption('--accumulate')],
  [
    '--average <n>',
    'keep and save an exponential moving average of the weights with this decay, e.g. 0.999',
    numberOption('--average'),
  ],
  [
    '--layer-decay <n>',
    'factor of the learning rate from each block of layers to the block before it, e.g. 0.75 (default 1)',
    numberOption('--layer-decay'),
  ],
]

type Given<T extends Table> = Readonly<Partial<Record<OptionsOf<T>, ChoiceValue>>>
export interface LossOptions extends Given<typeof LOSSES> {
  readonly loss?: NamedLosses
}
export interface OwnOptions extends LossOptions, Given<typeof OPTIMIZERS>, Updates {
  readonly optimizer?: OptimizerName
}
export const OWN_OPTIONS = [
  'loss',
  'optimizer',
  ...keysOf(LOSSES),
  ...keysOf(OPTIMIZERS),
  'freeze',
  'clipValue',
  'clipNorm',
  'accumulate',
  'average',
  'layerDecay',
] as readonly (keyof OwnOptions)[]

/** The options that are given of these entries; refused when one is another entry's. */
const givenOf = (table: Table, flag: string, kinds: readonly string[], o: object): Either<SpillwayError, object> => {
  const typed = o as Readonly<Record<string, unknown>>
  const given = namesOf(table).filter((name) => typed[keyOf(table, name)] !== undefined)
  const stray = given.find((name) => !kinds.some((kind) => name in table[kind]!.options))
  if (stray === undefined) return E.right(Object.fromEntries(given.map((name) => [name, typed[keyOf(table, name)]])))
  const owners = Object.keys(table).filter((k) => stray in table[k]!.options)
  return E.left(usage(`${flagOf(keyOf(table, stray))} needs ${flag} ${owners.join(' or ')}`))
}

// ---------------------------------------------------------------- in a recipe

const LOSS_KEYS: readonly string[] = ['loss', ...keysOf(LOSSES)]

/** The flags of the loss, for the recipe of the weights; undefined without any. */
export const lossFlags = (o: LossOptions): Readonly<Record<string, unknown>> | undefined => {
  const given = Object.entries(o).filter(([key, value]) => LOSS_KEYS.includes(key) && value !== undefined)
  return given.length === 0 ? undefined : Object.fromEntries(given)
}

const isNumbers = (u: unknown): boolean => Array.isArray(u) && u.every((n) => typeof n === 'number')
const isLosses = (u: unknown): boolean =>
  Array.isArray(u) &&
  u.every(
    (part: unknown) => Array.isArray(part) && typeof part[0] === 'number' && (lossNames as readonly unknown[]).includes(part[1]),
  )

/** The flags of a recipe; none if one is not legal. */
export const lossIn = (recorded: Readonly<Record<string, unknown>> = {}): LossOptions => {
  const isLegal = Object.entries(recorded).every(
    ([key, value]) =>
      LOSS_KEYS.includes(key) &&
      (key === 'loss' ? isLosses(value) : ['number', 'boolean'].includes(typeof value) || isNumbers(value)),
  )
  return isLegal ? (recorded as LossOptions) : {}
}

const isNothing = (given: object): boolean => Object.keys(given).length === 0

/** `usual`: the loss of a model that has one. */
export const lossOf = (o: LossOptions, usual: Loss | undefined): Either<SpillwayError, Loss | undefined> => {
  const parts = o.loss ?? partsOf(usual ?? 'mse').map(([weight, loss]) => [weight, lossName(loss) as LossName] as const)
  const kinds = parts.map(([, kind]) => kind)
  return pipe(
    givenOf(LOSSES, '--loss', kinds, o),
    E.map((given) =>
      o.loss === undefined && isNothing(given)
        ? usual
        : sumOfParts(parts.map(([weight, kind]) => [weight, lossWith(kind, given)] as const)),
    ),
  )
}

/** Adds a hint to refusals of targets if no loss was given: the usual one compares numbers. */
export const suggestingLoss =
  (o: LossOptions, usual: Loss | undefined) =>
  <A>(answer: Either<SpillwayError, A>): Either<SpillwayError, A> => {
    if (E.isRight(answer) || (o.loss ?? usual) !== undefined) return answer
    const e = answer.left
    const hint = '; the model has no loss and --loss is missing, so the loss is mse; for classes, use --loss cross-entropy'
    if ((e.tag !== 'Usage' && e.tag !== 'FileRefused') || e.about !== 'targets') return answer
    return E.left(e.tag === 'Usage' ? { ...e, message: `${e.message}${hint}` } : { ...e, reason: `${e.reason}${hint}` })
  }

export const optimizerOf = (o: OwnOptions): Either<SpillwayError, Optimizer | undefined> => {
  const kind = o.optimizer ?? DEFAULT_OPTIMIZER.kind
  return pipe(
    givenOf(OPTIMIZERS, '--optimizer', [kind], o),
    E.map((given) => (o.optimizer === undefined && isNothing(given) ? undefined : usualOptimizer(kind, given))),
  )
}
