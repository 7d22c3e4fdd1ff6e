// Makes a checkout ready: npm packages, compiled TypeScript, native addon (with its system packages). In: the wanted parts. Out: nothing to do next
// time; the check of a complete step is cheap. All words go to stderr. Invariant: each step decides by itself, from facts on disk, that it is
// complete; no step leaves a half state.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { addonStep } = require('./setup/addon')
const { compiledStep } = require('./setup/compiled')
const { endChildren } = require('./setup/child')
const { isCheckout } = require('./setup/find')
const { lock } = require('./setup/lock')
const { packagesStep } = require('./setup/packages')
const { SetupProblem, explain } = require('./setup/problem')

const ROOT = path.dirname(__dirname)
const say = (line) => process.stderr.write(`spillway: ${line}\n`)

/** The needs of a checkout before its code runs: an installed package has them. The addon, last, excludes other builders by itself. */
const stepsFor = ({ dev = false, packages = true, compiled = true }) =>
  isCheckout(ROOT) ? [...(packages ? [packagesStep({ dev })] : []), ...(compiled ? [compiledStep()] : [])] : []

const checkNode = () => {
  if (Number.parseInt(process.versions.node, 10) >= 20) return
  throw new SetupProblem(`Node ${process.versions.node} is too old`, { exitCode: 2, details: ['install Node 20 or newer'] })
}

const runUndone = async (steps) => {
  for (const step of steps) if (!step.isDone(ROOT)) await step.run(ROOT, say)
}

/** Steps after an incomplete one are checked again: packages change the inputs of later steps. */
const isReady = (wanted) => stepsFor(wanted).every((step) => step.isDone(ROOT))

const setUp = async (wanted) => {
  checkNode()
  if (!isReady(wanted)) {
    const release = await lock(path.join(ROOT, 'build', 'setup.lock'), (pid) =>
      say(`waiting for another set-up of this folder (process ${pid})`),
    )
    try {
      await runUndone(stepsFor(wanted))
    } finally {
      release()
    }
  }
  if (wanted.addon !== false) await runUndone([addonStep()])
}

/** For scripts: sets up, or says why not and ends the process. With `json` the reason also goes to stdout, as an object. */
const setUpOrExit = async (wanted, { json = false } = {}) => {
  try {
    await setUp(wanted)
  } catch (error) {
    endChildren('SIGTERM')
    const expected = error instanceof SetupProblem
    process.stderr.write(`${expected ? explain(error) : error.stack}\n`)
    const { message, details = [], exitCode = 1 } = error
    if (json) fs.writeSync(1, `${JSON.stringify({ error: { tag: 'SetupFailed', message, details } })}\n`)
    process.exit(exitCode)
  }
}

module.exports = { ROOT, isReady, say, setUp, setUpOrExit }

if (require.main === module) {
  const started = Date.now()
  const alone = { '--addon': { packages: false, compiled: false }, '--compiled': { addon: false } }
  const wanted = alone[process.argv[2]] ?? { dev: true }
  setUpOrExit(wanted).then(() => say(`ready (${((Date.now() - started) / 1000).toFixed(1)} s)`))
}
