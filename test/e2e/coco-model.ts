// A model file that coco.test.ts trains: three classes for each pixel of a small image.
import { conv2d, model, relu, seq } from '../../dsl'

export default model([2, 3, 16, 16], seq(conv2d('a', 4, 3), relu(), conv2d('b', 3, 1)))
