// Every network of the zoo has PyTorch's parameters: the same names with the same shapes, none missing, none more
// (fixture: test/fixtures/make_networks.py).
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { elaborate } from '../../dsl'
import { zooEntry } from '../../models'

interface Listed {
  readonly count: number
  readonly parameters: Readonly<Record<string, readonly number[]>>
  readonly running: Readonly<Record<string, readonly number[]>>
}

const fixtures = JSON.parse(readFileSync(join(__dirname, '../fixtures/parameters.json'), 'utf8')) as Readonly<Record<string, Listed>>

const ofZoo = (name: string, role: 'param' | 'state'): Readonly<Record<string, readonly number[]>> => {
  const model = zooEntry(name)!.build()
  const made = isLeft(model) ? model : elaborate(model.right, name)
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return Object.fromEntries(made.right.graph.values.filter((v) => v.role === role).map((v) => [v.name, v.shape]))
}

for (const [name, listed] of Object.entries(fixtures))
  test(`${name} has PyTorch's ${Object.keys(listed.parameters).length} parameters`, () => {
    const parameters = ofZoo(name, 'param')
    assert.equal(parameters, listed.parameters)
    assert.equal(ofZoo(name, 'state'), listed.running)
    assert.is(Object.values(parameters).reduce((n, shape) => n + shape.reduce((a, b) => a * b, 1), 0), listed.count)
  })

test.run()
