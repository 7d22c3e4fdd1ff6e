// Rows of a CSV file: cells that hold commas, quotes and line breaks come back whole.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { rowText } from '../../../src/files/rows'

test('only cells that need quotes have them', () => {
  assert.is(rowText(['name', 'a,b', 'say "x"', 'two\nlines', 1.5]), 'name,"a,b","say ""x""","two\nlines",1.5\n')
})

test('a number that is not a number is an empty cell', () => {
  assert.is(rowText([Number.NaN, 0]), ',0\n')
})

test.run()
