// Exchanges of ranks during compute: from the call to its wait, its operands and scratch are exclusive. In: the calls, in order. Out: the first that
// touches such bytes, or a residency that moves or ends under them. Worked example: call 4 exchanges dw until point 9: calls 5 to 8 may touch no byte
// of dw, and dw's pages stay in place.
import { mapped } from '../core/mapped'
import { pagesFor, pagesIn } from '../core/bytes'
import { BESIDE, mayStartEarly } from '../graph/ranks'
import type { Call, Residency } from '../plan/plan'
import type { Facts } from './facts'
import { broken, eachFault, type Fault } from './failure'

interface Bytes {
  readonly storage: number
  readonly lo: number
  readonly hi: number
}
interface UnderWay {
  readonly call: number
  readonly until: number
  readonly bytes: readonly Bytes[]
}

/** Returns a check for each call in turn: a fault if the call, or a move of pages, touches operands of an unfinished exchange. */
export const exchangesBeside = ({ plan, at }: Facts): ((index: number) => Fault) => {
  const { calls, cells, places, storages, residencies } = plan
  let underWay: readonly UnderWay[] = []
  const cellsOf = (c: Call): readonly number[] => [
    ...mapped([...c.ins, ...c.outs], (v) => v.cell),
    ...(c.workspace ? [c.workspace.cell] : []),
  ]
  const bytesOf = (cell: number): Bytes => {
    const { storage, offset } = places[cell]!
    return { storage, lo: offset, hi: offset + cells[cell]!.bytes }
  }
  const overlap = (a: Bytes, b: Bytes): boolean => a.storage === b.storage && a.lo < b.hi && b.lo < a.hi
  const name = ({ call }: UnderWay): string => `the exchange of call ${call}, which is not finished`

  const touches = (index: number): Fault => {
    if (underWay.length === 0) return undefined
    const touched = mapped(cellsOf(calls[index]!), bytesOf)
    const met = underWay.find((x) => x.bytes.some((b) => touched.some((t) => overlap(t, b))))
    return met && broken('exchanged', `it touches ${name(met)}`, at(index))
  }

  /** Checks that residencies of the exchange's bytes begin before it and do not move until its wait. */
  const moves =
    (x: UnderWay) =>
    (r: Residency): Fault => {
      const on = x.bytes.some((b) => b.storage === r.storage && pagesIn(b.lo) < r.to && r.from < pagesFor(b.hi))
      if (!on || r.release <= x.call || r.acquire >= x.until) return undefined
      const stays = r.acquire <= x.call && r.release >= x.until && (r.swapOut?.start ?? x.until) >= x.until
      return stays
        ? undefined
        : broken('exchanged', `pages of '${storages[r.storage]!.label}' move during ${name(x)}`, at(x.call))
    }

  const starts = (index: number): Fault => {
    const { kind, attrs, beside, seconds } = calls[index]!
    const isBeside = BESIDE.includes(kind) && attrs['beside'] === 1
    const bad = (reason: string): Fault => broken('structure', reason, at(index))
    if (!beside) return isBeside ? bad(`${kind} runs concurrently, but has no wait`) : undefined
    if (!isBeside && !mayStartEarly(calls[index]!)) return bad(`${kind} cannot run concurrently`)
    if (!Number.isSafeInteger(beside.until) || beside.until <= index || beside.until > calls.length || seconds !== 0)
      return bad(`its wait is at ${beside.until} of ${calls.length} calls, and it lasts ${seconds} s of compute`)
    const x = { call: index, until: beside.until, bytes: mapped(cellsOf(calls[index]!), bytesOf) }
    underWay = [...underWay, x]
    return eachFault(residencies, moves(x))
  }

  return (index) => {
    if (underWay.length > 0) underWay = underWay.filter((x) => x.until > index)
    return touches(index) ?? starts(index)
  }
}
