// npm packages. In: package-lock.json and npm's list of installed packages. Out: node_modules as in the lock file. There is no own stamp: npm writes
// node_modules/.package-lock.json last, so an interrupted installation is visible.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { runLogged, tellingLines } = require('./child')
const { SetupProblem } = require('./problem')

const readPackages = (file) => {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')).packages ?? {}
  } catch {
    return {}
  }
}

/** Locked packages that are not there in the locked version; those for development count only when `dev`. */
const missingPackages = (root, { dev }) => {
  const locked = readPackages(path.join(root, 'package-lock.json'))
  const installed = readPackages(path.join(root, 'node_modules', '.package-lock.json'))
  return Object.entries(locked)
    .filter(([place, entry]) => place !== '' && !entry.optional && (dev || !entry.dev))
    .filter(([place, entry]) => {
      const same = installed[place]?.version === entry.version
      return !same || !fs.existsSync(path.join(root, place, 'package.json'))
    })
    .map(([place]) => place.replace(/^.*node_modules\//, ''))
}

const npmCommand = () =>
  process.env.npm_execpath?.endsWith('.js') ? [process.execPath, [process.env.npm_execpath]] : ['npm', []]

const installPackages = async (root, { dev }, say) => {
  const missing = missingPackages(root, { dev })
  say(`installing npm packages (${missing.length} missing or out of date)`)
  const log = path.join(root, 'build', 'packages.log')
  fs.rmSync(log, { force: true })
  const [npm, before] = npmCommand()
  const { code, missing: noNpm } = await runLogged(npm, [...before, 'ci', '--no-audit', '--no-fund'], { cwd: root, log })
  if (noNpm) throw new SetupProblem('npm is not on the PATH', { exitCode: 2, details: ['install Node 20 or newer with npm'] })
  const left = missingPackages(root, { dev })
  if (code === 0 && left.length === 0) return
  throw new SetupProblem(`npm ci failed (exit ${code})`, {
    details: [
      ...tellingLines(log),
      `full log: ${path.relative(root, log)}`,
      'npm needs the registry once; behind a proxy, set HTTPS_PROXY and run the command again',
    ],
  })
}

const packagesStep = ({ dev }) => ({
  name: 'npm packages',
  isDone: (root) => missingPackages(root, { dev }).length === 0,
  run: (root, say) => installPackages(root, { dev }, say),
})

module.exports = { packagesStep, missingPackages }
