import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { globMatches, nearestGlob } from '../../staging/core/glob'

const NAMES = ['stem.conv.weight', 'stem.bn.weight', 'layer1.0.conv1.weight', 'layer1.0.conv1.bias', 'fc.weight', 'fc.bias']
const of = (pattern: string): readonly string[] => NAMES.filter(globMatches(pattern))

test('a star matches any run of characters, other characters match themselves', () => {
  assert.equal(of('fc.*'), ['fc.weight', 'fc.bias'])
  assert.equal(of('*.bias'), ['layer1.0.conv1.bias', 'fc.bias'])
  assert.equal(of('layer*.conv*.weight'), ['layer1.0.conv1.weight'])
  assert.equal(of('*'), NAMES)
  assert.equal(of('**'), NAMES)
  assert.equal(of('fc.weight'), ['fc.weight'])
  for (const none of ['fc', 'fc.', 'c.weight', 'fc?weight', 'FC.*', '', 'fc.weight*t', '*.bias.*', '[a-z]*'])
    assert.equal(of(none), [], none)
})

test('a star may match nothing, and parts do not overlap', () => {
  assert.ok(globMatches('ab*')('ab'))
  assert.ok(globMatches('a*b*a')('aba'))
  assert.not.ok(globMatches('ab*ba')('aba'))
  assert.not.ok(globMatches('a*ab*b')('aab'))
  assert.ok(globMatches('a*ab*b')('aabb'))
})

test('as a regular expression has it, whatever the pattern and the name', () => {
  const draw = (seed: number, length: number): string =>
    [...Array(length).keys()].map((i) => 'ab*'[(((seed >> (2 * i)) % 3) + 3) % 3]!).join('')
  for (let seed = 0; seed < 4000; seed++) {
    const pattern = draw(seed * 2654435761, seed % 6)
    const name = draw(seed * 40503 + 7, seed % 7).replaceAll('*', 'a')
    const expected = new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(name)
    assert.is(globMatches(pattern)(name), expected, `${pattern} ${name}`)
  }
})

test('the suggestion is the nearest name, or all names below it', () => {
  assert.is(nearestGlob('cf.*', NAMES), 'fc.*')
  assert.is(nearestGlob('fc.wieght', NAMES), 'fc.weight')
  assert.is(nearestGlob('layer1.1.*', NAMES), 'layer1.0.*')
  assert.is(nearestGlob('fc.*', []), undefined)
})

test.run()
