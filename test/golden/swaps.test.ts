// Plans of every swapping strategy for ResNet-18, as text.
import { test } from 'uvu'
import { strategies } from '../../staging/planner/strategies'
import { compareWithGolden } from './golden'

test('resnet18: every swapping strategy at its smallest budget and halfway to in-core', () =>
  compareWithGolden(
    'resnet18',
    [4, 3, 128, 128],
    strategies.filter((s) => s.startsWith('swap:')),
    'swaps',
  ))

test.run()
