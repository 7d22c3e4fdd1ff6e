// Classes by their probability: the best first, equal ones in the order of classes, one number as two classes.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { rankedHead, rankedOf, rankedRow } from '../../../src/predict/ranked'

test('the best classes come first, with their names', () => {
  const ranked = rankedOf('a.png', Float32Array.of(0.25, 0.5, 0.25), ['ant', 'bee'])
  assert.equal(ranked, {
    file: 'a.png',
    class: 'bee',
    confidence: 0.5,
    top: [
      { class: 'bee', confidence: 0.5 },
      { class: 'ant', confidence: 0.25 },
      { class: '2', confidence: 0.25 },
    ],
  })
  assert.is(rankedHead(3), 'file,class,confidence,class2,confidence2,class3,confidence3\n')
  assert.is(rankedRow(ranked), 'a.png,bee,0.5,ant,0.25,2,0.25\n')
})

test('one number is the probability of the second class; a table has five classes', () => {
  assert.equal(rankedOf('a', [0.25], ['no', 'yes']).top, [
    { class: 'no', confidence: 0.75 },
    { class: 'yes', confidence: 0.25 },
  ])
  assert.is(rankedOf('a', [0.1, 0.1, 0.1, 0.1, 0.1, 0.5], []).top.length, 5)
  assert.is(rankedHead(1000).split(',').length, 11)
})

test.run()
