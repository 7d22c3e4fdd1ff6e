// The groups hold the flat exports, and all of their kind.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import * as compose from '../../dsl/compose'
import * as training from '../../dsl/training'
import * as all from '../../src'
import * as groups from '../../src/groups'

const flat: Readonly<Record<string, unknown>> = all

for (const [name, group] of Object.entries(groups))
  test(`each function of ${name} is an export of the same name`, () => {
    assert.ok(Object.keys(group).length > 3, name)
    for (const [key, value] of Object.entries(group)) assert.is(value, flat[key], key)
  })

test('each loss and each optimizer is in its group', () => {
  assert.equal(
    Object.keys(training).filter((key) => !(key in groups.losses) && !(key in groups.optimizers)),
    [],
  )
})

test('each composition is in its group', () => {
  assert.equal(
    Object.keys(compose).filter((key) => key in flat && !(key in groups.layers)),
    [],
  )
})

test.run()
