// gate
// own process
// timeout 300
// A device that fails in the middle of a run, on the plugin that imitates an asynchronous one: words, and a run that goes on.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { addonFile } from '../../src/device/native'

const root = mkdtempSync(join(tmpdir(), 'spillway-faults-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

test('a device that fails during a run: an error, and the last checkpoint resumes to the same bits', () => {
  const cli = join(__dirname, '..', '..', 'src', 'cli.ts')
  const run = (folder: string, env: Record<string, string> = {}) =>
    spawnSync(
      process.execPath,
      [
        '-r',
        require.resolve('../../scripts/testing/typescript'),
        cli,
        'train',
        'resnet20-cifar',
        '--image',
        '16',
        '--batch',
        '2',
        '--device',
        'cuda',
        '--algorithms',
        'fixed',
        '--strategy',
        'swap:greedy',
        '--steps',
        '4',
        '--checkpoint-dir',
        join(root, folder),
        '--checkpoint-every',
        '1',
        '--resume',
        '--json',
      ],
      { encoding: 'utf8', env: { ...process.env, ...env } },
    )
  const shaOf = (r: ReturnType<typeof run>): string => (JSON.parse(r.stdout) as { readonly weightsSha256: string }).weightsSha256
  const whole = run('whole')
  assert.is(whole.status, 0, whole.stderr)
  // The call that fails: somewhere behind the first checkpoint and before the end.
  const steps = (folder: string): number =>
    existsSync(join(root, folder)) ? readdirSync(join(root, folder)).filter((f) => f.endsWith('.json')).length : 0
  const nth = [1, 2, 3, 4, 5]
    .map((k) => 400 * 2 ** k)
    .find((n) => {
      const r = run(`failed-${n}`, { SPILLWAY_IMITATION_FAILS: String(n) })
      assert.is(r.status, 1, r.stderr)
      assert.match((JSON.parse(r.stdout) as { readonly error: { readonly message: string } }).error.message, /imitated failure/)
      return steps(`failed-${n}`) > 0
    })!
  const again = run(`failed-${nth}`)
  assert.is(again.status, 0, again.stderr)
  assert.is(shaOf(again), shaOf(whole))
})

test.run()
