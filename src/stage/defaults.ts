// The default training of a model.
import type { Optimizer } from '../../dsl'
import { optimizerWith } from '../../staging/ops/optimizer'

/** Number of batches that are prepared ahead of the step. */
export const PREFETCH = 2
export const DEFAULT_LEARNING_RATE = 1e-3
export const DEFAULT_OPTIMIZER: Optimizer = optimizerWith('sgd', { lr: DEFAULT_LEARNING_RATE, momentum: 0.9 })
