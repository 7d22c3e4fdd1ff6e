// The largest batch or image of a step that a plan fits into a budget. In: a model at any size, a machine, a budget. Out: the size, the facts of its
// plan, and the next larger size, which is refused. Invariant: a size fits exactly if `stage` has a plan for it. Worked example, in-core steps of 300
// and 500 MiB for batches of 2 and 4: a line through both puts 1 GiB at a batch of 9. Then 9 is checked, and 10 is refused.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type Model, modelAt, type Shape, type Trainable } from '../../dsl'
import { isTrainable } from '../../dsl/load'
import { outline } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { onceFor, onceForPair } from '../../staging/core/remember'
import { numeric, withValues } from '../../staging/core/values'
import { type Graph, isPersistent, valueBytes } from '../../staging/graph/graph'
import { UPDATES, updatesOf } from '../../staging/ops/updates'
import { hasPlan, inCorePages } from '../../staging/planner/fastest'
import { strategies } from '../../staging/planner/strategies'
import { outcomeOf } from '../../staging/sim/simulate'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { orThrow, whilePlanning } from '../errors/exceptions'
import type { LocalMachine } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { batchesFrom } from './batches'
import { mostCallsPlanned } from './heap'
import { type Named, ofThisWorld, prepare } from './prepare'
import { checkedBudget, checkedEffort, machineOptionsOf, type PlannedOptions, STAGE_VALUES } from './stageoptions'

/** The sizes that can grow. */
export const GROWING = ['batch', 'image'] as const
/**
 * A size that `largest` searches: the images per step, or the pixels of an image.
 *
 * @example const growing: Growing = 'image'
 */
export type Growing = (typeof GROWING)[number]

/**
 * Options of `largest`: those of `stage` for one process, and the end of the search.
 *
 * @example const options: LargestOptions = { budget: gib(11), machine: 'v100-pcie-16g', upTo: 16 }
 */
export interface LargestOptions extends PlannedOptions {
  /**
   * Effort of the plan of the answer, in about this number of processor seconds. By default there is no search: 'auto' takes the fastest of a
   * few plans. An effort may find a faster step of the same size.
   *
   * @example largest(net, 'batch', { budget: gib(11), effort: 5 })
   */
  readonly effort?: number | undefined
  /**
   * End of the search: this number of times the largest batch, or the pixels of the largest image, that fits without recomputing, swapping
   * and tiles. Default 4. It does not apply to strategy 'in-core'.
   *
   * @example largest(net, 'batch', { budget: gib(11), upTo: 32 })
   */
  readonly upTo?: number | undefined
}

// biome-ignore format: a list
const LARGEST = withValues(
  optionsFor<LargestOptions>()(
    'largest', 'budget', 'loss', 'optimizer', ...UPDATES.keys, 'strategy', 'effort', 'machine', 'spill', 'hostMemory', 'spillWritesPerStep', 'algorithms', 'measure', 'precision', 'upTo',
  ),
  { ...STAGE_VALUES, upTo: numeric('numbers of at least 1') },
)

/**
 * The memory and the time of a plan, without the plan.
 *
 * @example const peak = ({ peakBytes }: Price) => showBytes(peakBytes)
 */
export interface Price {
  readonly strategy: string
  readonly peakBytes: number
  /** Bytes of the lower tier: host memory and disk. */
  readonly tierBytes: number
  readonly seconds: number
  readonly imagesPerSecond: number
}

/**
 * The largest size that fits, and the price of a step.
 *
 * @example const side = ({ input }: Largest) => input[2]
 */
export interface Largest extends Price {
  /** Shape of the input: batch, channels, height, width. */
  readonly input: Shape
  /** Next larger shape, which was refused; absent if the search ended before it. */
  readonly next?: Shape
  /** Reason of the refusal: the budget, or the model, which does not accept the shape. */
  readonly because?: 'budget' | 'model'
}

/** A model that can be built at any size, with the options of its step. */
export interface Subject {
  readonly at: (input: Shape) => Either<SpillwayError, Trainable>
  readonly base: Shape
  readonly own: Named
  readonly machine: LocalMachine
}

