// Weights of a file for a model. In: a model's state, a file, prefixes to strip from its names, weights to leave out. Out: the values of the model,
// and a table of them; or the mismatches, and the flag that helps. Invariant: a file is judged whole before a byte is written, and a value without a
// tensor keeps its initial value only if it is named. Worked example: for a model with fc.weight [10,64], of a file with module.fc.weight [1000,64]:
// strip 'module.', skip 'fc.*'.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { globMatches, nearestGlob } from '../../staging/core/glob'
import { nearest } from '../../staging/core/nearest'
import type { Value } from '../../staging/graph/graph'
import { shapeText } from '../../staging/ops/op'
import { type SpillwayError, usage } from '../errors/errors'
import { type DataDescription, descriptionIn } from '../data/description'
import { openNamedWeights } from './pretrained'
import { readTensor, type TensorFile } from '../files/safetensors'
import { fill, type ModelState, type Origin, originOf, problemOf, type StateStore, unreadIn } from './weights'

/**
 * Options for the names of a weights file.
 *
 * @example const loading: LoadingOptions = { weightsStrip: 'module.', weightsSkip: 'fc.*' }
 */
export interface LoadingOptions {
  /**
   * Names of weights that keep their initial values; `*` matches any characters. Default: none.
   *
   * @example train(net, plan, { epochs: 5, data: 'train/', weights: 'resnet50.safetensors', weightsSkip: 'fc.*' })
   */
  readonly weightsSkip?: string | readonly string[] | undefined
  /**
   * Prefixes removed from the names in the file. Default: none.
   *
   * @example train(net, plan, { epochs: 5, data: 'train/', weights: 'parallel.safetensors', weightsStrip: 'module.' })
   */
  readonly weightsStrip?: string | readonly string[] | undefined
}

/**
 * A weight of the model that kept its initial value.
 *
 * @example const line = (w: LeftWeight) => `${w.name} [${w.shape.join(',')}]`
 */
export interface LeftWeight {
  readonly name: string
  readonly shape: readonly number[]
  /** Shape of the tensor of this name in the file; absent if there is none. */
  readonly inFile?: readonly number[]
}
/**
 * The result of loading a weights file: weights taken, left, and unused tensors.
 *
 * @example const counts = (t: WeightsTable) => `${t.taken.length} taken, ${t.left.length} left, ${t.unused.length} unused`
 */
export interface WeightsTable {
  readonly file: string
  /** Weights of the model that the file filled. */
  readonly taken: readonly string[]
  /** Weights of the model that kept their initial values. */
  readonly left: readonly LeftWeight[]
  /** Tensors of the file that the model does not use. */
  readonly unused: readonly string[]
}

/** The training data's description in a weights file; nothing if there is none. */
export const descriptionOf = (path: string): DataDescription | undefined =>
  pipe(
    openNamedWeights('weights', path),
    E.match(
      () => undefined,
      ({ metadata }) => descriptionIn(metadata),
    ),
  )

/**
 * The recipe of a weights file: model, classes, input size, normalisation, fit, colours and product version.
 *
 * @example const head = ({ classes = [], input }: WeightsRecipe) => `${classes.join(', ')} at ${input.join('×')}`
 */
export type WeightsRecipe = DataDescription

/**
 * Returns the recipe of a weights file; undefined if the file has none.
 *
 * @param path File of the weights.
 * @example const names = weightsRecipe('weights.safetensors')?.classes
 */
export const weightsRecipe = (path: string): WeightsRecipe | undefined => descriptionOf(path)

/** A file that fits, under the model's names; and the filled values. */
export interface FittingWeights {
  readonly file: TensorFile
  readonly values: readonly Value[]
  readonly table: WeightsTable
}

const listNames = (given: string | readonly string[] | undefined = []): readonly string[] =>
  typeof given === 'string' ? [given] : given

// ---------------------------------------------------------------- what is asked for

/** The loading options, among all. */
export const loadingOf = ({ weightsSkip, weightsStrip }: LoadingOptions): LoadingOptions => ({ weightsSkip, weightsStrip })

/** Options that a file could be loaded with. */
export const checkedLoading = <O extends LoadingOptions & { readonly weights?: unknown }>(o: O): Either<SpillwayError, O> => {
  for (const key of ['weightsSkip', 'weightsStrip'] as const) {
    if (listNames(o[key]).length > 0 && o.weights === undefined) return E.left(usage(`${key} needs weights`))
  }
  return E.right(o)
}

/** The changes of a run's initial weights, in words. */
export const startText = (file: string, { weightsSkip, weightsStrip }: LoadingOptions): string =>
  [
    file,
    ...listNames(weightsStrip).map((prefix) => `names without '${prefix}'`),
    ...listNames(weightsSkip).map((pattern) => `'${pattern}' left out`),
  ].join(', ')

// ---------------------------------------------------------------- names

