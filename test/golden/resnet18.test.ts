// Plans of ResNet-18: residual blocks, a classification head, as text.
import { test } from 'uvu'
import { compareWithGolden } from './golden'

test('resnet18: every strategy at its smallest budget and halfway to in-core', () =>
  compareWithGolden('resnet18', [4, 3, 128, 128]))

test.run()
