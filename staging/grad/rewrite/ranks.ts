// A training graph's batch shared by several ranks: a rank is a tile along B that another process holds. In: a training graph, how many ranks.
// Out: the graph of one rank, where every sum over images becomes that of all ranks before anyone reads it.
// Invariant: R ranks have the bits of one process whose plan takes R tiles along B, since ranks merge by the rules by which tiles do.
// Worked example, 2 ranks: [bn_stats -> s, bn_apply(s), …, conv2d_bwd_weights -> dw, sgd(dw)] becomes
// With local norms statistics stay each rank's own, and so do the sums that its norms read; updates read those of all.
// [bn_stats -> s.share, all_moments -> s, bn_apply(s), …, conv2d_bwd_weights -> dw.share, all_sums -> dw, …, sgd(dw)].
//
// What only updates read is exchanged beside the backward pass: gradients wait for others until they are a bucket, and go as one; their
// updates come when four later buckets are under way, so that nobody waits for what has just been sent.
import { type Either, left, right } from 'fp-ts/Either'
import type { GraphError } from '../../core/errors'
import { isFed, isResult, type Graph, type Op, type Value, type ValueId, valueBytes } from '../../graph/graph'
import { counting, readsMoments, sharesOf } from '../../graph/ranks'
import { opDef } from '../../ops/registry'

/** A bucket is an eighth of all gradients, and at most so much: large enough that the time on the way does not count. */
const BUCKETS = 8
const MOST_BYTES = 4 * 2 ** 20
const WAITING_BUCKETS = 4

/** Elements of a channel in a rank's share: what its moments are of. */
const elementsBehind = ([b, , h, w]: readonly number[]): number => b! * h! * w!

interface Sum {
  readonly share: ValueId
  readonly total: ValueId
}

/** What has been sent, and by whom nobody has been waited for. */
interface Sent {
  readonly totals: readonly ValueId[]
  readonly bytes: number
}

class Sharing {
  private readonly values: Value[]
  private readonly ops: Op[] = []
  /** By number in the graph of one process: number in this one. */
  private readonly placed: number[] = []
  /** Of values that are read by more than updates. */
  private readonly urgent: ReadonlySet<ValueId>
  private readonly bucketBytes: number
  private bucket: Sum[] = []
  private bucketOf: Op | undefined
  private sent: Sent[] = []
  /** Sums that are not to be read yet. */
  private readonly open = new Set<ValueId>()
  private readonly shared = new Map<ValueId, ValueId>()
  private late: Op[] = []
  /** What the late ones read, and what they write. */
  private readonly read = new Set<ValueId>()
  private readonly written = new Set<ValueId>()

  constructor(
    private readonly g: Graph,
    private readonly ranks: number,
    private readonly norms?: 'local',
  ) {
    const shares = sharesOf(g)
    this.values = g.values.map((v) => (shares.has(v.id) ? { ...v, shape: [v.shape[0]! / ranks, ...v.shape.slice(1)] } : v))
    const read = g.ops.flatMap((op) => (op.phase === 'update' || this.isOwn(op) ? [] : op.ins))
    this.urgent = new Set([...read, ...g.values.filter(isResult).map((v) => v.id)])
    const sums = g.ops.flatMap((op) => op.outs.filter((v, i) => mergeOf(op, i) === 'sum' && !this.urgent.has(v)))
    this.bucketBytes = Math.min(MOST_BYTES, this.bytesOf(sums) / BUCKETS)
  }

  run(): Graph {
    for (const op of this.g.ops) {
      // What a norm still reads of a bucket is not sent yet.
      if (this.isFull() && !(this.isOwn(op) && this.bucket.some((s) => op.ins.includes(s.total)))) this.send()
      this.mustWait(op) ? this.delay(op) : this.emit(op)
    }
    this.send()
    this.open.clear()
    this.settle()
    const { values, ops, ranks, placed } = this
    const inOrder = placed.every((at, i) => i === 0 || placed[i - 1]! < at)
    const norms = this.norms && { norms: this.norms }
    return { ...this.g, values, ops, ranks, ...norms, ...(inOrder ? {} : { alone: placed }) }
  }

  // ---------------------------------------------------------------- operators

  /** It reads a norm's statistics, and what else it reads is of the same share. */
  private isOwn(op: Op): boolean {
    return this.norms === 'local' && readsMoments(this.g, op)
  }

  private mergeOf(op: Op, out: number): 'sum' | 'moments' | undefined {
    const merge = mergeOf(op, out)
    return merge === 'moments' && this.norms === 'local' ? undefined : merge
  }

  private append(op: Omit<Op, 'id'>): number {
    return this.ops.push({ ...op, id: this.ops.length }) - 1
  }

