// timeout 600
// `spillway check`: a model file's types and its staging, each fault with its place; and its words for files that are not its own.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { TypeFault } from '../../../src/errors/errors'
import { FULL, fewOrAll, fullTest, gateTest } from '../../full'

const root = join(__dirname, '..', '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'spillway-check-'))
test.after(() => rmSync(folder, { recursive: true }))

interface Said {
  readonly code: number | null
  readonly out: {
    readonly [field: string]: unknown
    readonly error: { readonly tag: string; readonly typescript: string; readonly faults: readonly TypeFault[] }
  }
  readonly err: string
}

const spillwayIn = (cwd: string, ...args: readonly string[]): Said => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'scripts', 'spillway.js'), ...args, '--json'], {
    cwd,
    encoding: 'utf8',
  })
  return { code: status, out: JSON.parse(stdout || '{}') as Said['out'], err: stderr }
}

const right = `import { conv2d, globalAvgPool, linear, model, relu, seq } from 'spillway'
const body = seq(conv2d('a', 8, 3), relu(), globalAvgPool('p'))
export default model([2, 3, 32, 32], seq(body, linear('h', 10)))
`
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return name
}
const check = (name: string, ...args: readonly string[]): Said => spillwayIn(folder, 'check', name, ...args)

test('a valid file: check prints its kind, compiler and needs', () => {
  const { code, out, err } = check(file('right.ts', right))
  assert.is(code, 0, err)
  assert.equal(
    ['checked', 'layers', 'parameters', 'input', 'strategy'].map((field) => out[field]),
    [true, 4, 8 * 27 + 8 + 80 + 10, [2, 3, 32, 32], 'in-core'],
  )
  assert.match(String(out['typescript']), /^5\.9\./)
  assert.ok(Number(out['peakBytes']) > 0)
})

test('a wrong shape is refused with line, column and words, and nothing is left in the folder', () => {
  const before = readdirSync(folder)
  const { code, out, err } = check(file('wrong.ts', right.replace("linear('h', 10)", "linear('a', 10)")))
  assert.is(code, 2)
  assert.is(out.error.tag, 'TypesRefused')
  const [fault] = out.error.faults
  assert.equal([fault!.file, fault!.line], ['wrong.ts', 3])
  assert.match(fault!.message, /two values are named 'a'/)
  assert.match(err, /wrong\.ts:3:\d+: .*two values are named 'a'/)
  assert.equal(
    readdirSync(folder).filter((f) => f !== 'wrong.ts'),
    before.filter((f) => f !== 'wrong.ts'),
  )
})

fullTest('a missing import is reported with its place', () => {
  const { code, err } = check(file('import.ts', right.replace('relu, seq', 'reluu, seq')))
  assert.is(code, 2)
  assert.match(err, /import\.ts:1:\d+: .*reluu/)
})

const script = right.replace(/import (.*) from (.*)/, 'const $1 = require($2)').replace('export default', 'module.exports =')

fullTest('JavaScript files of both kinds of module are checked, too', () => {
  const [module, common] = [['right.mjs', right] as const, ['right.cjs', script] as const]
  // The next test checks one that CommonJS loads.
  for (const [name, text] of fewOrAll([], [module, common])) {
    const { code, err } = check(file(name, text))
    assert.is(code, 0, err)
  }
  const { code, err } = check(file('wrong.mjs', right.replace("conv2d('a', 8, 3)", "conv2d('h', 8, 3)")))
  assert.is(code, 2)
  assert.match(err, /wrong\.mjs:3:\d+: .*two values are named 'h'/)
})

gateTest('staging finds faults that types cannot: a budget that is too small ends with 3', () => {
  file('right.cjs', script)
  const { code, out } = check('right.cjs', '--budget', '2MiB', '--strategy', 'in-core')
  assert.equal([code, out.error.tag], [3, 'BudgetInfeasible'])
  if (FULL) assert.is(check('right.cjs', '--budget', '64MiB').code, 0)
})

gateTest('an exception of the file is reported with its place', () => {
  const { code, err } = check(
    file('throws.ts', `const n: number = Number('7')\n\nif (n > 3) throw new Error('not today')\nexport default n\n`),
  )
  assert.is(code, 2)
  assert.match(err, /throws\.ts:3:18: not today/)
})

const projectWith = (typescript: string, options: object): string => {
  const project = mkdtempSync(join(folder, 'project-'))
  mkdirSync(join(project, 'node_modules'))
  symlinkSync(join(root, 'node_modules', typescript), join(project, 'node_modules', 'typescript'))
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }))
  return project
}

gateTest("a project's own compiler and settings count: TypeScript 7, and unused locals", () => {
  const project = projectWith('typescript-newest', { strict: true, module: 'nodenext', noUnusedLocals: true })
  writeFileSync(join(project, 'net.ts'), right)
  const { code, out, err } = spillwayIn(project, 'check', 'net.ts')
  assert.is(code, 0, err)
  assert.match(String(out['typescript']), /^7\./)
  writeFileSync(join(project, 'net.ts'), `${right}const unused = 3\n`)
  const refused = spillwayIn(project, 'check', 'net.ts')
  assert.equal([refused.code, refused.out.error.typescript], [2, out['typescript']])
  assert.match(refused.err, /net\.ts:4:7: .*'unused'/)
})

gateTest('check and verify name each other', () => {
  const [checked, verified] = [check('plan.json'), spillwayIn(folder, 'verify', 'right.ts')]
  assert.equal([checked.code, verified.code], [2, 2])
  assert.match(checked.err, /spillway verify plan\.json/)
  assert.match(verified.err, /spillway check right\.ts/)
  assert.match(check('resnet50').err, /is not a model file/)
  assert.match(check('nowhere.ts').err, /nowhere\.ts: no such file/)
})

test.run()
