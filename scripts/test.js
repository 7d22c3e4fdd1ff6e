// `npm test`: set-up, then every test/**/*.test.ts in a process of its own, then the native test programs.
// `npm test -- PATTERN …` runs what there is on a subject (testing/discover.js). Ends with `N passed, N failed` alone on a line.
// Invariant: nothing found, nothing run, a crash, a time-out or a forgotten `.only` is a failure.
'use strict'
const os = require('node:os')
const path = require('node:path')
const { setUpOrExit } = require('./setup')
const { discover } = require('./testing/discover')
const { nativeJobs } = require('./testing/native')
const { runAll, stopAll } = require('./testing/pool')
const { tallyNative, tallyUvu } = require('./testing/tally')

const USAGE = `npm test -- [PATTERN …] [--jobs N] [--root DIR] [--no-native] [--no-setup] [--full]
  PATTERN      run test files (and native programs) with it in their path, tests with it in their name, and the native
               cases of operators of this name; for a source file without a test of its own, run the nearest tests
  --jobs N     number of parallel processes (default 2, at most the cores)
  --no-native  skip the native test programs
  --no-setup   do not set up the checkout first
  --full       run more cases in property and kernel tests (sets SPILLWAY_FULL=1)`

const parseArgs = (argv) => {
  const options = {
    patterns: [],
    jobs: Math.min(2, os.availableParallelism()),
    root: path.dirname(__dirname),
    native: true,
    setup: true,
    full: false,
  }
  const args = [...argv]
  while (args.length > 0) {
    const arg = args.shift()
    if (arg === '--jobs') options.jobs = Number.parseInt(args.shift(), 10)
    else if (arg === '--root') options.root = path.resolve(args.shift() ?? '')
    else if (arg === '--no-native') options.native = false
    else if (arg === '--no-setup') options.setup = false
    else if (arg === '--full') options.full = true
    else if (arg === '--help' || arg === '-h') return null
    else if (arg.startsWith('-')) throw new Error(`unknown option ${arg}\n${USAGE}`)
    else options.patterns.push(arg)
  }
  if (!(options.jobs >= 1)) throw new Error('--jobs needs a number of at least 1')
  return options
}

/**
 * The compiler and planning make much that is soon garbage: a larger nursery takes a third of the time off type tests. Two processes at a time
 * share the cores: threads that collect garbage beside them only wait for one another.
 */
const NURSERY = ['--max-semi-space-size=64', '--min-semi-space-size=16', '--single-threaded-gc']
/** Two processes at a time share the cores: a thread that waits must not spin on one. */
const PATIENT = { OMP_WAIT_POLICY: 'passive' }

const typescriptJobs = (root, files) => {
  const env = { ...PATIENT, ...process.env, FORCE_COLOR: '0', NO_COLOR: '1' }
  const hooks = ['-r', require.resolve('./testing/typescript')]
  const filter = ['-r', require.resolve('./testing/only')]
  return files.map(({ file, only, hasOnly, serial, timeoutSeconds }) => ({
    name: file,
    command: process.execPath,
    args: [...NURSERY, ...hooks, ...(only ? filter : []), file],
    cwd: root,
    env: only ? { ...env, SPILLWAY_ONLY: JSON.stringify(only) } : env,
    tally: tallyUvu,
    only,
    hasOnly,
    serial,
    timeoutSeconds,
  }))
}

const report = (job, ending) => {
  const result = job.tally(ending.output, ending, job)
  if (job.hasOnly) Object.assign(result, { failed: result.failed + 1, reason: 'has a forgotten .only' })
  const counts = `${result.passed} passed${result.failed ? `, ${result.failed} failed` : ''}${result.skipped ? `, ${result.skipped} skipped` : ''}`
  console.log(`${result.failed ? 'FAIL' : ' ok '} ${job.name}  ${counts}  (${ending.seconds.toFixed(1)} s)`)
  if (result.failed) console.log(`     ${job.name}: ${result.reason}\n${ending.output.replace(/^/gm, '     | ')}`)
  return { ...result, name: job.name }
}

const nothing = (why) => {
  console.log(why)
  return { name: 'discovery', passed: 0, failed: 1, skipped: 0 }
}

const runTests = async (options) => {
  const { chosen, unknown } = discover(options.root, options.patterns)
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
  await runAll(jobs, options.jobs, (job, ending) => results.push(report(job, ending)))
  if (unknown.length > 0) results.push(nothing(`no test matches ${unknown.join(' or ')}`))
  else if (sum(results, 'passed') + sum(results, 'failed') === 0) results.push(nothing('no tests found'))
  return results
}

const sum = (results, key) => results.reduce((n, r) => n + r[key], 0)

const main = async (argv) => {
  const options = parseArgs(argv)
  if (options === null) return void console.log(USAGE)
  if (options.setup) await setUpOrExit({ dev: true })
  if (options.full) process.env.SPILLWAY_FULL = '1'
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ]) {
    process.on(signal, () => {
      stopAll()
      process.exit(code)
    })
  }
  const results = await runTests(options)
  const bad = results.filter((r) => r.failed > 0)
  if (bad.length > 0) console.log(`\nfailed: ${bad.map((r) => r.name).join(', ')}`)
  const skipped = sum(results, 'skipped')
  console.log(`\n${sum(results, 'passed')} passed, ${sum(results, 'failed')} failed${skipped ? `, ${skipped} skipped` : ''}`)
  process.exitCode = bad.length > 0 ? 1 : 0
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message)
  process.exitCode = 2
})
