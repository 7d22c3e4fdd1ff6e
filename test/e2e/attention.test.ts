// full
// A vision transformer's parts in a convolutional network, as it is trained: attention of an image, in shifted windows and in a grid, a class token,
// positions, global response norm, ECA and unequal pools. Every way to save memory gives the same weights, tiles within rounding.
import { test } from 'uvu'
import {
  adaptiveAvgPool,
  affine,
  attention,
  bias,
  concat,
  conv2d,
  gelu,
  globalAvgPool,
  globalResponseNorm,
  identity,
  layerNorm,
  model,
  type Net,
  pixelLinear,
  position,
  residual,
  scaled,
  seq,
  sigmoid,
  sliceChannels,
  softmax,
  turnPixels,
  value,
  values,
} from '../../dsl'
import { savesMemory } from './savings'

const block = <N extends string, A extends Net>(name: N, attends: A) =>
  seq(
    residual(seq(layerNorm(`${name}.norm1`), pixelLinear(`${name}.qkv`, 48), attends, pixelLinear(`${name}.proj`, 16)), identity),
    residual(
      seq(
        layerNorm(`${name}.norm2`),
        pixelLinear(`${name}.up`, 32),
        gelu(),
        globalResponseNorm(`${name}.grn`),
        pixelLinear(`${name}.down`, 16),
      ),
      identity,
    ),
  )

/** Attention to the pixels of a smaller image, as in SegFormer. */
const reduced = residual(
  values(
    value('q', 'input', layerNorm('reduced.norm1'), pixelLinear('reduced.q', 16)),
    value(
      'kv',
      'input',
      conv2d('reduced.sr', 16, 4, { stride: 4, pad: 0 }),
      layerNorm('reduced.norm'),
      pixelLinear('reduced.kv', 32),
    ),
    value('y', { attended: ['q', 'kv'], heads: 2 }, pixelLinear('reduced.proj', 16)),
  ),
  identity,
)

/** Products of matrices of channels and pixels, without a softmax. */
const products = residual(
  values(
    value('a', 'input', pixelLinear('products.a', 16)),
    value('b', 'input', layerNorm('products.norm'), pixelLinear('products.b', 16)),
    value('scores', { contracted: ['a', 'b'], over: 'channels', groups: 2 }),
    value('mixed', { contracted: ['a', 'scores'], over: 'mixed', groups: 2 }, layerNorm('products.norm2')),
    value('channels', { contracted: ['a', 'b'], over: 'pixels' }, softmax()),
    value('y', { contracted: ['channels', 'mixed'], over: 'mixed' }, pixelLinear('products.proj', 16)),
  ),
  identity,
)

const net = model(
  [4, 3, 96, 64],
  seq(
    conv2d('stem', 16, 3, { stride: 2 }),
    scaled(globalAvgPool(), turnPixels(), conv2d('eca', 1, [1, 3], { bias: false }), turnPixels(), sigmoid()),
    block('windows', attention('windows.attn', 2, { window: 8, shift: 4, relative: true })),
    block('grid', attention('grid.attn', 4, { window: [8, 4], grid: true, relative: true, headFirst: true })),
    reduced,
    conv2d('down', 16, 4, { stride: 4, pad: 0 }),
    adaptiveAvgPool('pool', [9, 5]),
    position('places'),
    block('mirrored', attention('mirrored.attn', 2, { relative: 'mirrored' })),
    products,
    turnPixels(),
    concat(seq(sliceChannels(0, 1), affine(0), position('token')), identity),
    turnPixels(),
    block('tokens', attention('tokens.attn', 2)),
    bias('shift'),
    pixelLinear('out', 4),
  ),
)

savesMemory(net)

test.run()
