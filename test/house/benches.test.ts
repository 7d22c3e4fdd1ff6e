// The benches: each has its row in the page of benchmarks and its module; wrong names end with the nearest legal one.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { BENCHES, type Suite } from '../../bench/table'

const ROOT = join(__dirname, '../..')
const page = readFileSync(join(ROOT, 'docs/internals/benchmarks.md'), 'utf8')
const SUITES = Object.entries(BENCHES).flatMap(([name, suites]) =>
  Object.entries<Suite>(suites).map(([suite, row], i) => ({
    name,
    suite,
    row,
    command: i === 0 ? name : `${name} --suite ${suite}`,
  })),
)

const bench = (...args: readonly string[]) => {
  const call = ['-r', './scripts/testing/typescript.js', 'bench/bench.ts', ...args]
  const { status, stdout, stderr } = spawnSync(process.execPath, call, { cwd: ROOT, encoding: 'utf8' })
  return { status, text: stdout + stderr }
}

test('each suite has a row in the page, with its results', () => {
  for (const { suite, row, command } of SUITES) {
    const rows = page
      .split('\n')
      .filter((line) => line.startsWith(`| \`npm run bench -- ${command}`) || line.startsWith(`| \`${suite}\` |`))
    assert.ok(rows.length > 0, command)
    if (row.file !== 'cpu/run.ts')
      for (const file of row.writes)
        assert.ok(
          rows.some((line) => line.includes(`\`${file}\``)),
          `${command}: ${file}`,
        )
  }
})

test('the page has no other benches', () => {
  const named = [...page.matchAll(/npm run bench -- (\w+)(?: --suite ([\w-]+))?/g)].map(
    ([, name, suite]) => [name!, suite] as const,
  )
  for (const [name, suite] of named)
    assert.ok(name === 'NAME' || SUITES.some((s) => s.name === name && (suite ?? s.suite) === s.suite), `${name} ${suite}`)
})

test('each suite has its module', () => {
  for (const { row } of SUITES) assert.ok(existsSync(join(ROOT, 'bench', row.file)), row.file)
})

test('the command prints the table, and the options of a bench', () => {
  const { status, text } = bench()
  assert.is(status, 0)
  for (const { suite, row } of SUITES) assert.match(text, new RegExp(`^  ${suite} .*\\(${row.takes}`, 'm'))
  assert.match(bench('data', '--help').text, /--images N +images of the data set \(default 64\)/)
})

test('wrong calls end with code 2 and the nearest legal name', () => {
  for (const [args, message] of [
    [['plnas'], "there is no bench 'plnas'; did you mean 'plans'?"],
    [['editor'], "there is no bench 'editor'; did you mean 'answers --suite editor'?"],
    [['plans', '--suite', 'joimt'], "there is no suite 'joimt'; did you mean 'joint'?"],
    [['data', '--round', '3'], "there is no option '--round'; did you mean '--rounds'?"],
    [['data', '--rounds'], '--rounds needs a value: --rounds N'],
    [['data', 'resnet18'], "'resnet18': this bench takes options only"],
  ] as const) {
    const { status, text } = bench(...args)
    assert.is(status, 2, args.join(' '))
    assert.ok(text.startsWith(message), text)
  }
})

test.run()
