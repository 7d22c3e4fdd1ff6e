// The data's description in weights: written and read, by others and of later versions; its use for other data, and differences.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { files, folder, source } from '../../../src/data/data'
import {
  type DataDescription,
  describedBy,
  descriptionIn,
  differencesFrom,
  metadataOf,
  takenFor,
} from '../../../src/data/description'

const whole: DataDescription = {
  model: 'my-net',
  input: [3, 64, 48],
  from: 'images',
  classes: ['cat', 'dog'],
  mean: [0.5],
  std: [0.25, 0.5, 0.25],
  fit: 'pad',
  depth: 16,
  colours: 'RGB',
  zoo: { classes: 2 },
  loss: { loss: [[1, 'cross-entropy']], ignoreIndex: 255 },
  product: '0.1.0',
}

test('a written description is read unchanged', () => {
  assert.equal(descriptionIn({ format: 'pt', ...metadataOf(whole) }), { version: 1, ...whole })
  const least: DataDescription = { model: 'model', input: [1, 8, 8] }
  assert.equal(descriptionIn(metadataOf(least)), { version: 1, ...least })
})

test('descriptions of other programs and later versions are ignored', () => {
  for (const text of [
    '',
    'x',
    '[]',
    'null',
    '{}',
    '{"version":2,"model":"a","input":[1,2,3]}',
    '{"version":1,"model":"a","input":[1,2]}',
    '{"version":1,"model":"a","input":[1,2,3],"classes":"cat"}',
    '{"version":1,"model":"a\\u0007","input":[1,2,3]}',
    `{"version":1,"model":"a","input":[1,2,3],"mean":${'['.repeat(1e4)}}`,
  ])
    assert.is(descriptionIn({ spillway: text }), undefined, text.slice(0, 60))
  assert.is(descriptionIn({ format: 'pt' }), undefined)
})

test("the description of data holds the user's options", () => {
  assert.equal(describedBy(folder('a', { mean: [0.5] }).set, ['x', 'y']), {
    from: 'images',
    classes: ['x', 'y'],
    mean: [0.5],
    fit: 'cover',
  })
  assert.equal(describedBy(files('a', { layout: 'NHWC', std: [2] }).set), { from: 'files', layout: 'NHWC', std: [2] })
})

/** A recipe without a fit. */
const { fit: _, ...numbers } = whole

test('files of the same kind take mean, deviation, bits and fit of the recipe', () => {
  const { data, notes } = takenFor(folder('val/', { fit: 'pad' }), whole)
  assert.equal([data.set.mean, data.set.std], [whole.mean, whole.std])
  assert.equal(notes, ['the data use mean [0.5] and std [0.25, 0.5, 0.25], as in training'])
  const resized = takenFor(folder('val/', { mean: [0.5], std: [0.25, 0.5, 0.25] }), whole)
  assert.equal([resized.data.set, resized.notes], [
    folder('val/', { mean: [0.5], std: [0.25, 0.5, 0.25], fit: 'pad', depth: 16 }).set,
    ['images are resized with fit pad, as in training'],
  ] as never)
  const dense = folder('val/', { mean: [0.5], std: [0.25, 0.5, 0.25], depth: 16 })
  assert.equal(takenFor(dense, whole, { resizes: false }), { data: dense, notes: [] })
  const other = takenFor(folder('val/', { mean: [0.5], std: [0.25, 0.5, 0.25], fit: 'crop' }), whole)
  assert.equal(other.notes, ['the model was trained with fit pad, but these data have fit crop'])
})

test("the user's options override the description, with a note about differences", () => {
  const own = folder('val/', { mean: [0.1], depth: 8 })
  assert.equal(takenFor(own, numbers), {
    data: own,
    notes: ['the model was trained on data with mean [0.5] and std [0.25, 0.5, 0.25], but these have mean [0.1]'],
  })
  // Numbers of another kind have other units.
  const arrays = files('val/')
  assert.equal(takenFor(arrays, whole).data, arrays)
  assert.match(takenFor(arrays, whole).notes[0]!, /these have neither mean nor std$/)
  const made = source({ length: 1, read: () => ({ input: [1], target: 0 }) })
  assert.is(takenFor(made, whole).data, made)
  const same = folder('val/', { mean: [0.5], std: [0.25, 0.5, 0.25], depth: 16 })
  assert.equal(takenFor(same, numbers), { data: same, notes: [] })
  assert.equal(takenFor(own, undefined), { data: own, notes: [] })
})

test('other sizes and models are reported', () => {
  assert.equal(differencesFrom(whole, { model: 'my-net', input: [3, 64, 48] }), [])
  assert.equal(differencesFrom(whole, { model: 'model' }), [])
  assert.equal(differencesFrom(whole, { model: 'other', input: [3, 64, 64] }), [
    'the model was trained on images of [3,64,48], but gets [3,64,64]',
    "the weights belong to model 'my-net', not to 'other'",
  ])
})

test.run()
