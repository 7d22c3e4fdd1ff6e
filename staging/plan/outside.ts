// Marks calls of a masked network that may leave out the pixels outside of the mask. In: a plan. Out: a mark for each call. Only devices with kernels
// that leave pixels out use the marks. Invariant: outside of the mask, the numbers are 0 in any case, or no result depends on them.
// Worked example: conv2d writes y, multiply clears y outside of m, bn_stats reads the product. Nothing else reads y: conv2d may write 0 outside,
// and bn_stats reads no pixel outside. Both hold for each tile, copy and recomputation, because they hold for the values.
import { type Box, type Range, sameBox } from '../core/box'
import { originIn } from '../graph/bands'
import { type Graph, isResult, type Op, type OpId, type ValueId } from '../graph/graph'
import { wholeShape } from '../graph/ranks'
import type { Call, Plan, View } from './plan'

/** The mark of a call: the number of the mask, true if the call computes its blocks, and the operand with the pixels to leave out. */
export interface Mark {
  readonly mask: number
  readonly makes: boolean
  readonly masked: number
  /** The call writes 0 outside. Otherwise its output shares the bytes of an input that is 0 there. */
  readonly fills: boolean
}

/** An operator whose kernel leaves pixels out. */
interface Rule {
  /** If these inputs are 0 at a pixel, the output is 0 there, or a sum does not change. */
  readonly zeros?: readonly number[]
  /** For a sum over pixels: the input with these pixels. */
  readonly sums?: number
  /** A pixel of the output depends on this pixel of the inputs only. */
  readonly byPixel?: true
}
// biome-ignore format: a table
const RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['conv2d', {}], ['conv2d_relu', {}], ['conv2d_bwd_data', {}], ['max_pool', {}],
  ['bn_masked_apply', { byPixel: true }], ['bn_frozen', { byPixel: true }], ['bn_bwd_data', { byPixel: true }],
  ['relu', { zeros: [0], byPixel: true }], ['relu_bwd', { zeros: [1], byPixel: true }],
  ['add', { zeros: [0, 1], byPixel: true }], ['add_relu', { zeros: [0, 1], byPixel: true }], ['grad_sum', { zeros: [0, 1], byPixel: true }],
  ['bn_stats', { zeros: [0], sums: 0 }], ['bn_bwd_reduce', { zeros: [1], sums: 1 }], ['conv2d_bwd_weights', { zeros: [1], sums: 1 }],
])
const PRODUCTS: ReadonlySet<string> = new Set(['multiply', 'multiply_bwd_data'])

/** Returns the value of the blocks for each mask, at the size of the blocks and at other sizes. (A mask without other sizes is a gate.) */
const masksIn = (g: Graph): ReadonlyMap<ValueId, ValueId> => {
  const isBlocks = ({ kind, attrs, outs }: Op): boolean =>
    kind === 'clamp' && attrs['low'] === 0 && attrs['high'] === 1 && g.values[outs[0]!]!.shape[1] === 1
  const blocks = new Set(g.ops.filter(isBlocks).map((op) => op.outs[0]!))
  const resized = g.ops.filter((op) => op.kind === 'upsample' && op.attrs['mode'] === 0 && blocks.has(op.ins[0]!))
  return new Map(resized.flatMap(({ ins, outs }) => [[ins[0]!, ins[0]!] as const, [outs[0]!, ins[0]!] as const]))
}

/** Returns the common mask of all operands, if there is one. */
const common = (masks: readonly (ValueId | undefined)[]): ValueId | undefined =>
  masks.every((mask) => mask === masks[0]) ? masks[0] : undefined

class Zeros {
  private readonly masks: ReadonlyMap<ValueId, ValueId>
  /** For each value of blocks the operator that computes it. */
  private readonly madeBy = new Map<ValueId, OpId>()
  /** For each value that is 0 outside of a mask, the value of the blocks. */
  private readonly zero = new Map<ValueId, ValueId>()
  /** The same, with values outside of a mask on which no result depends. */
  private readonly free = new Map<ValueId, ValueId>()
  /** Values of `free` for which all calls write 0 outside. */
  private readonly cleared = new Set<ValueId>()

