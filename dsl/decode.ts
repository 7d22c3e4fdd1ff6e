// A net from outside: a JavaScript program, a model file, a JSON description. The last of them needs nothing more, since
// a net is plain data. In: unknown. Out: Net, every node's fields checked by its codec; or ModelInvalid with the path.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { GraphError } from '../staging/core/errors'
import { layerKinds, ruleOf } from './layers/registry'
import { badSize } from './layers/rule'
import type { Net } from './net'

type Fields = Readonly<Record<string, unknown>>

/** Composition -> its fields that hold nets: one net or a list of them. */
const parts: Readonly<Record<string, readonly (readonly [field: string, list: boolean])[]>> = {
  seq: [['layers', true]],
  block: [['body', false]],
  blocks: [['layers', true]],
  repeat: [['body', false]],
  residual: [['body', false], ['shortcut', false]],
  concat: [['branches', true]],
}
const scopes = ['block', 'blocks']

/** Deeper than any network, and far below what the call stack holds. */
const DEEPEST = 200
/** More than any network has copies of a block. */
const MOST_COPIES = 10_000

const invalid = (at: string, reason: string): Either<GraphError, never> => left({ tag: 'ModelInvalid', at, reason })

/** Any value, in a few words. */
export const show = (u: unknown): string => {
  if (Array.isArray(u)) return `[${u.map(String).join(',')}]`
  if (typeof u === 'function') return 'a function (was it meant to be called?)'
  if (u === null || typeof u !== 'object') return String(JSON.stringify(u))
  return 'kind' in u ? `an object of kind ${JSON.stringify(u.kind)}` : `an object with ${Object.keys(u).join(', ') || 'no fields'}`
}

const fieldsOf = (n: Fields, at: string): Either<GraphError, Net> => {
  const kind = n['kind'] as string
  if (scopes.includes(kind) && (typeof n['name'] !== 'string' || n['name'] === '')) return invalid(at, `a ${kind} needs a name`)
  if (kind === 'repeat') {
    const times = n['times']
    const bad = badSize(['number of copies', typeof times === 'number' ? times : NaN, 1])
    if (bad !== null) return left({ tag: 'ShapeInvalid', layer: 'repeat', kind, reason: bad })
    if ((times as number) > MOST_COPIES) return invalid(at, `${times as number} copies are more than ${MOST_COPIES}`)
  }
  return right(n as unknown as Net)
}

const node = (u: unknown, at: string, depth: number): Either<GraphError, Net> => {
  if (typeof u !== 'object' || u === null || !('kind' in u) || typeof u.kind !== 'string') return invalid(at, `${show(u)} is not a layer`)
  if (depth > DEEPEST) return invalid(at, `layers are nested more than ${DEEPEST} deep`)
  const inside = Object.hasOwn(parts, u.kind) ? parts[u.kind] : undefined
  if (!inside) return layer(u as Net, at)
  for (const [field, list] of inside) {
    const value = (u as unknown as Fields)[field]
    if (list && !Array.isArray(value)) return invalid(`${at}.${field}`, `${show(value)} is not a list of layers`)
    for (const [i, v] of (list ? (value as unknown[]) : [value]).entries()) {
      const e = node(v, list ? `${at}.${field}[${i}]` : `${at}.${field}`, depth + 1)
      if (isLeft(e)) return e
    }
  }
  return fieldsOf(u as unknown as Fields, at)
}

const layer = (u: Net, at: string): Either<GraphError, Net> => {
  const rule = ruleOf(u.kind)
  if (!rule) return invalid(at, `there is no layer of kind '${u.kind}'; legal are ${[...layerKinds, ...Object.keys(parts)].join(', ')}`)
  const decoded = rule.codec.decode(u)
  if (!isLeft(decoded)) return right(u)
  const e = decoded.left[0]
  const field = e?.context.map((c) => c.key).filter((k) => k !== '' && !/^\d+$/.test(k)).join('.') ?? ''
  return invalid(`${at}.${field}`, `${show(e?.value)} is not legal in a ${u.kind}`)
}

export const decodeNet = (u: unknown): Either<GraphError, Net> => node(u, 'net', 0)
