// A training graph whose images are divided by rows among ranks: a rank is a tile along H on another process. In: the graph of one process, the
// number of bands, the index of one. Out: the graph of that rank. Each op runs on its own rows; `take_rows` is before an op that needs rows of other
// ranks, and `sum_rows` is after an op that adds to them. An op that cannot be cut runs on all rows on each rank. Then `overRanks` merges values that
// exist once for all rows (gradients of weights, statistics of norms, losses), as with shares of a batch. Invariant: all ranks' graphs have the same
// ops in the same order; values of one height have the same bands. Worked example, 2 bands: [conv2d(x) -> y, …, conv2d_bwd_data(dy) -> dx] becomes
// [take_rows(x) -> x.rows, conv2d(x.rows) -> y, …, conv2d_bwd_data(dy) -> dx.part, sum_rows(dx.part) -> dx].
import { type Either, left, right } from 'fp-ts/Either'
import { elementsOf, extentOf, type Range } from '../../core/box'
import type { GraphError } from '../../core/errors'
import { bandsIn } from '../../graph/bands'
import { type Graph, isFed, type Op, type Value, type ValueId } from '../../graph/graph'
import { type Cut, isPartition, rowAttrs, sameCut } from '../../ops/bands'
import { type Access, type AnyAttrs, inputDef, listedAttrs, type OperandDef, touched } from '../../ops/op'
import { opDef } from '../../ops/registry'

interface Operand {
  readonly value: ValueId
  readonly def: OperandDef
  /** The access along H; undefined if the operand is no data. */
  readonly access: Access | undefined
}

const heightOf = (v: Value): number => v.shape[2] ?? 1
const isExact = (a: Access): boolean => a.tag === 'same' || a.tag === 'inside'

class BandCutter {
  private readonly values: Value[]
  /** By value: the rows that each rank has; absent: all. */
  private readonly cuts: (Cut | undefined)[]
  private readonly ops: Op[] = []
  private readonly taken = new Map<string, ValueId>()
  private fault: GraphError | undefined

  constructor(
    private readonly g: Graph,
    private readonly bands: number,
    private readonly at: number,
  ) {
    this.values = [...g.values]
    this.cuts = g.values.map((v) => (isFed(v) ? this.ownRows(v) : undefined))
  }

  run(): Either<GraphError, Graph> {
    for (const op of this.g.ops) this.cut(op)
    if (this.fault) return left(this.fault)
    const { at, bands } = this
    const values = this.values.map((v, i): Value => {
      const rows = this.cuts[i]?.[at]
      if (!rows) return v
      const [b, c, of, w] = v.shape
      return { ...v, shape: [b!, c!, extentOf(rows), w!], rows: { from: rows[0], of: of! } }
    })
    return right({ ...this.g, values, ops: this.ops, ranks: bands, bands: { at, of: bands } })
  }

  /** Returns the rows of a value that belong to each rank; undefined if there are fewer rows than ranks. */
  private ownRows(v: Value): Cut | undefined {
    return v.shape.length === 4 ? bandsIn(heightOf(v), this.bands) : undefined
  }

  private allRows(v: ValueId): Cut {
    return Array.from({ length: this.bands }, () => [0, heightOf(this.values[v]!)] as Range)
  }

  private operands(op: Op): { readonly ins: readonly Operand[]; readonly outs: readonly Operand[] } {
    const def = opDef(op.kind)
    const shape = (v: ValueId): readonly number[] => this.g.values[v]!.shape
    const shapes = { ins: op.ins.map(shape), outs: op.outs.map(shape) }
    const one = (value: ValueId, d: OperandDef): Operand => ({
      value,
      def: d,
      access: d.role === 'data' ? d.access?.(op.attrs as never, shapes).H : undefined,
    })
    return { ins: op.ins.map((v, i) => one(v, inputDef(def, i))), outs: op.outs.map((v, i) => one(v, def.outs[i]!)) }
  }

  /** Returns the rows over which each rank's op iterates; undefined if each rank's op iterates over all rows. */
  private iteration(op: Op): Cut | undefined {
    const { anchor } = opDef(op.kind)
    const { ins, outs } = this.operands(op)
    const anchored = anchor === 'out' ? outs[0] : ins[anchor]
    if (op.phase === 'update' || !anchored?.access) return undefined
    const over = this.ownRows(this.values[anchored.value]!)
    const needsAll = (o: Operand, tags: readonly string[]): boolean =>
      o.access !== undefined && tags.includes(o.access.tag) && heightOf(this.values[o.value]!) > 1
    if (!over || ins.some((o) => needsAll(o, ['all', 'reduce'])) || outs.some((o) => needsAll(o, ['all']))) return undefined
    const nothing = [...ins, ...outs].some((o) => o.access && this.touchedRows(o, over).some(([from, to]) => from >= to))
    return nothing ? undefined : over
  }

  /** Returns the rows of an operand that each rank's iterations touch. */
  private touchedRows({ access, value }: Operand, over: Cut): Cut {
    return isExact(access!) ? over : over.map((r) => touched(access!, r, heightOf(this.values[value]!)))
  }

