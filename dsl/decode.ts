// A net from outside: a JavaScript program, a model file, a JSON description. The last of them needs nothing more, since
// a net is plain data. In: unknown. Out: Net, every node's fields checked by its codec; or ModelInvalid with the path.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { optionRefused, type Options, unknownKey } from '../staging/core/options'
import type { GraphError } from '../staging/core/errors'
import { OVER } from './combined'
import { layerKinds, ruleOf } from './layers/registry'
import type { FieldFault } from './layers/rule'
import type { Net } from './net'

type Fields = Readonly<Record<string, unknown>>

type OwnField = 'name' | 'side' | 'times' | 'stem' | 'from' | 'reads'

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
  scaled: { parts: [['body', false]] },
  atInputSize: { parts: [['body', false]] },
  masked: { parts: [['body', false]], own: ['side'] },
  concat: { parts: [['branches', true]] },
  value: { parts: [['body', false]], own: ['name', 'reads'] },
  values: { parts: [['layers', true]] },
}

/** Deeper than any network, and far below the limit of the call stack. */
const DEEPEST = 200
/** More than any network has copies of a block. */
const MOST_COPIES = 10_000

export const invalid = (at: string, reason: string): GraphError => ({ tag: 'ModelInvalid', at, reason })

/** Any value, in a few words. */
export const show = (u: unknown): string => {
  if (Array.isArray(u)) return `[${u.map(String).join(',')}]`
  if (typeof u === 'function') return 'a function (was it meant to be called?)'
  if (u === null || typeof u !== 'object') return String(JSON.stringify(u))
  return 'kind' in u
    ? `an object of kind ${JSON.stringify(u.kind)}`
    : `an object with ${Object.keys(u).join(', ') || 'no fields'}`
}

type Field = (kind: string, value: unknown, at: string) => Either<GraphError, unknown>
const field =
  (legal: (u: unknown) => boolean, wrong: (kind: string, value: unknown, at: string) => GraphError): Field =>
  (kind, value, at) =>
    legal(value) ? E.right(value) : E.left(wrong(kind, value, at))

/** The most values that a combination reads. */
const MOST_READ: Readonly<Record<string, number>> = {
  added: Infinity,
  joined: Infinity,
  multiplied: 2,
  attended: 2,
  contracted: 2,
}
/** The other fields of a combination. */
const OPTIONS: Readonly<Record<string, Readonly<Record<string, (u: unknown) => boolean>>>> = {
  attended: { heads: t.number.is, headFirst: t.boolean.is, scale: (u) => t.number.is(u) && Number.isFinite(u) },
  contracted: { over: (u) => t.string.is(u) && Object.hasOwn(OVER, u), groups: t.number.is },
}
/** The fields that a combination needs. */
const NEEDED: Readonly<Record<string, string>> = { attended: 'heads', contracted: 'over' }
const isReads = (u: unknown): boolean => {
  if (typeof u !== 'object' || u === null) return t.string.is(u)
  const [[kind = '', of] = [], ...options] = Object.entries(u)
  const most = Object.hasOwn(MOST_READ, kind) ? MOST_READ[kind]! : 0
  const legal = OPTIONS[kind] ?? {}
  const areOptions = options.every(([name, v]) => Object.hasOwn(legal, name) && legal[name]!(v))
  const isWhole = areOptions && (NEEDED[kind] === undefined || NEEDED[kind] in u)
  return isWhole && Array.isArray(of) && of.length >= 2 && of.length <= most && of.every(t.string.is)
}

