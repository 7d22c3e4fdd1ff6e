// The answers of `spillway fits`. In: a model with options, a budget. Out: the step as it is, the largest batches and images, and changes with their
// memory and time. Invariant: each change stands alone: it is planned without the others.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Shape } from '../../dsl'
import { HALF_IN } from '../../staging/devices'
import type { Graph } from '../../staging/graph/graph'
import { hasTier } from '../../staging/graph/machine'
import type { SpillwayError } from '../errors/errors'
import { whilePlanning } from '../errors/exceptions'
import type { LocalMachine, MachineOptions } from '../machine/localmachine'
import { showSize } from '../report/format'
import {
  type Growing,
  graphAt,
  inCoreBytesOf,
  keptIn,
  type Largest,
  largestOf,
  type Price,
  priceOf,
  type Subject,
  withGraph,
} from './largest'
import type { Prepared } from './prepare'
import { EFFORTS } from './stageoptions'

/** A step in the budget: its memory in-core, and the price of its plan, if one fits. */
export interface Fit {
  readonly input: Shape
  readonly inCoreBytes: number
  /** In-core, by a plan that recomputes, swaps or tiles, or not at all. */
  readonly fits: 'in-core' | 'planned' | 'no'
  readonly price?: Price
  /** The smallest budget that works, if no plan fits. */
  readonly smallestBytes?: number
}

/** A change of the step or the machine. */
export interface Change extends Fit {
  readonly change: string
  /** The command line's words for it. */
  readonly flags: readonly string[]
  /** Bytes less than the in-core step without the change. */
  readonly savedBytes: number
}

/** The largest size of one kind, and the strategy that may be used. */
export interface Answer {
  readonly growing: Growing
  readonly of: 'in-core' | 'auto'
  /** Absent if no size fits. */
  readonly largest?: Largest
}

export interface Fits {
  readonly budgetBytes: number
  readonly asked: Fit
  readonly largest: readonly Answer[]
  /** Changes that fit first, then the fastest for an image first; none if the step fits in-core. */
  readonly changes: readonly Change[]
}

export interface FitsAsked {
  readonly subject: Subject
  /** The step at its own size. */
  readonly graph: Graph
  /** The names of the trained parameters; absent in a step of several networks. */
  readonly trained?: readonly string[]
  readonly budgetBytes: number
  readonly effort?: number | undefined
  readonly upTo?: number | undefined
  /** Called before each part of the answer is computed. */
  readonly onPhase?: (text: string) => void
  /** The machine with other options, if there is one. */
  readonly machineWith: (o: Pick<MachineOptions, 'precision' | 'hostMemory' | 'spill'>) => Either<SpillwayError, LocalMachine>
}

/** Too little for a search: the fastest chain is planned. A search takes longer than an answer. */
const CHAINS = EFFORTS.least / 10

const isRefused = ({ tag }: SpillwayError): boolean => tag === 'BudgetInfeasible' || tag === 'TierInfeasible'

const fitOf = (graph: Graph, subject: Subject, { budgetBytes, effort }: FitsAsked): Either<SpillwayError, Fit> => {
  const inCoreBytes = inCoreBytesOf(graph, subject.machine)
  const known = { input: graph.values.find((v) => v.role === 'input')!.shape as Shape, inCoreBytes }
  const fits = inCoreBytes <= budgetBytes ? 'in-core' : 'planned'
  // A step that fits in-core needs no search.
  const how =
    fits === 'in-core' && effort === undefined
      ? ({ strategy: 'in-core' } as const)
      : ({ strategy: 'auto', effort: effort ?? CHAINS } as const)
  return pipe(
    priceOf(graph, subject, { ...how, budgetBytes }),
    E.map((price): Fit => ({ ...known, fits, price })),
    E.orElse((e) => {
      if (!isRefused(e)) return E.left(e)
      const smallest = e.tag === 'BudgetInfeasible' ? { smallestBytes: e.smallestBytes } : {}
      return E.right<SpillwayError, Fit>({ ...known, fits: 'no', ...smallest })
    }),
  )
}

// ---------------------------------------------------------------- changes

type Sought = Either<SpillwayError, readonly Change[]>
type Before = Pick<Fit, 'input' | 'inCoreBytes'>
const NONE: Sought = E.right([])

/** Describes a changed subject at a size. */
const changed =
  (o: FitsAsked, before: Before) =>
  (change: string, flags: readonly string[], subject: Subject, input = before.input): Sought =>
    pipe(
      graphAt(subject, input),
      E.flatMap((graph) => fitOf(graph, subject, o)),
      E.map((fit) => [{ change, flags, savedBytes: before.inCoreBytes - fit.inCoreBytes, ...fit }]),
    )

