// A step from outside: a model file, perhaps through another copy of this package. In: unknown, sizes that the caller wants.
// Out: TrainingStep, every net and tensor checked; or what is wrong with it, with the path. Sizes apply to every fed tensor:
// the batch to all, height and width to those as large as the first. Objects that were the same stay the same.
import { type Either, isLeft, left, right, traverseArray, traverseArrayWithIndex } from 'fp-ts/Either'
import type { GraphError } from '../staging/core/errors'
import { analyse } from './analyse'
import { decodeNet, show } from './decode'
import { branchesDiffer, shapeText } from './messages'
import type { InputOverride } from './model'
import type { Net, Shape } from './net'
import type { Fed, LossTerm, StepObjective, Tensor, TrainingStep } from './step'
import type { Optimizer } from './training'

type Fields = Readonly<Record<string, unknown>>
type Result<T> = Either<GraphError, T>

const isObject = (u: unknown): u is Fields => typeof u === 'object' && u !== null && !Array.isArray(u)
const refused = (at: string, reason: string): Either<GraphError, never> => left({ tag: 'ModelInvalid', at, reason })
const isShape = (u: unknown): u is Shape =>
  Array.isArray(u) && u.length === 4 && u.every((d) => Number.isSafeInteger(d) && d >= 1)

class Decoder {
  private readonly nets = new Map<unknown, Net>()
  private readonly tensors = new Map<unknown, Tensor>()
  private first: Shape | undefined

  constructor(private readonly sizes: InputOverride) {}

  step(u: Fields): Result<TrainingStep> {
    if (!Array.isArray(u['objectives'])) return refused('step', `${show(u['objectives'])} is not a list of objectives`)
    const objectives = traverseArrayWithIndex((i, o) => this.objective(o, `step.objectives[${i}]`))(u['objectives'])
    return isLeft(objectives) ? objectives : right({ kind: 'step', objectives: objectives.right })
  }

  private objective(u: unknown, at: string): Result<StepObjective> {
    if (!isObject(u) || typeof u['name'] !== 'string' || u['name'] === '')
      return refused(at, `${show(u)} is not an objective with a name`)
    const { over, optimizer, losses, name } = u
    if (!Array.isArray(over)) return refused(`${at}.over`, `${show(over)} is not a list of nets`)
    if (!isObject(optimizer) || !['sgd', 'adam', 'adamw'].includes(String(optimizer['kind'])))
      return refused(`${at}.optimizer`, `${show(optimizer)} is not an optimizer`)
    if (!isObject(losses)) return refused(`${at}.losses`, `${show(losses)} is not a record of losses`)
    const nets = traverseArray((n) => this.net(n))(over)
    if (isLeft(nets)) return nets
    const terms = traverseArray(([k, list]: readonly [string, unknown]) =>
      Array.isArray(list)
        ? traverseArrayWithIndex((i, t) => this.term(t, `${at}.losses.${k}[${i}]`))(list)
        : refused(`${at}.losses.${k}`, `${show(list)} is not a list of losses`),
    )(Object.entries(losses))
    if (isLeft(terms)) return terms
    const named = Object.fromEntries(Object.keys(losses).map((k, i) => [k, terms.right[i]!]))
    return right({ name, over: nets.right, optimizer: optimizer as unknown as Optimizer, losses: named })
  }

  private term(u: unknown, at: string): Result<LossTerm> {
    if (!isObject(u) || typeof u['loss'] !== 'string' || typeof u['weight'] !== 'number')
      return refused(at, `${show(u)} is not a loss`)
    const of = this.tensor(u['of'], `${at}.of`)
    if (isLeft(of)) return of
    const common = { loss: u['loss'] as LossTerm['loss'], of: of.right, weight: u['weight'] }
    if (typeof u['to'] === 'number') return right({ ...common, to: u['to'] })
    const to = this.tensor(u['to'], `${at}.to`)
    return isLeft(to) ? to : right({ ...common, to: to.right })
  }

  private net(u: unknown): Result<Net> {
    const known = this.nets.get(u)
    if (known) return right(known)
    const net = decodeNet(u)
    if (!isLeft(net)) this.nets.set(u, net.right)
    return net
  }

  private tensor(u: unknown, at: string): Result<Tensor> {
    const known = this.tensors.get(u)
    if (known) return right(known)
    const t = isObject(u) ? this.newTensor(u, at) : refused(at, `${show(u)} is not a tensor of a step`)
    if (!isLeft(t)) this.tensors.set(u, t.right)
    return t
  }

  private newTensor(u: Fields, at: string): Result<Tensor> {
    switch (u['kind']) {
      case 'fed':
        return this.fed(u, at)
      case 'applied': {
        const net = this.net(u['net'])
        if (isLeft(net)) return net
        const to = this.tensor(u['to'], at)
        if (isLeft(to)) return to
        const a = analyse(net.right, to.right.shape)
        return isLeft(a) ? a : right({ kind: 'applied', net: net.right, to: to.right, shape: a.right.output } as Tensor)
      }
      case 'joined':
        return this.joined(u, at)
      case 'detached': {
        const of = this.tensor(u['of'], at)
        return isLeft(of) ? of : right({ kind: 'detached', of: of.right, shape: of.right.shape } as Tensor)
      }
      default:
        return refused(at, `${show(u)} is not a tensor of a step; legal are fed, apply, joined and detach`)
    }
  }

  private fed(u: Fields, at: string): Result<Fed> {
    const { name, shape } = u
    if (typeof name !== 'string' || name === '' || !isShape(shape))
      return refused(at, `${show(u)} is not a fed tensor with a name and four sizes`)
    this.first ??= shape
    const { batch, height, width } = this.sizes
    const alike = shape[2] === this.first[2] && shape[3] === this.first[3]
    const [b, c, h, w] = shape
    return right({ kind: 'fed', name, shape: [batch ?? b, c, alike ? (height ?? h) : h, alike ? (width ?? w) : w] })
  }

  private joined(u: Fields, at: string): Result<Tensor> {
    const list = u['parts']
    if (!Array.isArray(list) || list.length === 0) return refused(at, `${show(list)} is not a list of tensors`)
    const parts = traverseArrayWithIndex((i, p) => this.tensor(p, `${at}.parts[${i}]`))(list)
    if (isLeft(parts)) return parts
    const first = parts.right[0]!.shape
    const odd = parts.right.findIndex((p) => [0, 2, 3].some((d) => p.shape[d] !== first[d]))
    if (odd >= 0) return refused(at, branchesDiffer(shapeText(first), `${odd + 1}`, shapeText(parts.right[odd]!.shape)))
    const channels = parts.right.reduce((n, p) => n + p.shape[1], 0)
    return right({ kind: 'joined', parts: parts.right, shape: [first[0], channels, first[2], first[3]] } as Tensor)
  }
}

export const decodeStep = (u: Fields, sizes: InputOverride = {}): Result<TrainingStep> => new Decoder(sizes).step(u)