/** The options of a plan in the search. */
export interface Asked {
  readonly strategy: string
  readonly budgetBytes: number
  readonly effort?: number | undefined
  readonly upTo?: number | undefined
}

/** Times the in-core size: planning takes longer for larger steps, and the answer should take seconds. */
export const UP_TO = 4

/** The models of a subject by the sizes of their inputs: changed steps share them. */
const models = onceFor((_: Subject['at']) => new Map<string, Either<SpillwayError, Trainable>>())
const graphs = onceFor((_: Subject) => new Map<string, Either<SpillwayError, Graph>>())

/** The known answer for a key, or a new one, which is known from then on. */
export const keptIn = <K, A>(known: Map<K, A>, key: K, make: () => A): A => {
  const there = known.get(key)
  if (there !== undefined) return there
  const made = make()
  known.set(key, made)
  return made
}

const modelFor = ({ at }: Subject, input: Shape): Either<SpillwayError, Trainable> =>
  keptIn(models(at), input.join(), () => at(input))

/** The training graph of a subject at a size. */
export const graphAt = (subject: Subject, input: Shape): Either<SpillwayError, Graph> =>
  keptIn(graphs(subject), input.join(), () =>
    pipe(
      modelFor(subject, input),
      E.flatMap((model) => prepare(model, subject.machine, subject.own)),
      E.map(({ graph }) => graph),
    ),
  )

/** Gives a subject the graph of its own size. */
export const withGraph = (subject: Subject, graph: Graph): Subject => {
  graphs(subject).set(subject.base.join(), E.right(graph))
  return subject
}

/** The bytes of an in-core step. */
export const inCoreBytesOf = onceForPair((graph: Graph, machine: LocalMachine) => bytesOf(inCorePages(graph, machine)))

const fitsIn = (graph: Graph, { machine }: Subject, { strategy, budgetBytes }: Asked): boolean =>
  hasPlan(graph, { strategy, budgetBytes, machine, mostCalls: mostCallsPlanned() })

/** Plans a step, and keeps its price. Nothing runs the plan, so it is not verified. */
export const priceOf = (
  graph: Graph,
  { machine }: Subject,
  { strategy, budgetBytes, effort }: Asked,
): Either<SpillwayError, Price> =>
  pipe(
    outline(graph, { strategy, budgetBytes, effort, machine, mostCalls: mostCallsPlanned() }),
    E.map((chosen) => {
      const plan = machine.asInSteps(chosen)
      const seconds = outcomeOf(plan, machine.link).makespanSeconds
      const batch = graph.values.find((v) => v.role === 'input')!.shape[0]!
      return {
        strategy: plan.strategy,
        peakBytes: bytesOf(plan.peakPages),
        tierBytes: plan.tierBytes,
        seconds,
        imagesPerSecond: batch / seconds,
      }
    }),
  )

// ---------------------------------------------------------------- sizes

/** The legal sizes of one kind, by a number from 1 on: batches, or images of one proportion. */
interface Sizes {
  /** The number of the model's own size. */
  readonly own: number
  readonly shape: (n: number) => Shape
  /** The bytes of a step grow with this function of the number. */
  readonly grows: (n: number) => number
  /** The number at which the growth has a value. */
  readonly grown: (value: number) => number
  /** The distance of the first probe from the guess. */
  readonly stride: number
}

const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b))

/** Distances between legal images: networks halve an image up to six times, and some need all halves to be whole. */
const HALVES = [1, 2, 4, 8, 16, 32, 64]

/** Batches, or images of one proportion: all that are as far from each other as legal ones. */
const sizesOf = (subject: Subject, growing: Growing): Sizes => {
  const [b, c, h, w] = subject.base
  if (growing === 'batch') return { own: b, shape: (n) => [n, c, h, w], grows: (n) => n, grown: (value) => value, stride: 1 }
  const parts = divisor(h, w)
  const shapeOf = (k: number): Shape => [b, c, (k * h) / parts, (k * w) / parts]
  // A head for a fixed number of pixels may accept only multiples of the model's own size.
  const probes = (s: number): readonly number[] => [s, s * Math.ceil(parts / 2 / s), s * Math.ceil(parts / s)]
  const step = HALVES.find((s) => probes(s).every((k) => E.isRight(modelFor(subject, shapeOf(parts + k))))) ?? parts
  const first = parts % step || step
  const side = (n: number): number => first + (n - 1) * step
  return {
    own: (parts - first) / step + 1,
    shape: (n) => shapeOf(side(n)),
    grows: (n) => side(n) ** 2,
    grown: (value) => (Math.sqrt(value) - first) / step + 1,
    // Networks halve an image, so most of its bytes change only with every second size.
    stride: 2,
  }
}

