// `swap:dynprog` (paper 5, section 5): the dynamic programme chooses the activations to swap, as if transfers could be interrupted; they then move in
// no-wait order. In: the in-core step, a budget. Out: a candidate for the budget; the list has the one that swaps everything out, so feasibility does
// not depend on the choice. Large activations leave in parts: otherwise the link is idle until the first is made, and none of it is free until all
// has left. General graphs become chains of virtual layers: runs of activations in order of production. Memory is counted in slots; activations are
// rounded by partial sums, which may be too optimistic: then the one rounded down least is rounded up instead.
import { right } from 'fp-ts/Either'
import { PAGE_BYTES } from '../core/bytes'
import type { Link } from '../graph/machine'
import type { Point } from '../plan/plan'
import type { Planner, Refiner } from '../schedule/candidate'
import { inCoreRows } from '../schedule/incore'
import { cutInto, type Layout } from '../schedule/layout'
import { chooseSwaps, type SwapChain } from './swapdp'
import { type Activation, activationsOf, always, swapping, turningPoint } from '../schedule/activations'
import { overSharedPages } from '../schedule/sharing'
import { leastSwapping, occupancy } from '../schedule/stays'

export interface DynprogOptions {
  /** An activation above this share of all is cut into parts, which leave by themselves. */
  readonly share: number
  /** Resolutions to try: they round large activations differently, and the simulator chooses. */
  readonly slots: readonly number[]
  readonly virtualLayers: number
  /** Roundings to try. */
  readonly rounds: number
  /** Limits to try, over the true one: the programme estimates waits differently from the simulator. */
  readonly limits: readonly number[]
  /** A virtual layer counts its parts as if all were there at once; where that finds no plan, the limit is raised by these shares. */
  readonly slack: readonly number[]
}
export const DYNPROG: DynprogOptions = {
  share: 1 / 32,
  slots: [500, 350, 200],
  virtualLayers: 128,
  rounds: 16,
  limits: [1, 0.97, 1.03],
  slack: [0, 0.1, 0.2, 0.4],
}

/** A run of activations that are swapped out together, and the calls [from, to) of its F and its B. */
interface VirtualLayer {
  readonly members: readonly Activation[]
  readonly pages: number
  readonly forward: readonly [Point, Point]
  readonly backward: readonly [Point, Point]
}

const grouped = (all: readonly Activation[], most: number): readonly (readonly Activation[])[] => {
  const share = all.reduce((n, a) => n + a.pages, 0) / most
  const groups: Activation[][] = []
  let space = 0
  for (const a of all) {
    if (space <= 0 || groups.length === 0) {
      groups.push([])
      space += share
    }
    groups[groups.length - 1]!.push(a)
    space -= a.pages
  }
  return groups
}

export const virtualLayers = (l: Layout, most: number): readonly VirtualLayer[] => {
  const turn = turningPoint(l)
  const groups = grouped(activationsOf(l), most)
  const made = groups.map((g) => g[g.length - 1]!.made)
  // The first need of the backward pass for values made that early: non-increasing, as in a chain.
  const needed: number[] = []
  for (const g of groups) needed.push(Math.min(needed[needed.length - 1] ?? Infinity, ...g.map((a) => a.needed)))
  return groups.map((members, i) => ({
    members,
    pages: members.reduce((n, a) => n + a.pages, 0),
    forward: [made[i]!, made[i + 1] ?? turn],
    backward: [i + 1 < groups.length ? needed[i]! : turn, i > 0 ? needed[i - 1]! : l.calls.length],
  }))
}

/** The chain in pages and seconds, before rounding. */
const measured = (l: Layout, layers: readonly VirtualLayer[]) => {
  const mine = new Set(layers.flatMap((v) => v.members.map((a) => a.index)))
  const others = occupancy(
    l.planned.filter((_, i) => !mine.has(i)),
    l.calls.length,
  )
  const before = [0]
  for (const c of l.calls) before.push(before[before.length - 1]! + c.seconds)
  const seconds = ([from, to]: readonly [Point, Point]): number => Math.max(0, before[to]! - before[Math.min(from, to)]!)
  const held = ([from, to]: readonly [Point, Point]): number =>
    others.subarray(from, Math.max(from + 1, to)).reduce((a, b) => Math.max(a, b), 0)
  return layers.map((v) => ({
    pages: v.pages,
    forward: seconds(v.forward),
    backward: seconds(v.backward),
    forwardExtra: held(v.forward),
    backwardExtra: held(v.backward),
  }))
}

/** Differences of rounded partial sums: no sum of neighbours is off by more than one. */
const roundedSums = (values: readonly number[], round: (x: number) => number): number[] => {
  let sum = 0
  return values.map((v) => {
    const before = round(sum)
    sum += v
    return round(sum) - before
  })
}

