// Losses by name: the op that computes one, the target that it compares with, and over how much it is a mean.
import { elementsOf } from '../core/box'
import type { AnyAttrs } from '../ops/op'

type Shape = readonly number[]

export interface LossRule {
  readonly kind: string
  readonly target: (output: Shape) => Shape
  /** Class labels are whole numbers; undefined is the graph's float type, and then a number may stand for the target. */
  readonly targetType?: 'i32'
}

const perElement = (kind: string): LossRule => ({ kind, target: (s) => s })

export const LOSSES = {
  mse: perElement('mse'),
  l1: perElement('l1'),
  'bce-with-logits': perElement('bce_with_logits'),
  'cross-entropy': { kind: 'softmax_xent', target: ([b, , h, w]) => [b!, 1, h!, w!], targetType: 'i32' },
} satisfies Readonly<Record<string, LossRule>>

export type Loss = keyof typeof LOSSES
export const lossNames = Object.keys(LOSSES) as readonly Loss[]

/** The attributes of a loss that is a mean over the output, times a weight. */
export const lossAttrs = (rule: LossRule, output: Shape, weight = 1, constant = 0): AnyAttrs => {
  const common = { count: elementsOf(rule.target(output)), weight }
  return rule.targetType === undefined ? { ...common, constant } : common
}