/** The parts of a network in the order of their parameters: the first components of the names that tell several parts apart. */
export const partsOf = (names: readonly string[]): readonly string[] => {
  for (let depth = 1; ; depth++) {
    const parts = [...new Set(names.map((name) => name.split('.').slice(0, depth).join('.')))]
    if (parts.length > 3 || parts.length === names.length) return parts
  }
}

/** The graph and the trained parameters of a prepared step. */
export const stepAsked = ({ model, graph, step }: Prepared): Pick<FitsAsked, 'graph' | 'trained'> =>
  model.kind === 'step' || !step
    ? { graph }
    : { graph, trained: step.objectives.flatMap((o) => [...o.params.keys()].map((v) => step.graph.values[v]!.name)) }

/** Freezes the fewest first parts that make room in-core: none if even all but the last one do not. */
const freezing = (o: FitsAsked, before: Before): Sought => {
  const { subject, trained = [], budgetBytes } = o
  const parts = partsOf(trained)
  if (parts.length < 2) return NONE
  const own = subject.own.freeze ?? []
  const subjects = parts.map(
    (_, count): Subject => ({
      ...subject,
      own: {
        ...subject.own,
        freeze: [...(typeof own === 'string' ? [own] : own), ...parts.slice(0, count).map((p) => `${p}.*`)],
      },
    }),
  )
  const frozen = (count: number): Subject => subjects[count]!
  const isEnough = (count: number): boolean =>
    pipe(
      graphAt(frozen(count), before.input),
      E.match(
        () => false,
        (graph) => inCoreBytesOf(graph, subject.machine) <= budgetBytes,
      ),
    )
  if (!isEnough(parts.length - 1)) return NONE
  let [low, high] = [0, parts.length - 1]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (isEnough(middle)) high = middle
    else low = middle
  }
  const names = high === 1 ? parts[0]! : `${parts[0]} to ${parts[high - 1]}`
  return changed(o, before)(
    `freeze ${names}`,
    parts.slice(0, high).flatMap((p) => ['--freeze', `${p}.*`]),
    frozen(high),
  )
}

const rounding = (o: FitsAsked, before: Before): Sought => {
  if (HALF_IN[o.subject.machine.precision]) return NONE
  for (const precision of ['bf16', 'fp16'] as const) {
    const machine = o.machineWith({ precision })
    if (E.isRight(machine))
      return changed(o, before)(precision, ['--precision', precision], { ...o.subject, machine: machine.right })
  }
  return NONE
}

/** The fewest parts of the batch that fit in-core, with an update after all of them. */
const accumulating = (o: FitsAsked, before: Before, whole: Largest | undefined): Sought => {
  const { subject, budgetBytes, trained } = o
  const [batch, ...image] = before.input
  if (!trained || !whole) return NONE
  const already = subject.own.accumulate ?? 1
  const inputOf = (parts: number): Shape => [Math.ceil(batch / parts), ...image]
  // One subject for each number: it keeps its graph.
  const subjects = new Map<number, Subject>()
  const split = (parts: number): Subject =>
    keptIn(subjects, parts, () => ({ ...subject, own: { ...subject.own, accumulate: already * parts } }))
  const isEnough = (parts: number): boolean => {
    const graph = graphAt(split(parts), inputOf(parts))
    return E.isRight(graph) && inCoreBytesOf(graph.right, subject.machine) <= budgetBytes
  }
  // The sums of gradients need memory, too: sometimes a part or two more are needed.
  let [low, high] = [Math.max(2, Math.ceil(batch / whole.input[0])) - 1, batch]
  for (let probe = 0; low < high; probe++) {
    const parts = Math.min(low + Math.ceil(2 ** (probe - 1)), batch)
    if (isEnough(parts)) {
      high = parts
      break
    }
    low = parts
  }
  if (low >= high) return NONE
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (isEnough(middle)) high = middle
    else low = middle
  }
  const input = inputOf(high)
  return changed(o, before)(
    `batch ${input[0]}, update every ${already * high} steps`,
    ['--batch', `${input[0]}`, '--accumulate', `${already * high}`],
    split(high),
    input,
  )
}

const shrinking = (o: FitsAsked, before: Before, largest: Largest | undefined): Sought => {
  if (!largest || largest.input[2] >= before.input[2]) return NONE
  const [, , height, width] = largest.input
  const size = height === width ? `${height}` : `${height}x${width}`
  return changed(o, before)(`image ${size}`, ['--image', size], o.subject, largest.input)
}

/** More than any step moves. */
const ANY_BYTES = 2 ** 46
const MIB = 2 ** 20

