// A training graph whose batch is shared by several ranks: a rank is a tile along B on another process. In: a training graph, the number of ranks.
// Out: the graph of one rank: each sum over images is summed over all ranks before its first reader. Invariant: R ranks have the bits of one process
// whose plan has R tiles along B, because ranks and tiles merge by the same rules. Worked example, 2 ranks: [bn_stats -> s, bn_apply(s), …,
// conv2d_bwd_weights -> dw, sgd(dw)] becomes [bn_stats -> s.share, all_moments -> s, bn_apply(s), …, conv2d_bwd_weights -> dw.share, all_sums -> dw,
// …, sgd(dw)]. With local norms, each rank keeps its own statistics and its own sums that a norm reads; updates read the sums over all ranks.
//
// Values that only updates read are exchanged during the backward pass. Gradients wait until a bucket is full, and are sent together. Their updates
// follow after four later buckets, so that no update waits for a bucket that was just sent.
//
// If updates are divided, each rank has a part of each large parameter's state, updates its part of the weight, and sends it to all: [all_sums -> dw,
// take_part(dw), take_part(w), sgd on parts, put_part(w)]; or sum_parts, which makes only a part of dw.
import { type Either, left, right } from 'fp-ts/Either'
import type { GraphError } from '../../core/errors'
import { isFed, isResult, type Graph, type Op, type Value, type ValueId, valueBytes } from '../../graph/graph'
import { bandsOf, countsOf, isCut } from '../../graph/bands'
import { RANK_OPS, withCounts, isUpdate, mergedOver, readsMoments, sharesOf } from '../../graph/ranks'
import { elementsOf } from '../../core/box'
import { clipValues } from '../../ops/clip'
import { partOf } from '../../ops/collective'
import { meanOverSteps, statesOf } from '../../ops/optimizer'
import { listedAttrs } from '../../ops/op'
import { opDef } from '../../ops/registry'

/** The options of a step that ranks share. */
export interface SharingOptions {
  readonly norms?: 'local' | undefined
  /** The values that ranks divide: states of optimizers, or also sums of gradients. */
  readonly shard?: 'optimizer' | 'gradients' | undefined
}

/** Smaller parameters are updated whole on each rank. An exchange would take longer than the update, and the state needs little memory. */
export const LEAST_SHARED = 4096

/** A bucket is an eighth of all gradients, and at most `MOST_BYTES`, so large that latency is negligible. */
const BUCKETS = 8
const MOST_BYTES = 4 * 2 ** 20
const WAITING_BUCKETS = 4

/** Returns the elements of a channel in a rank's share, over which its moments are computed. */
const elementsPerChannel = ([b, , h, w]: readonly number[]): number => b! * h! * w!

/** The values and operators of divided updates. */
interface DividedUpdates {
  /** Values that are divided among ranks. */
  readonly parts: ReadonlySet<ValueId>
  /** Operators on parts. If an operand is whole elsewhere, a rank takes its part of the operand. */
  readonly ops: ReadonlySet<Op>
  readonly taken: ReadonlySet<ValueId>
}

/** Returns the gradient that an elementwise operator before the update changes, and the operator's states; undefined for any other operator. */
const elementwise = ({ kind, ins }: Op): { readonly gradient: ValueId; readonly states: readonly ValueId[] } | undefined =>
  kind === meanOverSteps.kind
    ? { gradient: ins[1]!, states: [ins[0]!] }
    : kind === clipValues.kind
      ? { gradient: ins[0]!, states: [] }
      : undefined

/**
 * Returns the parts of divided updates. They reach from an update back to the sum over all ranks, or to the gradient after clipping by norm, which
 * each rank has whole.
 */
