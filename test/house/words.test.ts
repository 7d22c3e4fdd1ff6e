// Retired words must be found where they come back, with the word to use; and the page that lists them must be read right.
// They are put together here from parts, so that this file passes the check itself.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { retiredIn, wordProblems } from '../../scripts/check-words'
import { withFiles } from './scratch'

const root = join(__dirname, '..', '..')
const page = readFileSync(join(root, 'docs', 'internals', 'words.md'), 'utf8')

const problemsOf = (name: string, text: string): Promise<readonly string[]> =>
  withFiles({ 'docs/internals/words.md': page, [name]: text }, (folder) => {
    execFileSync('git', ['init', '-q'], { cwd: folder })
    return wordProblems(folder)
  })

test('every row of the list has words and what to say', () => {
  const rows = retiredIn(page)
  assert.ok(rows.length > 8)
  for (const r of rows) assert.ok(r.words.length > 0 && r.say !== '', JSON.stringify(r))
})

const REFUSED: readonly [name: string, text: string, words: string][] = [
  [
    'src/a.ts',
    `const a = 1\nconst copy${'Out'} = a\n`,
    `src/a.ts:2: '${'copy'} out' is retired (docs/internals/words.md); say swap out`,
  ],
  ['native/a.cpp', `void copy${'_in'}();\n`, `'${'copy'} in' is retired (docs/internals/words.md); say swap in`],
  ['staging/schedule/a.ts', 'interface TrackOfPages {}\n', "'track' is retired"],
  ['native/a.hpp', 'bool is_narrow(View v);\n', "'narrow' is retired"],
  ['docs/a.md', `What was off${'loaded'} comes back.\n`, `docs/a.md:1: 'off${'loaded'}' is retired`],
]
for (const [name, text, words] of REFUSED)
  test(`refused: ${words}`, async () => {
    const problems = await problemsOf(name, text)
    assert.is(problems.length, 1, problems.join('\n'))
    assert.ok(problems[0]!.includes(words), problems[0])
  })

const ALLOWED: readonly [name: string, text: string][] = [
  ['src/a.ts', '/** The copy out of a track. */\nconst a = 1 // swapped\n'],
  ['src/a.ts', "copy('out', inner)\n"],
  ['src/a.ts', "fail({ tag: 'No', why: 'as said above' })\n"],
  ['test/verify/a.ts', 'const trackDevice = 1\n'],
  ['docs/a.md', 'A row of copies, out of order.\n'],
]
for (const [name, text] of ALLOWED)
  test(`allowed: ${name}: ${text.split('\n')[0]}`, async () => assert.equal(await problemsOf(name, text), []))

test.run()
