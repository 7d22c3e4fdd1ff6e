// A model file, as users write them, that kill.test.ts trains in processes of its own.
import { batchNorm, conv2d, dropout, model, relu, seq } from '../../dsl'

export default model(
  [2, 3, 32, 32],
  seq(
    conv2d('stem', 32, 3),
    batchNorm('bn'),
    relu(),
    conv2d('middle', 32, 3, { groups: 32 }),
    relu(),
    dropout(0.1),
    conv2d('head', 4, 1),
  ),
)
