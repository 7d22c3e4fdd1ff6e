// The one traversal of a net at run time: analysis and elaboration are algebras over it. In: a net, a starting value, an algebra. Out: the value at
// the end, or the first error: errors within a part precede errors between parts, as in the types. The order is the syntax tree's, depth first: one
// branch after the other, then their join (paper 4, section 3.1). The name of a layer has its scopes and its own name; nameless ones have their kind,
// numbered from the second of a step on.
import { chain, type Either, left, map, right, traverseArray } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import { attention, type Combination, COMBINATIONS, type Combining, contraction } from './combined'
import type {
  AtInputSize,
  Block,
  Blocks,
  Concat,
  Counted,
  Masked,
  Reads,
  Repeat,
  Residual,
  Scaled,
  Seq,
  Value,
  Values,
} from './compose'
import { badSize, type SizeCheck } from './layers/rule'
import { noValues, notValues, valueAlone, valueTwice, valueUnknown, valueUnread } from './messages'
import type { Layer, Net } from './net'

/** The names of a node. */
export interface NodeNames {
  /** Its full name, unlike any other's. */
  readonly name: string
  /** Its name in messages, where nameless layers have no number: types cannot count them. */
  readonly called: string
}

export interface Algebra<T> {
  readonly layer: (l: Layer, x: T, at: NodeNames) => Either<GraphError, T>
  readonly sum: (body: T, shortcut: T, at: NodeNames) => Either<GraphError, T>
  readonly join: (branches: readonly T[], at: NodeNames) => Either<GraphError, T>
  /** Named values as one. */
  readonly combine: (by: Combination, parts: readonly T[], at: NodeNames) => Either<GraphError, T>
  /** A body's input times the body's result. */
  readonly product: (input: T, factor: T, at: NodeNames) => Either<GraphError, T>
  /** A body's result, at the height and width of the body's input; it takes a place only if that is another size. */
  readonly resize: (made: T, input: T, at: () => NodeNames) => Either<GraphError, T>
  /** The algebra of a body that computes only the parts of `input` with data. */
  readonly masked: (side: number, input: T, at: () => NodeNames) => Either<GraphError, Algebra<T>>
  /** Returns true if these branches cannot be joined, with any later ones: only the first misfit is reported. */
  readonly differ?: (branches: readonly T[]) => boolean
}

/** A part's result, and the names of its layers. */
interface Part<T> {
  readonly made: T
  readonly names: Set<string>
}
type Folded<T> = Either<GraphError, Part<T>>

const part = <T>(made: T, ...names: readonly string[]): Part<T> => ({ made, names: new Set(names) })

/** The result after a part, under the names of both; or the name that they share. The part before gives its names away: nothing reads it again. */
const behind =
  (before: Part<unknown>) =>
  <T>({ made, names }: Part<T>): Folded<T> => {
    for (const name of names) {
      if (before.names.has(name)) return left({ tag: 'DuplicateName', name, role: 'layer' })
      before.names.add(name)
    }
    return right({ made, names: before.names })
  }

/** The next result of a part, under its names. */
const then =
  <A, T>(make: (made: A) => Either<GraphError, T>) =>
  ({ made, names }: Part<A>): Folded<T> =>
    pipe(
      make(made),
      map((y) => ({ made: y, names })),
    )

/** How many nameless layers of each kind there are so far. */
export type Nameless = Map<string, number>

/** Counts one more of a kind. */
export const countedIn = <K>(counts: Map<K, number>, kind: K): number => {
  const count = (counts.get(kind) ?? 0) + 1
  counts.set(kind, count)
  return count
}

class Walk<T> {
  constructor(
    private readonly algebra: Algebra<T>,
    private readonly nameless: Nameless,
  ) {}

  fold(n: Net, x: T, scope: string): Folded<T> {
    const place = (): NodeNames => this.placeOf(n.kind, scope)
    switch (n.kind) {
      case 'seq':
        return this.line((n as Seq<readonly Net[]>).layers, x, () => scope)
      case 'block':
        return this.fold((n as Block<string, Net>).body, x, within(scope, (n as Block<string, Net>).name))
      case 'blocks': {
        const { name, layers } = n as Blocks<string, readonly Net[]>
        return this.numbered(layers, x, within(scope, name))
      }
      case 'counted': {
        const { stem, from, layers } = n as Counted<string, number, readonly Net[]>
        return pipe(
          checkedSize(n, scope, ['first number', from, 0]),
          chain(() => this.numbered(layers, x, scope, (i) => `${stem}${from + i}`)),
        )
      }
      case 'repeat':
        return this.numbered([n], x, scope)
      case 'residual': {
        const { body, shortcut } = n as Residual<Net, Net>
        return pipe(this.branches([body, shortcut], x, scope), chain(then(([a, b]) => this.algebra.sum(a!, b!, place()))))
      }
      case 'scaled':
        return pipe(this.fold((n as Scaled<Net>).body, x, scope), chain(then((y) => this.algebra.product(x, y, place()))))
      case 'atInputSize':
        return pipe(this.fold((n as AtInputSize<Net>).body, x, scope), chain(then((y) => this.algebra.resize(y, x, place))))
      case 'masked': {
        const { side, body } = n as Masked<number, Net>
        return pipe(
          checkedSize(n, scope, ['side of a block', side, 1]),
          chain(() => this.algebra.masked(side, x, place)),
          chain((algebra) => new Walk(algebra, this.nameless).fold(body, x, scope)),
        )
      }
      case 'concat':
        return pipe(
          this.branches((n as Concat<readonly Net[]>).branches, x, scope),
          chain(then((ys) => this.algebra.join(ys, place()))),
        )
      case 'values':
        return this.values(n as Values<readonly Net[]>, x, scope)
      case 'value':
        return left(misfit(n as AnyValue, scope, valueAlone()))
      default:
        return this.layer(n as Layer, x, scope)
    }
  }

