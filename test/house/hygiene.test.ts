// The hygiene check must find forbidden lines. Bad lines are joined here from parts, so that this file passes the check itself.
import { execFileSync } from 'node:child_process'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { hygieneProblems } from '../../scripts/check-hygiene'
import { withFiles } from './scratch'

const problemsOf = (name: string, text: string): Promise<string[]> =>
  withFiles({ [name]: text }, (root) => {
    execFileSync('git', ['init', '-q'], { cwd: root })
    return hygieneProblems(root)
  })

const HEADER = '// In: nothing. Out: nothing.\n'
const REFUSED: readonly [why: string, name: string, text: string, words: string][] = [
  ['a forgotten .only', 'test/a.test.ts', `test${'.only'}('x', () => {})\n`, 'a forgotten .only'],
  ['a home folder', 'docs/a.md', `see /${'home'}/someone/notes\n`, 'path of this machine'],
  ['a work folder', 'docs/a.md', `cd '/${'work'}/main'\n`, 'path of this machine'],
  ['a temporary folder', 'docs/a.md', `see /${'tmp'}/build/x.log\n`, 'temporary folder'],
  ['a registry', 'package-lock.json', `{"x": "https://${'registry'}.example.org/y"}\n`, 'a registry address'],
  ['a tarball', 'package-lock.json', '{"resolved": "y.tgz"}\n', 'tarball address'],
  [
    'a locked package without a version',
    'package-lock.json',
    '{"packages": {"": {}, "node_modules/a": {}}}\n',
    'node_modules/a has no locked version',
  ],
  [
    'an optional package that is not locked',
    'package-lock.json',
    '{"packages": {"node_modules/a": {"version": "1.0.0", "optionalDependencies": {"b": "1"}}}}\n',
    'b has no locked version',
  ],
  ['a conflict', 'docs/a.md', `${'<'.repeat(7)} HEAD\n`, 'a conflict mark'],
  ['a big file', 'bench/a.txt', 'x'.repeat(1024 * 1024 + 1), 'at most 1048576'],
  ['a source without a header', 'src/a.ts', 'export const a = 1\n', 'opens without a comment'],
  ['a long line of a page', 'docs/a.md', `# A\n\n${'word '.repeat(32)}\n`, '160 columns; docs have at most 150'],
  ['a long header', 'src/a.ts', `${HEADER.repeat(6)}export const a = 1\n`, 'opens with 6 comment lines'],
]

for (const [why, name, text, words] of REFUSED) {
  test(`refused: ${why}`, async () => {
    const problems = await problemsOf(name, text)
    assert.is(problems.length, 1, problems.join('\n'))
    assert.ok(problems[0]!.startsWith(name) && problems[0]!.includes(words), problems[0])
  })
}

const ALLOWED: readonly [name: string, text: string][] = [
  ['src/a.ts', `${HEADER.repeat(5)}export const a = 1\n`],
  ['src/a.ts', `${HEADER.repeat(4)}// Worked example: one\n// two\n// three\nexport const a = 1\n`],
  ['native/a.hpp', `#pragma once\n${HEADER}`],
  ['scripts/a.js', `#!/usr/bin/env node\n${HEADER}`],
  ['docs/a.md', 'the network is 3/work units wide\n'],
  ['package-lock.json', '{"funding": {"url": "https://example.org"}}\n'],
]

for (const [name, text] of ALLOWED) {
  test(`allowed: ${name}: ${text.split('\n').at(-2)}`, async () => assert.equal(await problemsOf(name, text), []))
}

test('ignored files do not count', async () => {
  const files = { '.gitignore': 'build/\n', 'build/a.md': `/${'work'}/main\n` }
  const problems = await withFiles(files, (root) => {
    execFileSync('git', ['init', '-q'], { cwd: root })
    return hygieneProblems(root)
  })
  assert.equal(problems, [])
})

test.run()
