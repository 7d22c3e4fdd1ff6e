// Small networks whose activations are large against their weights, so that budgets of a few pages force every strategy to work.
import { batchNorm, conv2d, dropout, globalAvgPool, identity, model, relu, residual, seq } from '../../dsl'

const cheap = <N extends string>(name: N) => seq(conv2d(name, 64, 3, { groups: 64 }), batchNorm(`${name}_bn`), relu())

/** Residual blocks with norms and dropout; each activation of a 64-pixel image is 1 MiB in floats. */
export const net = seq(
  conv2d('stem', 64, 3),
  relu(),
  residual(seq(cheap('a1'), cheap('a2')), identity),
  cheap('a3'),
  residual(seq(cheap('b1'), cheap('b2')), identity),
  dropout(0.25),
  cheap('c1'),
  cheap('c2'),
  conv2d('head', 4, 1),
)
export const trunk = model([2, 3, 64, 64], net)
/** A quarter of its pixels, for the devices that are slow: the reference and the imitated GPU. */
export const smallTrunk = model([2, 3, 16, 16], net)
export const classifier = model(
  [4, 3, 32, 32],
  seq(conv2d('stem', 32, 3), batchNorm('bn'), relu(), conv2d('head', 10, 1), globalAvgPool('pool')),
)
