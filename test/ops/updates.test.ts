// The optimizer of each parameter: groups, frozen ones, and refusals in words.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adamw, sgd } from '../../dsl'
import { renderError } from '../../staging/core/errors'
import { depthsOf } from '../../staging/ops/layerdecay'
import { trainedBy, type Updates } from '../../staging/ops/updates'

const NAMES = ['conv.weight', 'conv.bias', 'fc.weight', 'fc.bias']
const parametersOf = (names: readonly string[]) => names.map((name) => ({ name, isMatrix: name.endsWith('.weight') }))
const optimizer = adamw({ lr: 1e-3 })
const by = (u: Updates): Readonly<Record<string, unknown>> => {
  const found = trainedBy(optimizer, u, parametersOf(NAMES))
  if (isLeft(found)) throw new Error(renderError(found.left))
  return Object.fromEntries(found.right)
}

test('without parameter groups, the optimizer trains all parameters', () =>
  assert.equal(by({}), Object.fromEntries(NAMES.map((name) => [name, optimizer]))))

test('the first group that matches has a parameter', () => {
  const found = by({
    groups: [
      { match: '*.bias', weightDecay: 0 },
      { match: 'fc.*', lr: 0.1 },
    ],
  })
  assert.equal(found, {
    'conv.weight': optimizer,
    'conv.bias': { ...optimizer, weightDecay: 0 },
    'fc.weight': { ...optimizer, lr: 0.1 },
    'fc.bias': { ...optimizer, weightDecay: 0 },
  })
})

test('frozen parameters have no update and belong to no group', () => {
  assert.equal(Object.keys(by({ freeze: 'conv.*' })), ['fc.weight', 'fc.bias'])
  assert.equal(Object.keys(by({ freeze: ['conv.*', '*.bias'], groups: [{ match: '*', lr: 1 }] })), ['fc.weight'])
  assert.equal(Object.keys(by({ groups: [{ match: 'fc.*' }, { match: '*', frozen: true }] })), ['fc.weight', 'fc.bias'])
})

test('rates fall towards the input by a factor per block, those of groups too', () => {
  const found = by({ layerDecay: 0.5, groups: [{ match: 'conv.bias', lr: 0.1 }] })
  assert.equal(found, {
    'conv.weight': { ...optimizer, lr: 5e-4 },
    'conv.bias': { ...optimizer, lr: 0.05 },
    'fc.weight': optimizer,
    'fc.bias': optimizer,
  })
  const depths = (...names: string[]): readonly (number | undefined)[] => {
    const found = depthsOf(names.map((name) => ({ name, isMatrix: !/(bn|norm)\d?\.|bias/.test(name) })))
    return names.map((name) => found.get(name))
  }
  assert.equal(
    depths(
      'conv1.weight',
      'bn1.weight',
      'layer1.0.conv1.weight',
      'layer1.0.bn1.bias',
      'layer1.1.conv1.weight',
      'layer2.0.conv1.weight',
      'layer2.0.downsample.0.weight',
      'fc.weight',
      'fc.bias',
    ),
    [4, 4, 3, 3, 2, 1, 1, 0, 0],
  )
  assert.equal(
    depths(
      'features.conv0.weight',
      'features.norm0.weight',
      'features.block1.layer1.conv1.weight',
      'features.norm5.bias',
      'out.weight',
    ),
    [2, 2, 1, 1, 0],
  )
  assert.equal(depths('norm.weight', 'a.weight'), [0, 0])
})

test('errors name the fault and the legal values', () => {
  const says = (u: object, words: string): void => {
    const found = trainedBy(sgd({ lr: 1 }), u, parametersOf(NAMES))
    assert.is(isLeft(found) && renderError(found.left), words)
  }
  says({ freeze: 'cf.*' }, "no trained parameter matches 'cf.*'; did you mean 'fc.*'?")
  says({ groups: [{ match: ['fc.*', 'fc.wieght'] }] }, "no trained parameter matches 'fc.wieght'; did you mean 'fc.weight'?")
  says({ clipNorm: 0 }, "'clipNorm': it is 0; allowed: a finite number above 0")
  says({ clipValue: Number.NaN }, "'clipValue': it is NaN; allowed: a finite number above 0")
  says({ accumulate: 1.5 }, `'accumulate': it is 1.5; allowed: a whole number from 1 to ${2 ** 30}`)
  says({ layerDecay: 0 }, "'layerDecay': it is 0; allowed: more than 0 and at most 1")
  says({ average: 1 }, "'average': it is 1; allowed: 0 or more and below 1")
  says({ groups: [{ match: [] }] }, 'groups[0]: it has no pattern; allowed: at least one')
  says(
    { groups: [{ match: '*' }, { match: '*', frozen: true, lr: 1 }] },
    'groups[1]: it is frozen, but has lr; allowed: one of the two',
  )
  says(
    { groups: [{ match: '*', wieghtDecay: 1 }] },
    '`wieghtDecay` is not an option of a parameter group; did you mean `weightDecay`?',
  )
})

test.run()
