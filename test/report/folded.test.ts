// Lines folded to the width of a terminal: at good places, under their column, and never between a number and its unit.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { folded } from '../../src/report/folded'

test('a line that fits is unchanged, as is a text without a width', () => {
  const text = '  memory     356 MiB\n\nend'
  assert.is(folded(text, 20), text)
  assert.is(folded('a '.repeat(500), undefined), 'a '.repeat(500))
})

test('an indented line continues under its text, a plain one two columns on', () => {
  assert.is(folded('  memory     356 MiB of 384 MiB', 24), '  memory     356 MiB of\n             384 MiB')
  assert.is(folded('spillway: model resnet81 is not known', 24), 'spillway: model resnet81\n  is not known')
})

test('lines break at ends of parts if they are full enough; a number keeps its unit', () => {
  assert.is(folded('loss 1.0  accuracy 0.5  f1 0.25', 29), 'loss 1.0  accuracy 0.5\n  f1 0.25')
  assert.is(folded('one two; three four five six', 13), 'one two;\n  three four\n  five six')
  assert.is(folded("--freeze 'a.*' --freeze 'b.*'", 22), "--freeze 'a.*'\n  --freeze 'b.*'")
  assert.is(folded('it takes 250 ms in all', 12), 'it takes\n  250 ms in\n  all')
})

test('only a word that is too long exceeds the width', () => {
  assert.is(folded('  model      a-very-long-name', 20), '  model\n    a-very-long-name')
  assert.is(folded('see /a/very/long/path/to/a/file now', 12), 'see\n  /a/very/long/path/to/a/file\n  now')
  for (let width = 12; width < 60; width++)
    for (const line of folded('  time       2.64 ms per step · compute 1.91 ms · waiting 187 µs for room', width).split('\n'))
      assert.ok(line.length <= Math.max(width, 20), `${width}: ${line}`)
})

test.run()
