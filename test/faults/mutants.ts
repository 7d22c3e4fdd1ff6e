// Plans with one thing changed: a number, or an entry of a list that is left out, doubled or moved. In: a plan and random
// numbers. Out: another plan, which verify and the native reader have to judge alike.
import type { Plan } from '../../staging/plan/plan'

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
type Path = readonly string[]
/** 0 up to, not including, n. */
export type Pick = (n: number) => number

export const random = (seed: number): Pick => {
  let x = seed >>> 0 || 1
  return (n) => {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    x >>>= 0
    return x % n
  }
}

const child = (u: Json, key: string): Json => (u as Readonly<Record<string, Json>>)[key]!
const at = (u: Json, path: Path): Json => path.reduce(child, u)

/** The way to run a call and its scratch: only a device knows its ways, and verify knows no device. */
const isDevices = ([root, ...rest]: Path): boolean =>
  root === 'costs' ? rest.length > 0 && rest[1] !== '0' : root === 'calls' && (rest[1] === 'way' || rest[1] === 'workspace')

/** The paths of its numbers, and of its lists: a field of each kind with equal probability, for any number of entries. */
const placesOf = (plan: Json): ReadonlyMap<string, readonly Path[]> => {
  const found = new Map<string, Path[]>()
  const visit = (u: Json, path: Path): void => {
    const fixed = /^(box|held)$/.test(path.filter((k) => !/^\d+$/.test(k)).at(-1) ?? '')
    if ((typeof u === 'number' || (Array.isArray(u) && !fixed)) && !isDevices(path)) {
      const kind = path.map((k) => (/^\d+$/.test(k) ? '*' : k)).join('.')
      const same = found.get(kind)
      if (same) same.push(path)
      else found.set(kind, [path])
    }
    if (typeof u === 'object' && u !== null) for (const k of Object.keys(u)) visit(child(u, k), [...path, k])
  }
  visit(plan, [])
  return found
}

const CONSTANTS = [-1, 0, 1, 2, 3, 64, 4096, 2 ** 21, 2 ** 22, 2 ** 32, 2 ** 50]
const otherNumber = (x: number, alike: readonly number[], pick: Pick): number =>
  [
    () => x + 1,
    () => x - 1,
    () => x + 64,
    () => x * 2,
    () => x + 4096 * (1 + pick(600)),
    () => CONSTANTS[pick(CONSTANTS.length)]!,
    () => alike[pick(alike.length)]!,
    () => alike[pick(alike.length)]!,
  ][pick(8)]!()

const otherList = (list: readonly Json[], pick: Pick): readonly Json[] => {
  if (list.length === 0) return list
  const [i, k] = [pick(list.length), pick(list.length)]
  const without = list.filter((_, j) => j !== i)
  return [without, [...list.slice(0, i), list[i]!, ...list.slice(i)], [...without.slice(0, k), list[i]!, ...without.slice(k)]][
    pick(3)
  ]!
}

const replaced = (u: Json, path: Path, value: Json): Json => {
  const [key, ...rest] = path
  if (key === undefined) return value
  const inner = replaced(child(u, key), rest, value)
  return Array.isArray(u) ? u.map((x: Json, i) => (String(i) === key ? inner : x)) : { ...(u as object), [key]: inner }
}

/** A source of mutants, and the field that each differs in. */
export const mutantsOf = (plan: Plan, pick: Pick): (() => { readonly plan: Plan; readonly field: string }) => {
  const json = plan as unknown as Json
  const places = placesOf(json)
  const kinds = [...places.keys()]
  return () => {
    const field = kinds[pick(kinds.length)]!
    const paths = places.get(field)!
    const path = paths[pick(paths.length)]!
    const now = at(json, path)
    const value =
      typeof now === 'number'
        ? otherNumber(
            now,
            paths.map((p) => at(json, p) as number),
            pick,
          )
        : otherList(now as readonly Json[], pick)
    return {
      plan: replaced(json, path, value) as unknown as Plan,
      field: `${path.join('.')}: ${JSON.stringify(now)?.slice(0, 60)} → ${JSON.stringify(value)?.slice(0, 60)}`,
    }
  }
}