  constructor(private readonly graph: Graph) {
    this.masks = masksIn(graph)
    if (this.masks.size === 0) return
    const { ops, values } = graph
    const readers = values.map((): Op[] => [])
    for (const op of ops) {
      for (const v of op.ins) readers[v]!.push(op)
      const [out] = op.outs
      if (out !== undefined && this.masks.get(out) === out) this.madeBy.set(out, op.id)
      const mask = out === undefined ? undefined : this.zeroOf(op)
      if (mask !== undefined) this.zero.set(out!, mask)
    }
    for (const op of [...ops].reverse()) {
      const [out] = op.outs
      if (out === undefined || op.outs.length > 1) continue
      const readFreely = readers[out]!.length > 0 && !isResult(values[out]!)
      const mask =
        this.zero.get(out) ?? (readFreely ? common(readers[out]!.map((reader) => this.freeIn(reader, out))) : undefined)
      if (mask === undefined) continue
      this.free.set(out, mask)
      // Tiles may compute parts of sums by kernels that leave nothing out.
      const rule = this.ruleOf(op)
      if (this.zero.has(out) || (rule && (rule.zeros ?? []).length < 2 && this.follows(op, mask))) this.cleared.add(out)
    }
  }

  get blocks(): readonly ValueId[] {
    return [...new Set(this.masks.values())]
  }

  /** Returns the mark of a call, with the value of the blocks. */
  markOf(call: Call): (Omit<Mark, 'mask'> & { readonly blocks: ValueId }) | undefined {
    const [out] = call.outs
    if (out === undefined || this.masks.size === 0) return undefined
    if (call.op < 0) return call.kind === 'copy' ? this.writing(call, out) : undefined
    const op = this.graph.ops[call.op]!
    if (this.masks.get(out.value) === out.value) return { blocks: out.value, makes: true, masked: 0, fills: false }
    const rule = this.ruleOf(op)
    if (rule?.sums !== undefined) {
      const blocks = common(rule.zeros!.map((i) => this.zero.get(op.ins[i]!)))
      return blocks === undefined ? undefined : { blocks, makes: false, masked: rule.sums, fills: false }
    }
    const isWhole = !rule?.zeros || call.ins.every((v) => sameBox(v.box, out.box))
    const mark = (rule && isWhole) || this.factorOf(op) !== undefined ? this.writing(call, out) : undefined
    return mark && this.follows(op, mark.blocks) ? mark : undefined
  }

  /** Returns true if the blocks of a mask are computed before this operator runs. */
  private follows({ id }: Op, blocks: ValueId): boolean {
    return this.madeBy.get(blocks)! < id
  }

  private writing(call: Call, out: View): ReturnType<Zeros['markOf']> {
    const blocks = this.isHalf([out.value]) ? undefined : this.free.get(out.value)
    if (blocks === undefined) return undefined
    const isInPlace = (v: View): boolean => v.cell === out.cell && sameBox(v.box, out.box) && sameBox(v.held, out.held)
    const isZero = call.ins.some((v) => isInPlace(v) && this.cleared.has(v.value) && this.free.get(v.value) === blocks)
    return { blocks, makes: false, masked: call.ins.length, fills: !isZero }
  }

