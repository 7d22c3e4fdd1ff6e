// Run-time allocators, to compare with plan-time pages. In: requests, one after the other. Out: the device memory of each, caches and rounding
// included. `best-fit`: a caching pool as PyTorch's and CNMeM's, which splits, coalesces and grows by segments that are never joined. `va:SIZE`:
// chunks mapped to fresh addresses at each request (paper 1, section 4). `gtbm`: movable tensors by best fit from the low end, temporary ones from
// the high end, reclaimed ones beside (paper 4, 3.3).
import { alignUp } from '../../core/bytes'
import type { Request } from './requests'
import { type Block, Space } from './space'

export interface Allocator {
  /** False where there is no room: only a pool of a set size has none. */
  ask(r: Request): boolean
  give(r: Request): void
  readonly heldBytes: number
  /** Free blocks that it could use for another request without growing. */
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

  ask(r: Request): boolean {
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

  give(r: Request): void {
    const { segment, block } = this.where.get(r.id)!
    segment.give(block)
  }
}

/** Chunks that a request maps; a small one maps none. */
export const chunksOf = ({ bytes }: Pick<Request, 'bytes'>, chunkBytes: number): number =>
  2 * bytes < chunkBytes ? 0 : Math.ceil(bytes / chunkBytes)

/** Requests much smaller than a chunk are served from a caching pool beside the chunks: a chunk each would waste nearly all of it. */
export class VirtualAddressing implements Allocator {
  private cached = 0
  private used = 0
  private readonly small = new BestFit()

  constructor(private readonly chunkBytes: number) {}

  get heldBytes(): number {
    return (this.cached + this.used) * this.chunkBytes + this.small.heldBytes
  }

  /** Chunks go together in any number and order. */
  get freeBlocks(): readonly number[] {
    return [...(this.cached ? [this.cached * this.chunkBytes] : []), ...this.small.freeBlocks]
  }

  private isSmall(r: Request): boolean {
    return chunksOf(r, this.chunkBytes) === 0
  }

  private chunks(r: Request): number {
    return chunksOf(r, this.chunkBytes)
  }

  ask(r: Request): boolean {
    if (this.isSmall(r)) return this.small.ask(r)
    const n = this.chunks(r)
    this.used += n
    this.cached -= Math.min(this.cached, n)
    return true
  }

  give(r: Request): void {
    if (this.isSmall(r)) {
      this.small.give(r)
      return
    }
    this.used -= this.chunks(r)
    this.cached += this.chunks(r)
  }
}

export interface GtbmOptions {
  /** Temporary tensors from the high end; else from the low end like all others. */
  readonly highEnd: boolean
  /** Reclaimed tensors in a space of their own. */
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

  /** The largest run of free addresses between the low and the high ones: a smaller pool could do without it. */
  get gapBytes(): number {
    return Math.max(0, ...this.main.blocks.map((b) => b.bytes))
  }

  ask(r: Request): boolean {
    if (r.mobility === 'reclaimed' && this.o.incremental) return this.aside.ask(r)
    const high = r.mobility === 'temporary' && this.o.highEnd
    const bytes = alignUp(r.bytes, ROUND_BYTES)
    const block = high ? this.main.firstFit(bytes, 'high') : this.main.bestFit(bytes)
    if (block) this.where.set(r.id, block)
    return block !== undefined
  }

  give(r: Request): void {
    const block = this.where.get(r.id)
    if (block) this.main.give(block)
    else this.aside.give(r)
  }
}
