// full
// Pixel shuffles and pools with unequal sides, as they are trained. Every way to save memory gives the same weights, tiles
// within rounding.
import { test } from 'uvu'
import {
  avgPool,
  conv2d,
  groupNorm,
  identity,
  maxPool,
  model,
  pixelShuffle,
  pixelUnshuffle,
  relu,
  residual,
  seq,
} from '../../dsl'
import { savesMemory } from './savings'

const net = model(
  [2, 3, 384, 256],
  seq(
    pixelUnshuffle(2),
    conv2d('stem', 16, 3, { bias: false }),
    groupNorm('norm', 4),
    relu(),
    maxPool(3, { stride: 2, pad: { top: 0, left: 0, bottom: 1, right: 1 } }),
    residual(seq(conv2d('a', 16, 3), relu(), conv2d('b', 16, 3, { groups: 2 })), identity),
    avgPool(2, { stride: 1, pad: { top: 0, left: 1, bottom: 1, right: 0 } }),
    conv2d('up', 48, 3),
    pixelShuffle(4),
    conv2d('out', 3, 3),
  ),
)

savesMemory(net)

test.run()
