// Suggestions for mistyped names.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { editDistance, nearest } from '../../staging/core/nearest'

test('edits count insertions, deletions, replacements and swaps of neighbours', () => {
  assert.is(editDistance('vgg16', 'vgg16'), 0)
  assert.is(editDistance('vg16', 'vgg16'), 1)
  assert.is(editDistance('vgg61', 'vgg16'), 1)
  assert.is(editDistance('', 'abc'), 3)
  assert.is(editDistance('kitten', 'sitting'), 3)
})

test('the nearest names are first; names that continue the typed one precede them', () => {
  const zoo = ['darknet19', 'resnet18', 'resnet50', 'vgg16', 'vgg16-features']
  assert.equal(nearest('resnet51', zoo, 2), ['resnet50', 'resnet18'])
  assert.is(nearest('VGG16', zoo, 1)[0], 'vgg16')
  assert.is(nearest('darknet', zoo, 1)[0], 'darknet19')
})

test.run()
