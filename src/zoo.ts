// The zoo: every network that has a name on the command line. In: the files of models/, one family each, listed when this
// is loaded: adding a network touches its family's file and nothing else. Out: the network as a checked model, with its
// default input and the loss it is trained with; its type stands in the family's default export.
import { type Either, left, right } from 'fp-ts/Either'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Family,
  type Loss,
  type Model,
  modelAt,
  type Net,
  type Network,
  type Shape,
  type StepNetwork,
  type TrainingStep,
} from '../dsl'
import type { GraphError } from '../staging/core/errors'

export interface ZooEntry {
  readonly name: string
  /** The file of models/ that it stands in. */
  readonly family: string
  readonly net: Net
  readonly defaultInput: Shape
  readonly loss: Loss
  /** The network at an input shape, or why it does not take it, in words. */
  readonly build: (input?: Shape) => Either<GraphError, Model>
}

const folder = join(__dirname, '..', 'models')

/** As sources or compiled, but not declarations and maps. */
const familyNames: readonly string[] = readdirSync(folder)
  .flatMap((file) => /^(\w+)\.[jt]s$/.exec(file)?.[1] ?? [])
  .sort()

const entry = (family: string, name: string, { net, input, loss }: Network): ZooEntry => {
  const defaultInput: Shape = input
  return { name, family, net, defaultInput, loss, build: (shape = defaultInput) => modelAt(shape, net) }
}

/** A step of several objectives, by the name of its network. */
export interface ZooStep {
  readonly name: string
  readonly family: string
  readonly defaultInput: Shape
  /** Sizes of 1 and more that its nets do not take are refused in words. */
  readonly build: (input?: Shape) => Either<GraphError, TrainingStep>
}

const stepEntry = (family: string, name: string, n: StepNetwork): ZooStep => ({
  name,
  family,
  defaultInput: n.input,
  build: (input = n.input) => {
    try {
      return right(n.step(input))
    } catch (e) {
      return left({ tag: 'ModelInvalid', at: name, reason: (e as Error).message })
    }
  },
})

/** A net as its type stands in its family's file: what type-level and run-time analysis must agree on. */
export interface ZooNet {
  readonly name: string
  readonly family: string
  /** Where it stands in the family's default export, as TypeScript. */
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

export const zoo: readonly ZooEntry[] = families.flatMap(({ name, networks }) =>
  networks.flatMap(([network, n]) => ('step' in n ? [] : [entry(name, network, n)])),
)
export const zooSteps: readonly ZooStep[] = families.flatMap(({ name, networks }) =>
  networks.flatMap(([network, n]) => ('step' in n ? [stepEntry(name, network, n)] : [])),
)
/** Every net of every network, those that steps of several objectives train included. */
export const zooNets: readonly ZooNet[] = families.flatMap(({ name, networks }) =>
  networks.flatMap(([network, n]) => netsOf(name, network, n)),
)

export const zooNames: readonly string[] = [...zoo, ...zooSteps].map((e) => e.name)
export const zooEntry = (name: string): ZooEntry | undefined => zoo.find((e) => e.name === name)
