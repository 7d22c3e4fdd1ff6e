// The shapes and the costs of calls. In: a graph, views, a machine. Out: for each call its seconds, scratch and algorithm. Tiles of one shape, with the
// same borders, cost the same, so each cost is computed once for a graph and a machine.
import { type Box, fullBox, type Range, shapeIn } from '../core/box'
import { ALIGN_BYTES, alignUp } from '../core/bytes'
import { mapped } from '../core/mapped'
import { onceForPair } from '../core/remember'
import { originIn } from '../graph/bands'
import { halfOf } from '../graph/check'
import { type Graph, isLaid, isOfWeight, type Op, type ValueId } from '../graph/graph'
import { type Choice, type Costs, fastest } from '../graph/machine'
import { wholeShape } from '../graph/ranks'
import { alignmentOf, anchorOf, callKey, type Windowed, windowedOf } from '../ops/callkey'
import { asShape, type CallShapes, type BoxPlace } from '../ops/op'
import type { Grid, Plumbing, Step, View } from './plan'
import { boxAt, type TileIndex } from './tileboxes'

/** The shapes of a call for a machine. */
export const callShapes = (graph: Graph, ins: readonly View[], outs: readonly View[]): CallShapes => {
  const shape = (v: View): readonly number[] => shapeIn(v.box, graph.values[v.value]!.shape)
  const where = (v: View): BoxPlace => {
    const value = graph.values[v.value]!
    return value.shape.length === 4 && !isOfWeight(graph, value)
      ? { origin: originIn(value, v.box), extent: wholeShape(graph, value) }
      : { origin: mapped(value.shape, () => 0), extent: shape(v) }
  }
  const half = halfOf(mapped([...ins, ...outs], (v) => graph.values[v.value]!))
  const laid = ins.some((v) => isLaid(graph.values[v.value]!))
  return {
    ins: mapped(ins, shape),
    outs: mapped(outs, shape),
    at: { ins: mapped(ins, where), outs: mapped(outs, where) },
    ...(half ? { half } : {}),
    ...(laid ? { laid } : {}),
  }
}

interface Alike {
  readonly kinds: readonly string[]
  readonly of: readonly number[]
}

/** Equal for the indices along a dimension whose boxes have one shape and the same borders. */
type KindOf = (dim: 'B' | 'H' | 'W', i: number) => string

const alongOf = { B: 0, H: 2, W: 3 } as const

const kindsOf = (graph: Graph, known: Known, op: Op, step: Step): KindOf => {
  const slices = step.slices!
  const values = mapped([...op.ins, ...op.outs], (v) => graph.values[v]!)
  const windowed = known.windowsOf(op)
  const anchor = anchorOf(op.kind, op.ins.length)
  return (dim, i) => {
    const d = alongOf[dim]
    const at = (operand: number): Range => slices[operand]?.[dim][i] ?? [0, values[operand]?.shape[d] ?? 1]
    let kind = ''
    for (const s of slices) kind += s ? `${s[dim][i]![1] - s[dim][i]![0]},` : ','
    for (const { operand, windows, d: of } of windowed)
      if (of === d) kind += `|${alignmentOf(windows, at(anchor), at(operand)[0], wholeShape(graph, values[operand]!)[d] ?? 1)}`
    return kind
  }
}

/** The costs of a loop's tiles at one of its steps: tiles whose boxes have one shape and the same borders cost the same. */
export class StepCosts {
  private readonly choices: (Choice | undefined)[] = []
  /** For each dimension, the kinds of indices along it, and the kind of each index. */
  private readonly alike: Readonly<Record<'B' | 'H' | 'W', Alike>>

  constructor(
    graph: Graph,
    private readonly known: Known,
    private readonly op: Op,
    step: Step,
    grid: Grid,
  ) {
    const kindOf = kindsOf(graph, known, op, step)
    const along = (dim: 'B' | 'H' | 'W'): Alike => {
      const kinds: string[] = []
      const of = new Array<number>(grid[dim])
      for (let i = 0; i < grid[dim]; i++) {
        const kind = kindOf(dim, i)
        const known = kinds.indexOf(kind)
        of[i] = known < 0 ? kinds.push(kind) - 1 : known
      }
      return { kinds, of }
    }
    this.alike = { B: along('B'), H: along('H'), W: along('W') }
  }

  at(t: TileIndex, shapes: () => CallShapes): Choice {
    const { B, H, W } = this.alike
    const [b, h, w] = [B.of[t.B]!, H.of[t.H]!, W.of[t.W]!]
    const key = (b * H.kinds.length + h) * W.kinds.length + w
    const known = this.choices[key] ?? this.known.tileCost(this.op, `${B.kinds[b]};${H.kinds[h]};${W.kinds[w]}`, shapes)
    this.choices[key] = known
    return known
  }
}

