// `npm test`: set-up, then every test/**/*.test.ts, then the native test programs. Files of the folders in testing/shared.js share
// processes, each other file has its own. `npm test -- PATTERN …` runs the tests of a subject (testing/discover.js). Ends with
// `N passed, N failed` alone on a line.
// Invariant: nothing found, nothing run, a crash, a time-out or a forgotten `.only` is a failure.
'use strict'
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { setUpOrExit } = require('./setup')
const { discover } = require('./testing/discover')
const { excerpt } = require('./testing/excerpt')
const { nativeJobs } = require('./testing/native')
const { runAll, stopAll } = require('./testing/pool')
const { childSeconds } = require('./testing/processor')
const { QUICK } = require('./testing/quick')
const { inBatches } = require('./testing/shared')
const { tallyNative, tallyUvu } = require('./testing/tally')
const { timesTable, totalLine } = require('./testing/times')
const { watch } = require('./testing/watch')

const USAGE = `npm test -- [PATTERN …] [--watch] [--times] [--quick] [--gate] [--full] [--jobs N] [--root DIR] [--no-native] [--no-setup]
  PATTERN      run the test files (and native programs) whose path holds it, the tests whose name holds it, and the native
               cases of the operators that it names; for a source file that no test is named after, the nearest tests
  --watch      run them again after each change of a source
  --times      print the slowest files and the seconds of each folder
  --quick      run the files that scripts/testing/quick.js lists
  --gate       run the tests of the gate, too (sets SPILLWAY_GATE=1)
  --full       run the repetitions, too: more networks, seeds, ranks and cases (sets SPILLWAY_FULL=1)
  --jobs N     processes at a time (default 3, at most one more than the cores)
  --no-native  leave the native test programs out
  --no-setup   take the checkout as it is`

const FLAGS = {
  '--watch': { watch: true },
  '--times': { times: true },
  '--quick': { quick: true },
  '--gate': { gate: true },
  '--full': { full: true },
  '--no-native': { native: false },
  '--no-setup': { setup: false },
}

const parseArgs = (argv) => {
  const options = {
    patterns: [],
    jobs: 1 + Math.min(2, os.availableParallelism()),
    root: path.dirname(__dirname),
    native: true,
    setup: true,
    gate: process.env.SPILLWAY_GATE === '1',
    full: process.env.SPILLWAY_FULL === '1',
  }
  const args = [...argv]
  while (args.length > 0) {
    const arg = args.shift()
    if (arg === '--jobs') options.jobs = Number.parseInt(args.shift(), 10)
    else if (arg === '--root') options.root = path.resolve(args.shift() ?? '')
    else if (arg in FLAGS) Object.assign(options, FLAGS[arg])
    else if (arg === '--help' || arg === '-h') return null
    else if (arg.startsWith('-')) throw new Error(`unknown option ${arg}\n${USAGE}`)
    else options.patterns.push(arg)
  }
  if (!(options.jobs >= 1)) throw new Error('--jobs needs a number of at least 1')
  return options
}

/**
 * V8's options. A larger nursery takes a third of the time off type tests, which allocate much garbage. Processes share the cores, so threads
 * that collect garbage only wait for one another. A large first heap: otherwise the memory of devices starts full collections of a small one.
 * A test process runs for seconds: optimizing functions nine times later than by default takes a quarter of the processor time off planning.
 * Their frames then need more stack.
 */
const V8_OPTIONS = [
  '--max-semi-space-size=64',
  '--min-semi-space-size=16',
  '--single-threaded-gc',
  '--initial-heap-size=1024',
  '--interrupt-budget=600000',
  '--stack-size=1500',
]
/** Seconds of work for plans of `auto`. Full mode has the default of users. */
const QUICK_EFFORT = '0.1'
/** Processes share the cores: a thread that waits must not spin on one. */
const PATIENT = { OMP_WAIT_POLICY: 'passive' }
/** A collection before each of thousands of short runs would take a tenth of the processor time. */
const UNCOLLECTED = { SPILLWAY_COLLECT: '0' }

/** Runs of tests leave their weights here. */
const RUNS = path.join(os.tmpdir(), `spillway-runs-${process.pid}`)
process.once('exit', () => fs.rmSync(RUNS, { recursive: true, force: true }))