const chainOf = (m: ReturnType<typeof measured>, link: Link, budgetPages: number, slots: number) => {
  const perPage = slots / budgetPages
  const [out, into] = [link.outBytesPerSecond, link.inBytesPerSecond].map((rate) => (rate / PAGE_BYTES) * perPage) as [
    number,
    number,
  ]
  const exact = m.map((v) => v.pages * perPage)
  const up = (pages: number): number => Math.ceil(pages * perPage)
  const chain = (x: readonly number[]): SwapChain => ({
    x,
    out,
    in: into,
    limit: slots,
    forward: roundedSums(
      m.map((v) => v.forward * out),
      Math.floor,
    ),
    // The backward pass runs from the last layer to the first.
    backward: roundedSums(m.map((v) => v.backward * into).reverse(), Math.floor).reverse(),
    forwardExtra: m.map((v) => up(v.forwardExtra)),
    backwardExtra: m.map((v) => up(v.backwardExtra)),
  })
  return { chain, exact }
}

/** The same step, with no swapped part above this share of all activations. */
export const inParts = (l: Layout, share: number): Layout => {
  const most = Math.ceil(activationsOf(l).reduce((n, a) => n + a.pages, 0) * share)
  return most > 0 ? cutInto(l, most) : l
}

export const dynprog =
  (o: Partial<DynprogOptions> = {}): Planner =>
  (graph, machine) => {
    const l = inParts(inCoreRows(graph, machine), { ...DYNPROG, ...o }.share)
    return right([always(l, swapping(l, activationsOf(l)))].values())
  }

export const dynprogSmall: Planner = overSharedPages(inCoreRows, undefined, (l) => [always(l, swapping(l, activationsOf(l)))])

const fits = (l: Layout, out: readonly Activation[], pages: number): boolean =>
  leastSwapping(l.planned, l.calls.length, out) <= pages

/** One rounding after another, until the choice fits; else the last choice. Null if the chain has none. */
const roundedChoice = (
  l: Layout,
  layers: readonly VirtualLayer[],
  exact: readonly number[],
  chain: (x: readonly number[]) => SwapChain,
  pages: number,
  rounds: number,
) => {
  const x = roundedSums(exact, Math.ceil)
  let out: readonly Activation[] | null = null
  for (let round = 0; round < rounds; round++) {
    const choice = chooseSwaps(chain(x))
    if (!choice) return out
    out = layers.flatMap((v, i) => (choice.swapOut[i] ? v.members : []))
    if (fits(l, out, pages)) return out
    const down = exact.map((e, i) => e - x[i]!)
    const next = down.reduce((best, d, i) => (!choice.swapOut[i] && d > 0 && (best < 0 || d < down[best]!) ? i : best), -1)
    if (next < 0) return out
    x[next]!++
  }
  return out
}

/** With the fewest additional activations, in order of production, that make it fit. */
const completed = (l: Layout, out: readonly Activation[], pages: number): readonly Activation[] => {
  const inIt = new Set(out.map((a) => a.index))
  const others = activationsOf(l).filter((a) => !inIt.has(a.index))
  let [lo, hi] = [0, others.length]
  while (lo < hi) {
    const mid = (lo + hi) >> 1
    if (fits(l, [...out, ...others.slice(0, mid)], pages)) hi = mid
    else lo = mid + 1
  }
  return [...out, ...others.slice(0, lo)]
}

/** The programme's choice, in a number of slots, under a share of the budget; null if none fits. */
const chosenIn = (
  l: Layout,
  link: Link,
  pages: number,
  slots: number,
  o: DynprogOptions,
  share: number,
): readonly Activation[] | null => {
  const layers = virtualLayers(l, o.virtualLayers)
  const { chain, exact } = chainOf(measured(l, layers), link, pages, slots)
  for (const slack of o.slack) {
    const limit = Math.round(slots * (share + slack))
    const out = roundedChoice(l, layers, exact, (x) => ({ ...chain(x), limit }), pages, o.rounds)
    const whole = out && completed(l, out, pages)
    if (whole && fits(l, whole, pages)) return whole
  }
  return null
}

/** Its choices under a budget, the same one once. */
export const choices = (
  l: Layout,
  link: Link,
  pages: number,
  o: DynprogOptions = DYNPROG,
): readonly (readonly Activation[])[] => {
  const found = o.slots.flatMap((slots) => o.limits.map((share) => chosenIn(l, link, pages, slots, o, share) ?? []))
  const key = (out: readonly Activation[]): string =>
    out
      .map((a) => a.index)
      .sort((a, b) => a - b)
      .join()
  return [...new Map(found.filter((out) => out.length).map((out) => [key(out), out])).values()]
}

export const refineDynprog = (o: Partial<DynprogOptions> = {}): Refiner =>
  function* (graph, machine, pages) {
    const options = { ...DYNPROG, ...o }
    const l = inParts(inCoreRows(graph, machine), options.share)
    for (const out of choices(l, machine.link, pages, options)) yield always(l, swapping(l, out))
  }
