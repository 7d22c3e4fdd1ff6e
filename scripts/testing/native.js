// The native test programs, built beside the addon from the same objects. In: the addon's build folder.
// Out: one job for each program in build/addon/tests. Invariant: a build that fails or finds none is a failed job.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { runLogged, tellingLines } = require('../setup/child')

const BUILD = path.join('build', 'addon')
const PROGRAMS = path.join(BUILD, 'tests')
const LOG = path.join('build', 'native-tests.log')

const buildPrograms = async root => {
  fs.rmSync(path.join(root, LOG), { force: true })
  const args = ['--build', BUILD, '--target', 'test_programs', '--parallel', '2']
  const { code } = await runLogged('cmake', args, { cwd: root, log: path.join(root, LOG) })
  return code === 0 ? null : tellingLines(path.join(root, LOG))
}

/** A job that fails with these words. */
const failedJob = lines => ({
  name: 'native test programs',
  command: process.execPath,
  args: ['-e', `console.log(${JSON.stringify(lines.join('\n'))}); process.exit(1)`],
  timeoutSeconds: 10,
})

const programsIn = folder =>
  fs.existsSync(folder) ? fs.readdirSync(folder).filter(name => fs.statSync(path.join(folder, name)).mode & 0o111).sort() : []

const nativeJobs = async ({ root, patterns, tally }) => {
  const wanted = name => patterns.length === 0 || patterns.some(p => `native/${name}`.includes(p))
  const problem = await buildPrograms(root)
  const names = programsIn(path.join(root, PROGRAMS))
  const jobs = names.map(name => ({
    name: `native/${name}`,
    command: path.join(root, PROGRAMS, name),
    args: [],
    serial: true,
    timeoutSeconds: 300,
  }))
  if (problem) return [failedJob(problem)].map(job => ({ ...job, tally }))
  if (jobs.length === 0 && patterns.length === 0) return [{ ...failedJob([`no programs in ${PROGRAMS}`]), tally }]
  return jobs.filter(job => wanted(job.name.slice('native/'.length))).map(job => ({ ...job, cwd: root, env: process.env, tally }))
}

module.exports = { nativeJobs }
