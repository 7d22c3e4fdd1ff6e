// own process
// timeout 120
// A run in a terminal that is ended by Ctrl-C: the bar goes, the terminal is as it was before, and the words stand alone.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { COMMAND, MODEL } from './processes'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-terminal-'))
test.after(() => rmSync(root, { recursive: true }))

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
/** `script`, of the system's own tools, gives a command a terminal. */
const hasTerminals = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0

if (hasTerminals)
  test('Ctrl-C in a terminal', async () => {
    const at = (name: string): string => quoted(join(root, name))
    const run = [process.execPath, ...COMMAND, 'train', MODEL, '--device', DEVICE, '--algorithms', 'fixed', '--steps', '400000']
    const line = `trap : INT; stty -a > ${at('before')}; ${run.map(quoted).join(' ')}; echo "code $?"; stty -a > ${at('after')}`
    const child = spawn('script', ['-qec', line, '/dev/null'], {
      cwd: join(__dirname, '../..'),
      env: { ...process.env, SHELL: '/bin/sh' },
    })
    let said = ''
    let isAsked = false
    child.stdout.on('data', (d: Buffer) => {
      said += d.toString()
      if (isAsked || !/step [1-9]\d*\/400000 .*loss \d/.test(said)) return
      isAsked = true
      child.stdin.write('\u0003')
    })
    await new Promise((resolve) => child.once('close', resolve))
    assert.match(said, /step \d+\/400000 .*\d+% .*loss \d\S+/)
    // The error is folded.
    const after = said.slice(said.indexOf('interrupted:')).replaceAll('\r\n  ', ' ')
    assert.match(after, /^interrupted: stopping after this step; interrupt again to stop at once\r\n/)
    assert.match(
      after,
      /spillway: cancelled after \d+ complete steps?; the weights are in .*; to use them: npx spillway predict .*\r\ncode 130\r\n/,
    )
    assert.not.match(after, /step \d+\/400000|\n\s+at /)
    for (const [on, off] of [
      ['\u001b[?25h', '\u001b[?25l'],
      ['\u001b[?7h', '\u001b[?7l'],
    ] as const)
      assert.ok(said.lastIndexOf(on) >= said.lastIndexOf(off), JSON.stringify(on))
    assert.is(readFileSync(join(root, 'after'), 'utf8'), readFileSync(join(root, 'before'), 'utf8'))
  })
else test('Ctrl-C in a terminal', () => console.log('skipped: there is no script(1) here'))

test.run()
