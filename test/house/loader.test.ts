// A user's model file: TypeScript anywhere on the disk, importing 'spillway', or our own sources when it is an example. And the order of the entry
// script: its first text precedes all modules.
import { spawnSync } from 'node:child_process'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT, withFiles } from './scratch'

/** A checkout with a compiled index, and its result for a model file beside or inside it. */
const load = (model: Readonly<Record<string, string>>, file: string): Promise<unknown> =>
  withFiles(
    {
      'checkout/dist/src/index.js': "exports.name = 'compiled'\n",
      'checkout/src/index.ts': "export const name = 'source'\n",
      ...model,
    },
    (root) => {
      const program = `
      require(${JSON.stringify(path.join(ROOT, 'scripts', 'model-loader.js'))}).installModelLoader(process.argv[1])
      console.log(JSON.stringify(require(process.argv[2])))`
      const env = { ...process.env, NODE_PATH: path.join(ROOT, 'node_modules') }
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        ['-e', program, path.join(root, 'checkout'), path.join(root, file)],
        { encoding: 'utf8', env },
      )
      if (status !== 0) throw new Error(stderr)
      return JSON.parse(stdout)
    },
  )

test('a TypeScript model outside the checkout imports the package by name', async () => {
  const text =
    "import { name } from 'spillway'\nimport type { Gone } from './gone'\nexport default { name, n: 1 as number satisfies Gone }\n"
  assert.equal(await load({ 'elsewhere/m.ts': text }, 'elsewhere/m.ts'), { default: { name: 'compiled', n: 1 } })
})

test('an example that imports the sources gets the compiled ones: there is one copy', async () => {
  const text = "import { name } from '../src/index'\nexport default name\n"
  assert.equal(await load({ 'checkout/examples/m.ts': text }, 'checkout/examples/m.ts'), { default: 'compiled' })
})

test('models may be several files, .cts and plain JavaScript', async () => {
  const part = "export const part: string = 'part'\n"
  const whole = "import { part } from './part'\nexport default part\n"
  assert.equal(await load({ 'm/part.ts': part, 'm/m.cts': whole }, 'm/m.cts'), { default: 'part' })
  assert.equal(await load({ 'm/m.js': "module.exports = require('spillway')\n" }, 'm/m.js'), { name: 'compiled' })
})

test('models may be ES modules, also in a project of ES modules', async () => {
  const text = "import { name } from 'spillway'\nimport { part } from './part.js'\nexport default [name, part]\n"
  const project = { 'm/package.json': '{"type":"module"}', 'm/part.ts': "export const part: string = 'part'\n" }
  for (const file of ['m/m.ts', 'm/m.mts', 'm/m.js', 'm/m.mjs'])
    assert.equal(await load({ ...project, [file]: text }, file), { default: ['compiled', 'part'] }, file)
})

test('an exported pattern behind a line without a semicolon is a statement of its own', async () => {
  for (const pattern of ['[a, b] = [1, 2]', '{ a, b } = { a: 1, b: 2 }']) {
    const text = `const f = 3\nexport const c = f\nexport const ${pattern}\n`
    assert.equal(await load({ 'm/m.ts': text }, 'm/m.ts'), { a: 1, b: 2, c: 3 })
  }
})

test('faults of a model file are reported', async () => {
  try {
    await load({ 'm/m.ts': "throw new Error('no such layer')\n" }, 'm/m.ts')
  } catch (error) {
    return assert.match(String(error), 'no such layer')
  }
  assert.unreachable('the error was swallowed')
})

test('a syntax error names its place', async () => {
  try {
    await load({ 'm/m.ts': 'const a = 1\nexport default (\n' }, 'm/m.ts')
  } catch (error) {
    return assert.match(String(error), /m\/m\.ts:3:1\nSyntaxError: Unexpected token\n/)
  }
  assert.unreachable('the error was swallowed')
})

/** The texts and the loaded files of `spillway --version` on a terminal, in their order. */
const ORDER = `
  delete process.env.CI
  delete process.env.NO_COLOR
  process.env.TERM = 'xterm'
  const { prototype } = require('node:module')
  const events = []
  for (const stream of [process.stdout, process.stderr])
    stream.write = (text) => events.push({ text }) > 0
  process.stderr.isTTY = true
  const load = prototype.load
  prototype.load = function (file) { events.push({ file }); return load.call(this, file) }
  process.on('exit', () => require('node:fs').writeSync(1, JSON.stringify(events)))
  process.argv = [process.argv[0], process.argv[1], '--version']
  require(process.argv[1])`

test('on a terminal, the first text precedes all modules; the answer replaces it', () => {
  const { stdout } = spawnSync(process.execPath, ['-e', ORDER, path.join(ROOT, 'scripts', 'spillway.js')], { encoding: 'utf8' })
  const events: readonly { readonly text?: string; readonly file?: string }[] = JSON.parse(stdout)
  const first = events.findIndex(({ text }) => text !== undefined)
  const before = events.slice(0, first).map(({ file }) => path.relative(ROOT, file!))
  assert.equal(before, [path.join('scripts', 'spillway.js'), path.join('dist', 'src', 'cli', 'live.js')])
  const texts = events.flatMap(({ text }) => text ?? [])
  assert.is(texts[0], 'spillway --version …')
  assert.is(texts[1], '\r\u001b[K')
  assert.match(texts[2]!, /^\d+\.\d+\.\d+\n$/)
  assert.ok(events.length > first + 20, 'modules are loaded after it')
})

test.run()
