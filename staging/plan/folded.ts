// Residencies in little space. In: those of a plan. Out: the difference of each from the one before it of its storage, each such row once, and the
// order of the rows; physical pages are left out, because pages.ts assigns them again. Repetitions of tiles are written once, so that a file does not
// grow with the image as its plan does. Worked example, parts of 2 pages that come at calls 5, 9 and 13 for 4 calls each: two rows, the second of
// them twice.
import { type Either, filterOrElse, flatMap, map, mapLeft, toError, tryCatch } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { faultOf, list } from '../core/codecs'
import { repeats, spelledOut } from '../core/repeats'
import { assignPages } from './pages'
import { type Folded, type PageRun, type Point, type Residency, residencyCodec, type UnpagedResidency } from './plan'

/** Fewer are listed one by one, for people to read. */
const MANY = 4096

/** The fields of a row, in this order: 0 for a kind is none. */
const [STORAGE, FROM, PAGES, ACQUIRE, HELD, IN_KIND, READY, OUT_KIND, START, TIER] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] as const
const WIDTH = 10
/** The differences from the row before it; a tier offset of -1 is none. */
const MOVING: readonly number[] = [FROM, ACQUIRE, TIER]
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

/** Each row beside the one before it of its storage. */
class Before {
  private readonly rows = new Map<number, readonly number[]>()

  next(row: readonly number[], sign: 1 | -1): readonly number[] {
    const before = this.rows.get(row[STORAGE]!)
    const other = before ? row.map((x, i) => (MOVING.includes(i) ? x + sign * before[i]! : x)) : row
    this.rows.set(row[STORAGE]!, sign < 0 ? row : other)
    return other
  }
}

const rowsOf = (
  residencies: readonly UnpagedResidency[],
): { readonly rows: Folded['rows']; readonly order: readonly number[] } => {
  const before = new Before()
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
  const before = new Before()
  return order.map((k) => residencyOf(before.next(rows[k]!, 1)))
}

const sameRuns = (a: readonly PageRun[], b: readonly PageRun[]): boolean =>
  a.length === b.length && a.every((r, i) => r.page === b[i]!.page && r.count === b[i]!.count)

/** The residencies of a plan with this number of calls, folded; null if they are few, or their pages differ from those of pages.ts. */
export const foldedOf = (residencies: readonly Residency[], end: Point, many = MANY): Folded | null => {
  if (residencies.length < many) return null
  const { rows, order } = rowsOf(residencies)
  const again = assignPages(unpaged(rows, order), end).residencies
  const isSame = ({ storage, from, acquire, runs }: Residency, i: number): boolean => {
    const r = again[i]!
    return r.storage === storage && r.from === from && r.acquire === acquire && sameRuns(r.runs, runs)
  }
  return residencies.every(isSame) ? { rows, order: repeats(order) } : null
}

/** More residencies than any plan has. */
const MOST = 2 ** 24

/** The residencies of a file, or their error. */
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
