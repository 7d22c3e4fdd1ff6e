// The hook that checks commit subjects: `area: verb object`, at most 72 characters.
import { spawnSync } from 'node:child_process'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT, withFiles } from './scratch'

const answerTo = (message: string): Promise<{ readonly status: number | null; readonly stderr: string }> =>
  withFiles({ message }, (folder) =>
    spawnSync('sh', [path.join(ROOT, 'scripts/hooks/commit-msg'), path.join(folder, 'message')], { encoding: 'utf8' }),
  )

test('hooks: a subject with area and verb is accepted, comments of git are skipped', async () => {
  for (const message of [
    'search: keep swapped parameters per loop\n\nWhy.\n',
    '# comment\ncpu: add silu\n',
    'Merge branch x\n',
    'fixup! a\n',
  ])
    assert.is((await answerTo(message)).status, 0, message)
})

test('hooks: a subject without area, or one that is too long, is refused with the reason', async () => {
  const bare = await answerTo('Say what it is\n')
  assert.is(bare.status, 1)
  assert.match(bare.stderr, "write 'area: verb object'")
  const long = await answerTo(`search: ${'x'.repeat(65)}\n`)
  assert.is(long.status, 1)
  assert.match(long.stderr, 'has 73 characters; at most 72')
})

test.run()
