// `checkpoint:optimal`: the optimal recomputation of a chain of stages (chaindp.ts), for general graphs a chain of blocks. In: the training graph.
// Out: candidates that keep everything on the device, from the least memory to nearly all of it; for a budget, the one that uses it best. Stages may
// also keep their expensive values and recompute the cheap ones.
import { mapped } from '../core/mapped'
import { right } from 'fp-ts/Either'
import { certain } from '../core/certain'
import { pagesIn } from '../core/bytes'
import { valueBytes, type Graph, isPersistent } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { Segment } from '../plan/plan'
import { segmentsOf } from '../tile/segments'
import { atLeastOf, atLeastResident } from './atleast'
import { type AtLeast, type Candidate, deferred, type Planner, type Refiner, resident } from './candidate'
import { type Chain, chainOf } from './chain'
import { ALL_RULES, type ChainRules, type ChainStage, type SolvedChain, solveChain } from './chaindp'
import { type Layout, layOut } from './layout'
import { onceFor } from './remember'
import { runsOf } from './rerun'

const SLOTS = 1000
const LISTED = 16
/** A schedule that takes this many times the seconds of the fastest one is used only if no other fits. */
const WORTH_COMPUTING = 3
/** The number of calls of layouts that are cached for other budgets, of all chains of a graph together. */
const REMEMBERED_CALLS = 60_000
/** The emitted schedule leaves out unread ops, so it takes a little less than the model says. */
const MODELLED_LOW = 0.97
/** It also holds less, for the same reason and because sizes are rounded up to slots. */
const HELD_LOW = 0.9

/** Bytes to slots, to the nearest, so that the errors of many stages cancel; the layout counts pages in the end. */
const inSlots = (s: ChainStage, slot: number): ChainStage => {
  const n = (bytes: number): number => Math.round(bytes / slot)
  return {
    ...s,
    crossing: mapped(s.crossing, (bytes) => bytes / slot),
    gradient: n(s.gradient),
    passPeak: n(s.passPeak),
    options: mapped(s.options, (o) => ({
      ...o,
      saved: n(o.saved),
      forwardPeak: n(o.forwardPeak),
      backwardPeak: n(o.backwardPeak),
    })),
  }
}

/** The bytes of keeping everything: no schedule of the chain needs more. */
const mostBytes = (sizes: readonly ChainStage[]): number => {
  let saved = 0
  let most = 0
  for (const s of sizes) {
    const all = s.options[0]!
    most = Math.max(most, saved + all.forwardPeak, saved + all.backwardPeak)
    saved += all.saved
  }
  return most
}

/** A cache that removes its oldest entries above a size. */
class Latest {
  private readonly kept: { readonly size: number; readonly forget: () => void }[] = []
  private size = 0

  constructor(private readonly most: number) {}

  add(size: number, forget: () => void): void {
    this.kept.push({ size, forget })
    this.size += size
    while (this.size > this.most && this.kept.length > 1) {
      const first = this.kept.shift()!
      this.size -= first.size
      first.forget()
    }
  }
}
const latest = onceFor(() => new Latest(REMEMBERED_CALLS))

/** The certain, and the possible, pages of a number of slots. */
interface Known {
  readonly slots: number
  readonly pages: number
}

export class OptimalChain {
  private readonly solved: SolvedChain
  private readonly slot: number
  private readonly layouts = new Map<string, Layout>()
  private readonly persistentBytes: number

  constructor(
    readonly chain: Chain,
    readonly machine: Machine,
    rules: ChainRules = ALL_RULES,
  ) {
    this.persistentBytes = chain.graph.values.filter(isPersistent).reduce((n, v) => n + valueBytes(v), 0)
    this.slot = Math.max(1, mostBytes(chain.sizes) / (SLOTS - chain.sizes.length))
    this.solved = solveChain(
      mapped(chain.sizes, (s) => inSlots(s, this.slot)),
      SLOTS,
      rules,
    )
  }

  /** Numbers of slots at which a schedule differs from the one with a slot less, the smallest first. */
  get steps(): readonly number[] {
    const { seconds } = this.solved
    return Array.from({ length: SLOTS + 1 }, (_, m) => m).filter(
      (m) => Number.isFinite(seconds(m)) && !(seconds(m) >= (m ? seconds(m - 1) : Infinity)),
    )
  }

  /** The least memory without repeated recomputation: a long chain may otherwise compute everything twenty times. */
  get leastWorthwhile(): number {
    const { steps } = this
    const most = WORTH_COMPUTING * this.seconds(steps.at(-1)!)
    return steps.find((m) => this.seconds(m) <= most)!
  }

  /** The pages by the model with no slots and with all: all schedules are between them. */
  get ends(): readonly [Known, Known] {
    const pages = (slots: number): Known => ({ slots, pages: pagesIn(this.persistentBytes + this.bytes(slots)) })
    return [pages(0), pages(SLOTS)]
  }

  /** By the model: the seconds of the calls, and the bytes at the peak besides parameters and other permanent values. */
  seconds(slots: number): number {
    return this.solved.seconds(slots)
  }

