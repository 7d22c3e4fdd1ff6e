// The moves of the search: random changes of decisions. In: the model with a plan's decisions, a loop. Out: the changed model, and the way back.
// Bits: flip a bit of a loop. Tiles: another number of them. Loops: join or split. Reserves: more or less memory for prefetching. Parameters: to the
// device or to the lower tier.
// Worked example: a loop waits for conv1's output. A flip of conv1 makes the loop recompute it, and the wait ends.
import { mapped } from '../core/mapped'
import type { OpId } from '../graph/graph'
import { MOVES, type MoveName } from './limits'
import type { Model } from './model'
import { mayRepeat } from './problem'

export type Random = () => number

/** Reverts a move. */
export type Undo = () => void

const KINDS = Object.entries(MOVES) as readonly (readonly [MoveName, number])[]

const pick = <A>(list: readonly A[], random: Random): A => list[Math.floor(random() * list.length)]!

/** Ops whose results a loop reads and could recompute, or recomputes and could read. */
export const flippable = (model: Model, i: number): readonly OpId[] => {
  const { maker, atomOf } = model.p
  const loop = model.loops[i]!
  const bits = model.bits[i]!
  const out: OpId[] = []
  const { inputs: finds, ops } = model.running[i]!
  for (const v of finds) {
    const op = maker[v]!
    if (op >= 0 && mayRepeat(atomOf, loop, op) && !out.includes(op)) out.push(op)
  }
  for (const op of ops) if (bits[op] === 1 && mayRepeat(atomOf, loop, op)) out.push(op)
  return out
}

export const changeBits = (model: Model, changed: (readonly [number, Uint8Array])[]): Undo => {
  const before = changed.map(([i]) => [i, model.bits[i]!] as const)
  const last = Math.max(...changed.map(([i]) => i))
  const set = (to: typeof before): void => {
    for (const [i, bits] of to) model.setBits(i, bits)
    model.settle(last)
  }
  set(changed)
  return () => set(before)
}

/** The op whose flip may win more: recomputation costs seconds, and an input costs bytes. */
const better = (model: Model, i: number, a: OpId, b: OpId): OpId => {
  const { seconds, bytes, outs } = model.p
  const ratio = (op: OpId): number => {
    const bytesPerSecond = outs[op]!.reduce((n, v) => n + bytes[v]!, 0) / seconds[op]!
    return model.bits[i]![op] === 1 ? 1 / bytesPerSecond : bytesPerSecond
  }
  const [again, other] = [model.bits[i]![a] === 1, model.bits[i]![b] === 1]
  if (again !== other) return a
  return ratio(a) >= ratio(b) ? a : b
}

const flip = (model: Model, i: number, random: Random): Undo | null => {
  const { ins, maker } = model.p
  const { loops } = model
  const ops = flippable(model, i)
  if (ops.length === 0) return null
  const op = better(model, i, pick(ops, random), pick(ops, random))
  const bits = model.bits[i]!.slice()
  bits[op]! ^= 1
  if (bits[op] === 1 && random() < 0.6) {
    const to = random() < 0.5 ? 0 : 1
    for (const v of ins[op]!) if (maker[v]! >= 0) bits[maker[v]!] = to
  }
  const changed: [number, Uint8Array][] = [[i, bits]]
  if (random() < 0.3) {
    const { heads } = model
    const beside = heads[heads.indexOf(i) + (random() < 0.5 ? 1 : -1)] ?? -1
    const other = loops[beside]
    if (other && mayRepeat(model.p.atomOf, other, op)) {
      const others = model.bits[beside]!.slice()
      others[op] = random() < 0.5 ? 0 : 1
      changed.push([beside, others])
    }
  }
  return changeBits(model, changed)
}

/** Other numbers of tiles of a loop. */
export const numbersOf = (tiles: number): readonly number[] =>
  tiles === 1 ? [2, 3, 4] : [1, Math.ceil(tiles / 2), tiles - 1, tiles + 1, 2 * tiles]

export const setTiles = (model: Model, i: number, tiles: number): Undo => {
  const before = model.tileBytes[i]!
  const set = (bytes: number): void => {
    model.setTileBytes(i, bytes)
    model.settle(i)
  }
  set(model.bytesFor(i, tiles))
  return () => set(before)
}

const resize = (model: Model, i: number, random: Random): Undo | null =>
  model.loops[i]!.tiles ? setTiles(model, i, pick(numbersOf(model.tiles[i]!), random)) : null

/** Changes the reserves for prefetching of loops that follow each other. */
const changeReserves = (model: Model, i: number, random: Random): Undo => {
  const { reserves } = model
  const end = Math.min(reserves.length, i + 1 + Math.floor(random() ** 2 * reserves.length))
  const before = reserves.slice(i, end)
  const by = pick([0.02, -0.02, 0.05, -0.05], random)
  for (let k = i; k < end; k++) reserves[k] = Math.min(MOST_RESERVE, Math.max(0, reserves[k]! + by))
  return () => reserves.set(before, i)
}
const MOST_RESERVE = 0.5

/** Makes other loops of the atoms of some loops. */
const setEnds = (model: Model, from: number, to: number, ends: ArrayLike<number>, bitsOf: (i: number) => Uint8Array): void => {
  model.setEnds(from, ends)
  for (let i = from; i < to; i++) if (model.loops[i]) model.setBits(i, bitsOf(i))
  model.settle(model.loops.length - 1)
}

