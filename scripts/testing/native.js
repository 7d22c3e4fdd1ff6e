// The native test programs: each test/native/*.cpp is one, built beside the addon from the same objects.
// In: those that are asked for; `only` names the operators whose cases run. Out: a job for each. Invariant: a build that
// fails is a failed job.
'use strict'
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { configuring } = require('../setup/addon')
const { runLogged, tellingLines } = require('../setup/child')
const { lock } = require('../setup/lock')

const BUILD = path.join('build', 'addon')
const LOG = path.join('build', 'native-tests.log')
const TIMEOUT_SECONDS = 600

/** `npm test` runs one random case in this number. The gate repeats them under sanitizers; full mode runs all. */
const SHARES = {
  kernels_compare: 8,
  kernels_cuda: 12,
  kernels_gradient: 4,
  kernels_host_cuda: 60,
  kernels_refusal: 8,
  kernels_tiles: 8,
}

const programOf = (source) => path.basename(source, '.cpp')

/** Two runners must not build in one folder at once. */
const buildAlone = async (root, programs) => {
  const release = await lock(path.join(root, BUILD, 'build.lock'), (pid) =>
    console.log(`waiting for process ${pid}, which builds here`),
  )
  try {
    return await build(root, programs)
  } finally {
    release()
  }
}

/** Null when all are built, else the telling lines of the log. */
const build = async (root, programs) => {
  const log = path.join(root, LOG)
  fs.rmSync(log, { force: true })
  // New test files are found by a glob, which is looked at anew only when CMake configures.
  const [command, args] = configuring(root, path.join(root, BUILD))
  const configured = await runLogged(command, args, { cwd: root, log })
  if (configured.code !== 0) return tellingLines(log)
  const jobs = String(Math.min(2, os.availableParallelism()))
  const { code } = await runLogged('cmake', ['--build', BUILD, '--parallel', jobs, '--target', ...programs], { cwd: root, log })
  return code === 0 ? null : tellingLines(log)
}

/** A job that fails with these words. */
const failure = (words) => ({
  name: 'building the native test programs',
  command: process.execPath,
  args: ['-e', 'console.log(process.argv[1]); process.exit(1)', words],
  timeoutSeconds: 10,
})

const nativeJobs = async (root, programs, tally) => {
  if (programs.length === 0) return []
  const problem = await buildAlone(
    root,
    programs.map(({ file }) => programOf(file)),
  )
  if (problem) return [{ ...failure([...problem, `the whole log: ${LOG}`].join('\n')), cwd: root, env: process.env, tally }]
  // Two programs at a time share the cores: a thread that waits must not spin on one.
  const env = { ...process.env, OMP_WAIT_POLICY: 'passive' }
  const shareOf = (program, only) =>
    SHARES[program] && !only && process.env.SPILLWAY_FULL !== '1' ? { SPILLWAY_TEST_SHARE: String(SHARES[program]) } : {}
  return programs.map(({ file, only, serial }) => ({
    name: file,
    only,
    command: path.join(root, BUILD, 'tests', programOf(file)),
    args: only ?? [],
    cwd: root,
    env: { ...shareOf(programOf(file), only), ...env },
    serial,
    timeoutSeconds: TIMEOUT_SECONDS,
    tally,
  }))
}

/** One library of test/native/, built beside the addon. Out: its file; null where nothing here can build it. Throws when its build fails. */
const nativeLibrary = async (root, target) => {
  const problem = await buildAlone(root, [target])
  if (problem?.some((line) => /[Nn]o rule to make target|unknown target/.test(line))) return null
  if (problem) throw new Error(problem.join('\n'))
  return path.join(root, BUILD, 'Release', `${target}.so`)
}

module.exports = { nativeJobs, nativeLibrary }