const dividedUpdates = (g: Graph, sums: ReadonlySet<ValueId>, shard: SharingOptions['shard']): DividedUpdates => {
  const parts = new Set<ValueId>()
  const ops = new Set<Op>()
  const taken = new Set<ValueId>()
  if (!shard) return { parts, ops, taken }
  const maker = new Map(g.ops.flatMap((op) => op.outs.map((v) => [v, op] as const)))
  const readers = new Map<ValueId, number>()
  for (const op of g.ops) for (const v of op.ins) readers.set(v, (readers.get(v) ?? 0) + 1)
  for (const op of g.ops) {
    const [weight, first] = op.ins
    if (!isUpdate(op.kind) || elementsOf(g.values[weight!]!.shape) < LEAST_SHARED) continue
    ops.add(op)
    taken.add(weight!)
    for (const v of statesOf(op)) parts.add(v)
    let gradient = first!
    for (let made = maker.get(gradient); made && readers.get(gradient) === 1; made = maker.get(gradient)) {
      const before = elementwise(made)
      if (!before) break
      ops.add(made)
      for (const v of [gradient, ...before.states]) parts.add(v)
      gradient = before.gradient
    }
    if (shard === 'gradients' && sums.has(gradient) && readers.get(gradient) === 1) parts.add(gradient)
    else taken.add(gradient)
  }
  return { parts, ops, taken }
}

interface Sum {
  readonly share: ValueId
  readonly total: ValueId
  /** The number of ranks that have a share of it. */
  readonly members: number
}

/** An exchange that is sent and not awaited. */
interface Sent {
  readonly totals: readonly ValueId[]
  readonly bytes: number
}

class Sharing {
  private readonly values: Value[]
  private readonly ops: Op[] = []
  /** By op id in the graph of one process: the op id in this graph. */
  private readonly placed: number[] = []
  /** Values with other readers than updates. */
  private readonly urgent: ReadonlySet<ValueId>
  private readonly bucketBytes: number
  private bucket: Sum[] = []
  private bucketOf: Op | undefined
  private sent: Sent[] = []
  /** Sums that must not be read yet. */
  private readonly open = new Set<ValueId>()
  private readonly shared = new Map<ValueId, ValueId>()
  private late: Op[] = []
  /** The operands of late ops, and their results. */
  private readonly read = new Set<ValueId>()
  private readonly written = new Set<ValueId>()

  private readonly norms: SharingOptions['norms']
  /** The number of parts that the batch is cut into. Ranks with bands of the same images share a part. */
  private readonly slices: number
  private readonly divided: DividedUpdates

  constructor(
    private readonly g: Graph,
    private readonly ranks: number,
    private readonly options: SharingOptions,
  ) {
    this.norms = options.norms
    this.slices = ranks / bandsOf(g)
    const read = g.ops.flatMap((op) => (op.phase === 'update' || this.readsOwnShare(op) ? [] : op.ins))
    this.urgent = new Set([...read, ...g.values.filter(isResult).map((v) => v.id)])
    const sums = g.ops.flatMap((op) => op.outs.filter((v, i) => this.mergeOf(op, i) === 'sum' && !this.urgent.has(v)))
    // With bands, memory is small and compute is long: each gradient is sent separately, followed by its update.
    this.bucketBytes = g.bands ? 0 : Math.min(MOST_BYTES, this.bytesOf(sums) / BUCKETS)
    const ofAll = g.ops.flatMap((op) => (this.membersOf(op) === ranks ? op.outs : []))
    this.divided = dividedUpdates(g, new Set(sums.filter((v) => ofAll.includes(v))), options.shard)
    const shares = sharesOf(g)
    this.values = g.values.map((v) =>
      shares.has(v.id)
        ? { ...v, shape: [v.shape[0]! / this.slices, ...v.shape.slice(1)] }
        : this.divided.parts.has(v.id)
          ? this.asPart(v)
          : v,
    )
  }

  run(): Graph {
    for (const op of this.g.ops) {
      // Do not send a gradient that a norm still reads.
      if (this.isFull() && !(this.readsOwnShare(op) && this.bucket.some((s) => op.ins.includes(s.total)))) this.send()
      this.mustWait(op) ? this.delay(op) : this.emit(op)
    }
    this.send()
    this.open.clear()
    this.emitLate()
    const { values, ops, ranks } = this
    const placed = this.placed.filter((_, id) => !RANK_OPS.includes(this.g.ops[id]!.kind))
    const inOrder = placed.every((at, i) => i === 0 || placed[i - 1]! < at)
    const norms = this.norms && { norms: this.norms }
    const shard = this.options.shard && { shard: this.options.shard }
    return { ...this.g, values, ops, ranks, ...norms, ...shard, ...(inOrder ? {} : { alone: placed }) }
  }

