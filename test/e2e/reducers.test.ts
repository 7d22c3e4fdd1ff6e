// full
// Activations with attributes and slopes of their own, and reductions of an image to a pixel, as they are trained. Every way to save memory gives the
// same weights, tiles within rounding.
import { test } from 'uvu'
import {
  clamp,
  concat,
  conv2d,
  elu,
  gatedAttentionPool,
  geluTanh,
  generalizedMeanPool,
  globalMaxPool,
  linear,
  mish,
  model,
  prelu,
  seq,
  softplus,
} from '../../dsl'
import { savesMemory } from './savings'

const net = model(
  [2, 3, 300, 260],
  seq(
    conv2d('stem', 16, 3),
    prelu('each'),
    conv2d('a', 16, 3, { stride: 2 }),
    elu(0.5),
    conv2d('b', 16, 3, { groups: 16 }),
    mish(),
    prelu('one', { shared: true }),
    conv2d('c', 16, 3),
    geluTanh(),
    conv2d('d', 8, 3),
    softplus(),
    clamp(-1, 4),
    concat(gatedAttentionPool('attended', 6), generalizedMeanPool(3), globalMaxPool()),
    linear('head', 4),
  ),
)

savesMemory(net)

test.run()
