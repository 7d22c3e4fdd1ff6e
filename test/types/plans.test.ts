// Options of `stage` while typing and at run time: the same words, in place of the wrong option.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { check, type Programs, runProgram } from './checker'
import { refusedPlan, sorted } from './refusal'
import { illegalPlans as allIllegalPlans, legalPlans as allLegalPlans, planPrelude } from './illegalplans'
import { FULL } from '../full'

/** `npm test` takes one in three, or in four; the step `check-types` of the gate checks all. */
const illegalPlans = allIllegalPlans.filter((_, i) => FULL || i % 3 === 0)
const legalPlans = allLegalPlans.filter((_, i) => FULL || i % 4 === 0)

const programs: Programs = Object.fromEntries([
  ...illegalPlans.map((c, i) => [`illegal${i}`, planPrelude + c.program]),
  ...legalPlans.map((c, i) => [`legal${i}`, planPrelude + c]),
  [
    'names',
    `${planPrelude}stage(vgg, { checkpoints: [''] })\nstage(vgg, { tiles: [{ from: 'c1', to: '' }] })
stage(vgg, { freeze: [''] })
stage(vgg, { freeze: '' })
stage(vgg, { groups: [{ match: '' }] })
stage(own, { freeze: '' })`,
  ],
])
const checked = check(programs)

for (const [i, c] of illegalPlans.entries()) {
  test(`must not compile: ${c.program}`, () => {
    const errors = checked.errors(`illegal${i}`)
    if (c.compiler) assert.equal(errors.map(sorted), c.compiler.map(sorted))
    else assert.equal(errors.map(refusedPlan), [c.says])
  })
  if (c.says !== undefined)
    test(`says the same at run time: ${c.program}`, () => {
      assert.throws(
        () => runProgram(planPrelude + c.program),
        (e: Error) => e.message === c.says,
      )
    })
}

for (const [i, c] of legalPlans.entries())
  test(`must compile and run: ${c.split('\n').pop()}`, () => {
    assert.equal(checked.errors(`legal${i}`), [])
    runProgram(planPrelude + c)
  })

test('names of layers complete in options', () => {
  const legal = ['c1', 'c2', 'c3', 'fc', 'p1', 'p2']
  assert.equal([...checked.completions('names', "checkpoints: ['")].sort(), legal)
  assert.equal([...checked.completions('names', "to: '")].sort(), legal)
  const weighted = ['c1.*', 'c2.*', 'c3.*', 'fc.*']
  for (const place of ["vgg, { freeze: ['", "vgg, { freeze: '", "groups: [{ match: '"])
    assert.equal([...checked.completions('names', place)].sort(), weighted)
})

test.run()
