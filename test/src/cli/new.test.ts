// `spillway new`: projects from templates. Each network trains on the pictures of its template; a folder with files is left as it is.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import classifier from '../../../examples/templates/classify/net'
import tuned from '../../../examples/templates/finetune/net'
import segmenter from '../../../examples/templates/segment/net'
import { labelled, masked } from '../../../examples/templates/shapes'
import { crossEntropy, errorText, mib, stage, train } from '../../../src'
import { dependencyFor, type NewOptions, newProject } from '../../../src/cli/new'
import type { Output } from '../../../src/cli/output'
import { templateNames } from '../../../src/cli/templates'
import { exitCode } from '../../../src/errors/errors'
import { version } from '../../../src/files/version'
import { fullTest } from '../../full'

const ROOT = join(__dirname, '../../..')

/** Makes a project in an empty folder. Returns the folder of the project, and the answer or the refusal. */
const inEmpty = (name: string, o: NewOptions, use: (folder: string, said: string, code: number) => void, before = ''): void => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-new-'))
  const here = process.cwd()
  try {
    process.chdir(folder)
    if (before !== '') {
      mkdirSync(name)
      writeFileSync(join(name, before), '')
    }
    let said = ''
    const answer = (_: unknown, text: string): void => {
      said = text
    }
    const out: Output = { json: false, say: () => {}, stream: process.stderr, answer }
    const done = newProject(name, o, out)
    use(join(folder, name), isLeft(done) ? errorText(done.left) : said, isLeft(done) ? exitCode(done.left) : 0)
  } finally {
    process.chdir(here)
    rmSync(folder, { recursive: true })
  }
}

test('a project has a model, a script, its settings and this checkout as its dependency', () => {
  for (const template of templateNames)
    inEmpty('my-project', { template }, (folder, said) => {
      assert.match(said, 'cd my-project')
      const text = (file: string): string => readFileSync(join(folder, file), 'utf8')
      const { name, dependencies, scripts } = JSON.parse(text('package.json'))
      assert.is(name, 'my-project')
      assert.is(resolve(folder, dependencies.spillway.slice('file:'.length)), ROOT)
      assert.is(scripts.train, 'ts-node train.ts')
      assert.is(JSON.parse(text('tsconfig.json')).compilerOptions.strict, true)
      assert.match(text('train.ts'), "from './shapes'")
      assert.match(text('README.md'), 'npm run train')
      for (const [, file] of text('README.md').matchAll(/^\| `([\w.]+)` \|/gm)) assert.ok(existsSync(join(folder, file!)), file)
    })
})

test('the dependency is the one of the project that has the package', () => {
  const caller = mkdtempSync(join(tmpdir(), 'spillway-caller-'))
  const own = join(caller, 'node_modules', 'spillway')
  const project = join(caller, 'deep', 'my-project')
  assert.is(dependencyFor(project, own), `^${version()}`)
  for (const [asked, dependency] of [
    ['file:spillway.tgz', 'file:../../spillway.tgz'],
    ['file:/packs/spillway.tgz', `file:${relative(project, '/packs/spillway.tgz')}`],
    ['~0.1.0', '~0.1.0'],
  ] as const) {
    writeFileSync(join(caller, 'package.json'), JSON.stringify({ devDependencies: { spillway: asked } }))
    assert.is(dependencyFor(project, own), dependency)
  }
  rmSync(caller, { recursive: true })
})

test('bad names and folders with files are refused with exit code 2', () => {
  for (const name of ['My-Project', '../other', '', '-x', 'a b', '.hidden', 'a'.repeat(215)])
    inEmpty(name, {}, (_, said, code) => {
      assert.is(code, 2)
      assert.match(said, 'is not a name for a project')
    })
  inEmpty(
    'full',
    {},
    (folder, said, code) => {
      assert.is(code, 2)
      assert.match(said, 'the folder full is not empty (notes.txt)')
      assert.not(existsSync(join(folder, 'package.json')))
    },
    'notes.txt',
  )
})

test('each network trains on the pictures of its template', async () => {
  const cases = [
    [classifier, labelled(['disc', 'square', 'triangle'], 32, 64, 0)],
    [segmenter, masked(['disc', 'cross'], 64, 16, 0)],
    [tuned, labelled(['ring', 'cross', 'bars'], 32, 32, 0)],
  ] as const
  for (const [net, data] of cases) {
    const plan = stage(net, { loss: crossEntropy, budget: mib(48), algorithms: 'fixed' })
    const { losses } = await train(net, plan, { steps: 2, data, onNote: () => {} })
    assert.ok(losses.length === 2 && losses.every((loss) => loss > 0 && loss < 3), losses.join())
  }
})

fullTest('the script of each template runs by the command of its README, and its files pass the type check', () => {
  for (const template of templateNames)
    inEmpty(template, { template }, (folder) => {
      mkdirSync(join(folder, 'node_modules'))
      for (const name of ['typescript', '@types', 'ts-node'])
        symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
      symlinkSync(ROOT, join(folder, 'node_modules', 'spillway'))
      const { status, stdout, stderr } = spawnSync(join(ROOT, 'node_modules/.bin/ts-node'), ['train.ts'], {
        cwd: folder,
        encoding: 'utf8',
        env: { ...process.env, EPOCHS: '1' },
      })
      assert.is(status, 0, stderr)
      assert.match(stdout, 'saved weights.safetensors')
      assert.ok(existsSync(join(folder, 'weights.safetensors')))
    })
})

test.run()
