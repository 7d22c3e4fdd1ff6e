// Convolutions with standardised weights, as they are trained: every way to save memory gives the same weights, tiles within rounding; devices and
// bf16 train alike. PyTorch's numbers of the operators are in test/conformance.
import { test } from 'uvu'
import { conv2d, groupNorm, identity, model, relu, residual, seq } from '../../dsl'
import { fewOrAll } from '../full'
import { savesMemory } from './savings'

const unit = <N extends string, G extends number>(name: N, groups: G) =>
  seq(conv2d(name, 16, 3, { standardize: 1e-6, groups, bias: false }), groupNorm(`${name}.norm`, 4), relu())

const net = model(
  [2, 3, 192, 128],
  seq(
    unit('stem', 1),
    residual(seq(unit('a', 1), unit('b', 2)), identity),
    conv2d('down', 16, 3, { standardize: 1e-6, stride: 2 }),
    groupNorm('down.norm', 4),
    residual(seq(unit('c', 1), unit('d', 4)), identity),
    conv2d('out', 4, 1),
  ),
)

savesMemory(net, fewOrAll(['checkpoint:sqrt'], ['checkpoint:sqrt', 'swap:greedy']))

test.run()
