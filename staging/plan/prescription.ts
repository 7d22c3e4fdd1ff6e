// A plan by hand, by positions between layers. The model's side checks it (dsl/plan/), and planner/prescribed.ts applies it.
import type { Grid } from './plan'

/** A cut before the layer with this index, or inside it, after its sums. */
export interface PrescribedCut {
  readonly at: number
  readonly inside: boolean
}
export interface Prescription {
  /** All layers in execution order; some have no op. */
  readonly layers: readonly string[]
  /** In order and disjoint. */
  readonly ranges: readonly { readonly begin: PrescribedCut; readonly end: PrescribedCut; readonly grid: Grid }[]
  readonly checkpoints: readonly PrescribedCut[]
}