  // ---------------------------------------------------------------- operators

  /** Returns true if an op reads statistics of local norms: then its other operands are of the same share. */
  private readsOwnShare(op: Op): boolean {
    return this.norms === 'local' && readsMoments(this.g, op)
  }

  /** Returns the number of ranks that have a share of an op's sums; 1 if each rank has the complete sums. */
  private membersOf(op: Op): number {
    return mergedOver(this.g, op) === 'all' ? this.ranks : this.slices
  }

  private mergeOf(op: Op, out: number): 'sum' | 'moments' | undefined {
    const merge = this.membersOf(op) > 1 ? mergeOf(op, out) : undefined
    return merge === 'moments' && this.norms === 'local' ? undefined : merge
  }

  private append(op: Omit<Op, 'id'>): number {
    return this.ops.push({ ...op, id: this.ops.length }) - 1
  }

  private emit(op: Op): void {
    if (this.divided.ops.has(op)) this.emitOnParts(op)
    else this.emitOnWhole(op)
  }

  private emitOnWhole(op: Op): void {
    const merges = op.outs.map((_, i) => this.mergeOf(op, i))
    const members = this.membersOf(op)
    const sums = op.outs.map((total, i) => (merges[i] ? { share: this.shareOf(total), total, members } : undefined))
    const ins = this.readsOwnShare(op) ? op.ins.map((v) => this.shared.get(v) ?? v) : op.ins
    const counted = this.norms === 'local' ? withCounts(this.g, op, 1 / this.ranks) : op
    this.placed[op.id] = this.append({ ...counted, ins, outs: op.outs.map((v, i) => sums[i]?.share ?? v) })
    const now: Sum[] = []
    sums.forEach((sum, i) => {
      if (!sum) return
      if (merges[i] === 'moments') this.moments(op, sum)
      else if (this.urgent.has(sum.total)) now.push(sum)
      else this.addToBucket(op, sum)
    })
    if (now.length === 1) this.appendExchange('all_sum', op, now, {})
    else if (now.length > 1) this.appendExchange('all_sums', op, now, { beside: 0 })
  }

  // ---------------------------------------------------------------- what is shared out

  private asPart(v: Value): Value {
    return { ...v, shape: [partOf(elementsOf(v.shape), this.ranks)], part: v.shape }
  }

  /** Appends an op that takes the rank's part of a whole value, and returns the part. */
  private takePart({ layer, phase }: Op, v: ValueId): ValueId {
    const { init: _, ...value } = this.values[v]!
    const id = this.values.length
    const role = value.role === 'param' ? 'stat' : value.role
    this.values.push(this.asPart({ ...value, id, name: `${value.name}.part`, role }))
    this.append({ kind: 'take_part', layer, phase, attrs: { ranks: this.ranks }, ins: [v], outs: [id] })
    return id
  }

  private emitOnParts(op: Op): void {
    const ins = op.ins.map((v) => (this.divided.taken.has(v) ? this.takePart(op, v) : v))
    this.placed[op.id] = this.append({ ...op, ins })
    if (!isUpdate(op.kind)) return
    const { layer, phase } = op
    this.append({ kind: 'put_part', layer, phase, attrs: { ranks: this.ranks, beside: 1 }, ins: [op.ins[0]!, ins[0]!], outs: [] })
  }

  private appendExchange(kind: string, { layer, phase }: Op, sums: readonly Sum[], attrs: Op['attrs']): void {
    const [ins, outs] = [sums.map((s) => s.share), sums.map((s) => s.total)]
    this.append({ kind, layer, phase, attrs: { ranks: sums[0]!.members, ...attrs }, ins, outs })
  }

  private moments(op: Op, sum: Sum): void {
    const own = { count: elementsPerChannel(this.values[op.ins[0]!]!.shape) }
    this.appendExchange('all_moments', op, [sum], isCut(this.g, op) ? this.counts(op, sum) : own)
  }

  /** Returns the elements behind the moments of each rank. Bands may have different numbers of rows. */
  private counts(op: Op, { share, members }: Sum): Op['attrs'] {
    const each = countsOf({ ...this.g, values: this.values }, op, share)
    const all = Array.from({ length: members }, (_, r) => each[r % each.length]!)
    return { count: Math.max(...all), ...listedAttrs('of', all) }
  }

