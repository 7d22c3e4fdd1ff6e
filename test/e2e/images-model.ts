// A model file that images.test.ts trains on small images of two classes.
import { batchNorm, conv2d, globalAvgPool, model, relu, seq } from '../../dsl'

export default model(
  [4, 3, 16, 16],
  seq(conv2d('stem', 16, 3), batchNorm('bn'), relu(), conv2d('head', 2, 1), globalAvgPool('pool')),
)
