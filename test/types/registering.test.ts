// Names of strategies and machines of one's own while typing: those that are declared are known, complete, and are all that is known.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { check } from './checker'

const DECLARED = `import { conv2d, gib, model, registerMachine, registerStrategy, relu, seq, stage, stageAsync } from '../../src'
declare module '../../src' {
  interface Strategies { pools: true }
  interface Machines { 'lab-24g': true }
}
const net = model([1, 3, 8, 8], seq(conv2d('c', 8, 3), relu()))
const rates = { flopsPerSecond: 3e13, bytesPerSecond: 9e11, memoryBytes: gib(24), linkBytesPerSecond: 2.5e10 }
`
const checked = check({
  declared: `${DECLARED}registerStrategy('pools', ({ layers }) => ({ checkpoints: layers.filter((l) => l.kind === 'maxPool').map((l) => l.name) }))
registerMachine('lab-24g', rates)
registerMachine('lab-24g', { ...rates, launchSeconds: undefined })
stage(net, { strategy: 'pools', machine: 'lab-24g' })
stage(net, { strategy: 'auto', machine: 'v100-pcie-16g' })
export const later = stageAsync(net, { strategy: 'pools', machine: 'lab-24g' })`,
  strategy: `${DECLARED}stage(net, { strategy: 'pool' })`,
  machine: `${DECLARED}stage(net, { machine: 'lab-24' })`,
  rates: `${DECLARED}registerMachine('lab-24g', { ...rates, launchseconds: 1 })`,
  unregistered: `${DECLARED}registerStrategy('polls', () => ({}))`,
  rule: `${DECLARED}registerStrategy('pools', () => ({ tiles: [{ from: 'c', to: 'c', H: '2' }] }))`,
})

test('declared names compile', () => assert.equal(checked.errors('declared'), []))

test('names that are not registered are refused, with the nearest registered name', () => {
  assert.equal(checked.errors('strategy'), [
    `Type '"pool"' is not assignable to type 'keyof Strategies | undefined'. Did you mean '"pools"'?`,
  ])
  assert.equal(checked.errors('machine'), [
    `Type '"lab-24"' is not assignable to type 'MachineName | undefined'. Did you mean '"lab-24g"'?`,
  ])
  assert.equal(checked.errors('rates'), [
    `Type 'number' is not assignable to type '"\`launchseconds\` is not an option of registerMachine; did you mean \`launchSeconds\`?"'.`,
  ])
  assert.equal(checked.errors('unregistered'), [
    `Argument of type '"polls"' is not assignable to parameter of type 'keyof Strategies'.`,
  ])
  assert.equal(checked.errors('rule'), [`Type 'string' is not assignable to type 'number'.`])
})

test('declared names complete', () => {
  assert.ok(checked.completions('strategy', "strategy: 'pool").includes('pools'))
  assert.ok(checked.completions('machine', "machine: 'lab-24").includes('lab-24g'))
})

test.run()