/** Without an effort, `auto` takes the fastest plan of its list: a search takes seconds for large networks. */
const effortOf = ({ strategy, effort }: Omit<Asked, 'budgetBytes'>): number | undefined =>
  strategy === 'auto' ? (effort ?? 0) : undefined

type Refusal = 'budget' | 'model'

/** The largest number that is accepted, 0 if none is, and the reason for which the next one is refused. */
interface Edge {
  readonly at: number
  readonly because?: Refusal
}

/**
 * Finds a number that is accepted while the next one is refused: doubles the distance from the guess, then halves the rest. `known` is
 * accepted; numbers above `most` are not tried. Below `own`, the model refuses only numbers that are too small.
 */
const edgeOf = (
  refusal: (n: number) => Refusal | undefined,
  guess: number,
  most: number,
  { own, stride }: Sizes,
  known = 0,
): Edge => {
  let low = known
  let high = most + 1
  let isAccepted = known > 0
  let because: Refusal | undefined
  const look = (n: number): void => {
    const refused = refusal(n)
    if (refused === undefined || (refused === 'model' && n < own)) {
      low = n
      isAccepted ||= refused === undefined
    } else {
      high = n
      because = refused
    }
  }
  const first = Math.min(most, Math.max(known, guess))
  if (first > known) look(first)
  for (let step = stride; high - low > 1; step *= 2) {
    const middle = (low + high) >> 1
    look(low >= first ? Math.min(low + step, middle) : Math.max(high - step, middle))
  }
  const at = isAccepted ? low : 0
  return because === undefined ? { at } : { at, because }
}

// ---------------------------------------------------------------- the search

/** A step whose values exceed the limit of planning is larger than this number says. */
const MOST = 2 ** 24

/** Rounds of the guess: pages and image borders are the only error of a line through two sizes. */
const ROUNDS = 3
/** Sizes this near to the guess are tried one after the other: the bytes of images grow in steps of several pixels. */
const NEAR = 8

class Search {
  private readonly graphs = new Map<number, Either<SpillwayError, Graph>>()
  private readonly sizes: Sizes
  private batches: ((batch: number) => Graph) | undefined

  constructor(
    private readonly subject: Subject,
    private readonly growing: Growing,
    private readonly budgetBytes: number,
  ) {
    this.sizes = sizesOf(subject, growing)
  }

  private graph(n: number): Either<SpillwayError, Graph> {
    return keptIn(this.graphs, n, () => (this.batches ? ofThisWorld(this.batches(n)) : this.built(n)))
  }

  /** The second batch tells the graphs of the others. */
  private built(n: number): Either<SpillwayError, Graph> {
    const { own, shape } = this.sizes
    const graph = graphAt(this.subject, shape(n))
    const first = this.growing === 'batch' && n !== own ? this.graph(own) : graph
    if (E.isRight(first) && E.isRight(graph)) this.batches = batchesFrom(first.right, graph.right)
    return graph
  }

  /** The bytes of an in-core step; Infinity if the model refuses the size. */
  private need(n: number): number {
    const graph = this.graph(n)
    return E.isRight(graph) ? inCoreBytesOf(graph.right, this.subject.machine) : Number.POSITIVE_INFINITY
  }

  /** A size whose activations fill the budget, if all that is not kept between steps grows. */
  private guess(): number {
    const { own, grows, grown } = this.sizes
    const graph = this.graph(own)
    if (E.isLeft(graph)) return own
    const kept = graph.right.values.filter(isPersistent).reduce((n, v) => n + valueBytes(v), 0)
    const share = (this.budgetBytes - kept) / (this.need(own) - kept)
    return Math.min(MOST, Math.max(1, Math.floor(grown(grows(own) * Math.max(0, share)))))
  }

