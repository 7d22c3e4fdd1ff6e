// Explains the plan of a training step. In: a plan, its machine. Out: for each loop, large value and large weight the decision, the two best
// alternatives with their price, and the resource that binds. Or null if the plan has other loops than the search. A price is a difference of
// seconds in the model of the step, corrected by the plan's own layout.
// Worked example: the plan keeps relu1, 98 MiB. To recompute it in its backward loop costs 0.4 ms more: memory is free in between.
import { bytesOf, pagesIn, pagesOf } from '../core/bytes'
import { mapped } from '../core/mapped'
import { copiesIn } from '../graph/copied'
import { type OpId, trains, type ValueId } from '../graph/graph'
import { type Machine, withoutTier } from '../graph/machine'
import { isSwappedToTier, type Plan } from '../plan/plan'
import { outcomeOf } from '../sim/simulate'
import { layOut } from '../schedule/layout'
import { calibrate } from './calibrate'
import { type Decided, decidedIn } from './decided'
import { homesOf } from './lower'
import { Model } from './model'
import { changeBits, changeLoops, flippable, moveUnit, numbersOf, setTiles, type Undo } from './moves'
import { mayRepeat, problemOf } from './problem'

export interface Alternative {
  readonly change: string
  /** Seconds of the step, more than now. */
  readonly seconds: number
}

export interface ExplainedLoop {
  readonly name: string
  readonly layers: readonly string[]
  readonly tiles: number
  readonly seconds: number
  readonly waitSeconds: number
  /** Names of the values that it recomputes. */
  readonly recomputes: readonly string[]
  readonly binding: string
  readonly alternatives: readonly Alternative[]
}

export interface ExplainedValue {
  readonly name: string
  readonly layer: string
  readonly bytes: number
  readonly decision: string
  readonly binding: string
  readonly alternatives: readonly Alternative[]
}

export interface Explanation {
  /** The price of the step by the model, and the seconds by the simulator. */
  readonly seconds: number
  readonly simulatedSeconds: number
  readonly loops: readonly ExplainedLoop[]
  /** Activations and gradients of several loops, and weights with their optimizer state, the largest first. */
  readonly values: readonly ExplainedValue[]
}

/** A device that is filled less than this has memory for another decision. */
const FULL = 0.95
/** A link that is busier than this cannot take more. */
const BUSY = 0.9
const BEST = 2
/** A smaller share of the step is the rounding of numbers. */
const NOTHING = 1e-9

const percent = (share: number): string => `${Math.round(100 * share)} %`

/** The model with the decisions of a plan, corrected by its layout. */
const modelOf = (plan: Plan, machine: Machine): { readonly model: Model; readonly decided: Decided } | null => {
  const p = problemOf(plan.graph, machine)
  const decided = decidedIn(p, plan)
  if (!decided) return null
  const { decisions, tiles, loopOf } = decided
  const model = new Model(p, bytesOf(pagesIn(plan.budgetBytes)))
  model.load(decisions)
  for (const i of model.heads) if (tiles[i]! > 1) model.setTileBytes(i, model.bytesFor(i, tiles[i]!))
  model.settle(p.atoms - 1)
  const persistents = homesOf(p, decisions.away)
  calibrate(model, layOut(plan.graph, plan.segments, machine, { packing: 'dense', persistents }), loopOf)
  model.fitLoops()
  return { model, decided }
}

/** For each value the bytes that leave the device and come back. */
const movedBytes = (plan: Plan): ReadonlyMap<ValueId, number> => {
  const leaving = plan.residencies.filter(isSwappedToTier)
  const moved = new Map<ValueId, number>()
  for (const c of plan.cells) {
    if (c.scope !== 'whole' && c.scope !== 'fed') continue
    const { storage, offset } = plan.places[c.id]!
    const [from, to] = pagesOf(offset, c.bytes)
    const pages = leaving.reduce(
      (n, r) => n + (r.storage === storage ? Math.max(0, Math.min(to, r.to) - Math.max(from, r.from)) : 0),
      0,
    )
    for (const v of c.values) moved.set(v, Math.max(moved.get(v) ?? 0, Math.min(c.bytes, bytesOf(pages))))
  }
  return moved
}