/** Joins a loop with the next one, or splits it before an atom. */
export const changeLoops = (model: Model, i: number, at?: number): Undo | null => {
  const { bits, tileBytes, reserves, p } = model
  const { to } = model.loops[i]!
  const next = model.loops[to]
  const isJoin = at === undefined
  if (isJoin && (!next || !p.loopOf(i, next.to))) return null
  const end = isJoin ? next!.to : to
  const before = model.endsOf(i, end)
  const [ownBits, ownTiles, ownReserves] = [bits.slice(i, end), tileBytes.slice(i, end), reserves.slice(i, end)]
  const after = before.slice()
  if (isJoin) {
    after[0] = end
    after[to - i] = 0
    const both = bits[i]!.slice()
    bits[to]!.forEach((bit, op) => {
      if (bit === 1) both[op] = 1
    })
    tileBytes[i] = Math.max(tileBytes[i]!, tileBytes[to]!)
    setEnds(model, i, end, after, () => both)
  } else {
    if (!p.loopOf(i, at) || !p.loopOf(at, to)) return null
    after[0] = at
    after[at - i] = to
    tileBytes[at] = tileBytes[i]!
    reserves[at] = reserves[i]!
    setEnds(model, i, end, after, () => ownBits[0]!)
  }
  return () => {
    tileBytes.set(ownTiles, i)
    reserves.set(ownReserves, i)
    setEnds(model, i, end, before, (k) => ownBits[k - i]!)
  }
}

/** Moves large parameters to the lower tier, or to the device. */
export const moveUnit = (model: Model, unit: number): Undo => {
  const { atoms } = model.p
  const before = model.away[unit]!
  const set = (away: number): void => {
    model.setAway(unit, away)
    model.settle(atoms - 1)
  }
  set(1 - before)
  return () => set(before)
}

const moveParameters = (model: Model, random: Random): Undo | null => {
  const { length } = model.p.units
  return length === 0 ? null : moveUnit(model, Math.floor(random() * length))
}

const flipOf = (model: Model, i: number, op: OpId): Undo => {
  const bits = model.bits[i]!.slice()
  bits[op]! ^= 1
  return changeBits(model, [[i, bits]])
}

/** All single changes of the current decisions, except the reserves. */
export const singleChanges = (model: Model): readonly (() => Undo | null)[] => [
  ...model.heads.flatMap((i) => {
    const { to, tiles, most } = model.loops[i]!
    const now = model.tiles[i]!
    const sizes = tiles ? [...new Set(numbersOf(now))].filter((n) => n !== now && n > 0 && n <= most.B * most.H) : []
    const inside = Array.from({ length: to - i - 1 }, (_, k) => i + 1 + k)
    return [
      ...mapped(sizes, (n) => () => setTiles(model, i, n)),
      ...mapped(flippable(model, i), (op) => () => flipOf(model, i, op)),
      ...mapped([undefined, ...inside], (at) => () => changeLoops(model, i, at)),
    ]
  }),
  ...mapped(model.p.units, (_, unit) => () => moveUnit(model, unit)),
]

/** Chooses loops by the seconds beyond their own ops: recomputation, launches and waits. One in ten is any loop. */
export class Chooser {
  private readonly upTo: Float64Array
  private heads: readonly number[] = []

  constructor(
    private readonly model: Model,
    /** Kinds of moves that are switched off. */
    readonly without: readonly MoveName[] = [],
  ) {
    this.upTo = new Float64Array(model.p.atoms)
    this.note()
  }

  /** Notes the seconds of the current plan. */
  note(): void {
    const { model, upTo } = this
    this.heads = model.heads
    let sum = 0
    this.heads.forEach((i, k) => {
      const { seconds, afterSeconds } = model.loops[i]!
      sum += Math.max(0, model.seconds[i]! - seconds - afterSeconds)
      upTo[k] = sum
    })
  }

  loop(random: Random): number {
    const { heads, upTo } = this
    if (random() < ANY) return pick(heads, random)
    const at = random() * upTo[heads.length - 1]!
    let [lo, hi] = [0, heads.length - 1]
    while (lo < hi) {
      const middle = (lo + hi) >> 1
      if (upTo[middle]! <= at) lo = middle + 1
      else hi = middle
    }
    return heads[lo]!
  }
}

const ANY = 0.1

export const move = (model: Model, chooser: Chooser, random: Random): Undo | null => {
  const i = chooser.loop(random)
  const kind = kindOf(random())
  return chooser.without.includes(kind) ? null : BY_KIND[kind](model, i, random)
}

const kindOf = (at: number): MoveName => {
  let left = at
  for (const [kind, share] of KINDS) {
    left -= share
    if (left < 0) return kind
  }
  return 'bits'
}

const BY_KIND: Readonly<Record<MoveName, (model: Model, i: number, random: Random) => Undo | null>> = {
  bits: flip,
  tiles: resize,
  loops: (model, i, random) => {
    const atoms = model.loops[i]!.to - i
    return changeLoops(model, i, atoms === 1 || random() < 0.5 ? undefined : i + 1 + Math.floor(random() * (atoms - 1)))
  },
  reserves: changeReserves,
  parameters: (model, _, random) => moveParameters(model, random),
}
