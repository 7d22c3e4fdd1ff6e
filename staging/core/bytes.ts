// Sizes: pages, alignment, and how sizes are written and read ('512MiB', '11GiB', plain bytes).
import { type Either, left, right } from 'fp-ts/Either'

/**
 * Size of a page of device memory, in bytes: 2 MiB. Budgets and peaks are multiples of it.
 *
 * @example stage(net, { budget: 100 * PAGE_BYTES })
 */
export const PAGE_BYTES = 2 * 1024 * 1024
/** Values that share a page start at multiples of this. */
export const ALIGN_BYTES = 64

export const kib = (n: number): number => n * 1024
export const mib = (n: number): number => n * 1024 ** 2
export const gib = (n: number): number => n * 1024 ** 3

export const alignUp = (n: number, to: number): number => Math.ceil(n / to) * to
/** The whole pages in a number of bytes: the pages of a budget. */
export const pagesIn = (bytes: number): number => Math.floor(bytes / PAGE_BYTES)
/** Pages for a number of bytes. */
export const pagesFor = (bytes: number): number => Math.ceil(bytes / PAGE_BYTES)
export const bytesOf = (pages: number): number => pages * PAGE_BYTES
/** The pages [from, to) that contain bytes from an offset on. */
export const pagesOf = (offset: number, bytes: number): readonly [from: number, to: number] => [
  pagesIn(offset),
  pagesFor(offset + bytes),
]

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
}

/**
 * Returns the number of bytes of a text such as '512MiB', or the reason for a refusal.
 *
 * @param text A number with an optional unit: KiB, MiB, GiB, TiB.
 * @example
 * const answer = parseBytes('512MiB')
 * if (answer._tag === 'Right') stage(net, { budget: answer.right })
 */
export const parseBytes = (text: string): Either<string, number> => {
  const m = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$/.exec(text)
  const unit = m ? UNITS[m[2]!] : undefined
  if (!m || unit === undefined) return left(`'${text}' is not a size; examples: 512MiB, 11GiB, 1048576`)
  const bytes = Math.floor(Number(m[1]) * unit)
  return Number.isSafeInteger(bytes) ? right(bytes) : left(`'${text}' is too large for a size`)
}

/**
 * Returns a size in words, e.g. '4.00 GiB'.
 *
 * @param bytes Number of bytes.
 * @example console.log(showBytes(gib(4)))
 */
export const showBytes = (bytes: number): string => {
  for (const u of ['TiB', 'GiB', 'MiB', 'KiB'] as const)
    if (bytes >= UNITS[u]!) return `${(bytes / UNITS[u]!).toFixed(bytes >= 100 * UNITS[u]! ? 0 : 2)} ${u}`
  return `${bytes} B`
}

/** The largest held amount at the first `points` points, from the change at each. */
export const mostHeld = (changes: ArrayLike<number>, points: number): number => {
  let held = 0
  let most = 0
  for (let p = 0; p < points; p++) {
    held += changes[p]!
    most = Math.max(most, held)
  }
  return most
}

/**
 * The most bytes of a band, with numbers of four bytes; it has at least one row, or one row of tiles. A feed reads larger samples in bands, each when
 * the device loads it, and keeps none.
 */
export const FEED_BAND_BYTES = 16 * 2 ** 20
