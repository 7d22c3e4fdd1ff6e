// `npm run check`: everything that has to hold before a commit; `--gate` adds the longer steps (sanitizers, fuzzing, type costs,
// the cuda plugin, arm64's compiler); `npm run check:full` has longer tests as well, arm64 emulated and Debian 13. In: names of steps to run
// only those. Out: a line for each step when it ends; its output if it fails. Two steps run at a time, those of one `place` in turn;
// the tests begin when a place is free. At the end a table compares seconds with testing/recorded.json, which `--record` writes.
// Ends with the test runner's `N passed, N failed`, or the names of the steps that failed.
'use strict'
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { ROOT, setUpOrExit } = require('./setup')
const { excerpt } = require('./testing/excerpt')
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
  { name: 'mistakes', command: script('gen-mistakes.ts', '--check') },
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

/** The wall and processor seconds of each step, for the table. */
const took = []

const report = ({ name }, { output, code, signal, timedOut, seconds, processorSeconds }) => {
  took.push({ name, seconds, processorSeconds })
  const skipped = /^skipped: .*$/m.exec(output)?.[0]
  console.log(`${name} … ${code === 0 ? (skipped ?? 'ok') : 'FAILED'} (${seconds.toFixed(1)} s)`)
  if (code === 0) return []
  const why = timedOut ? `not done after ${LIMIT_SECONDS} s` : signal ? `ended by ${signal}` : ''
  const said = excerpt(`${output}${why}`, name, ROOT).replace(/^/gm, '  | ')
  console.log(said)
  return [{ name, said }]
}

/** People see the end of a log first, so it repeats the failures. */
const tellAgain = (failed) => {
  for (const { name, said } of failed) console.log(`${name} FAILED, and printed\n${said}`)
}

// ---------------------------------------------------------------- the tests

const CLOSING = /^\d+ passed, \d+ failed(, \d+ skipped)?$/

/** Runs the tests and prints their lines as they come. Out: success, and the closing line, which is printed last of all. */
const runTests = (gate, full) =>
  new Promise((resolve) => {
    const args = [path.join('scripts', 'test.js'), ...(full ? ['--full'] : gate ? ['--gate'] : [])]
    const began = performance.now()
    const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] })
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => child.kill(signal))
    let [rest, closing, processorSeconds] = ['', '', 0]
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      const lines = `${rest}${chunk}`.split('\n')
      rest = lines.pop()
      for (const line of lines) {
        processorSeconds = Number(/ s, ([\d.]+) processor seconds$/.exec(line)?.[1] ?? processorSeconds)
        if (CLOSING.test(line)) closing = line
        else console.log(line)
      }
    })
    child.once('close', (code) => {
      took.push({ name: 'tests', seconds: (performance.now() - began) / 1000, processorSeconds })
      resolve({ passed: code === 0, closing })
    })
  })

// ---------------------------------------------------------------- seconds

const RECORDED = path.join(ROOT, 'scripts', 'testing', 'recorded.json')

const recorded = () => {
  try {
    return JSON.parse(fs.readFileSync(RECORDED, 'utf8'))
  } catch {
    return {}
  }
}

const column = (seconds) => (seconds === undefined ? '–' : seconds.toFixed(0)).padStart(10)

/** A slow step is shown, and fails nothing. */
const timesTable = () => {
  const known = recorded()
  const rows = took.map(
    ({ name, seconds, processorSeconds }) =>
      `${name.padEnd(16)}${column(seconds)}${column(known[name]?.seconds)}${column(processorSeconds)}${column(known[name]?.processorSeconds)}`,
  )
  return ['', `${'step'.padEnd(16)}   seconds  recorded processor  recorded`, ...rows].join('\n')
}

const record = () => {
  const now = Object.fromEntries(
    took.map(({ name, seconds, processorSeconds }) => [
      name,
      { seconds: Math.round(seconds), processorSeconds: Math.round(processorSeconds) },
    ]),
  )
  fs.writeFileSync(RECORDED, `${JSON.stringify({ ...recorded(), ...now }, null, 2)}\n`)
}

// ---------------------------------------------------------------- all of it

/** Steps of one place one after the other, all others as there is room; `tests` begin when nothing else waits. */
const runSteps = async (steps, tests) => {
  const failed = []
  const places = new Map()
  for (const step of steps) places.set(step.place ?? step.name, [...(places.get(step.place ?? step.name) ?? []), step])
  const queue = [...places.values()]
  let tested
  const worker = async () => {
    for (let place = queue.shift(); place; place = queue.shift())
      await runAll(place.map(jobOf), 1, (job, ending) => failed.push(...report(job, ending)))
    if (tests) tested ??= tests()
  }
  await Promise.all(Array.from({ length: Math.min(2, os.availableParallelism()) }, worker))
  return { failed, tested: await tested }
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
  const withTests = only.length === 0 || only.includes('tests')
  const { failed, tested } = await runSteps(steps, withTests ? () => runTests(gate, full) : undefined)
  if (tested) tellAgain(failed)
  if (gate) console.log(timesTable())
  if (argv.includes('--record')) record()
  if (tested) console.log(`\n${tested.closing}`)
  if (tested && !tested.passed) failed.push({ name: 'tests' })
  if (failed.length > 0) console.log(`failed: ${failed.map(({ name }) => name).join(', ')}`)
  process.exitCode = failed.length > 0 ? 1 : 0
}

main(process.argv.slice(2))
