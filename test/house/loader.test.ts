// A user's model file: TypeScript anywhere on the disk, importing 'spillway', or our own sources when it is an example.
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

test('an example that imports our sources gets the compiled ones: there is one copy', async () => {
  const text = "import { name } from '../src/index'\nexport default name\n"
  assert.equal(await load({ 'checkout/examples/m.ts': text }, 'checkout/examples/m.ts'), { default: 'compiled' })
})

test('models may be several files, .cts and plain JavaScript', async () => {
  const part = "export const part: string = 'part'\n"
  const whole = "import { part } from './part'\nexport default part\n"
  assert.equal(await load({ 'm/part.ts': part, 'm/m.cts': whole }, 'm/m.cts'), { default: 'part' })
  assert.equal(await load({ 'm/m.js': "module.exports = require('spillway')\n" }, 'm/m.js'), { name: 'compiled' })
})

test('models may be ES modules, and lie in a project of ES modules', async () => {
  const text = "import { name } from 'spillway'\nimport { part } from './part.js'\nexport default [name, part]\n"
  const project = { 'm/package.json': '{"type":"module"}', 'm/part.ts': "export const part: string = 'part'\n" }
  for (const file of ['m/m.ts', 'm/m.mts', 'm/m.js', 'm/m.mjs'])
    assert.equal(await load({ ...project, [file]: text }, file), { default: ['compiled', 'part'] }, file)
})

test('what is wrong with a model file is told', async () => {
  try {
    await load({ 'm/m.ts': "throw new Error('no such layer')\n" }, 'm/m.ts')
  } catch (error) {
    return assert.match(String(error), 'no such layer')
  }
  assert.unreachable('the error was swallowed')
})

test.run()