  /** The least seconds of the emitted schedule. */
  leastSeconds(slots: number): number {
    return this.seconds(slots) * MODELLED_LOW
  }

  bytes(slots: number): number {
    return slots * this.slot
  }

  candidate(slots: number, rule: (layout: Layout) => Candidate): Candidate {
    return deferred(this.leastSeconds(slots), () => rule(this.layout(slots)), {
      like: (segments, graph) => rule(this.laidOut(segments, graph)),
      atLeast: () => atLeastOf(this.chain.graph, this.segments(slots), this.machine),
    })
  }

  /** All values stay on the device. */
  resident(slots: number): Candidate {
    const atLeastPages = pagesIn(this.persistentBytes + this.bytes(slots) * HELD_LOW)
    const atLeast = (): AtLeast => atLeastResident(this.chain.graph, this.segments(slots), this.machine)
    return deferred(this.leastSeconds(slots), () => resident(this.layout(slots)), {
      atLeastPages,
      atLeast,
      like: (segments, graph) => resident(this.laidOut(segments, graph)),
    })
  }

  private segments(slots: number): readonly Segment[] {
    const { graph, stages, keeping } = this.chain
    if (this.latest?.slots === slots) return this.latest.segments
    const runs = runsOf(graph, stages, keeping, this.solved.actions(slots))
    this.latest = { slots, segments: certain("a chain's stages are legal with every option")(segmentsOf(graph, runs)) }
    return this.latest.segments
  }
  private latest: { readonly slots: number; readonly segments: readonly Segment[] } | undefined

  private laidOut(segments: readonly Segment[], graph = this.chain.graph): Layout {
    return layOut(graph, segments, this.machine, { packing: 'rows' })
  }

  layout(slots: number): Layout {
    const actions = this.solved.actions(slots)
    const key = mapped(actions, (a) => `${a.tag}${a.stage}${a.tag === 'pass' ? '' : `:${a.option}`}`).join()
    const known = this.layouts.get(key)
    if (known) return known
    const layout = this.laidOut(this.segments(slots))
    this.layouts.set(key, layout)
    latest(this.chain.graph, this.machine).add(layout.calls.length, () => this.layouts.delete(key))
    return layout
  }
}

/** At most `n` items of a list, the first and the last among them. */
export const spread = <T>(list: readonly T[], n: number): readonly T[] =>
  list.length <= n ? list : Array.from({ length: n }, (_, i) => list[Math.round((i * (list.length - 1)) / (n - 1))]!)

const chains = onceFor(() => new Map<string, OptimalChain>())

export const optimalOf = (graph: Graph, machine: Machine, rules: ChainRules = ALL_RULES): OptimalChain => {
  const known = chains(graph, machine)
  const key = JSON.stringify(rules)
  const chain = known.get(key) ?? new OptimalChain(chainOf(graph, machine), machine, rules)
  known.set(key, chain)
  return chain
}

function* listed(optimal: OptimalChain): Generator<Candidate, void, boolean> {
  for (const slots of spread(optimal.steps, LISTED)) yield optimal.resident(slots)
}

/**
 * The schedule with the most slots that fits: more memory is never slower. Pages grow almost evenly with slots, so the next number to try lies on a
 * line through the two nearest known ones. After as many tries as bisection needs, bisection follows. Schedules that cannot be faster than the best
 * are skipped.
 */
export function* mostThatFits(optimal: OptimalChain, budgetPages: number, toBeat: number): Generator<Candidate, number, number> {
  const { steps } = optimal
  let best = toBeat
  const faster = steps.findIndex((slots) => optimal.leastSeconds(slots) < toBeat)
  let [lo, hi] = [faster < 0 ? steps.length : faster, steps.length]
  let [below, above] = optimal.ends
  const halves = Math.ceil(Math.log2(hi + 1))
  for (let looks = 0; lo < hi; looks++) {
    const share = (budgetPages - below.pages) / (above.pages - below.pages)
    const slots = below.slots + share * (above.slots - below.slots)
    const guess = looks < halves ? steps.filter((s) => s <= slots).length - 1 : (lo + hi) >> 1
    const at = Math.min(Math.max(guess, lo), hi - 1)
    const candidate = optimal.resident(steps[at]!)
    const bounds = [(): number => candidate.atLeastPages ?? 0, (): number => candidate.atLeast!.pages]
    const exceeding = bounds.find((pages) => pages() > budgetPages)
    const known = { slots: steps[at]!, pages: exceeding ? exceeding() : candidate.least }
    if (known.pages <= budgetPages) {
      best = Math.min(best, yield candidate)
      ;[lo, below] = [at + 1, known]
    } else [hi, above] = [at, known]
  }
  return best
}

export const checkpointOptimal =
  (rules: ChainRules = ALL_RULES): Planner =>
  (graph, machine) =>
    right(listed(optimalOf(graph, machine, rules)))

export const refineOptimal =
  (rules: ChainRules = ALL_RULES): Refiner =>
  (graph, machine, budgetPages, toBeat): ReturnType<Refiner> =>
    mostThatFits(optimalOf(graph, machine, rules), budgetPages, toBeat)
