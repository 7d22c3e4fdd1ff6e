// `npm run check`: everything that has to hold before a commit; `--gate` adds the longer steps (sanitizers, fuzzing, type costs,
// the cuda plugin, arm64's compiler); `npm run check:full` has longer tests as well, arm64 emulated and Debian 13. In: names of steps to run
// only those. Out: a line for each step; its output if it fails.
// Ends with the test runner's `N passed, N failed`, or the names of the steps that failed.
'use strict'
const { spawnSync } = require('node:child_process')
const path = require('node:path')
const { ROOT, setUpOrExit } = require('./setup')

const bin = (name, file) => path.join(ROOT, 'node_modules', name, file)
const script = (file, ...args) => [process.execPath, '-r', './scripts/testing/typescript.js', path.join('scripts', file), ...args]

/** A command is a program and its arguments. Long output goes to the log and is shown when the step fails. */
const STEPS = [
  { name: 'format', command: [process.execPath, bin('@biomejs/biome', 'bin/biome'), 'format', '--max-diagnostics=20'] },
  {
    name: 'lint',
    command: [process.execPath, bin('@biomejs/biome', 'bin/biome'), 'lint', '--error-on-warnings', '--max-diagnostics=none'],
  },
  { name: 'imports', command: script('check-imports.ts') },
  { name: 'hygiene', command: script('check-hygiene.ts') },
  { name: 'words', command: script('check-words.ts') },
  { name: 'types', command: [process.execPath, bin('typescript', 'bin/tsc'), '--noEmit', '-p', '.'] },
  {
    name: 'check-types',
    long: true,
    command: [process.execPath, '-r', './scripts/testing/typescript.js', path.join('test', 'types', 'compilers.ts')],
  },
  { name: 'op-table', command: script('gen-ops.ts', '--check') },
  { name: 'wire', command: script('gen-wire.ts', '--check') },
  { name: 'cuda-plugin', long: true, command: [process.execPath, 'scripts/build-cuda.js', '--gate'] },
  { name: 'native-asan', long: true, command: [process.execPath, 'scripts/check-native.js', 'address'] },
  { name: 'native-tsan', long: true, command: [process.execPath, 'scripts/check-native.js', 'thread'] },
  { name: 'fuzz', long: true, command: [process.execPath, 'scripts/check-native.js', 'fuzz'] },
  { name: 'arm64-compiles', long: true, command: [process.execPath, 'scripts/prebuilt.js', 'arm64', '--compile'] },
  { name: 'arm64', long: true, full: true, command: [process.execPath, 'scripts/arm64.js'] },
  { name: 'debian13', long: true, full: true, command: [process.execPath, 'scripts/debian13.js'] },
]

const seconds = (started) => `${((Date.now() - started) / 1000).toFixed(1)} s`

const runStep = ({ name, command: [program, ...args] }) => {
  const started = Date.now()
  process.stdout.write(`${name} … `)
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 28 })
  const skipped = /^skipped: .*$/m.exec(stdout ?? '')?.[0]
  console.log(`${status === 0 ? (skipped ?? 'ok') : 'FAILED'} (${seconds(started)})`)
  if (status !== 0) console.log(`${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.replace(/^/gm, '  | '))
  return status === 0
}

const runTests = (full) => {
  const args = [path.join('scripts', 'test.js'), ...(full ? ['--full'] : [])]
  return spawnSync(process.execPath, args, { cwd: ROOT, stdio: 'inherit' }).status === 0
}

const main = async (argv) => {
  const full = argv.includes('--full')
  const gate = full || argv.includes('--gate')
  const only = argv.filter((arg) => !arg.startsWith('--'))
  const unknown = only.filter((name) => name !== 'tests' && !STEPS.some((step) => step.name === name))
  if (unknown.length > 0) {
    console.error(`no step ${unknown.join(', ')}; there are: ${[...STEPS.map((step) => step.name), 'tests'].join(', ')}`)
    process.exit(2)
  }
  await setUpOrExit({ dev: true, compiled: false, addon: false })
  const steps = STEPS.filter((step) =>
    only.length > 0 ? only.includes(step.name) : (gate || !step.long) && (full || !step.full),
  )
  const failed = steps.filter((step) => !runStep(step)).map((step) => step.name)
  if (only.length === 0 || only.includes('tests')) {
    if (failed.length > 0) console.log(`failed before the tests: ${failed.join(', ')}`)
    if (!runTests(full)) failed.push('tests')
  }
  process.exitCode = failed.length > 0 ? 1 : 0
}

main(process.argv.slice(2))