  private cut(op: Op): void {
    const over = this.iteration(op)
    const { ins, outs } = this.operands(op)
    const read = ins.map((o) =>
      o.access ? this.withRows(o.value, over ? this.touchedRows(o, over) : this.allRows(o.value), op) : o.value,
    )
    const made = outs.map((o) => (over ? this.madeBy(o, over, op) : undefined))
    this.append({ ...op, ins: read, outs: outs.map((o, i) => made[i]?.part ?? o.value) })
    for (const m of made) if (m?.total) this.append(m.total)
  }

  private append(op: Omit<Op, 'id'>): void {
    this.ops.push({ ...op, id: this.ops.length })
  }

  private add(of: ValueId, suffix: string, cut: Cut | undefined): ValueId {
    const { init: _, ...value } = this.values[of]!
    const id = this.values.length
    const role = isFed(value) ? 'activation' : value.role === 'loss' ? 'stat' : value.role
    this.values.push({ ...value, id, name: `${value.name}.${suffix}`, role })
    this.cuts.push(cut)
    return id
  }

  /** Returns a value with the rows that each rank needs. They are exchanged once in the forward pass, and again in the backward pass. */
  private withRows(v: ValueId, needed: Cut, op: Op): ValueId {
    const all = this.allRows(v)
    const has = this.cuts[v] ?? all
    if (sameCut(has, needed)) return v
    const key = `${v} ${op.phase === 'loss' ? 'forward' : op.phase} ${needed.join(' ')}`
    const known = this.taken.get(key)
    if (known !== undefined) return known
    const { name, dtype } = this.values[v]!
    if (dtype === 'i32' || dtype === 'u8')
      this.fault ??= {
        tag: 'ValueInvalid',
        name,
        reason: `'${op.layer}' (${op.kind}) reads rows of other bands, and these values are not floats`,
        legal: 'one band',
      }
    const rows = this.add(v, 'rows', sameCut(needed, all) ? undefined : needed)
    this.append({
      kind: 'take_rows',
      layer: op.layer,
      phase: op.phase,
      attrs: rowAttrs(this.at, has, needed),
      ins: [v],
      outs: [rows],
    })
    this.taken.set(key, rows)
    return rows
  }

  /** Returns the results of each rank's op: its complete rows, or a part of a sum with the op that sums the parts. */
  private madeBy(
    o: Operand,
    over: Cut,
    { layer, phase, ins, kind }: Op,
  ): { readonly part: ValueId; readonly total?: Omit<Op, 'id'> } {
    const { value: v, def, access } = o
    const common = { layer, phase, outs: [v] }
    if (!access) return { part: v }
    if (access.tag === 'reduce') {
      const part = this.add(v, 'part', undefined)
      const sum = { kind: 'sum_rows', attrs: rowAttrs(this.at, this.allRows(v), this.allRows(v)) }
      return {
        part,
        total: { ...common, ins: [part], ...(def.merge === 'moments' ? this.moments(part, ins, kind, over) : sum) },
      }
    }
    const made = this.touchedRows(o, over)
    const own = this.ownRows(this.values[v]!)
    this.cuts[v] = own
    const needed = own ?? this.allRows(v)
    // If several ranks make the same rows, each has a part of their sum.
    if (isExact(access) || (sameCut(made, needed) && isPartition(made))) return { part: v }
    const part = this.add(v, 'part', made)
    const [, height] = this.allRows(v)[0]!
    const isWhole = isPartition(made) && made[made.length - 1]![1] === height
    return {
      part,
      total: { ...common, ins: [part], kind: isWhole ? 'take_rows' : 'sum_rows', attrs: rowAttrs(this.at, made, needed) },
    }
  }

  /** Returns the op that merges moments of images, with the number of elements in each band. */
  private moments(
    part: ValueId,
    ins: readonly ValueId[],
    kind: string,
    over: Cut,
  ): { readonly kind: string; readonly attrs: AnyAttrs } {
    const { anchor } = opDef(kind)
    const [b, c, , w] = this.g.values[ins[anchor as number]!]!.shape
    const row = (b! * c! * w!) / (elementsOf(this.values[part]!.shape) / 4)
    const counts = over.map((r) => extentOf(r) * row)
    return { kind: 'all_moments', attrs: { ranks: this.bands, count: Math.max(...counts), ...listedAttrs('of', counts) } }
  }
}

/** Returns a function to the graph of band `at` of `bands`. */
export const overBands =
  (bands: number, at: number) =>
  (g: Graph): Either<GraphError, Graph> => {
    const low = g.values.find((v) => v.role === 'input' && heightOf(v) < bands)
    return low
      ? left({
          tag: 'ValueInvalid',
          name: low.name,
          reason: `its ${heightOf(low)} rows cannot be split into ${bands} bands`,
          legal: `at most ${heightOf(low)} bands`,
        })
      : new BandCutter(g, bands, at).run()
  }