class Explainer {
  private readonly price: number
  private readonly names = new Map<number, string>()
  private readonly moved: ReadonlyMap<ValueId, number>

  constructor(
    private readonly model: Model,
    plan: Plan,
  ) {
    this.price = model.price()
    this.moved = movedBytes(plan)
    for (const i of model.heads) this.names.set(i, this.nameOf(i))
  }

  private layersOf(i: number): readonly string[] {
    const { p, loops } = this.model
    return [...new Set(mapped(loops[i]!.ops, (id) => p.graph.ops[id]!.layer))].filter((l) => l !== '')
  }

  private nameOf(i: number): string {
    const layers = this.layersOf(i)
    const last = layers[layers.length - 1]
    const range = layers.length > 1 ? `${layers[0]} … ${last}` : (last ?? 'no layer')
    return `loop ${this.model.heads.indexOf(i) + 1} (${this.model.loops[i]!.phase} ${range})`
  }

  /** The best changes. Each is taken back. */
  private best(changes: readonly (readonly [change: string, make: () => Undo | null])[]): readonly Alternative[] {
    const { model, price } = this
    const made: Alternative[] = []
    for (const [change, make] of changes) {
      const undo = make()
      if (!undo) continue
      const seconds = model.price() - price
      made.push({ change, seconds: Math.abs(seconds) < NOTHING * price ? 0 : seconds })
      undo()
    }
    model.price()
    return made.sort((a, b) => a.seconds - b.seconds).slice(0, BEST)
  }

  /** The resource that binds from one loop to another one. */
  private bindingOf(loops: readonly number[]): string {
    const { model } = this
    let [fullest, most, copies, seconds] = [loops[0]!, 0, 0, 0]
    for (const i of loops) {
      const { filled, copySeconds } = model.usage(i)
      copies += copySeconds
      seconds += model.seconds[i]!
      if (filled > most) [fullest, most] = [i, filled]
    }
    const busy = copies / seconds
    const link = busy > BUSY ? `the link: busy for ${percent(Math.min(1, busy))} of the time` : ''
    if (most < FULL) return link || `none: memory is at most ${percent(most)} full`
    return `memory: full in ${this.names.get(fullest)}${link ? `; ${link}` : ''}`
  }

  private flip(i: number, op: OpId): Undo {
    const bits = this.model.bits[i]!.slice()
    bits[op]! ^= 1
    return changeBits(this.model, [[i, bits]])
  }

  private setAll(loops: readonly number[], op: OpId, to: 0 | 1): Undo | null {
    const changed = loops.flatMap((i): [number, Uint8Array][] => {
      const bits = this.model.bits[i]!.slice()
      if (bits[op] === to) return []
      bits[op] = to
      return [[i, bits]]
    })
    return changed.length > 1 ? changeBits(this.model, changed) : null
  }

  value(v: ValueId): ExplainedValue | null {
    const { model, moved, names } = this
    const { graph, maker, bytes, atomOf } = model.p
    const op = maker[v]!
    const touching = model.heads.filter((i) => model.running[i]!.inputs.includes(v))
    const again =
      op < 0 ? [] : model.heads.filter((i) => model.running[i]!.ops.includes(op) && mayRepeat(atomOf, model.loops[i]!, op))
    if (op < 0 || touching.length + again.length === 0) return null
    const out = moved.get(v) ?? 0
    const held =
      touching.length === 0
        ? []
        : [out > 0 ? (out < bytes[v]! ? `swapped out in part (${percent(out / bytes[v]!)})` : 'swapped out') : 'kept']
    const run =
      again.length === 0
        ? []
        : [again.length === 1 ? `recomputed in ${names.get(again[0]!)}` : `recomputed ${again.length} times`]
    const flips = [...new Set([...touching, ...again])].filter((i) => flippable(model, i).includes(op))
    const to = (i: number): string => (again.includes(i) ? `read it in ${names.get(i)}` : `recompute it in ${names.get(i)}`)
    const first = model.heads.filter((i) => i <= atomOf[op]!).pop()!
    const last = Math.max(...touching, ...again)
    return {
      name: graph.values[v]!.name,
      layer: graph.ops[op]!.layer,
      bytes: bytes[v]!,
      decision: [...held, ...run].join(', '),
      binding: this.bindingOf(model.heads.filter((i) => i >= first && i <= last)),
      alternatives: this.best([
        ...mapped(flips, (i) => [to(i), () => this.flip(i, op)] as const),
        [`recompute it in all ${flips.length} loops`, () => this.setAll(flips, op, 1)],
        [`read it in all ${flips.length} loops`, () => this.setAll(flips, op, 0)],
      ]),
    }
  }

