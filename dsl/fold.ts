// The one traversal of a net at run time: analysis and elaboration are algebras over it.
// In: a net, a starting value, an algebra. Out: the value at the end, or the first error: what is wrong within a part is told
// before what is wrong between parts, as the types tell it.
// Order is the syntax tree's, depth first: one branch after the other, then what joins them (paper 4, section 3.1).
// A layer is called by its scopes and its own name; nameless ones after their kind, numbered from the second of a step on.
import { type Either, isLeft, left, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import type { AtInputSize, Block, Blocks, Concat, Counted, Repeat, Residual, Scaled, Seq } from './compose'
import { badSize } from './layers/rule'
import type { Layer, Net } from './net'

/** Where a node stands. */
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
  /** A body's input times what the body made of it. */
  readonly product: (input: T, factor: T, at: NodeNames) => Either<GraphError, T>
  /** What a body made, at the height and width of the body's input; it takes a place only when that is another size. */
  readonly resize: (made: T, input: T, at: () => NodeNames) => Either<GraphError, T>
  /** Whether these branches cannot be joined, whatever comes after them: the first misfit is the one that is told. */
  readonly differ?: (branches: readonly T[]) => boolean
}

/** What a part made, and the names that its layers have taken. */
interface Part<T> {
  readonly made: T
  readonly names: ReadonlySet<string>
}
type Folded<T> = Either<GraphError, Part<T>>

const part = <T>(made: T, ...names: readonly string[]): Part<T> => ({ made, names: new Set(names) })

/** The names of both, or the one that they share. */
const united = (a: ReadonlySet<string>, b: ReadonlySet<string>): Either<GraphError, ReadonlySet<string>> => {
  const twice = [...b].find((name) => a.has(name))
  return twice === undefined ? right(new Set([...a, ...b])) : left({ tag: 'DuplicateName', name: twice, role: 'layer' })
}

/** How many nameless layers of each kind there are so far. */
export type Nameless = Map<string, number>

class Walk<T> {
  constructor(
    private readonly algebra: Algebra<T>,
    private readonly nameless: Nameless,
  ) {}

  fold(n: Net, x: T, scope: string): Folded<T> {
    switch (n.kind) {
      case 'seq':
        return this.line((n as Seq<readonly Net[]>).layers, x, () => scope)
      case 'block':
        return this.fold((n as Block<string, Net>).body, x, within(scope, (n as Block<string, Net>).name))
      case 'blocks': {
        const { name, layers } = n as Blocks<string, readonly Net[]>
        return this.numbered(layers, x, within(scope, name))
      }
      case 'counted':
        return this.counted(n as Counted<string, number, readonly Net[]>, x, scope)
      case 'repeat':
        return this.numbered([n], x, scope)
      case 'residual':
        return this.residual(n as Residual<Net, Net>, x, scope)
      case 'scaled':
        return this.scaled(n as Scaled<Net>, x, scope)
      case 'atInputSize':
        return this.atInputSize(n as AtInputSize<Net>, x, scope)
      case 'concat':
        return this.concat(n as Concat<readonly Net[]>, x, scope)
      default:
        return this.layer(n as Layer, x, scope)
    }
  }

  private line(layers: readonly Net[], x: T, scopeAt: (i: number) => string): Folded<T> {
    let line = part(x)
    for (const [i, l] of layers.entries()) {
      const y = this.fold(l, line.made, scopeAt(i))
      if (isLeft(y)) return y
      const names = united(line.names, y.right.names)
      if (isLeft(names)) return names
      line = { made: y.right.made, names: names.right }
    }
    return right(line)
  }

  private counted({ kind, stem, from, layers }: Counted<string, number, readonly Net[]>, x: T, scope: string): Folded<T> {
    const reason = badSize(['first number', from, 0])
    if (reason !== null) return left({ tag: 'ShapeInvalid', layer: within(scope, kind), kind, reason })
    return this.numbered(layers, x, scope, (i) => `${stem}${from + i}`)
  }

