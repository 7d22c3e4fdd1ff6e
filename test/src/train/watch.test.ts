// Notes on courses of losses, without a run: grown, jumped and still losses are noted; falling, noisy and sparse ones are not.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { grownNote, ignoredNote, unmovedNote } from '../../../src/train/watch'

const CLASSES = { guess: Math.log(3), rate: 0.5 }
const NUMBERS = { rate: 0.5 }
const course = (length: number, at: (step: number) => number): readonly number[] => Array.from({ length }, (_, i) => at(i + 1))
/** Between 0 and 1, by step. */
const noise = (step: number): number => ((step * 7919) % 101) / 101

test('a loss that grows is noted, whatever it measures', () => {
  for (const facts of [CLASSES, NUMBERS])
    assert.match(
      grownNote(
        course(16, (s) => 2 ** s),
        facts,
      )!,
      /the loss rose from 7\.5 to 30700: the learning rate of 0\.5 may be too high: try 0\.05 /,
    )
})

test('a loss that jumps is noted unless the run recovers', () => {
  const jumped = (later: number) => course(24, (s) => (s === 1 ? 1.1 : s === 3 ? 200 : later + 0.1 * noise(s)))
  assert.match(grownNote(jumped(1.2), CLASSES)!, /jumped from 1\.1 to 200 in step 3, and is 1\.\d+ now, where a guess has 1\.1/)
  assert.is(grownNote(jumped(0.3), CLASSES), undefined)
  assert.match(grownNote(jumped(15), NUMBERS)!, /jumped from 1\.1 to 200 in step 3, and is 15/)
  assert.is(grownNote(jumped(2), NUMBERS), undefined)
})

test('falling, noisy, sparse and negative losses are not noted', () => {
  for (const facts of [CLASSES, NUMBERS])
    for (const losses of [
      course(100, (s) => 1 / s),
      course(100, (s) => 0.5 + noise(s)),
      // The first sample is easy, and one of 25 is hard.
      course(100, (s) => (s % 25 === 7 ? 20 : 0.001)),
      course(100, (s) => -(2 ** (s / 10))),
      course(7, (s) => 2 ** s),
      course(100, () => 0),
    ])
      assert.is(grownNote(losses, facts), undefined)
})

test('losses of exactly 0 are noted only if a label is ignored', () => {
  const zeros = course(4, () => 0)
  assert.match(ignoredNote(zeros, { ...CLASSES, ignored: 255 })!, /all labels are 255/)
  assert.is(ignoredNote(zeros, CLASSES), undefined)
  assert.is(ignoredNote([...zeros, 0.1], { ...CLASSES, ignored: 255 }), undefined)
  assert.is(ignoredNote([], { ...CLASSES, ignored: 255 }), undefined)
})

test('still losses are noted by the means of epochs, or by evaluations', () => {
  const epochs = { samples: 4, batch: 1 }
  const repeated = course(12, (s) => 1 + ((s - 1) % 4))
  const note = (losses: readonly number[], evaluated: readonly number[] = []): string | undefined =>
    unmovedNote(losses, { epochs, evaluated }, { rate: 1e-9 })
  assert.match(note(repeated)!, /has not moved: 2\.5 after the first epoch, 2\.5 .* rate of 1e-9 may be too low: try 0\.001/)
  assert.is(note(repeated.slice(0, 7)), undefined)
  assert.is(note(course(12, (s) => 1 / s)), undefined)
  assert.is(note(repeated, [1, 0.9]), undefined)
  assert.match(note(course(12, noise), [1, 1])!, /has not moved/)
  assert.is(note(course(12, () => 0)), undefined)
})

test.run()