/** All that stands before a dot of some name. */
const prefixesIn = (names: Iterable<string>): readonly string[] => {
  const found = new Set<string>()
  for (const name of names)
    for (let at = name.indexOf('.'); at >= 0; at = name.indexOf('.', at + 1)) found.add(name.slice(0, at + 1))
  return [...found]
}

const without = (
  prefix: string,
  names: ReadonlyMap<string, string>,
  file: string,
): Either<SpillwayError, Map<string, string>> => {
  const made = new Map<string, string>()
  let met = false
  for (const [name, original] of names) {
    const isOne = prefix !== '' && name.startsWith(prefix) && name !== prefix
    met ||= isOne
    const short = isOne ? name.slice(prefix.length) : name
    const other = made.get(short)
    if (other !== undefined) return E.left(usage(`weightsStrip: '${other}' and '${original}' of ${file} both become '${short}'`))
    made.set(short, original)
  }
  if (met) return E.right(made)
  const near = nearest(prefix, prefixesIn(names.keys()), 1)[0]
  const meant = near === undefined ? '' : `; did you mean '${near}'?`
  return E.left(usage(`weightsStrip: no tensor name in ${file} begins with '${prefix}'${meant}`))
}

/** A file under the names that are left when prefixes have come off. */
const stripped = (file: TensorFile, prefixes: readonly string[]): Either<SpillwayError, TensorFile> => {
  if (prefixes.length === 0) return E.right(file)
  const same: Either<SpillwayError, ReadonlyMap<string, string>> = E.right(new Map([...file.tensors.keys()].map((n) => [n, n])))
  return pipe(
    prefixes.reduce((names, prefix) => E.flatMap((n: ReadonlyMap<string, string>) => without(prefix, n, file.path))(names), same),
    E.map((names) => ({ ...file, tensors: new Map([...names].map(([name, from]) => [name, file.tensors.get(from)!])) })),
  )
}

/** A test for left-out weights; each pattern matches some weight, of the model or of the file. */
const skipping = (patterns: readonly string[], known: readonly string[]): Either<SpillwayError, (name: string) => boolean> =>
  pipe(
    patterns,
    E.traverseArray((pattern) => {
      const matches = globMatches(pattern)
      if (known.some(matches)) return E.right(matches)
      const near = nearestGlob(pattern, known)
      const meant = near === undefined ? '' : `; did you mean '${near}'?`
      return E.left(usage(`weightsSkip: no weight of the model or the file matches '${pattern}'${meant}`))
    }),
    E.map((all) => (name: string) => all.some((matches) => matches(name))),
  )

// ---------------------------------------------------------------- what helps where it does not fit

/** Longer lists of patterns are no help: the file is another network's. */
const MOST_PATTERNS = 4

/** The shortest patterns that mean these names of all and no others. */
const patternsOf = (names: readonly string[], all: readonly string[]): readonly string[] => {
  const meant = new Set(names)
  const whole = (scope: string): boolean => all.every((n) => !n.startsWith(scope) || meant.has(n))
  return [
    ...new Set(
      names.map((name) => {
        const scope = prefixesIn([name]).find(whole)
        return scope === undefined ? name : `${scope}*`
      }),
    ),
  ]
}

/** The prefix behind which most of the missing names stand in the file. */
const prefixBefore = (missing: readonly string[], file: TensorFile): string | undefined => {
  const wanted = new Set(missing)
  const counts = new Map<string, number>()
  for (const name of file.tensors.keys())
    for (const prefix of prefixesIn([name]))
      if (wanted.has(name.slice(prefix.length))) counts.set(prefix, (counts.get(prefix) ?? 0) + 1)
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0]
}

/** `--classes 3`: if the file names its classes and the weights that misfit have their number of rows. */
const classesHelp = (wrong: readonly string[], file: TensorFile): readonly string[] => {
  const { length } = descriptionIn(file.metadata)?.classes ?? []
  return length > 0 && wrong.every((name) => file.tensors.get(name)?.shape[0] === length)
    ? [`the file has ${length} classes: use --classes ${length} with a zoo network`]
    : []
}

const otherNetwork = (file: TensorFile): string => {
  const model = descriptionIn(file.metadata)?.model
  return `no weight of the model fits: these weights belong to ${model === undefined || model === 'model' ? 'another network' : `'${model}'`}; name that model, or leave the weights out`
}

const helpFor = (wrong: readonly string[], all: readonly string[], file: TensorFile): readonly string[] => {
  const prefix = prefixBefore(
    wrong.filter((name) => !file.tensors.has(name)),
    file,
  )
  if (prefix !== undefined) return [`the names in the file begin with '${prefix}': remove it with --weights-strip '${prefix}'`]
  const patterns = patternsOf(wrong, all)
  if (wrong.length === all.length) return [otherNetwork(file)]
  if (patterns.length > MOST_PATTERNS) return []
  const skip = patterns.map((p) => `--weights-skip '${p}'`).join(' ')
  return [...classesHelp(wrong, file), `${skip} trains ${wrong.length === 1 ? 'it' : 'them'} from initial values`]
}

