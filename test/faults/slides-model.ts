// A model file, as users write them, for slides of many sizes: all of it is trained, with live norms, inside of masks.
import { batchNorm, conv2d, fromBytes, gatedAttentionPool, linear, masked, model, relu } from '../../dsl'

export default model(
  [1, 3, 320, 320],
  masked(
    32,
    fromBytes({ mean: 0.5, std: 0.25 }),
    conv2d('stem', 16, 3, { stride: 2, bias: false }),
    batchNorm('bn1'),
    relu(),
    conv2d('body', 16, 3, { stride: 2, bias: false }),
    batchNorm('bn2'),
    relu(),
    gatedAttentionPool('pool', 8),
    linear('head', 2),
  ),
)
