// A linear programme as arrays, and the bound that multipliers of its rows prove. Each row is at least its bound. Each column is between 0 and its
// upper bound. The sum of the costs is minimized. Invariant: `provenBy` is at most the optimum for any multipliers (weak duality), so no tolerance of
// a solver can raise it. Worked example, x + y >= 1, costs 1 and 2, both at most 1: the multiplier 1 leaves reduced costs 0 and 1, so the bound is 1
// + 0 + 0.

export type Term = readonly [column: number, factor: number]

export interface LinearProgramme {
  readonly costs: readonly number[]
  readonly uppers: readonly number[]
  readonly bounds: readonly number[]
  /** The terms of row i are those with indices [starts[i], starts[i + 1]). */
  readonly starts: readonly number[]
  readonly columns: readonly number[]
  readonly factors: readonly number[]
}

export class ProgrammeBuilder {
  private readonly costs: number[] = []
  private readonly uppers: number[] = []
  private readonly bounds: number[] = []
  private readonly starts: number[] = [0]
  private readonly columns: number[] = []
  private readonly factors: number[] = []

  column(upper: number, cost = 0): number {
    this.costs.push(cost)
    this.uppers.push(upper)
    return this.costs.length - 1
  }

  /** Adds a row: the sum of the terms is at least the bound. */
  row(terms: readonly Term[], bound = 0): void {
    const from = this.columns.length
    for (const [column, factor] of terms) {
      // An op may read a value twice.
      const at = this.columns.indexOf(column, from)
      if (at >= 0) this.factors[at]! += factor
      else {
        this.columns.push(column)
        this.factors.push(factor)
      }
    }
    this.starts.push(this.columns.length)
    this.bounds.push(bound)
  }

  get built(): LinearProgramme {
    const { costs, uppers, bounds, starts, columns, factors } = this
    return { costs, uppers, bounds, starts, columns, factors }
  }
}

/** Sums of floating-point numbers are exact to this share of their terms. */
const ROUNDING = 1e-12

export const provenBy = (p: LinearProgramme, multipliers: ArrayLike<number>): number => {
  const reduced = Float64Array.from(p.costs)
  let proven = 0
  let terms = 0
  for (let r = 0; r < p.bounds.length; r++) {
    const m = Math.max(0, multipliers[r]!)
    if (!(m > 0)) continue
    proven += m * p.bounds[r]!
    terms += Math.abs(m * p.bounds[r]!)
    for (let k = p.starts[r]!; k < p.starts[r + 1]!; k++) reduced[p.columns[k]!]! -= m * p.factors[k]!
  }
  reduced.forEach((cost, c) => {
    const least = Math.min(0, cost) * p.uppers[c]!
    proven += least
    terms -= least
  })
  return proven - ROUNDING * terms
}