  private emit(op: Op): void {
    const merges = op.outs.map((_, i) => this.mergeOf(op, i))
    const sums = op.outs.map((total, i) => (merges[i] ? { share: this.shareOf(total), total } : undefined))
    const ins = this.isOwn(op) ? op.ins.map((v) => this.shared.get(v) ?? v) : op.ins
    const counted = this.norms === 'local' ? counting(this.g, op, 1 / this.ranks) : op
    this.placed[op.id] = this.append({ ...counted, ins, outs: op.outs.map((v, i) => sums[i]?.share ?? v) })
    const now: Sum[] = []
    sums.forEach((sum, i) => {
      if (!sum) return
      if (merges[i] === 'moments') this.moments(op, sum)
      else if (this.urgent.has(sum.total)) now.push(sum)
      else this.put(op, sum)
    })
    if (now.length === 1) this.collect('all_sum', op, now, {})
    else if (now.length > 1) this.collect('all_sums', op, now, { beside: 0 })
  }

  private collect(kind: string, { layer, phase }: Op, sums: readonly Sum[], attrs: Op['attrs']): void {
    const [ins, outs] = [sums.map((s) => s.share), sums.map((s) => s.total)]
    this.append({ kind, layer, phase, attrs: { ranks: this.ranks, ...attrs }, ins, outs })
  }

  private moments(op: Op, sum: Sum): void {
    this.collect('all_moments', op, [sum], { count: elementsBehind(this.values[op.ins[0]!]!.shape) })
  }

  private shareOf(v: ValueId): ValueId {
    const { init: _, ...value } = this.values[v]!
    const id = this.values.length
    this.shared.set(v, id)
    this.values.push({ ...value, id, name: `${value.name}.share`, role: value.role === 'loss' ? 'stat' : value.role })
    return id
  }

  // ---------------------------------------------------------------- exchanges beside computing

  private put(op: Op, sum: Sum): void {
    this.bucket.push(sum)
    this.bucketOf = op
    this.open.add(sum.total)
  }

  private isFull(): boolean {
    return this.bucket.length > 0 && this.bytesOf(this.bucket.map((s) => s.total)) >= this.bucketBytes
  }

  private send(): void {
    if (!this.bucketOf) return
    this.collect('all_sums', this.bucketOf, this.bucket, { beside: 1 })
    const totals = this.bucket.map((s) => s.total)
    this.sent.push({ totals, bytes: this.bytesOf(totals) })
    this.bucket = []
    this.bucketOf = undefined
    const waiting = (): number => this.sent.slice(1).reduce((n, s) => n + s.bytes, 0)
    let done = false
    for (; waiting() >= WAITING_BUCKETS * this.bucketBytes; done = true)
      for (const v of this.sent.shift()!.totals) this.open.delete(v)
    if (done) this.settle()
  }

  private bytesOf(totals: readonly ValueId[]): number {
    return totals.reduce((n, v) => n + valueBytes(this.values[v]!), 0)
  }

  // ---------------------------------------------------------------- what comes later

  /** It reads what is under way, or what a late one writes; or it overwrites what a late one reads. */
  private mustWait(op: Op): boolean {
    const open = (v: ValueId): boolean => this.open.has(v) && !this.isOwn(op)
    return op.ins.some((v) => open(v) || this.written.has(v)) || overwritten(op).some((v) => this.read.has(v))
  }

  private delay(op: Op): void {
    this.late.push(op)
    for (const v of op.ins) this.read.add(v)
    for (const v of [...op.outs, ...overwritten(op)]) this.written.add(v)
  }

  private settle(): void {
    const { late } = this
    this.late = []
    this.read.clear()
    this.written.clear()
    for (const op of late) this.mustWait(op) ? this.delay(op) : this.emit(op)
  }
}

const overwritten = (op: Op): readonly ValueId[] => (opDef(op.kind).mutates ?? []).flatMap((i) => op.ins[i] ?? [])

/** How tiles along B merge an output. What is made image by image has nothing to merge there. */
const mergeOf = (op: Op, out: number): 'sum' | 'moments' | undefined => {
  const def = opDef(op.kind).outs[out]!
  return def.role === 'whole' ? def.merge : undefined
}

const wrong = (name: string, reason: string, legal: string): Either<GraphError, never> =>
  left({ tag: 'ValueInvalid', name, reason, legal })

export const overRanks =
  (ranks: number, norms?: 'local') =>
  (g: Graph): Either<GraphError, Graph> => {
    if (ranks === 1) return right(g)
    const [image] = g.values.filter(isFed)
    const batch = image?.shape[0] ?? 1
    const odd = [...sharesOf(g)].map((v) => g.values[v]!).find((v) => v.shape[0] !== batch)
    if (odd)
      return wrong(odd.name, `it has ${odd.shape[0]} images and '${image!.name}' ${batch}`, 'one batch for all that ranks share')
    return batch % ranks === 0
      ? right(new Sharing(g, ranks, norms).run())
      : wrong(image!.name, `its batch of ${batch} cannot be shared by ${ranks} ranks`, `a multiple of ${ranks}`)
  }
