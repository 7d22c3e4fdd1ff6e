// `stageAsync` while typing: every wrong program of `stage` is refused in the same words, and the right ones pass, with a signal beside them.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { FULL } from '../full'
import { check, type Programs } from './checker'
import { illegalPlans, legalPlans, planPrelude } from './illegalplans'

const FROM = "import { stage as stageOn, type StageOptions } from '../../src/stage/stage'"
const TO = "import { stageAsync as stageOn, type StageAsyncOptions as StageOptions } from '../../src/stage/async'"
const asyncPrelude = planPrelude.replace(FROM, TO)

const direct = (call: string): string =>
  `import { conv2d, model, relu, seq } from '../../dsl'
import { stageAsync } from '../../src/stage/async'
import type { Staged } from '../../src/stage/staged'
const net = model([1, 3, 8, 8], seq(conv2d('a', 4, 3), relu()))
declare const signal: AbortSignal
${call}`

/** plans.test.ts has the words of each; that they are the same here is looked at in one of eight, and in full in all. */
const looked = illegalPlans.filter((_, i) => FULL || i % 16 === 0)
const taken = legalPlans.filter((_, i) => FULL || i % 8 === 0)

const programs: Programs = Object.fromEntries([
  ...looked.flatMap((c, i) => [
    [`illegal${i}`, planPrelude + c.program],
    [`illegalAsync${i}`, asyncPrelude + c.program],
  ]),
  ...taken.map((c, i) => [`legalAsync${i}`, asyncPrelude + c]),
  ['signal', direct('export const s: Promise<Staged<typeof net>> = stageAsync(net, { checkpoints: ["a"], signal })')],
  ['maybe', direct('declare const o: AbortSignal | undefined\nexport const s = stageAsync(net, { signal: o })')],
  ['wrong', direct('export const s = stageAsync(net, { checkpoints: ["b"], signal })')],
  ['name', direct('stageAsync(net, { signal: 7 })')],
])
const checked = check(programs)

for (const [i, c] of looked.entries())
  test(`refused as by stage: ${c.program}`, () => {
    const errors = checked.errors(`illegalAsync${i}`)
    assert.ok(errors.length > 0)
    const named = (text: string): string => text.replace(/StageAsyncOptions/g, 'StageOptions').replace(/Async/g, '')
    assert.equal(errors.map(named), checked.errors(`illegal${i}`).map(named))
  })

for (const i of taken.keys()) test(`taken as by stage (${i})`, () => assert.equal(checked.errors(`legalAsync${i}`), []))

test('an abort signal, or undefined, is accepted beside the other options', () => {
  assert.equal(checked.errors('signal'), [])
  assert.equal(checked.errors('maybe'), [])
  assert.is(checked.errors('wrong').length, 1)
  assert.is(checked.errors('name').length, 1)
})

test.run()