// ---------------------------------------------------------------- a file for a model

const shortened = (problems: readonly string[]): readonly string[] =>
  problems.length <= 12 ? problems : [...problems.slice(0, 12), `and ${problems.length - 12} more`]

const judged = (
  path: string,
  file: TensorFile,
  state: ModelState,
  isLeft: (name: string) => boolean,
): Either<SpillwayError, FittingWeights> => {
  const values = state.weights.filter((v) => !isLeft(v.name))
  const known = new Set([...[...state.weights, ...state.counters].map((v) => v.name), ...unreadIn(file)])
  const unused = [...file.tensors.keys()].filter((n) => !known.has(n)).sort()
  const wrong = values.flatMap((v) => {
    const problem = problemOf(file, v, false)
    return problem === undefined ? [] : [{ name: v.name, problem }]
  })
  if (wrong.length > 0)
    return E.left({
      tag: 'WeightsMismatch',
      file: path,
      problems: shortened([...wrong.map((w) => w.problem), ...unused.map((n) => `'${n}' is not in the model`)]),
      help: helpFor(
        wrong.map((w) => w.name),
        state.weights.map((v) => v.name),
        file,
      ),
    })
  const left = state.weights.flatMap(({ name, shape }) => {
    const inFile = file.tensors.get(name)?.shape
    return isLeft(name) ? [{ name, shape, ...(inFile === undefined ? {} : { inFile }) }] : []
  })
  return E.right({
    // A counter counts the batches of its norm's statistics.
    file: { ...file, tensors: new Map([...file.tensors].filter(([name]) => !isLeft(name))) },
    values,
    table: { file: path, taken: values.map((v) => v.name), left, unused: unused.filter((n) => !isLeft(n)) },
  })
}

/** A file that has all of the model's weights but those that are left out, in their shapes. */
export const fittingWeights = (path: string, state: ModelState, o: LoadingOptions = {}): Either<SpillwayError, FittingWeights> =>
  pipe(
    openNamedWeights('weights', path),
    E.flatMap((file) => stripped(file, listNames(o.weightsStrip))),
    E.bindTo('file'),
    E.bind('isLeft', ({ file }) =>
      skipping(listNames(o.weightsSkip), [
        ...new Set([...state.weights.map((v) => v.name), ...state.counters.map((c) => c.name), ...file.tensors.keys()]),
      ]),
    ),
    E.flatMap(({ file, isLeft }) => judged(path, file, state, isLeft)),
  )

/** The start of a model: the batches that its norms have seen, and the use of the file. */
export interface LoadedWeights {
  readonly origin: Origin
  readonly table: WeightsTable
}

const readCounters = (file: TensorFile, state: ModelState): Either<SpillwayError, Origin['counted']> =>
  pipe(
    state.counters.flatMap((c) => {
      const s = file.tensors.get(c.name)
      return s?.type === 'I64' && s.bytes === 8 ? [[c.name, s] as const] : []
    }),
    E.traverseArray(([name, s]) =>
      pipe(
        readTensor(file, s),
        E.map((b) => [name, new DataView(b.buffer, b.byteOffset).getBigInt64(0, true)] as const),
      ),
    ),
    E.map((counted) => new Map(counted)),
  )

export const loadWeights = (
  path: string,
  state: ModelState,
  store: StateStore,
  o: LoadingOptions = {},
): Either<SpillwayError, LoadedWeights> =>
  pipe(
    fittingWeights(path, state, o),
    E.tap(({ file, values }) => fill(file, values, store)),
    E.flatMap(({ file, table }) =>
      pipe(
        readCounters(file, state),
        E.flatMap((counted) => originOf(file, state, counted)),
        E.map((origin) => ({ origin, table })),
      ),
    ),
  )

// ---------------------------------------------------------------- the table

const MOST_NAMES = 5
const some = (names: readonly string[]): string =>
  names.length <= MOST_NAMES ? names.join(', ') : `${names.slice(0, MOST_NAMES - 1).join(', ')}, … ${names[names.length - 1]}`

const leftText = ({ name, shape, inFile }: LeftWeight): string =>
  `${name} ${shapeText(shape)}${inFile === undefined ? '' : ` (${shapeText(inFile)} in the file)`}`

/** The table for a person; nothing if each tensor has its place. */
export const tableText = ({ file, taken, left, unused }: WeightsTable): string | undefined => {
  if (left.length === 0 && unused.length === 0) return undefined
  const row = (what: string, names: readonly string[]): readonly string[] =>
    names.length === 0 ? [] : [`  ${what.padEnd(14)}${String(names.length).padStart(6)}  ${some(names)}`]
  return [
    `${file}: loaded ${taken.length} of ${taken.length + left.length} weights of the model`,
    ...row('loaded', taken),
    ...row('not loaded', left.map(leftText)),
    ...row('not used', unused),
  ].join('\n')
}