/** A composition's own fields. */
const ownFields: Readonly<Record<OwnField, Field>> = {
  name: field(
    (u) => t.string.is(u) && u !== '',
    (kind, _, at) => invalid(at, `a ${kind} needs a name`),
  ),
  stem: field(t.string.is, (_, u, at) => invalid(`${at}.stem`, `${show(u)} is not a prefix of names`)),
  from: field(t.number.is, (_, u, at) => invalid(`${at}.from`, `${show(u)} is not a first number`)),
  reads: field(isReads, (_, u, at) =>
    invalid(
      `${at}.reads`,
      `${show(u)} is not the name of a value, nor names that are added, joined, multiplied, attended by a number of heads or contracted over channels or pixels`,
    ),
  ),
  side: field(t.number.is, (_, u, at) => invalid(`${at}.side`, `${show(u)} is not the side of a block`)),
  times: field(
    (u) => t.number.is(u) && !(u > MOST_COPIES),
    (_, u, at) =>
      t.number.is(u)
        ? invalid(at, `${u} copies exceed the limit of ${MOST_COPIES}`)
        : invalid(`${at}.times`, `${show(u)} is not a number of copies`),
  ),
}

const listOf = (u: unknown, at: string, depth: number): Either<GraphError, readonly Net[]> =>
  Array.isArray(u)
    ? E.traverseReadonlyArrayWithIndex((i, v) => node(v, `${at}[${i}]`, depth))(u)
    : E.left(invalid(at, `${show(u)} is not a list of layers`))

const composition = (
  u: Fields,
  kind: string,
  { parts, own = [] }: Composition,
  at: string,
  depth: number,
): Either<GraphError, Net> =>
  pipe(
    onlyFields(u, { of: kind, keys: ['kind', ...own, ...parts.map(([name]) => name)] }, at),
    E.map(() => parts),
    E.flatMap(
      E.traverseArray(([name, list]): Either<GraphError, readonly [string, unknown]> => {
        const made: Either<GraphError, unknown> = (list ? listOf : node)(u[name], `${at}.${name}`, depth + 1)
        return E.map((part) => [name, part] as const)(made)
      }),
    ),
    E.tap(() => E.traverseArray((name: OwnField) => ownFields[name](kind, u[name], at))(own)),
    E.map((made) => ({ kind, ...Object.fromEntries([...own.map((f) => [f, u[f]] as const), ...made]) }) as unknown as Net),
  )

/** A field that a codec refuses, with its path. */
export const misfit = ({ fields, value }: FieldFault, what: string, at: string): GraphError =>
  invalid([at, ...fields].join('.'), `${show(value)} is not allowed in ${what}`)

/** Refuses unknown fields: a misspelt one would have no effect. */
export const onlyFields = (u: object, options: Options, at: string): Either<GraphError, void> => {
  const key = unknownKey(u, options)
  return key === null ? E.right(undefined) : E.left(invalid(at, optionRefused(key, options)))
}

const layer = (u: Net, at: string): Either<GraphError, Net> => {
  const rule = ruleOf(u.kind)
  const legal = [...layerKinds, ...Object.keys(compositions)].join(', ')
  return rule
    ? pipe(
        onlyFields(u, rule.codec.options, at),
        E.flatMap(() => E.mapLeft((fault: FieldFault) => misfit(fault, `a ${u.kind}`, at))(rule.codec.decode(u))),
      )
    : E.left(invalid(at, `there is no layer of kind '${u.kind}'; allowed: ${legal}`))
}

const node = (u: unknown, at: string, depth: number): Either<GraphError, Net> => {
  // A network of the zoo is a function that has a net's fields.
  if ((typeof u !== 'object' && typeof u !== 'function') || u === null || !('kind' in u) || typeof u.kind !== 'string')
    return E.left(invalid(at, `${show(u)} is not a layer`))
  if (depth > DEEPEST) return E.left(invalid(at, `layers nest deeper than ${DEEPEST}`))
  const composed = Object.hasOwn(compositions, u.kind) ? compositions[u.kind] : undefined
  return composed ? composition(u as unknown as Fields, u.kind, composed, at, depth) : layer(u as Net, at)
}

/** The net, rebuilt from the fields that its nodes have; a node that brings along others is refused. */
export const decodeNet = (u: unknown): Either<GraphError, Net> => node(u, 'net', 0)
