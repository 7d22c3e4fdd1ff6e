// `spillway completion`: the scripts' offers, asked as the shells ask; zsh and fish if they are installed.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { COMMANDS } from '../../../src/cli/commands'
import { SHELLS } from '../../../src/cli/completion'
import { strategies } from '../../../staging/planner/strategies'
import { zooNames } from '../../../src/zoo'

const root = join(__dirname, '..', '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'spillway-completion-'))
test.after(() => rmSync(folder, { recursive: true }))

const spillway = (...args: readonly string[]): { readonly code: number | null; readonly out: string; readonly err: string } => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['-r', require.resolve('../../../scripts/testing/typescript'), join(root, 'src', 'cli.ts'), ...args],
    { encoding: 'utf8', cwd: root },
  )
  return { code: status, out: stdout, err: stderr }
}

const scripts = new Map(
  SHELLS.map((shell) => {
    const file = join(folder, `completion.${shell}`)
    writeFileSync(file, spillway('completion', shell).out)
    return [shell, file] as const
  }),
)

/** The offers of bash after typed text: the words in place of the last one. */
const bash = (typed: string): readonly string[] => {
  const asking = `source "$1"; COMP_LINE="$2"; COMP_POINT=\${#COMP_LINE}; _spillway; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { stdout, stderr } = spawnSync('bash', ['-c', asking, 'bash', scripts.get('bash')!, typed], {
    encoding: 'utf8',
    cwd: folder,
  })
  assert.is(stderr, '')
  return stdout.split('\n').filter((line) => line !== '')
}

test('bash completes commands, options and their values', () => {
  assert.equal(bash('spillway '), Object.keys(COMMANDS))
  assert.equal(bash('spillway ver'), ['verify'])
  assert.ok(bash('spillway train resnet18 --').includes('--checkpoint-dir'))
  assert.equal(bash('spillway plan resnet50 --mach'), ['--machine'])
  assert.equal(bash('spillway plan resnet50 --machine v100-p'), ['v100-pcie-16g'])
  assert.equal(bash('spillway train resnet50 --loss cross'), ['cross-entropy'])
  assert.equal(bash('spillway plan --batch '), [])
  assert.equal(bash('spillway completion '), SHELLS)
})

test('bash splits words at colons: only the rest is completed', () => {
  assert.equal(bash('spillway plan m --strategy '), strategies)
  assert.equal(bash('spillway plan m --strategy swap:gr'), ['greedy'])
  assert.equal(bash('spillway compare m --strategies tiled,in'), ['tiled,in-core'])
  assert.equal(bash('spillway compare m --strategies tiled,swap:gr'), ['greedy'])
})

test('bash completes models and files for a model, and files for files', () => {
  writeFileSync(join(folder, 'my-net.ts'), '')
  assert.equal(
    bash('spillway plan resnet1'),
    zooNames.filter((n) => n.startsWith('resnet1')),
  )
  assert.equal(bash('spillway plan my-'), ['my-net.ts'])
  assert.equal(bash('spillway verify my-'), ['my-net.ts'])
  assert.equal(bash('spillway plan vgg16 --save my-'), ['my-net.ts'])
})

const isThere = (shell: string): boolean => ['/bin', '/usr/bin', '/usr/local/bin'].some((f) => existsSync(join(f, shell)))

test('every script has every command and every name, and its shell reads it where that is installed', () => {
  for (const [shell, file] of scripts) {
    const text = readFileSync(file, 'utf8')
    for (const name of [...Object.keys(COMMANDS), ...strategies, ...zooNames]) assert.ok(text.includes(name), `${shell}: ${name}`)
    if (isThere(shell)) assert.is(spawnSync(shell, ['-n', file], { encoding: 'utf8' }).stderr, '')
  }
})

test('fish completes the same words as bash, if it is installed', () => {
  if (!isThere('fish')) return
  const fish = (typed: string): readonly string[] =>
    spawnSync('fish', ['--no-config', '-c', `source ${scripts.get('fish')}; complete -C '${typed}'`], {
      encoding: 'utf8',
      cwd: folder,
    })
      .stdout.split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split('\t')[0]!)
  assert.equal([...fish('spillway ')].sort(), Object.keys(COMMANDS).sort())
  assert.equal(fish('spillway plan resnet50 --machine v100-p'), ['v100-pcie-16g'])
  assert.ok(fish('spillway plan resnet15').includes('resnet152'))
})

test('a shell that is not known is refused, with those that are', () => {
  const { code, err } = spillway('completion', 'tcsh')
  assert.is(code, 2)
  assert.match(err, /shell 'tcsh' is not known; allowed: bash, zsh, fish/)
})

test.run()
