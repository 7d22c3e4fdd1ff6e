// A model file, as users write them, for images and slides with damaged ones among them.
import { conv2d, globalAvgPool, model, relu, seq } from '../../../dsl'

export default model([1, 3, 16, 16], seq(conv2d('a', 4, 3), relu(), conv2d('b', 2, 1), globalAvgPool('gap')))