  /** The largest number in-core: a line through the bytes of two sizes says where to look. */
  private inCore(): Edge {
    const { own, grows, grown } = this.sizes
    let [a, b] = [this.guess(), own]
    for (let round = 0; round < ROUNDS && a !== b; round++) {
      const slope = (this.need(b) - this.need(a)) / (grows(b) - grows(a))
      const guess = Math.floor(grown(grows(a) + (this.budgetBytes - this.need(a)) / slope))
      if (!Number.isFinite(guess)) break
      const next = Math.min(MOST, Math.max(1, guess))
      if (next === b || Math.abs(next - a) <= NEAR) {
        a = next
        break
      }
      ;[a, b] = [next, Math.abs(next - a) < Math.abs(next - b) ? a : b]
    }
    const refusal = (n: number): Refusal | undefined =>
      this.need(n) <= this.budgetBytes ? undefined : this.need(n) < Infinity ? 'budget' : 'model'
    return edgeOf(refusal, a, MOST, this.sizes)
  }

  private edge(o: Omit<Asked, 'budgetBytes'>): Edge {
    const { strategy, upTo = UP_TO } = o
    const inCore = this.inCore()
    if (strategy === 'in-core') return inCore
    const { own, grows, grown } = this.sizes
    const most = Math.floor(grown(upTo * grows(inCore.at || own)))
    const requested = { strategy, budgetBytes: this.budgetBytes }
    const refusal = (n: number): Refusal | undefined => {
      const graph = this.graph(n)
      if (E.isLeft(graph)) return 'model'
      // Most searches end at the first size: its plan is priced later.
      const isPlanned = n === most ? E.isRight(this.price(n, o)) : fitsIn(graph.right, this.subject, requested)
      return isPlanned ? undefined : 'budget'
    }
    // A step that fits in-core fits `auto`, too.
    return edgeOf(refusal, most, most, this.sizes, strategy === 'auto' ? inCore.at : 0)
  }

  private readonly prices = new Map<string, Either<SpillwayError, Price>>()

  private price(n: number, o: Omit<Asked, 'budgetBytes'>): Either<SpillwayError, Price> {
    return keptIn(this.prices, `${n} ${o.strategy} ${o.effort}`, () =>
      pipe(
        this.graph(n),
        E.flatMap((graph) => priceOf(graph, this.subject, { ...o, effort: effortOf(o), budgetBytes: this.budgetBytes })),
      ),
    )
  }

  /** The smallest number that the model accepts: layers refuse images that are smaller than their windows. */
  private get smallest(): number {
    let [low, high] = [0, this.sizes.own]
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (E.isRight(modelFor(this.subject, this.sizes.shape(middle)))) high = middle
      else low = middle
    }
    return high
  }

  /** A size below a refused one that fits: up to four times as large as in-core, if one question finds a plan, else in-core. */
  smaller(strategy: string): Shape | undefined {
    const { own, grows, grown, shape } = this.sizes
    const { at } = this.inCore()
    if (at === 0 || at >= own) return undefined
    const larger = Math.min(own - 1, Math.floor(grown(UP_TO * grows(at))))
    const graph = this.graph(larger)
    const isPlanned = E.isRight(graph) && fitsIn(graph.right, this.subject, { strategy, budgetBytes: this.budgetBytes })
    return shape(larger > at && isPlanned ? larger : at)
  }

  /** If no size fits, the planner refuses the smallest, and names its smallest budget. */
  largest(o: Omit<Asked, 'budgetBytes'>): Either<SpillwayError, Largest> {
    const edge = this.edge(o)
    const at = edge.at || this.smallest
    const { because } = edge
    const { shape } = this.sizes
    return pipe(
      this.price(at, o),
      E.map((price) => ({
        input: shape(at),
        ...(because === undefined ? {} : { next: shape(at + 1), because }),
        ...price,
      })),
    )
  }
}