  private line(layers: readonly Net[], x: T, scopeAt: (i: number) => string): Folded<T> {
    const next = (l: Net, i: number) => (line: Part<T>) => pipe(this.fold(l, line.made, scopeAt(i)), chain(behind(line)))
    return layers.reduce((line: Folded<T>, l, i) => pipe(line, chain(next(l, i))), right(part(x)))
  }

  /** The result of each for the same input; none after a misfit. */
  private branches(nets: readonly Net[], x: T, scope: string): Folded<readonly T[]> {
    const next = (n: Net) => (all: Part<readonly T[]>) =>
      this.algebra.differ?.(all.made)
        ? right(all)
        : pipe(this.fold(n, x, scope), chain(then((y) => right([...all.made, y]))), chain(behind(all)))
    return nets.reduce((all: Folded<readonly T[]>, n) => pipe(all, chain(next(n))), right(part([])))
  }

  private values(n: Values<readonly Net[]>, x: T, scope: string): Folded<T> {
    const made = new Map([[INPUT, x]])
    const next = (v: AnyValue) => (before: Part<T>) => pipe(this.value(v, made, scope), chain(behind(before)))
    const fault = n.layers.length === 0 ? noValues() : n.layers.some((v) => v.kind !== 'value') ? notValues() : undefined
    if (fault !== undefined) return left({ tag: 'ShapeInvalid', layer: within(scope, n.kind), kind: n.kind, reason: fault })
    const all = n.layers as readonly AnyValue[]
    const read = new Set(all.flatMap((v) => readsOf(v.reads).of))
    const unread = all.slice(0, -1).find((v) => !read.has(v.name))
    return pipe(
      all.reduce((line: Folded<T>, v) => pipe(line, chain(next(v))), right(part(x))),
      chain((line) => (unread === undefined ? right(line) : left(misfit(unread, scope, valueUnread())))),
    )
  }

  /** Adds a value to those that are made. */
  private value(v: AnyValue, made: Map<string, T>, scope: string): Folded<T> {
    const { name, reads, body } = v
    const { by, of } = readsOf(reads)
    const unknown = of.find((o) => !made.has(o))
    if (made.has(name)) return left(misfit(v, scope, valueTwice()))
    if (unknown !== undefined) return left(misfit(v, scope, valueUnknown(unknown)))
    const parts = of.map((o) => made.get(o)!)
    return pipe(
      by === undefined ? right(parts[0]!) : this.algebra.combine(by, parts, this.placeOf(by.called, scope)),
      chain((x) => this.fold(body, x, scope)),
      map((y) => {
        made.set(name, y.made)
        return y
      }),
    )
  }

  private numbered(layers: readonly Net[], x: T, scope: string, nameAt = (i: number) => `${i}`): Folded<T> {
    return pipe(
      layers,
      traverseArray((l) => copies(l, scope)),
      chain((spread) => this.line(spread.flat(), x, (i) => within(scope, nameAt(i)))),
    )
  }

  private layer(l: Layer, x: T, scope: string): Folded<T> {
    const name = within(scope, l.name)
    return pipe(
      this.algebra.layer(l, x, l.name === '' ? this.placeOf(l.kind, scope) : { name, called: name }),
      map((y) => part(y, ...(l.name === '' ? [] : [name]))),
    )
  }

  private placeOf(kind: string, scope: string): NodeNames {
    const called = within(scope, kind)
    const count = countedIn(this.nameless, called)
    return { name: count === 1 ? called : `${called}${count}`, called }
  }
}

type AnyValue = Value<string, Reads, Net>
/** The name of the input of a net of values. */
const INPUT = 'input'

/** The names that a value reads, and their combination, if they are several. */
const readsOf = (reads: Reads): { readonly by?: Combination; readonly of: readonly string[] } => {
  if (typeof reads === 'string') return { of: [reads] }
  if ('attended' in reads) return { by: attention(reads), of: reads.attended }
  if ('contracted' in reads) return { by: contraction(reads), of: reads.contracted }
  const [entry] = Object.entries(reads) as readonly (readonly [Combining, readonly string[]])[]
  return { by: COMBINATIONS[entry![0]], of: entry![1] }
}

const misfit = ({ name, kind }: AnyValue, scope: string, reason: string): GraphError => ({
  tag: 'ShapeInvalid',
  layer: within(scope, name),
  kind,
  reason,
})

const within = (scope: string, name: string): string => (scope === '' ? name : `${scope}.${name}`)

const checkedSize = (n: Net, scope: string, check: SizeCheck): Either<GraphError, Net> => {
  const reason = badSize(check)
  return reason === null ? right(n) : left({ tag: 'ShapeInvalid', layer: within(scope, n.kind), kind: n.kind, reason })
}

/** A repeat as a number of bodies, in a list of blocks or alone. */
const copies = (n: Net, scope: string): Either<GraphError, readonly Net[]> => {
  if (n.kind !== 'repeat') return right([n])
  const { times, body } = n as Repeat<number, Net>
  return pipe(
    checkedSize(n, scope, ['number of copies', times, 1]),
    chain(() => copies(body, scope)),
    map((once) => Array.from({ length: times }, () => once).flat()),
  )
}

export const fold = <T>(algebra: Algebra<T>, n: Net, x: T, nameless: Nameless = new Map()): Either<GraphError, T> =>
  pipe(
    new Walk(algebra, nameless).fold(n, x, ''),
    map((whole) => whole.made),
  )
