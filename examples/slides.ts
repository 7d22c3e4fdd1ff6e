// The model that examples/slides.plan.ts was staged for, by
//   npx spillway plan examples/slides.ts --machine ref --strategy tiled --budget 24MiB --emit examples/slides.plan.ts
import { conv2d, maxPool, model, relu, seq } from 'spillway'

// biome-ignore format: one resolution a line
export default model([1, 3, 160, 160], seq(
  conv2d('conv1', 8, 3), relu(), conv2d('conv2', 8, 3), relu(), maxPool('pool1', 2),
  conv2d('conv3', 16, 3), relu(), conv2d('conv4', 16, 3),
))
