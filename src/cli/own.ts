// What a model is compared with and trained by, as flags: --loss, --optimizer, and one for each option of their tables' entries. In:
// what was typed. Out: a loss and an optimizer, undefined where nothing is said of them; or a Usage error.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Loss, Optimizer } from '../../dsl'
import { type Choices, isLoose } from '../../staging/ops/choices'
import { LOSSES, type LossName, lossName, lossNames, lossWith } from '../../staging/ops/loss'
import { OPTIMIZERS, type OptimizerName, optimizerNames, optimizerWith } from '../../staging/ops/optimizer'
import type { Updates } from '../../staging/ops/updates'
import { type SpillwayError, usage } from '../errors/errors'
import { DEFAULT_LEARNING_RATE, DEFAULT_OPTIMIZER } from '../stage/defaults'
import { choiceOption, countOption, flagOf, integerOption, numberOption, repeated } from './options'

type Table = Readonly<Record<string, { readonly options: Choices }>>
type OptionsOf<T extends Table> = { readonly [K in keyof T]: keyof T[K]['options'] }[keyof T] & string
const namesOf = (table: Table): readonly string[] => [...new Set(Object.values(table).flatMap((e) => Object.keys(e.options)))]

const usualOptimizer = (kind: OptimizerName, given: object = {}): Optimizer =>
  optimizerWith(kind, { ...(kind === DEFAULT_OPTIMIZER.kind ? DEFAULT_OPTIMIZER : { lr: DEFAULT_LEARNING_RATE }), ...given })

type Flag = readonly [flag: string, about: string, parse?: (text: string, before?: unknown) => unknown]

/** A flag for each option of a table's entries: whose it is, and its value unless it is given. */
const flagsOf = (table: Table, usual: (kind: string) => object): readonly Flag[] =>
  namesOf(table).map((name) => {
    const owners = Object.keys(table).filter((kind) => name in table[kind]!.options)
    const values = owners.map((kind) => (usual(kind) as Readonly<Record<string, unknown>>)[name])
    const isSwitch = typeof values[0] === 'boolean'
    const about = owners.map((kind, i) => (isSwitch || values[i] === values[i + 1] ? kind : `${kind} (default ${values[i]})`))
    const text = `of ${about.join(', ')}`
    const parse = isLoose(table[owners[0]!]!.options[name]!) ? integerOption : numberOption
    return isSwitch ? [flagOf(name), text] : [`${flagOf(name)} <n>`, text, parse(flagOf(name))]
  })

export const LOSS_FLAGS: readonly Flag[] = [
  ['--loss <name>', `what the output is compared with: ${lossNames.join(', ')}`, choiceOption('--loss', lossNames)],
  ...flagsOf(LOSSES, (kind) => lossWith(kind as LossName, {}) as object),
]
export const OWN_FLAGS: readonly Flag[] = [
  ...LOSS_FLAGS,
  [
    '--optimizer <name>',
    `${optimizerNames.join(', ')} (default ${DEFAULT_OPTIMIZER.kind})`,
    choiceOption('--optimizer', optimizerNames),
  ],
  ...flagsOf(OPTIMIZERS, (kind) => usualOptimizer(kind as OptimizerName)),
  ['--freeze <pattern>', "parameters that stay as they are: 'stem.*', and as often as need be", repeated],
  ['--clip-value <n>', 'keep each element of a gradient within plus and minus so much', numberOption('--clip-value')],
  ['--clip-norm <n>', 'shorten all gradients by one factor where they are longer together', numberOption('--clip-norm')],
  [
    '--accumulate <n>',
    'steps of which one update is made, by the mean of their gradients (default 1)',
    countOption('--accumulate'),
  ],
  [
    '--average <n>',
    'keep an average of the weights, so much of which stays at each update: 0.999; it is saved beside the weights',
    numberOption('--average'),
  ],
]

type Given = Readonly<Partial<Record<OptionsOf<typeof LOSSES> | OptionsOf<typeof OPTIMIZERS>, number | boolean>>>
export interface OwnOptions extends Given, Updates {
  readonly loss?: LossName
  readonly optimizer?: OptimizerName
}
export const OWN_OPTIONS = [
  'loss',
  'optimizer',
  ...namesOf(LOSSES),
  ...namesOf(OPTIMIZERS),
  'freeze',
  'clipValue',
  'clipNorm',
  'accumulate',
  'average',
] as readonly (keyof OwnOptions)[]

/** The options that are given of an entry; refused when one is another entry's. */
const givenOf = (table: Table, flag: string, kind: string, o: object): Either<SpillwayError, object> => {
  const given = Object.entries(o).filter(([k, v]) => v !== undefined && namesOf(table).includes(k))
  const stray = given.find(([k]) => !(k in table[kind]!.options))?.[0]
  if (stray === undefined) return E.right(Object.fromEntries(given))
  const owners = Object.keys(table).filter((k) => stray in table[k]!.options)
  return E.left(usage(`${flagOf(stray)} belongs to ${flag} ${owners.join(', ')}`))
}

const isNothing = (given: object): boolean => Object.keys(given).length === 0

/** `usual`: the loss of a model that has one. */
export const lossOf = (o: OwnOptions, usual: Loss | undefined): Either<SpillwayError, Loss | undefined> => {
  const kind = o.loss ?? lossName(usual ?? 'mse')
  return pipe(
    givenOf(LOSSES, '--loss', kind, o),
    E.map((given) => (isNothing(given) ? (o.loss ?? usual) : lossWith(kind, given))),
  )
}

/** Says where a refusal may come from the loss that nobody gave. */
export const suggestingLoss =
  (o: OwnOptions, usual: Loss | undefined) =>
  <A>(answer: Either<SpillwayError, A>): Either<SpillwayError, A> => {
    if (E.isRight(answer) || (o.loss ?? usual) !== undefined) return answer
    const e = answer.left
    const hint = '; neither the model nor --loss says a loss, so it is mse: give --loss cross-entropy for classes, or another'
    if (e.tag === 'Usage') return E.left({ ...e, message: `${e.message}${hint}` })
    return E.left(e.tag === 'FileRefused' && e.kind === 'data' ? { ...e, reason: `${e.reason}${hint}` } : e)
  }

export const optimizerOf = (o: OwnOptions): Either<SpillwayError, Optimizer | undefined> => {
  const kind = o.optimizer ?? DEFAULT_OPTIMIZER.kind
  return pipe(
    givenOf(OPTIMIZERS, '--optimizer', kind, o),
    E.map((given) => (o.optimizer === undefined && isNothing(given) ? undefined : usualOptimizer(kind, given))),
  )
}
