// Plans of Darknet-19's trunk, a norm after each convolution, as text.
import { test } from 'uvu'
import { compareWithGolden } from './golden'

test('darknet19-features: every strategy at its smallest budget and halfway to in-core', () =>
  compareWithGolden('darknet19-features', [1, 3, 256, 256]))

test.run()
