// The network of rehearsals: activations that are large against its weights, convolutions that a host is quick with, so that in
// seconds it is tiled, recomputed and swapped like the large ones. `small` in bench/gpu/peer.py is the same for PyTorch.
'use strict'
const { batchNorm, conv2d, identity, model, relu, residual, seq } = require('../../dist/dsl')

const cheap = (name) => seq(conv2d(name, 32, 3, { groups: 32 }), batchNorm(`${name}_bn`), relu())

exports.default = model(
  [2, 3, 64, 64],
  seq(
    conv2d('stem', 32, 3),
    relu(),
    residual(seq(cheap('a1'), cheap('a2')), identity),
    cheap('a3'),
    cheap('b1'),
    // The cuDNN of the imitated CUDA has no engine for it.
    conv2d('b2', 32, 3, { groups: 32, dilation: 2 }),
    relu(),
    conv2d('head', 4, 1),
  ),
)
