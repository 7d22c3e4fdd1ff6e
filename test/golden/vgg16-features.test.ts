// Plans of VGG-16's trunk, as text.
import { test } from 'uvu'
import { compareWithGolden } from './golden'

test('vgg16-features: every strategy at its smallest budget and halfway to in-core', () =>
  compareWithGolden('vgg16-features', [1, 3, 512, 512]))

test.run()
