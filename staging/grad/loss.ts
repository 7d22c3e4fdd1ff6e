// Losses by name: the op that computes one, the target that it compares with, and over how much it is a mean.
import { elementsOf } from '../core/box'

type Shape = readonly number[]
export type Loss = 'mse' | 'cross-entropy'

export interface LossRule {
  readonly kind: string
  readonly target: (output: Shape) => Shape
  /** Class labels are whole numbers; undefined is the graph's float type. */
  readonly targetType?: 'i32'
}

export const LOSSES: Readonly<Record<Loss, LossRule>> = {
  'mse': { kind: 'mse', target: (s) => s },
  'cross-entropy': { kind: 'softmax_xent', target: ([b, , h, w]) => [b!, 1, h!, w!], targetType: 'i32' },
}

export const meanOver = (rule: LossRule, output: Shape): number => elementsOf(rule.target(output))