  private shareOf(v: ValueId): ValueId {
    const { init: _1, part: _2, ...value } = { ...this.values[v]!, shape: this.values[v]!.part ?? this.values[v]!.shape }
    const id = this.values.length
    this.shared.set(v, id)
    this.values.push({ ...value, id, name: `${value.name}.share`, role: value.role === 'loss' ? 'stat' : value.role })
    return id
  }

  // ---------------------------------------------------------------- exchanges beside computing

  private addToBucket(op: Op, sum: Sum): void {
    this.bucket.push(sum)
    this.bucketOf = op
    this.open.add(sum.total)
  }

  private isFull(): boolean {
    return this.bucket.length > 0 && this.bytesOf(this.bucket.map((s) => s.total)) >= this.bucketBytes
  }

  private send(): void {
    if (!this.bucketOf) return
    for (const isPart of [false, true])
      for (const members of new Set([this.ranks, this.slices])) {
        const sums = this.bucket.filter((s) => this.divided.parts.has(s.total) === isPart && s.members === members)
        if (sums.length > 0) this.appendExchange(isPart ? 'sum_parts' : 'all_sums', this.bucketOf, sums, { beside: 1 })
      }
    const totals = this.bucket.map((s) => s.total)
    this.sent.push({ totals, bytes: this.bytesOf(totals) })
    this.bucket = []
    this.bucketOf = undefined
    const waiting = (): number => this.sent.slice(1).reduce((n, s) => n + s.bytes, 0)
    let done = false
    for (; this.sent.length > 0 && waiting() >= WAITING_BUCKETS * this.bucketBytes; done = true)
      for (const v of this.sent.shift()!.totals) this.open.delete(v)
    if (done) this.emitLate()
  }

  private bytesOf(totals: readonly ValueId[]): number {
    return totals.reduce((n, v) => n + valueBytes(this.g.values[v]!), 0)
  }

  // ---------------------------------------------------------------- what comes later

  /** Returns true if an op reads a value in flight or a result of a late op, or overwrites an operand of a late op. */
  private mustWait(op: Op): boolean {
    const open = (v: ValueId): boolean => this.open.has(v) && !this.readsOwnShare(op)
    return op.ins.some((v) => open(v) || this.written.has(v)) || overwritten(op).some((v) => this.read.has(v))
  }

  private delay(op: Op): void {
    this.late.push(op)
    for (const v of op.ins) this.read.add(v)
    for (const v of [...op.outs, ...overwritten(op)]) this.written.add(v)
  }

  private emitLate(): void {
    const { late } = this
    this.late = []
    this.read.clear()
    this.written.clear()
    for (const op of late) this.mustWait(op) ? this.delay(op) : this.emit(op)
  }
}

const overwritten = (op: Op): readonly ValueId[] => (opDef(op.kind).mutates ?? []).flatMap((i) => op.ins[i] ?? [])

/** Returns the merge of an output over tiles along B. Results of single images have none. */
const mergeOf = (op: Op, out: number): 'sum' | 'moments' | undefined => {
  const def = opDef(op.kind).outs[out]!
  return def.role === 'whole' ? def.merge : undefined
}

const wrong = (name: string, reason: string, legal: string): Either<GraphError, never> =>
  left({ tag: 'ValueInvalid', name, reason, legal })

export const overRanks =
  (ranks: number, how: SharingOptions = {}) =>
  (g: Graph): Either<GraphError, Graph> => {
    if (ranks === 1) return right(g)
    const slices = ranks / bandsOf(g)
    const [image] = g.values.filter(isFed)
    const batch = image?.shape[0] ?? 1
    const odd = [...sharesOf(g)].map((v) => g.values[v]!).find((v) => v.shape[0] !== batch)
    if (odd)
      return wrong(odd.name, `it has ${odd.shape[0]} images, but '${image!.name}' has ${batch}`, 'one batch size for all inputs')
    return batch % slices === 0
      ? right(new Sharing(g, ranks, how).run())
      : wrong(image!.name, `its batch of ${batch} cannot be split between ${slices} ranks`, `a multiple of ${slices}`)
  }