/** Returns a function that finds the largest size by strategy. It keeps the steps of all sizes for the next strategy. */
export const largestOf = (
  subject: Subject,
  growing: Growing,
  budgetBytes: number,
): ((o: Omit<Asked, 'budgetBytes'>) => Either<SpillwayError, Largest>) => {
  const search = new Search(subject, growing, budgetBytes)
  return (o) => whilePlanning(() => search.largest(o))
}

/** A smaller batch and a smaller image of a refused step that fit, as far as they are found in seconds. */
export const smallerOf = (subject: Subject, budgetBytes: number): Partial<Record<Growing, Shape>> =>
  Object.fromEntries(
    GROWING.flatMap((growing) => {
      const shape = whilePlanning(() => E.right(new Search(subject, growing, budgetBytes).smaller('auto')))
      return E.isRight(shape) && shape.right ? [[growing, shape.right]] : []
    }),
  )

// ---------------------------------------------------------------- for scripts

const checked = (growing: Growing, { strategy, effort, upTo = 1 }: LargestOptions): Either<SpillwayError, void> => {
  if (!GROWING.includes(growing)) return E.left(unknownName('size', growing, GROWING))
  if (strategy !== undefined && !(strategies as readonly string[]).includes(strategy))
    return E.left(unknownName('strategy', strategy, strategies))
  return upTo >= 1 ? checkedEffort({ strategy, effort }) : E.left(usage(`upTo is ${upTo}; allowed: numbers of at least 1`))
}

const ofOneNet = (model: Model): Either<SpillwayError, void> =>
  pipe(
    isTrainable(model),
    E.flatMap(
      E.fromPredicate(
        () => model.kind === 'model',
        (): SpillwayError => usage('a step has no size of its own: pass a model of one net, model([B,C,H,W], net)'),
      ),
    ),
  )

/**
 * Finds the largest batch or image of a model that a plan fits into the budget, or returns the error. `largest` throws it instead.
 *
 * @param net The model. Its other sizes stay.
 * @param growing The size to search: 'batch' or 'image'. An image keeps its proportions.
 * @param options Budget, machine, strategy, loss, optimizer and more.
 * @example
 * const answer = tryLargest(net, 'batch', { budget: mib(64), machine: 'v100-pcie-16g' })
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export const tryLargest = (net: Model, growing: Growing, options: LargestOptions = {}): Either<SpillwayError, Largest> =>
  pipe(
    ofOneNet(net),
    E.flatMap(() => knownIn(LARGEST)(options)),
    E.flatMap(() => checked(growing, options)),
    E.flatMap(() => machineNamed(options.machine ?? 'cpu', machineOptionsOf(options))),
    E.bindTo('machine'),
    E.bind('budgetBytes', ({ machine }) => checkedBudget(options.budget ?? machine.memoryBytes)),
    // A model that cannot be trained at its own size is refused with the reason.
    E.bind('own', ({ machine }) => prepare(net, machine, ownOf(options))),
    E.flatMap(({ machine, budgetBytes, own: { graph } }) => {
      const { strategy = 'auto', effort, upTo } = options
      const at = (input: Shape): Either<SpillwayError, Trainable> => modelAt(input, net.net)
      const subject = withGraph({ at, base: net.input, own: ownOf(options), machine }, graph)
      return largestOf(subject, growing, budgetBytes)({ strategy, effort, upTo })
    }),
  )

const ownOf = (o: LargestOptions): Named => ({ loss: o.loss, optimizer: o.optimizer, ...updatesOf(o) })

/**
 * Finds the largest batch or image of a model that a plan fits into the budget. The next larger size is refused. It throws a
 * `SpillwayException` if no size fits.
 *
 * @param net The model. Its other sizes stay.
 * @param growing The size to search: 'batch' or 'image'. An image keeps its proportions.
 * @param options Budget, machine, strategy, loss, optimizer and more.
 * @example
 * const { input, seconds } = largest(net, 'image', { budget: mib(64), machine: 'v100-pcie-16g', strategy: 'in-core' })
 * console.log(`${input.join('×')}: ${seconds} s a step`)
 */
export const largest = (net: Model, growing: Growing, options: LargestOptions = {}): Largest =>
  orThrow(tryLargest(net, growing, options))
