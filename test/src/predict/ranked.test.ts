// Classes by their probability: the best first, equal ones in the order of classes, one number as two classes.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { allClasses, classOfColumn, rankedHead, rankedOf, rankedRow, tileHead, tileRow } from '../../../src/predict/ranked'

test('predictions list the best classes first, with their names', () => {
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

test('a tile has its place and the probabilities of all classes, in their order', () => {
  const tile = { file: 'slides/a.svs', name: 'a', slide: [900, 1300], x: 512, y: 0, width: 512, height: 256 } as const
  const classes = allClasses(3, ['no', 'yes'])
  assert.equal(classes, ['no', 'yes', '2'])
  const ranked = rankedOf('a-0-512', [0.25, 0.625, 0.125], classes, tile)
  assert.equal(ranked.top.length, 3)
  assert.is(tileHead(classes), 'file,x,y,width,height,class,confidence,probability of no,probability of yes,probability of 2\n')
  assert.is(tileRow(ranked, classes), 'slides/a.svs,512,0,512,256,yes,0.625,0.25,0.625,0.125\n')
  assert.is(rankedOf('a', [0.1, 0.1, 0.1, 0.1, 0.1, 0.5], [], tile).top.length, 6)
  assert.equal(['class', 'probability of 2', 'probability of a,b'].map(classOfColumn), [undefined, '2', 'a,b'])
})

test.run()