  /** A copied input: no decision of the search moves it. */
  copy(v: ValueId): ExplainedValue {
    const { graph, maker, bytes } = this.model.p
    return {
      name: graph.values[v]!.name,
      layer: graph.ops[maker[v]!]!.layer,
      bytes: bytes[v]!,
      decision: 'kept from the first to the last reader, while the next input arrives',
      binding: this.bindingOf(this.model.heads),
      alternatives: [],
    }
  }

  /** A weight with its optimizer state. */
  unit(k: number): ExplainedValue {
    const { model } = this
    const { units, graph, bytes } = model.p
    const values = units[k]!.flat()
    const weight = graph.values[values.find((v) => graph.values[v]!.role === 'param') ?? values[0]!]!
    const isAway = model.away[k] === 1
    return {
      name: weight.name,
      layer: graph.ops.find((op) => op.ins.includes(weight.id))?.layer ?? '',
      bytes: values.reduce((n, v) => n + bytes[v]!, 0),
      decision: isAway ? 'in the lower tier, with its optimizer state' : 'on the device for the whole step',
      binding: this.bindingOf(model.heads),
      alternatives: this.best([[isAway ? 'hold it on the device' : 'move it to the lower tier', () => moveUnit(model, k)]]),
    }
  }

  loop(i: number): ExplainedLoop {
    const { model, names } = this
    const { graph, atomOf } = model.p
    const loop = model.loops[i]!
    const tiles = model.tiles[i]!
    const again = model.running[i]!.ops.filter((op) => mayRepeat(atomOf, loop, op))
    const sizes = loop.tiles ? new Set(numbersOf(tiles).filter((n) => n !== tiles && n <= loop.most.B * loop.most.H)) : []
    const middle = (i + loop.to) >> 1
    const next = names.get(loop.to)
    return {
      name: names.get(i)!,
      layers: this.layersOf(i),
      tiles,
      seconds: model.seconds[i]!,
      waitSeconds: Math.max(0, model.seconds[i]! - model.compute[i]!),
      recomputes: mapped(again, (op) => graph.values[graph.ops[op]!.outs[0]!]!.name),
      binding: this.bindingOf([i]),
      alternatives: this.best([
        ...mapped([...sizes], (n) => [n === 1 ? 'no tiles' : `${n} tiles`, () => setTiles(model, i, n)] as const),
        [`join it with ${next}`, () => (next ? changeLoops(model, i) : null)],
        ['split it in two loops', () => (loop.to > i + 1 ? changeLoops(model, i, middle) : null)],
      ]),
    }
  }
}

export const explained = (plan: Plan, machine: Machine): Explanation | null => {
  const isAlone = plan.tierBytes === 0 && machine.link.sameMemory
  const made = trains(plan.graph) ? modelOf(plan, isAlone ? withoutTier(machine) : machine) : null
  if (!made) return null
  const { model } = made
  const explainer = new Explainer(model, plan)
  const values = [
    ...new Set(
      model.heads.flatMap((i) => [...model.running[i]!.inputs, ...model.running[i]!.ops.flatMap((op) => model.p.outs[op]!)]),
    ),
  ]
    .filter((v) => model.p.crosses[v] === 1)
    .flatMap((v) => explainer.value(v) ?? [])
  const copies = mapped([...copiesIn(plan.graph).keys()], (v) => explainer.copy(v))
  const units = mapped(model.p.units, (_, k) => explainer.unit(k))
  return {
    seconds: model.price(),
    simulatedSeconds: outcomeOf(plan, machine.link).makespanSeconds,
    loops: mapped(model.heads, (i) => explainer.loop(i)),
    values: [...values, ...copies, ...units].sort((a, b) => b.bytes - a.bytes),
  }
}
