// Stochastic depth: whole images of a residual branch are dropped, the others scaled. An image's lot is drawn from Philox by seed,
// step, `key` and its place in the batch: the same under any tiling, of the batch too, and for the backward.
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
