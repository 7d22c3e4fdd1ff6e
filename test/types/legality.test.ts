// Programs that must compile and programs that must not: the checker's exact messages, and the same words at run time.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { check, type Programs, runProgram } from './checker'
import { illegal, prelude, refusal } from './illegal'
import { legal } from './legal'

const programs: Programs = Object.fromEntries([
  ...illegal.map((c, i) => [`illegal${i}`, prelude + c.program]),
  ...legal.map((c, i) => [`legal${i}`, prelude + c]),
])
const checked = check(programs)

for (const [i, c] of illegal.entries()) {
  test(`must not compile: ${c.says ?? c.program}`, () => {
    assert.equal(checked.errors(`illegal${i}`), c.compiler ?? [refusal(c.says!)])
  })
  if (c.says !== undefined)
    test(`says the same at run time: ${c.says}`, () => {
      let said = 'nothing'
      try {
        runProgram(prelude + c.program)
      } catch (e) {
        said = (e as Error).message
      }
      assert.is(said, c.says)
    })
}

for (const [i, c] of legal.entries())
  test(`must compile and run: ${c.split('\n')[0]}`, () => {
    assert.equal(checked.errors(`legal${i}`), [])
    runProgram(prelude + c)
  })

test.run()