/** Swapping, if nothing is swapped yet: into host memory of the size that the plan needs, and to a disk. */
const swapping = (o: FitsAsked, before: Before): Sought => {
  const { subject, graph, machineWith } = o
  if (hasTier(subject.machine) && !subject.machine.link.sameMemory) return NONE
  const change = changed(o, before)
  const host = pipe(
    machineWith({ hostMemory: ANY_BYTES }),
    E.flatMap((machine) => fitOf(graph, { ...subject, machine }, o)),
    E.flatMap(({ price }) => {
      if (!price) return NONE
      const mib = Math.ceil(price.tierBytes / MIB)
      return pipe(
        machineWith({ hostMemory: mib * MIB }),
        E.flatMap((machine) =>
          change(`swap, ${showSize(mib * MIB)} of RAM`, ['--host-memory', `${mib}MiB`], { ...subject, machine }),
        ),
      )
    }),
  )
  const disk = pipe(
    machineWith({ spill: '.' }),
    E.flatMap((machine) => change('swap to a disk', ['--spill', '.'], { ...subject, machine })),
  )
  return pipe(
    E.sequenceArray([host, disk]),
    E.map((found) => found.flat()),
  )
}

const secondsForAnImage = ({ price }: Fit): number => (price ? 1 / price.imagesPerSecond : Number.POSITIVE_INFINITY)

// ---------------------------------------------------------------- all answers

/** The sizes and the changes of one kind of growth. Each kind is answered without the other, so a thread may answer it. */
export interface Grown {
  readonly answers: readonly Answer[]
  readonly changes: readonly Change[]
}

/** The sizes of one kind: in-core, and with a plan. */
const answersOf = (o: FitsAsked, growing: Growing): Either<SpillwayError, readonly Answer[]> => {
  o.onPhase?.(`finding the largest ${growing}`)
  const find = largestOf(o.subject, growing, o.budgetBytes)
  return pipe(
    ['in-core', 'auto'] as const,
    E.traverseArray((of) =>
      pipe(
        find({ strategy: of, effort: o.effort, upTo: o.upTo }),
        E.map((largest): Answer => ({ growing, of, largest })),
        E.orElse((e): Either<SpillwayError, Answer> => (isRefused(e) ? E.right({ growing, of }) : E.left(e))),
      ),
    ),
  )
}

/** With the graph of its own size, and the memory of the step as it is. */
const withBefore = (o: FitsAsked): FitsAsked & { readonly before: Before } => {
  const { graph } = o
  const { base: input, machine } = o.subject
  return { ...o, subject: withGraph(o.subject, graph), before: { input, inCoreBytes: inCoreBytesOf(graph, machine) } }
}

const grownBy = (o: FitsAsked, growing: Growing, changes: (before: Before, inCore?: Largest) => readonly Sought[]) =>
  whilePlanning(() => {
    const { before, ...rest } = withBefore(o)
    return pipe(
      answersOf(rest, growing),
      E.bindTo('answers'),
      E.bind('changes', ({ answers }) => {
        if (before.inCoreBytes <= o.budgetBytes) return NONE
        o.onPhase?.('trying changes')
        const wanted = changes(before, answers.find(({ of }) => of === 'in-core')?.largest)
        return pipe(
          E.sequenceArray(wanted),
          E.map((found) => found.flat()),
        )
      }),
    )
  })

/** The largest images, and the changes of the network and its input. */
export const imagesOf = (o: FitsAsked): Either<SpillwayError, Grown> =>
  grownBy(o, 'image', (before, largest) => [freezing(o, before), rounding(o, before), shrinking(o, before, largest)])

/** The largest batches, and the changes of the batch and the lower memories. */
export const batchesOf = (o: FitsAsked): Either<SpillwayError, Grown> =>
  grownBy(o, 'batch', (before, largest) => [accumulating(o, before, largest), swapping(o, before)])

/** The step as it is. */
export const askedOf = (o: FitsAsked): Either<SpillwayError, Fit> => whilePlanning(() => fitOf(o.graph, o.subject, o))

/** All answers, from those of the step, of batches and of images. */
export const fitsFrom = (
  budgetBytes: number,
  step: Either<SpillwayError, Fit>,
  ...kinds: readonly Either<SpillwayError, Grown>[]
): Either<SpillwayError, Fits> =>
  pipe(
    step,
    E.bindTo('asked'),
    E.bind('grown', () => E.sequenceArray(kinds)),
    E.map(({ asked: requested, grown }) => ({
      budgetBytes,
      asked: requested,
      largest: grown.flatMap(({ answers }) => answers),
      changes: grown.flatMap(({ changes }) => changes).sort((a, b) => secondsForAnImage(a) - secondsForAnImage(b)),
    })),
  )

export const fitsOf = (o: FitsAsked): Either<SpillwayError, Fits> =>
  fitsFrom(o.budgetBytes, askedOf(o), batchesOf(o), imagesOf(o))