  /** Returns true if a value is f16: its kernels compute on copies, which leave nothing out. */
  private isHalf(values: readonly ValueId[]): boolean {
    return values.some((v) => this.graph.values[v]!.dtype === 'f16')
  }
  private ruleOf(op: Op): Rule | undefined {
    const rule = RULES.get(op.kind)
    const isPlain = rule?.zeros === undefined || rule.zeros.length < 2 || op.ins.length === 2
    return isPlain && !this.isHalf([...op.ins, ...op.outs]) ? rule : undefined
  }
  /** Returns the mask that is the second factor of a product. */
  private factorOf({ kind, attrs, ins }: Op): ValueId | undefined {
    return PRODUCTS.has(kind) && attrs['over'] === 2 ? this.masks.get(ins[1]!) : undefined
  }
  /** Returns the mask of a rectifier's value: outside of it, the rectifier's gradient is 0. */
  private shutBy({ kind, attrs, ins }: Op): ValueId | undefined {
    return kind === 'relu_bwd' && attrs['slope'] === 0 ? this.zero.get(ins[0]!) : undefined
  }
  private zeroOf(op: Op): ValueId | undefined {
    const rule = RULES.get(op.kind)
    const zeros = rule?.sums === undefined ? rule?.zeros : undefined
    const inputs = zeros && zeros.length > 1 ? op.ins : zeros?.map((i) => op.ins[i]!)
    return this.factorOf(op) ?? (inputs && common(inputs.map((v) => this.zero.get(v)))) ?? this.shutBy(op)
  }
  /** Returns a mask if an operator's results do not depend on this input outside of the mask. */
  private freeIn(op: Op, v: ValueId): ValueId | undefined {
    const reads = op.ins.filter((i) => i === v).length
    if (reads > 1) return undefined
    if (op.ins[0] === v && this.factorOf(op) !== undefined) return this.factorOf(op)
    if (op.ins[1] === v && this.shutBy(op) !== undefined) return this.shutBy(op)
    return RULES.get(op.kind)?.byPixel ? this.free.get(op.outs[0]!) : undefined
  }
}

/** The blocks of a mask that earlier calls have computed. */
class Made {
  private readonly isMade: Uint8Array
  private readonly shape: readonly number[]

  constructor(
    private readonly graph: Graph,
    blocks: ValueId,
  ) {
    this.shape = wholeShape(graph, graph.values[blocks]!)
    this.isMade = new Uint8Array(this.shape[0]! * this.shape[2]! * this.shape[3]!)
  }

  add(v: View): void {
    this.each(v, (from, to) => void this.isMade.fill(1, from, to))
  }
  /** Returns true if the blocks of all pixels of a view are computed. */
  hold(v: View): boolean {
    let all = true
    this.each(v, (from, to) => {
      for (let i = from; all && i < to; i++) all = this.isMade[i] === 1
    })
    return all
  }

  private each(v: View, row: (from: number, to: number) => void): void {
    const value = this.graph.values[v.value]!
    const [, , h, w] = wholeShape(this.graph, value)
    const first = originIn(value, v.box)
    const [, , rows, columns] = this.shape
    const blocksOf = (d: 2 | 3, blocks: number, extent: number): Range => {
      const end = first[d]! + v.box[d][1] - v.box[d][0]
      return [Math.floor((first[d]! * blocks) / extent), Math.floor(((end - 1) * blocks) / extent) + 1]
    }
    const [down, across] = [blocksOf(2, rows!, h!), blocksOf(3, columns!, w!)]
    for (let b = v.box[0][0]; b < v.box[0][1]; b++)
      for (let y = down[0]; y < down[1]; y++) row((b * rows! + y) * columns! + across[0], (b * rows! + y) * columns! + across[1])
  }
}

const isSome = (box: Box): boolean => box.every(([from, to]) => to > from)

/** Returns the marks of a plan's calls. If a mask's blocks are computed too late for one of its calls, none of its calls has a mark. */
export const marksOf = ({ graph, calls }: Plan): readonly (Mark | undefined)[] => {
  const zeros = new Zeros(graph)
  const { blocks } = zeros
  if (blocks.length === 0) return []
  const marks = calls.map((call) => zeros.markOf(call))
  const made = new Map(blocks.map((v) => [v, new Made(graph, v)]))
  const late = new Set<ValueId>()
  marks.forEach((mark, i) => {
    const { ins, outs } = calls[i]!
    const view = mark && (mark.makes ? outs[0]! : [...ins, ...outs][mark.masked]!)
    if (!view || !isSome(view.box)) return
    const known = made.get(mark!.blocks)!
    if (mark!.makes) known.add(view)
    else if (!known.hold(view)) late.add(mark!.blocks)
  })
  return marks.map((mark) => {
    if (!mark || late.has(mark.blocks)) return undefined
    const { blocks: of, ...rest } = mark
    return { mask: blocks.indexOf(of), ...rest }
  })
}
