// The wording check must refuse bad pages and rising counts, accept good ones, and count as the program that it was ported from.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { countsOf, sentencesByFolder, update, wordingProblems } from '../../scripts/check-wording'
import { withFiles } from './scratch'

const CEILINGS = 'scripts/wording/ceilings.json'

const inCheckout = <A>(files: Readonly<Record<string, string>>, use: (root: string) => A): Promise<A> =>
  withFiles(files, (root) => {
    execFileSync('git', ['init', '-q'], { cwd: root })
    return use(root)
  })

const GOOD = '# Title\n\nThe planner places every page. Each call reads its operands.\n\n- A list item of five words.\n'
const BAD = '# Title\n\nWhat crosses between loops has to move. Of both, what repeats is told once.\n'

/** Each construct of the measure: lists, tables, code blocks, links, questions, quotes, bold text, numbered items, markup. */
const PAGE = `---
title: A page of tests
---

# What is in a heading does not count

What crosses has to move: The planner chooses, for each loop, what to keep. A sentence asks what it is?
**Bold words open here.** Of these sentences many are short. Too short. See [what links say](https://a.b/c) in this text.

\`\`\`ts
${'//'} What stands in a code block does not count.
\`\`\`

- Whether a list item is whole, it counts as a sentence of its own
- another item reads \`what\` in code, whether that matters or not
1. So many calls, but for the last of which there is none, as often as need be

| short cell | a cell of six words or what |
| --- | --- |
| x | Where a cell has two sentences, both count here. Who reads it knows. |

This sentence has more than thirty words, because a long sentence has to be found by its length alone, and so it goes on
and on with one clause after another until it has enough.

An address http://example.com/what is no sentence of words. A pair {{of}} braces says what is skipped.
`

const CODE = `// Of the ranks what is shared. where a line begins small
${'//'} the comment goes on: So few words.

${'/**'}
 * What a block comment says.
 * @param what is dropped with its tag
 */
const a = 'what is in code' // Whatever trails code is not measured here
`

const PYTHON = `#!/usr/bin/env python3
"""What a docstring says counts."""
# Who reads this comment, whoever it is.
x = 1
`

/** Counted by wording.py, the program that the check was ported from. */
const EXPECTED = {
  docs: { sentences: 12, words: 133, what: 5, first: 4, many: 1, long: 1 },
  'src/b': { sentences: 2, words: 20, what: 2, first: 2, many: 0, long: 0 },
  tools: { sentences: 2, words: 12, what: 2, first: 2, many: 0, long: 0 },
}

test('counts are those of the original program', () =>
  inCheckout(
    { 'docs/a.md': PAGE, 'src/b/c.ts': CODE, 'tools/d.py': PYTHON, 'src/e.tables.ts': CODE, 'x/gen/f.ts': CODE },
    (root) => {
      const found = Object.fromEntries(
        [...sentencesByFolder(root)].map(([folder, s]) => [
          folder,
          { sentences: s.length, words: s.reduce((sum, each) => sum + each.words, 0), ...countsOf(s) },
        ]),
      )
      assert.equal(found, EXPECTED)
    },
  ))

test('a good page passes', async () =>
  assert.equal(await inCheckout({ 'docs/a.md': GOOD, 'README.md': GOOD }, wordingProblems), []))

test('a bad page fails, with its sentences', async () => {
  const [says, ...worst] = await inCheckout({ 'docs/a.md': `${GOOD}\n${BAD}` }, wordingProblems)
  assert.match(says!, /^docs: what 40\.0 %, limit 4 %; first 40\.0 %, limit 0\.5 %$/)
  assert.equal(worst, [
    '  docs/a.md [what, first] What crosses between loops has to move.',
    '  docs/a.md [what, first] Of both, what repeats is told once.',
  ])
})

test('long sentences fail', async () => {
  const long = `${'word '.repeat(31)}ends.`
  const problems = await inCheckout({ 'README.md': `A ${long}\n` }, wordingProblems)
  assert.match(problems[0]!, /^README\.md: long 100\.0 %, limit 5 %; 33\.0 words a sentence, limit 15$/)
})

const GOOD_CODE = '// The planner places every page.\nconst a = 1\n'
const BAD_CODE = '// What crosses between loops has to move.\nconst b = 1\n'

test('counts of a code folder may fall but not rise, and --update only lowers them', () =>
  inCheckout({ 'dsl/a.ts': BAD_CODE, 'dsl/b.ts': GOOD_CODE }, (root) => {
    const write = (file: string, text: string): void => writeFileSync(join(root, file), text)
    const ceiling = (): unknown => JSON.parse(readFileSync(join(root, CEILINGS), 'utf8')).dsl
    update(root)
    assert.equal(ceiling(), { what: 1, first: 1, many: 0, long: 0 })
    assert.equal(wordingProblems(root), [])
    write('dsl/b.ts', BAD_CODE)
    update(root)
    assert.equal(ceiling(), { what: 1, first: 1, many: 0, long: 0 })
    assert.match(wordingProblems(root)[0]!, /^dsl: 2 sentences match 'what', limit 1 /)
    write('dsl/a.ts', GOOD_CODE)
    write('dsl/b.ts', GOOD_CODE)
    update(root)
    assert.equal(ceiling(), { what: 0, first: 0, many: 0, long: 0 })
  }))

test('a new code folder has the limits of pages', async () => {
  const ceilings = '{ "dsl": { "what": 0, "first": 0, "many": 0, "long": 0 } }'
  const problems = await inCheckout({ [CEILINGS]: ceilings, 'new/a.ts': BAD_CODE, 'newer/a.ts': GOOD_CODE }, wordingProblems)
  assert.match(problems[0]!, /^new: what 100\.0 %/)
  assert.is(problems.filter((p) => !p.startsWith(' ')).length, 1)
})

test.run()
