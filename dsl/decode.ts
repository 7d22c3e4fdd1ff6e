// A net from outside: a JavaScript program, a model file, a JSON description. The last of them needs nothing more, since
// a net is plain data. In: unknown. Out: Net, every node's fields checked by its codec; or ModelInvalid with the path.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { GraphError } from '../staging/core/errors'
import { layerKinds, ruleOf } from './layers/registry'
import type { Net } from './net'

type Fields = Readonly<Record<string, unknown>>

type OwnField = 'name' | 'times' | 'stem' | 'from'

interface Composition {
  /** Fields that hold a net, or a list of nets. */
  readonly parts: readonly (readonly [field: string, list: boolean])[]
  /** Its other fields. */
  readonly own?: readonly OwnField[]
}
const compositions: Readonly<Record<string, Composition>> = {
  seq: { parts: [['layers', true]] },
  block: { parts: [['body', false]], own: ['name'] },
  blocks: { parts: [['layers', true]], own: ['name'] },
  counted: { parts: [['layers', true]], own: ['stem', 'from'] },
  repeat: { parts: [['body', false]], own: ['times'] },
  residual: {
    parts: [
      ['body', false],
      ['shortcut', false],
    ],
  },
  atInputSize: { parts: [['body', false]] },
  concat: { parts: [['branches', true]] },
}

/** Deeper than any network, and far below what the call stack holds. */
const DEEPEST = 200
/** More than any network has copies of a block. */
const MOST_COPIES = 10_000

const fault = (at: string, reason: string): GraphError => ({ tag: 'ModelInvalid', at, reason })

/** Any value, in a few words. */
export const show = (u: unknown): string => {
  if (Array.isArray(u)) return `[${u.map(String).join(',')}]`
  if (typeof u === 'function') return 'a function (was it meant to be called?)'
  if (u === null || typeof u !== 'object') return String(JSON.stringify(u))
  return 'kind' in u
    ? `an object of kind ${JSON.stringify(u.kind)}`
    : `an object with ${Object.keys(u).join(', ') || 'no fields'}`
}

/** What is wrong with a composition's own field. */
const ownFaults: Readonly<Record<OwnField, (kind: string, value: unknown, at: string) => GraphError | null>> = {
  name: (kind, value, at) => (typeof value === 'string' && value !== '' ? null : fault(at, `a ${kind} needs a name`)),
  stem: (_, value, at) => (typeof value === 'string' ? null : fault(`${at}.stem`, `${show(value)} is not the stem of a name`)),
  from: (_, value, at) => (typeof value === 'number' ? null : fault(`${at}.from`, `${show(value)} is not a first number`)),
  times: (_, value, at) => {
    if (typeof value !== 'number') return fault(`${at}.times`, `${show(value)} is not a number of copies`)
    return value > MOST_COPIES ? fault(at, `${value} copies are more than ${MOST_COPIES}`) : null
  },
}

const listOf = (u: unknown, at: string, depth: number): Either<GraphError, readonly Net[]> => {
  if (!Array.isArray(u)) return left(fault(at, `${show(u)} is not a list of layers`))
  const nets: Net[] = []
  for (const [i, v] of u.entries()) {
    const n = node(v, `${at}[${i}]`, depth)
    if (isLeft(n)) return n
    nets.push(n.right)
  }
  return right(nets)
}

const composition = (
  u: Fields,
  kind: string,
  { parts, own = [] }: Composition,
  at: string,
  depth: number,
): Either<GraphError, Net> => {
  const net: Record<string, unknown> = { kind }
  for (const field of own) net[field] = u[field]
  for (const [field, list] of parts) {
    const part = (list ? listOf : node)(u[field], `${at}.${field}`, depth + 1)
    if (isLeft(part)) return part
    net[field] = part.right
  }
  const wrong = own.map((field) => ownFaults[field](kind, u[field], at)).find((f) => f !== null)
  return wrong === undefined ? right(net as unknown as Net) : left(wrong)
}

const layer = (u: Net, at: string): Either<GraphError, Net> => {
  const rule = ruleOf(u.kind)
  if (!rule)
    return left(
      fault(at, `there is no layer of kind '${u.kind}'; legal are ${[...layerKinds, ...Object.keys(compositions)].join(', ')}`),
    )
  const decoded = rule.codec.decode(u)
  if (!isLeft(decoded)) return decoded
  const e = decoded.left[0]
  const field =
    e?.context
      .map((c) => c.key)
      .filter((k) => k !== '' && !/^\d+$/.test(k))
      .join('.') ?? ''
  return left(fault(`${at}.${field}`, `${show(e?.value)} is not legal in a ${u.kind}`))
}

const node = (u: unknown, at: string, depth: number): Either<GraphError, Net> => {
  if (typeof u !== 'object' || u === null || !('kind' in u) || typeof u.kind !== 'string')
    return left(fault(at, `${show(u)} is not a layer`))
  if (depth > DEEPEST) return left(fault(at, `layers are nested more than ${DEEPEST} deep`))
  const composed = Object.hasOwn(compositions, u.kind) ? compositions[u.kind] : undefined
  return composed ? composition(u as unknown as Fields, u.kind, composed, at, depth) : layer(u as Net, at)
}

/** The net, rebuilt from the fields that its nodes have: what else an object brings along has no effect. */
export const decodeNet = (u: unknown): Either<GraphError, Net> => node(u, 'net', 0)