  private numbered(layers: readonly Net[], x: T, scope: string, nameAt = (i: number) => `${i}`): Folded<T> {
    const fault = layers.map((l) => copiesFault(l, scope)).find((f) => f !== null)
    return fault ? left(fault) : this.line(layers.flatMap(copies), x, (i) => within(scope, nameAt(i)))
  }

  private layer(l: Layer, x: T, scope: string): Folded<T> {
    const name = within(scope, l.name)
    const y = this.algebra.layer(l, x, l.name === '' ? this.placeOf(l.kind, scope) : { name, called: name })
    return isLeft(y) ? y : right(part(y.right, ...(l.name === '' ? [] : [name])))
  }

  private residual(n: Residual<Net, Net>, x: T, scope: string): Folded<T> {
    const body = this.fold(n.body, x, scope)
    if (isLeft(body)) return body
    const shortcut = this.fold(n.shortcut, x, scope)
    if (isLeft(shortcut)) return shortcut
    const names = united(body.right.names, shortcut.right.names)
    if (isLeft(names)) return names
    const sum = this.algebra.sum(body.right.made, shortcut.right.made, this.placeOf(n.kind, scope))
    return isLeft(sum) ? sum : right({ made: sum.right, names: names.right })
  }

  private scaled(n: Scaled<Net>, x: T, scope: string): Folded<T> {
    const body = this.fold(n.body, x, scope)
    if (isLeft(body)) return body
    const product = this.algebra.product(x, body.right.made, this.placeOf(n.kind, scope))
    return isLeft(product) ? product : right({ made: product.right, names: body.right.names })
  }

  private atInputSize(n: AtInputSize<Net>, x: T, scope: string): Folded<T> {
    const body = this.fold(n.body, x, scope)
    if (isLeft(body)) return body
    const resized = this.algebra.resize(body.right.made, x, () => this.placeOf(n.kind, scope))
    return isLeft(resized) ? resized : right({ made: resized.right, names: body.right.names })
  }

  private concat(n: Concat<readonly Net[]>, x: T, scope: string): Folded<T> {
    const branches: T[] = []
    let taken: ReadonlySet<string> = new Set()
    for (const b of n.branches) {
      const y = this.fold(b, x, scope)
      if (isLeft(y)) return y
      const names = united(taken, y.right.names)
      if (isLeft(names)) return names
      taken = names.right
      branches.push(y.right.made)
      if (this.algebra.differ?.(branches)) break
    }
    const joined = this.algebra.join(branches, this.placeOf(n.kind, scope))
    return isLeft(joined) ? joined : right({ made: joined.right, names: taken })
  }

  private placeOf(kind: string, scope: string): NodeNames {
    const called = within(scope, kind)
    const count = (this.nameless.get(called) ?? 0) + 1
    this.nameless.set(called, count)
    return { name: count === 1 ? called : `${called}${count}`, called }
  }
}

const within = (scope: string, name: string): string => (scope === '' ? name : `${scope}.${name}`)

/** A repeat as so many bodies, in a list of blocks or alone. */
const copies = (n: Net): readonly Net[] => {
  if (n.kind !== 'repeat') return [n]
  const { times, body } = n as Repeat<number, Net>
  return Array.from({ length: times }, () => copies(body)).flat()
}

const copiesFault = (n: Net, scope: string): GraphError | null => {
  if (n.kind !== 'repeat') return null
  const { times, body } = n as Repeat<number, Net>
  const reason = badSize(['number of copies', times, 1])
  return reason === null ? copiesFault(body, scope) : { tag: 'ShapeInvalid', layer: within(scope, n.kind), kind: n.kind, reason }
}

export const fold = <T>(algebra: Algebra<T>, n: Net, x: T, nameless: Nameless = new Map()): Either<GraphError, T> =>
  pipe(
    new Walk(algebra, nameless).fold(n, x, ''),
    map((whole) => whole.made),
  )
