// Run-time allocators, to compare with plan-time pages. In: requests, one after the other. Out: the device memory of each allocator, including caches
// and rounding. `best-fit`: a caching pool like those of PyTorch and CNMeM, which splits, coalesces and grows by segments that are never joined.
// `va:SIZE`: chunks mapped to fresh addresses at each request (paper 1, section 4). `gtbm`: movable tensors by best fit from the low end, temporary
// ones from the high end, reclaimed ones in a pool of their own (paper 4, 3.3).
import { alignUp } from '../../core/bytes'
import type { Request } from './requests'
import { type Block, Space } from './space'

export interface Allocator {
  /** Returns false if the pool is full. Only a pool of fixed size can be full. */
  allocate(r: Request): boolean
  free(r: Request): void
  readonly heldBytes: number
  /** Free blocks that it can use for another request without growing. */
  readonly freeBlocks: readonly number[]
}

const ROUND_BYTES = 512

export interface BestFitOptions {
  readonly coalesce: boolean
}

export class BestFit implements Allocator {
  private readonly segments: Space[] = []
  private readonly where = new Map<number, { readonly segment: Space; readonly block: Block }>()

  constructor(private readonly o: BestFitOptions = { coalesce: true }) {}

  get heldBytes(): number {
    return this.segments.reduce((n, s) => n + s.bytes, 0)
  }

  get freeBlocks(): readonly number[] {
    return this.segments.flatMap((s) => s.blocks.map((b) => b.bytes))
  }

  allocate(r: Request): boolean {
    const bytes = alignUp(r.bytes, ROUND_BYTES)
    const smallest = (s: Space): number => Math.min(Infinity, ...s.blocks.filter((b) => b.bytes >= bytes).map((b) => b.bytes))
    let segment = this.segments.reduce<Space | undefined>(
      (a, s) => (smallest(s) < (a ? smallest(a) : Infinity) ? s : a),
      undefined,
    )
    if (!segment) {
      segment = new Space(bytes, this.o.coalesce)
      this.segments.push(segment)
    }
    this.where.set(r.id, { segment, block: segment.bestFit(bytes)! })
    return true
  }

  free(r: Request): void {
    const { segment, block } = this.where.get(r.id)!
    segment.free(block)
  }
}

/** Returns the number of chunks that a request maps. A request below half a chunk maps none. */
export const chunksOf = ({ bytes }: Pick<Request, 'bytes'>, chunkBytes: number): number =>
  2 * bytes < chunkBytes ? 0 : Math.ceil(bytes / chunkBytes)

/** Requests below half a chunk are served from a caching pool: a chunk for each would waste nearly all of its bytes. */
export class VirtualAddressing implements Allocator {
  private cached = 0
  private used = 0
  private readonly small = new BestFit()

  constructor(private readonly chunkBytes: number) {}

  get heldBytes(): number {
    return (this.cached + this.used) * this.chunkBytes + this.small.heldBytes
  }

  /** Chunks can be combined in any number and order, so the cached ones are one block. */
  get freeBlocks(): readonly number[] {
    return [...(this.cached ? [this.cached * this.chunkBytes] : []), ...this.small.freeBlocks]
  }

  private isSmall(r: Request): boolean {
    return chunksOf(r, this.chunkBytes) === 0
  }

  private chunks(r: Request): number {
    return chunksOf(r, this.chunkBytes)
  }

  allocate(r: Request): boolean {
    if (this.isSmall(r)) return this.small.allocate(r)
    const n = this.chunks(r)
    this.used += n
    this.cached -= Math.min(this.cached, n)
    return true
  }

  free(r: Request): void {
    if (this.isSmall(r)) {
      this.small.free(r)
      return
    }
    this.used -= this.chunks(r)
    this.cached += this.chunks(r)
  }
}

export interface GtbmOptions {
  /** True: temporary tensors from the high end. False: from the low end like all others. */
  readonly highEnd: boolean
  /** True: reclaimed tensors in a pool of their own. */
  readonly incremental: boolean
}

export class Gtbm implements Allocator {
  private readonly main: Space
  private readonly where = new Map<number, Block>()
  private readonly aside = new BestFit()

  constructor(
    readonly poolBytes: number,
    private readonly o: GtbmOptions = { highEnd: true, incremental: true },
  ) {
    this.main = new Space(poolBytes)
  }

  get heldBytes(): number {
    return this.poolBytes + this.aside.heldBytes
  }

  get freeBlocks(): readonly number[] {
    return [...this.main.blocks.map((b) => b.bytes), ...this.aside.freeBlocks]
  }

  /** The bytes of the largest free block. The pool may be smaller by the least of these bytes over time. */
  get gapBytes(): number {
    return Math.max(0, ...this.main.blocks.map((b) => b.bytes))
  }

  allocate(r: Request): boolean {
    if (r.mobility === 'reclaimed' && this.o.incremental) return this.aside.allocate(r)
    const high = r.mobility === 'temporary' && this.o.highEnd
    const bytes = alignUp(r.bytes, ROUND_BYTES)
    const block = high ? this.main.firstFit(bytes, 'high') : this.main.bestFit(bytes)
    if (block) this.where.set(r.id, block)
    return block !== undefined
  }

  free(r: Request): void {
    const block = this.where.get(r.id)
    if (block) this.main.free(block)
    else this.aside.free(r)
  }
}
