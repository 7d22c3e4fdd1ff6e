// Residencies in a short form. In: the residencies of a plan. Out: rows and their order. A row is the difference of a residency from the one before
// it of the same storage, and equal rows are written once. Physical pages are left out, because pages.ts assigns them again. Repetitions of tiles are
// written once, so a file grows less than its plan with the size of the image. Worked example, parts of 2 pages acquired at calls 5, 9 and 13 for 4
// calls each: two rows, the second of them twice.
import { type Either, filterOrElse, flatMap, map, mapLeft, toError, tryCatch } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { faultOf, list } from '../core/codecs'
import { repeats, spelledOut } from '../core/repeats'
import { assignPages } from './pages'
import { type Folded, type PageRun, type Point, type Residency, residencyCodec, type UnpagedResidency } from './plan'

/** Fewer residencies are listed one by one, so that people can read them. */
const LEAST_FOLDED = 4096

/** The fields of a row, in this order. For IN_KIND and OUT_KIND, 0 means no swap. */
const [STORAGE, FROM, PAGES, ACQUIRE, HELD, IN_KIND, READY, OUT_KIND, START, TIER] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] as const
const WIDTH = 10
/** The fields that are written as differences from the row before. A tier offset of -1 means none. */
const DIFFERENCES: readonly number[] = [FROM, ACQUIRE, TIER]
const SOURCES = [undefined, 'tier', 'source'] as const
const SINKS = [undefined, 'tier', 'sink'] as const

const rowOf = (r: UnpagedResidency): readonly number[] => [
  r.storage,
  r.from,
  r.to - r.from,
  r.acquire,
  r.release - r.acquire,
  r.swapIn ? (r.swapIn.from === 'tier' ? 1 : 2) : 0,
  r.swapIn ? r.swapIn.ready - r.acquire : 0,
  r.swapOut ? (r.swapOut.to ? 2 : 1) : 0,
  r.swapOut ? r.swapOut.start - r.acquire : 0,
  r.tierOffset ?? -1,
]

const residencyOf = (row: readonly number[]): UnpagedResidency => {
  const [acquire, from] = [row[ACQUIRE]!, row[FROM]!]
  const into = SOURCES[row[IN_KIND]!]
  const out = SINKS[row[OUT_KIND]!]
  return {
    storage: row[STORAGE]!,
    from,
    to: from + row[PAGES]!,
    acquire,
    release: acquire + row[HELD]!,
    ...(into ? { swapIn: { ready: acquire + row[READY]!, from: into } } : {}),
    ...(out ? { swapOut: { start: acquire + row[START]!, ...(out === 'sink' ? { to: out } : {}) } } : {}),
    ...(row[TIER]! < 0 ? {} : { tierOffset: row[TIER]! }),
  }
}

/** Converts each row to or from its difference from the row before it of the same storage. */
class RowDifferences {
  private readonly rows = new Map<number, readonly number[]>()

  next(row: readonly number[], sign: 1 | -1): readonly number[] {
    const before = this.rows.get(row[STORAGE]!)
    const other = before ? row.map((x, i) => (DIFFERENCES.includes(i) ? x + sign * before[i]! : x)) : row
    this.rows.set(row[STORAGE]!, sign < 0 ? row : other)
    return other
  }
}

const rowsOf = (
  residencies: readonly UnpagedResidency[],
): { readonly rows: Folded['rows']; readonly order: readonly number[] } => {
  const before = new RowDifferences()
  const known = new Map<string, number>()
  const rows: (readonly number[])[] = []
  const order = residencies.map((r) => {
    const row = before.next(rowOf(r), -1)
    const key = row.join()
    const at = known.get(key) ?? rows.push(row) - 1
    known.set(key, at)
    return at
  })
  return { rows, order }
}

const unpaged = (rows: Folded['rows'], order: readonly number[]): readonly UnpagedResidency[] => {
  const before = new RowDifferences()
  return order.map((k) => residencyOf(before.next(rows[k]!, 1)))
}

const sameRuns = (a: readonly PageRun[], b: readonly PageRun[]): boolean =>
  a.length === b.length && a.every((r, i) => r.page === b[i]!.page && r.count === b[i]!.count)

/** Returns the folded residencies of a plan of `end` calls; null if they are few, or if their pages differ from those of pages.ts. */
export const foldedOf = (residencies: readonly Residency[], end: Point, least = LEAST_FOLDED): Folded | null => {
  if (residencies.length < least) return null
  const { rows, order } = rowsOf(residencies)
  const reassigned = assignPages(unpaged(rows, order), end).residencies
  const isSame = ({ storage, from, acquire, runs }: Residency, i: number): boolean => {
    const r = reassigned[i]!
    return r.storage === storage && r.from === from && r.acquire === acquire && sameRuns(r.runs, runs)
  }
  return residencies.every(isSame) ? { rows, order: repeats(order) } : null
}

/** A limit above the residencies of any plan. */
const MOST = 2 ** 24

/** Returns the residencies of a file, or the reason why they are invalid. */
export const unfolded = ({ rows, order }: Folded, end: Point): Either<string, readonly Residency[]> =>
  pipe(
    spelledOut(order, MOST),
    filterOrElse(
      (ks) => ks.every((k) => rows[k]?.length === WIDTH),
      () => `the order refers to missing rows of ${WIDTH} numbers`,
    ),
    map((ks) => unpaged(rows, ks)),
    filterOrElse(
      (rs) => rs.every((r) => r.from < r.to && r.acquire >= 0 && r.acquire <= r.release && r.release <= end),
      () => `allowed: residencies of at least one page, within ${end} calls`,
    ),
    flatMap((rs) =>
      tryCatch(
        () => assignPages(rs, end).residencies,
        (e) => `they have no pages: ${toError(e).message}`,
      ),
    ),
    flatMap((rs) =>
      pipe(
        list(residencyCodec).decode(rs),
        mapLeft((errors) => {
          const { at, reason } = faultOf('', errors)
          return `${at}: ${reason}`
        }),
      ),
    ),
  )