/** Facts for all expansions of a graph for a machine: full boxes, and the ways to run calls. */
export class Known {
  readonly boxes: readonly Box[]
  private readonly whole: (Choice | undefined)[] = []
  private readonly costs = new Map<string, Choice>()
  private readonly plumbing = new Map<string, number>()
  private readonly alike = new Map<string, Choice>()
  private readonly windows: (readonly Windowed[] | undefined)[] = []
  private readonly steps = new WeakMap<Step, StepCosts>()

  constructor(
    private readonly graph: Graph,
    private readonly machine: Costs,
  ) {
    this.boxes = mapped(graph.values, (v) => fullBox(asShape(v.shape)))
  }

  private choice(op: Op, shapes: CallShapes): Choice {
    const best = fastest(this.machine, op.kind, op.attrs, shapes)
    return { ...best, workspace: alignUp(best.workspace, ALIGN_BYTES) }
  }

  private cost(op: Op, shapes: CallShapes): Choice {
    const key = callKey(op.kind, op.attrs, shapes)
    const known = this.costs.get(key) ?? this.choice(op, shapes)
    this.costs.set(key, known)
    return known
  }

  /** The windowed operands of an op: those of its tiles, too. */
  windowsOf(op: Op): readonly Windowed[] {
    const shape = (v: ValueId): readonly number[] => this.graph.values[v]!.shape
    const known =
      this.windows[op.id] ?? windowedOf(op.kind, op.attrs, { ins: mapped(op.ins, shape), outs: mapped(op.outs, shape) })
    this.windows[op.id] = known
    return known
  }

  /** The costs of a loop's step at its tiles. */
  stepCosts(step: Step, grid: Grid): StepCosts {
    const known = this.steps.get(step) ?? new StepCosts(this.graph, this, this.graph.ops[step.op]!, step, grid)
    this.steps.set(step, known)
    return known
  }

  /** The cost of a tile of an op; `like` is equal for tiles whose boxes have one shape and the same borders. */
  tileCost(op: Op, like: string, shapes: () => CallShapes): Choice {
    const key = `${op.id} ${like}`
    const known = this.alike.get(key) ?? this.cost(op, shapes())
    this.alike.set(key, known)
    return known
  }

  /** Moves and fills without attributes cost the same for boxes of the same shape. */
  plumbingSeconds(kind: Plumbing, attrs: Record<string, number>, ins: readonly View[], outs: readonly View[]): number {
    const seconds = (): number => this.machine.seconds(kind, attrs, callShapes(this.graph, ins, outs))
    if (kind === 'merge_moments') return seconds()
    const key = `${kind} ${this.shapeKey(outs[0]!)}${ins[0] ? ` ${this.shapeKey(ins[0])}` : ''}`
    const known = this.plumbing.get(key) ?? seconds()
    this.plumbing.set(key, known)
    return known
  }

  private shapeKey({ value, box: [b, c, h, w] }: View): string {
    const v = this.graph.values[value]!
    return v.shape.length === 4
      ? `${v.dtype}${b[1] - b[0]},${c[1] - c[0]},${h[1] - h[0]},${w[1] - w[0]}`
      : `${v.dtype}${v.shape.join()}`
  }

  /** An op over whole values costs the same wherever they lie. Few such ops are alike: a key takes longer than a cost. */
  wholeCost(op: Op, ins: readonly View[], outs: readonly View[]): Choice {
    const cost = this.whole[op.id] ?? this.choice(op, callShapes(this.graph, ins, outs))
    this.whole[op.id] = cost
    return cost
  }
}

export const knownFor = onceForPair((graph: Graph, machine: Costs) => new Known(graph, machine))

const indexOfLargest = (ranges: readonly Range[]): number =>
  ranges.reduce((best, r, i) => (r[1] - r[0] > ranges[best]![1] - ranges[best]![0] ? i : best), 0)

/** The scratch that a step of a loop takes at its largest tile: of the others nothing is worked out. */
export const tileScratch = (graph: Graph, machine: Costs, step: Step): number => {
  const op = graph.ops[step.op]!
  const known = knownFor(graph, machine)
  const first = step.slices!.find((s) => s !== null)
  if (!first) return 0
  const t = { index: 0, B: indexOfLargest(first.B), H: indexOfLargest(first.H), W: indexOfLargest(first.W) }
  const views = (): readonly View[] =>
    mapped([...op.ins, ...op.outs], (value, i) => {
      const held = known.boxes[value]!
      const slices = step.slices![i]
      return { cell: -1, value, held, box: slices ? boxAt(slices, held, t) : held }
    })
  const shapes = (): CallShapes => callShapes(graph, views().slice(0, op.ins.length), views().slice(op.ins.length))
  const kindOf = kindsOf(graph, known, op, step)
  return known.tileCost(op, `${kindOf('B', t.B)};${kindOf('H', t.H)};${kindOf('W', t.W)}`, shapes).workspace
}