const typescriptJobs = (root, files) => {
  // Tests of terminals see the same screens in CI.
  const screen = { FORCE_COLOR: '0', NO_COLOR: '1', CI: '', TERM: 'xterm' }
  const env = { ...PATIENT, ...UNCOLLECTED, SPILLWAY_RUN_FOLDER: RUNS, ...process.env, ...screen }
  const hooks = [...V8_OPTIONS, '-r', require.resolve('./testing/typescript')]
  const filter = ['-r', require.resolve('./testing/only')]
  const jobs = files.map((test) => ({
    ...test,
    name: test.file,
    command: process.execPath,
    args: [...hooks, ...(test.only ? filter : []), test.file],
    cwd: root,
    env: test.only ? { ...env, SPILLWAY_ONLY: JSON.stringify(test.only) } : env,
    tally: tallyUvu,
  }))
  return inBatches(jobs, {
    command: process.execPath,
    args: [...hooks, require.resolve('./testing/batch')],
    cwd: root,
    env,
    tally: tallyUvu,
  })
}

const report = (root, job, ending) => {
  const result = job.tally(ending.output, ending, job)
  if (job.hasOnly) Object.assign(result, { failed: result.failed + 1, reason: 'has a forgotten .only' })
  const counts = `${result.passed} passed${result.failed ? `, ${result.failed} failed` : ''}${result.skipped ? `, ${result.skipped} skipped` : ''}`
  console.log(`${result.failed ? 'FAIL' : ' ok '} ${job.name}  ${counts}  (${ending.seconds.toFixed(1)} s)`)
  if (result.failed)
    console.log(`     ${job.name}: ${result.reason}\n${excerpt(ending.output, job.name, root).replace(/^/gm, '     | ')}`)
  return { ...result, name: job.name, seconds: ending.seconds, processorSeconds: ending.processorSeconds }
}

const nothing = (why) => {
  console.log(why)
  return { name: 'discovery', passed: 0, failed: 1, skipped: 0, seconds: 0, processorSeconds: 0 }
}

/** `asked`: patterns, or the quick list. Files marked `// gate` or `// full` run in those modes, or where a pattern names them. */
const runTests = async (options) => {
  const asked = options.quick ? QUICK : options.patterns
  const { chosen: found, unknown } = discover(options.root, asked, options)
  const chosen = options.quick ? found.filter(({ file }) => QUICK.some((path) => file.startsWith(path))) : found
  const jobs = typescriptJobs(
    options.root,
    chosen.filter((test) => !test.isNative),
  )
  if (options.native)
    jobs.push(
      ...(await nativeJobs(
        options.root,
        chosen.filter((test) => test.isNative),
        tallyNative,
      )),
    )
  const results = []
  await runAll(jobs, options.jobs, (job, ending) => results.push(report(options.root, job, ending)))
  if (unknown.length > 0) results.push(nothing(`no test matches ${unknown.join(' or ')}`))
  else if (sum(results, 'passed') + sum(results, 'failed') === 0) results.push(nothing('no tests found'))
  return results
}

const sum = (results, key) => results.reduce((n, r) => n + r[key], 0)

/** The closing line stands alone, last. */
const close = (results, options, seconds) => {
  const bad = results.filter((r) => r.failed > 0)
  if (options.times) console.log(`\n${timesTable(results).join('\n')}`)
  if (bad.length > 0) console.log(`\nfailed: ${bad.map((r) => r.name).join(', ')}`)
  console.log(`\n${totalLine(...seconds)}`)
  const skipped = sum(results, 'skipped')
  console.log(`${sum(results, 'passed')} passed, ${sum(results, 'failed')} failed${skipped ? `, ${skipped} skipped` : ''}`)
  process.exitCode = bad.length > 0 ? 1 : 0
}

const main = async (argv) => {
  const options = parseArgs(argv)
  if (options === null) return void console.log(USAGE)
  if (options.watch)
    return watch(
      options.root,
      argv.filter((arg) => arg !== '--watch'),
    )
  if (options.setup) await setUpOrExit({ dev: true })
  if (options.gate) process.env.SPILLWAY_GATE = '1'
  if (options.full) process.env.SPILLWAY_FULL = '1'
  else process.env.SPILLWAY_EFFORT ??= QUICK_EFFORT
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ]) {
    process.on(signal, () => {
      stopAll()
      process.exit(code)
    })
  }
  // Set-up does not count.
  const [began, before] = [performance.now(), childSeconds()]
  const results = await runTests(options)
  close(results, options, [(performance.now() - began) / 1000, childSeconds() - before])
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message)
  process.exitCode = 2
})
