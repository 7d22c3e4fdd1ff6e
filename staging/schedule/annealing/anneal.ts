// Annealing on the model. In: the model with a plan's decisions, a number of steps. Out: the best decisions of all steps.
// A step is a random move. A slower plan is accepted with a probability that falls over time.
// Moves: flip a bit of a loop, resize its tiles, change the room for prefetching. Slow loops are chosen more often.
// Worked example: a loop waits for conv1's output. A flip of conv1 makes the loop recompute it, and the wait ends.
import type { OpId } from '../../graph/graph'
import type { Decisions } from './decisions'
import type { Model } from './model'

export type Random = () => number

/** Reverts a move. */
export type Undo = () => void

/** Shares of moves: bits, then tiles. The rest changes the room for prefetching. */
const FLIPS = 0.75
const TILES = 0.22

const pick = <A>(list: readonly A[], random: Random): A => list[Math.floor(random() * list.length)]!

/** Ops whose results a loop finds and could recompute, or recomputes and could find. */
export const flippable = (model: Model, i: number): readonly OpId[] => {
  const { maker, loops } = model.p
  const { mayRepeat } = loops[i]!
  const bits = model.bits[i]!
  const out: OpId[] = []
  for (const v of model.running[i]!.finds) {
    const op = maker[v]!
    if (op >= 0 && mayRepeat[op] === 1 && !out.includes(op)) out.push(op)
  }
  for (const op of model.running[i]!.ops) if (bits[op] === 1 && mayRepeat[op] === 1) out.push(op)
  return out
}

const changeBits = (model: Model, changed: (readonly [number, Uint8Array])[]): Undo => {
  const before = changed.map(([i]) => [i, model.bits[i]!] as const)
  const last = Math.max(...changed.map(([i]) => i))
  const set = (to: typeof before): void => {
    for (const [i, bits] of to) model.setBits(i, bits)
    model.settle(last)
  }
  set(changed)
  return () => set(before)
}

const flip = (model: Model, i: number, random: Random): Undo | null => {
  const { loops, ins, maker } = model.p
  const ops = flippable(model, i)
  if (ops.length === 0) return null
  const op = pick(ops, random)
  const bits = model.bits[i]!.slice()
  bits[op]! ^= 1
  if (bits[op] === 1 && random() < 0.6) {
    const to = random() < 0.5 ? 0 : 1
    for (const v of ins[op]!) if (maker[v]! >= 0) bits[maker[v]!] = to
  }
  const changed: [number, Uint8Array][] = [[i, bits]]
  if (random() < 0.3) {
    const beside = i + (random() < 0.5 ? 1 : -1)
    if (loops[beside]?.mayRepeat[op] === 1) {
      const others = model.bits[beside]!.slice()
      others[op] = random() < 0.5 ? 0 : 1
      changed.push([beside, others])
    }
  }
  return changeBits(model, changed)
}

/** Other numbers of tiles of a loop. */
const numbersOf = (tiles: number): readonly number[] =>
  tiles === 1 ? [2, 3, 4] : [1, Math.ceil(tiles / 2), tiles - 1, tiles + 1, 2 * tiles]

const setTiles = (model: Model, i: number, tiles: number): Undo => {
  const before = model.tileBytes[i]!
  const set = (bytes: number): void => {
    model.setTileBytes(i, bytes)
    model.settle(i)
  }
  set(model.bytesFor(i, tiles))
  return () => set(before)
}

const resize = (model: Model, i: number, random: Random): Undo | null =>
  model.p.loops[i]!.tiles ? setTiles(model, i, pick(numbersOf(model.tiles[i]!), random)) : null

/** Tries all single changes of tiles and bits, until none is faster or the steps are used up. Returns the steps. */
export const polish = (model: Model, steps: number): number => {
  const { loops } = model.p
  let seconds = model.price()
  let k = 0
  const keep = (undo: Undo): boolean => {
    k++
    const price = model.price()
    if (price < seconds * (1 - LEAST_GAIN)) {
      seconds = price
      return true
    }
    undo()
    return false
  }
  const resizes = (i: number): boolean => {
    let any = false
    for (const n of numbersOf(model.tiles[i]!)) if (keep(setTiles(model, i, n))) any = true
    return any
  }
  const flips = (i: number): boolean => {
    let any = false
    for (const op of flippable(model, i)) {
      const bits = model.bits[i]!.slice()
      bits[op]! ^= 1
      if (keep(changeBits(model, [[i, bits]]))) any = true
    }
    return any
  }
  for (let any = true; any && k < steps; ) {
    any = false
    for (let i = 0; i < loops.length && k < steps; i++) {
      if (loops[i]!.tiles && resizes(i)) any = true
      if (flips(i)) any = true
    }
  }
  return k
}
const LEAST_GAIN = 1e-6

export const move = (model: Model, random: Random): Undo | null => {
  const loops = model.p.loops.length
  const one = Math.floor(random() * loops)
  const other = Math.floor(random() * loops)
  const i = model.seconds[other]! > model.seconds[one]! ? other : one
  const kind = random()
  if (kind < FLIPS) return flip(model, i, random)
  if (kind < FLIPS + TILES) return resize(model, i, random)
  const before = model.prefetchRoom
  model.prefetchRoom = Math.min(0.5, Math.max(0, before + pick([0.02, -0.02, 0.05, -0.05], random)))
  return () => {
    model.prefetchRoom = before
  }
}

/** The temperature falls from hot to cold over the steps. */
export interface Annealing {
  readonly steps: number
  readonly hot: number
  readonly cold: number
}

export const anneal = (model: Model, { steps, hot, cold }: Annealing, random: Random): Decisions => {
  let seconds = model.price()
  let best = model.decisions
  let least = seconds
  for (let k = 0; k < steps; k++) {
    const undo = move(model, random)
    if (!undo) continue
    const price = model.price()
    if (price > seconds && random() >= Math.exp((seconds - price) / (hot * (cold / hot) ** (k / steps)))) {
      undo()
      continue
    }
    seconds = price
    if (price < least) [best, least] = [model.decisions, price]
  }
  return best
}
