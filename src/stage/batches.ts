// The graph of a step at any batch, without building its model again. In: the graphs of two batches. Out: a function from a batch to its graph.
// Invariant: the two graphs differ only in numbers that are proportional to the batch; otherwise there is no function.
// Worked example: shapes [4, 64, 56, 56] and [6, 64, 56, 56] of one value give [9, 64, 56, 56] for a batch of 9.
import { isDeepStrictEqual } from 'node:util'
import { mapped } from '../../staging/core/mapped'
import { type Graph, withFewObjectShapes } from '../../staging/graph/graph'

/** Numbers by name or place. */
type Numbers = Readonly<Record<string, number>>
const numbered = (list: readonly number[]): Numbers => list as unknown as Numbers

const batchOf = ({ values }: Graph): number => values.find((v) => v.role === 'input')!.shape[0]!

/** For each list of numbers: the names of those that grow with the batch; undefined if any others differ. */
const growing = (
  first: readonly Numbers[],
  second: readonly Numbers[],
  [from, to]: readonly [number, number],
): readonly (readonly string[])[] | undefined => {
  const found: (readonly string[])[] = []
  for (const [i, a] of first.entries()) {
    const b = second[i]!
    const changed = Object.keys(a).filter((key) => !Object.is(a[key], b[key]))
    const isOdd = (key: string): boolean => a[key]! % from !== 0 || a[key]! * to !== b[key]! * from
    if (Object.keys(b).length !== Object.keys(a).length || changed.some(isOdd)) return undefined
    found.push(changed)
  }
  return found
}

/** The graph without its shapes and attributes. */
const skeleton = ({ values, ops, ...rest }: Graph): unknown => ({
  ...rest,
  values: values.map(({ shape: _, ...value }) => value),
  ops: ops.map(({ attrs: _, ...op }) => op),
})

/** Returns the graph of a batch, if the graphs of two batches tell it. */
export const batchesFrom = (first: Graph, second: Graph): ((batch: number) => Graph) | undefined => {
  const both = [batchOf(first), batchOf(second)] as const
  if (both[0] === both[1] || !isDeepStrictEqual(skeleton(first), skeleton(second))) return undefined
  const of = (g: Graph) => [g.values.map((v) => numbered(v.shape)), g.ops.map((op) => op.attrs as Numbers)] as const
  const [shapes, attrs] = [growing(of(first)[0], of(second)[0], both), growing(of(first)[1], of(second)[1], both)]
  if (!shapes || !attrs) return undefined
  return (batch) => {
    const grown = (n: number): number => (n / both[0]) * batch
    const reshaped = (shape: readonly number[], names: readonly string[]): readonly number[] =>
      mapped(shape, (n, d) => (names.includes(`${d}`) ? grown(n) : n))
    return withFewObjectShapes({
      ...first,
      values: mapped(first.values, (v, i) => ({ ...v, shape: reshaped(v.shape, shapes[i]!) })),
      ops: mapped(first.ops, (op, i) => ({
        ...op,
        attrs: { ...op.attrs, ...Object.fromEntries(attrs[i]!.map((name) => [name, grown(op.attrs[name]!)])) },
      })),
    })
  }
}
