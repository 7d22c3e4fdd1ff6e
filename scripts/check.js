// `npm run check`: everything that has to hold before a commit; `--gate` adds the longer steps (sanitizers, fuzzing, type costs,
// the cuda plugin, arm64's compiler); `npm run check:full` has longer tests as well, arm64 emulated and Debian 13. In: names of steps to run
// only those. Out: a line for each step when it ends; its output if it fails. Two steps run at a time, those of one `place` in turn.
// Ends with the test runner's `N passed, N failed`, or the names of the steps that failed.
'use strict'
const { spawnSync } = require('node:child_process')
const os = require('node:os')
const path = require('node:path')
const { ROOT, setUpOrExit } = require('./setup')
const { runAll, stopAll } = require('./testing/pool')

const bin = (name, file) => path.join(ROOT, 'node_modules', name, file)
const script = (file, ...args) => [process.execPath, '-r', './scripts/testing/typescript.js', path.join('scripts', file), ...args]

/** A command is a program and its arguments. Steps of one place build in one folder; the longest begin first. */
const STEPS = [
  { name: 'native-asan', place: 'asan', long: true, command: [process.execPath, 'scripts/check-native.js', 'address'] },
  { name: 'fuzz', place: 'asan', long: true, command: [process.execPath, 'scripts/check-native.js', 'fuzz'] },
  { name: 'format', command: [process.execPath, bin('@biomejs/biome', 'bin/biome'), 'format', '--max-diagnostics=20'] },
  { name: 'format-native', command: [process.execPath, 'scripts/native-style.js', '--check'] },
  {
    name: 'lint',
    command: [process.execPath, bin('@biomejs/biome', 'bin/biome'), 'lint', '--error-on-warnings', '--max-diagnostics=none'],
  },
  { name: 'imports', command: script('check-imports.ts') },
  { name: 'hygiene', command: script('check-hygiene.ts') },
  { name: 'wording', command: script('check-wording.ts') },
  { name: 'links', command: script('check-links.ts') },
  {
    name: 'types',
    command: [
      process.execPath,
      bin('typescript', 'bin/tsc'),
      ...'--noEmit --incremental --tsBuildInfoFile build/types.tsbuildinfo -p .'.split(' '),
    ],
  },
  {
    name: 'check-types',
    long: true,
    command: [process.execPath, '-r', './scripts/testing/typescript.js', path.join('test', 'types', 'compilers.ts')],
  },
  { name: 'op-table', command: script('gen-ops.ts', '--check') },
  { name: 'reference', command: script('gen-reference.ts', '--check') },
  { name: 'wire', command: script('gen-wire.ts', '--check') },
  { name: 'cuda-plugin', long: true, command: [process.execPath, 'scripts/build-cuda.js', '--gate'] },
  { name: 'native-tsan', place: 'tsan', long: true, command: [process.execPath, 'scripts/check-native.js', 'thread'] },
  { name: 'zoo-tsan', place: 'tsan', long: true, full: true, command: [process.execPath, 'scripts/check-native.js', 'zoo'] },
  {
    name: 'arm64-compiles',
    place: 'arm64',
    long: true,
    command: [process.execPath, 'scripts/prebuilt.js', 'arm64', '--compile'],
  },
  { name: 'arm64', place: 'arm64', long: true, full: true, command: [process.execPath, 'scripts/arm64.js'] },
  { name: 'debian13', long: true, full: true, command: [process.execPath, 'scripts/debian.js', 'trixie'] },
  { name: 'debian12', long: true, full: true, command: [process.execPath, 'scripts/debian.js', 'bookworm'] },
]

const LIMIT_SECONDS = 3600

/** The step as a job of the pool. */
const jobOf = ({ name, command: [command, ...args] }) => ({
  name,
  command,
  args,
  cwd: ROOT,
  env: process.env,
  timeoutSeconds: LIMIT_SECONDS,
})

const report = ({ name }, { output, code, signal, timedOut, seconds }) => {
  const skipped = /^skipped: .*$/m.exec(output)?.[0]
  console.log(`${name} … ${code === 0 ? (skipped ?? 'ok') : 'FAILED'} (${seconds.toFixed(1)} s)`)
  if (code === 0) return []
  const why = timedOut ? `not done after ${LIMIT_SECONDS} s` : signal ? `ended by ${signal}` : ''
  const said = `${output}${why}`.replace(/^/gm, '  | ')
  console.log(said)
  return [{ name, said }]
}

/**
 * The end of a log is what people see first: what failed long before stands there, too. A build goes on after a failure, so
 * its last lines may say nothing of it: what comes before a line that names one is told as well.
 */
const LAST_LINES = 30
const LINES_BEFORE = 4
const tellAgain = (failed) => {
  for (const { name, said } of failed) {
    const lines = said.split('\n')
    const told = new Set()
    const tell = (last, count) => {
      for (let i = Math.max(0, last - count); i <= last; i++) told.add(i)
    }
    lines.forEach((line, i) => {
      if (/\bFAILED\b|\*\*\*|\bERROR: |[1-9]\d* failed\b|\berror: /.test(line)) tell(i, LINES_BEFORE)
    })
    tell(lines.length - 1, LAST_LINES)
    console.log(`${name} FAILED, and said\n${lines.filter((_, i) => told.has(i)).join('\n')}`)
  }
}

/** Steps of one place one after the other, all others as there is room. Out: those that failed, and what they said. */
const runSteps = async (steps) => {
  const failed = []
  const places = new Map()
  for (const step of steps) places.set(step.place ?? step.name, [...(places.get(step.place ?? step.name) ?? []), step])
  const queue = [...places.values()]
  const worker = async () => {
    for (let place = queue.shift(); place; place = queue.shift())
      await runAll(place.map(jobOf), 1, (job, ending) => failed.push(...report(job, ending)))
  }
  await Promise.all(Array.from({ length: Math.min(2, os.availableParallelism()) }, worker))
  return failed
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
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ]) {
    process.on(signal, () => {
      stopAll()
      process.exit(code)
    })
  }
  await setUpOrExit({ dev: true, compiled: false, addon: false })
  const steps = STEPS.filter((step) =>
    only.length > 0 ? only.includes(step.name) : (gate || !step.long) && (full || !step.full),
  )
  const failed = await runSteps(steps)
  if (only.length === 0 || only.includes('tests')) {
    const passed = runTests(full)
    tellAgain(failed)
    if (!passed) failed.push({ name: 'tests' })
  }
  if (failed.length > 0) console.log(`failed: ${failed.map(({ name }) => name).join(', ')}`)
  process.exitCode = failed.length > 0 ? 1 : 0
}

main(process.argv.slice(2))
