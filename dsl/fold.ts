// The one traversal of a net at run time: analysis and elaboration are algebras over it.
// In: a net, a starting value, an algebra. Out: the value at the end, or the first error in execution order.
// Order is the syntax tree's, depth first: one branch after the other, then what joins them (paper 4, section 3.1).
// Names: a layer is called by its scopes and its own name; nameless ones after their kind, from the second on numbered.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { GraphError } from '../staging/core/errors'
import type { AtInputSize, Block, Blocks, Concat, Counted, Repeat, Residual, Seq } from './compose'
import { badSize } from './layers/rule'
import type { Layer, Net } from './net'

/** Where a node stands. */
export interface Place {
  /** Its full name, unlike any other's. */
  readonly name: string
  /** Its name in messages, where nameless layers have no number: types cannot count them. */
  readonly called: string
}

export interface Algebra<T> {
  readonly layer: (l: Layer, x: T, at: Place) => Either<GraphError, T>
  readonly sum: (body: T, shortcut: T, at: Place) => Either<GraphError, T>
  readonly join: (branches: readonly T[], at: Place) => Either<GraphError, T>
  /** What a body made, at the height and width of the body's input. */
  readonly resize: (made: T, input: T, at: Place) => Either<GraphError, T>
  /** Whether these branches cannot be joined, whatever comes after them: the first misfit is the one that is told. */
  readonly differ?: (branches: readonly T[]) => boolean
}

class Walk<T> {
  private readonly nameless = new Map<string, number>()
  private readonly taken = new Set<string>()

  constructor(private readonly algebra: Algebra<T>) {}

  fold(n: Net, x: T, scope: string): Either<GraphError, T> {
    switch (n.kind) {
      case 'seq':
        return this.line((n as Seq<readonly Net[]>).layers, x, scope)
      case 'block':
        return this.fold((n as Block<string, Net>).body, x, within(scope, (n as Block<string, Net>).name))
      case 'blocks':
        return this.numbered(
          (n as Blocks<string, readonly Net[]>).layers,
          x,
          within(scope, (n as Blocks<string, readonly Net[]>).name),
        )
      case 'counted':
        return this.counted(n as Counted<string, number, readonly Net[]>, x, scope)
      case 'repeat':
        return this.numbered([n], x, scope)
      case 'residual':
        return this.residual(n as Residual<Net, Net>, x, scope)
      case 'atInputSize':
        return this.atInputSize(n as AtInputSize<Net>, x, scope)
      case 'concat':
        return this.concat(n as Concat<readonly Net[]>, x, scope)
      default:
        return this.layer(n as Layer, x, scope)
    }
  }

  private line(layers: readonly Net[], x: T, scope: string): Either<GraphError, T> {
    let y: Either<GraphError, T> = right(x)
    for (const l of layers) {
      if (isLeft(y)) return y
      y = this.fold(l, y.right, scope)
    }
    return y
  }

  private counted(
    { kind, stem, from, layers }: Counted<string, number, readonly Net[]>,
    x: T,
    scope: string,
  ): Either<GraphError, T> {
    const reason = badSize(['first number', from, 0])
    if (reason !== null) return left({ tag: 'ShapeInvalid', layer: within(scope, kind), kind, reason })
    return this.numbered(layers, x, scope, (i) => `${stem}${from + i}`)
  }

  private numbered(layers: readonly Net[], x: T, scope: string, nameAt = (i: number) => `${i}`): Either<GraphError, T> {
    const fault = layers.map((l) => copiesFault(l, scope)).find((f) => f !== null)
    if (fault) return left(fault)
    let y: Either<GraphError, T> = right(x)
    for (const [i, body] of layers.flatMap(copies).entries()) {
      if (isLeft(y)) return y
      y = this.fold(body, y.right, within(scope, nameAt(i)))
    }
    return y
  }

  private layer(l: Layer, x: T, scope: string): Either<GraphError, T> {
    if (l.name === '') return this.algebra.layer(l, x, this.placeOf(l.kind, scope))
    const name = within(scope, l.name)
    if (this.taken.has(name)) return left({ tag: 'DuplicateName', name, role: 'layer' })
    this.taken.add(name)
    return this.algebra.layer(l, x, { name, called: name })
  }

  private residual(n: Residual<Net, Net>, x: T, scope: string): Either<GraphError, T> {
    const body = this.fold(n.body, x, scope)
    if (isLeft(body)) return body
    const shortcut = this.fold(n.shortcut, x, scope)
    return isLeft(shortcut) ? shortcut : this.algebra.sum(body.right, shortcut.right, this.placeOf(n.kind, scope))
  }

  private atInputSize(n: AtInputSize<Net>, x: T, scope: string): Either<GraphError, T> {
    const body = this.fold(n.body, x, scope)
    return isLeft(body) ? body : this.algebra.resize(body.right, x, this.placeOf(n.kind, scope))
  }

  private concat(n: Concat<readonly Net[]>, x: T, scope: string): Either<GraphError, T> {
    const branches: T[] = []
    for (const b of n.branches) {
      const y = this.fold(b, x, scope)
      if (isLeft(y)) return y
      branches.push(y.right)
      if (this.algebra.differ?.(branches)) break
    }
    return this.algebra.join(branches, this.placeOf(n.kind, scope))
  }

  private placeOf(kind: string, scope: string): Place {
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

export const fold = <T>(algebra: Algebra<T>, n: Net, x: T): Either<GraphError, T> => new Walk(algebra).fold(n, x, '')
