// Stochastic depth: a residual branch is dropped for random images and scaled for the others. The draw is from Philox by seed,
// step, `key` and the image's index in the batch: the same under any tiling, also of the batch, and in the backward.
import { dropping } from './dropout'

export const [dropImages, dropImagesBwd] = dropping(
  'drop_images',
  [120, 121],
  [
    'y = keep ? x/(1−p) : 0, keep drawn as in dropout, by the index of the image in the batch; in place',
    'the same images; in place',
  ],
  { flops: 1, reclaimed: false },
)
