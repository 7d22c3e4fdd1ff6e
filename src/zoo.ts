// The zoo: every network that has a name on the command line. In: the files of models/, one family each, listed when this
// is loaded: adding a network touches its family's file and nothing else. Out: the network as a checked model with its default
// input and the loss it is trained with, or as a step; its type stands in the family's default export.
import { chain, type Either, left, right, toError, tryCatch } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  type ClassesOptions,
  type Family,
  isClassifier,
  type Loss,
  modelAt,
  type Net,
  type Network,
  type Shape,
  type StepNetwork,
  type Trainable,
  type Mode,
} from '../dsl'
import type { GraphError } from '../staging/core/errors'

/**
 * A network of the package, by name.
 *
 * @example const line = ({ name, defaultInput }: ZooEntry) => `${name} ${defaultInput.join('×')}`
 */
export interface ZooEntry {
  readonly name: string
  /** File of models/ that holds it. */
  readonly family: string
  readonly defaultInput: Shape
  /** Usual loss; absent for a step, which has its own. */
  readonly loss?: Loss
  /** Returns the network at an input shape and for a number of classes, or the reason for a refusal. */
  readonly build: (input?: Shape, mode?: Mode, options?: Partial<ClassesOptions>) => Either<GraphError, Trainable>
}

const folder = join(__dirname, '..', 'models')

/** As sources or compiled, but not declarations and maps. */
const familyNames: readonly string[] = readdirSync(folder)
  .flatMap((file) => /^(\w+)\.[jt]s$/.exec(file)?.[1] ?? [])
  .sort()

const stepAt = (name: string, n: StepNetwork, input: Shape): Either<GraphError, Trainable> =>
  tryCatch(
    () => n.step(input),
    (e) => ({ tag: 'ModelInvalid', at: name, reason: toError(e).message }),
  )

const noClasses = (name: string): Either<GraphError, never> =>
  left({ tag: 'ModelInvalid', at: name, reason: 'it has no head for classes, so the number of classes cannot be set' })

const netFor = (name: string, net: Net, { classes }: Partial<ClassesOptions>): Either<GraphError, Net> => {
  if (classes === undefined) return right(net)
  return isClassifier(net)
    ? tryCatch(
        () => net({ classes }),
        (e) => ({ tag: 'ModelInvalid', at: name, reason: toError(e).message }),
      )
    : noClasses(name)
}

const entry = (family: string, name: string, n: Network | StepNetwork): ZooEntry => {
  const at = { name, family, defaultInput: n.input }
  return 'step' in n
    ? {
        ...at,
        build: (input = n.input, _, { classes } = {}) => (classes === undefined ? stepAt(name, n, input) : noClasses(name)),
      }
    : {
        ...at,
        loss: n.loss,
        build: (input = n.input, mode, options = {}) =>
          pipe(
            netFor(name, n.net, options),
            chain((net) => modelAt(input, net, mode)),
          ),
      }
}

/** A net with the text of its type in its family's file: type-level and run-time analysis must agree on it. */
export interface ZooNet {
  readonly name: string
  readonly family: string
  /** Its place in the family's default export, as TypeScript. */
  readonly place: string
  readonly net: Net
  readonly input: Shape
}

const netsOf = (family: string, name: string, n: Network | StepNetwork): readonly ZooNet[] =>
  'step' in n
    ? Object.entries(n.nets).map(([part, { net, input }]) => {
        const place = `['${name}'].nets['${part}']`
        return { name: `${name}.${part}`, family, place, net, input }
      })
    : [{ name, family, place: `['${name}']`, net: n.net, input: n.input }]

const families = familyNames.map((name) => {
  const { default: family = {} } = require(join(folder, name)) as { readonly default?: Family }
  return { name, networks: Object.entries(family) }
})

/**
 * All networks of the package, then the steps with several objectives.
 *
 * @example for (const { name, defaultInput } of zoo) console.log(name, defaultInput.join('×'))
 */
export const zoo: readonly ZooEntry[] = families
  .flatMap(({ name, networks }) => networks.map(([network, n]) => entry(name, network, n)))
  .sort((a, b) => Number(a.loss === undefined) - Number(b.loss === undefined))
/** Every net of every network, those that steps of several objectives train included. */
export const zooNets: readonly ZooNet[] = families.flatMap(({ name, networks }) =>
  networks.flatMap(([network, n]) => netsOf(name, network, n)),
)

/** The names of all networks of the package. @example zooNames.includes('resnet50') */
export const zooNames: readonly string[] = zoo.map((e) => e.name)
/**
 * Returns a network of the package by name; undefined if there is none.
 *
 * @param name Name, e.g. 'resnet50'.
 * @example const answer = zooEntry('resnet50')?.build([8, 3, 224, 224], 'train', { classes: 10 })
 */
export const zooEntry = (name: string): ZooEntry | undefined => zoo.find((e) => e.name === name)
