// The TypeScript, compiled to dist/ so that the command line starts fast. In: src, dsl, staging, models.
// Invariant: dist/stamp names the sources that dist/ was compiled from.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { runLogged, tellingLines } = require('./child')
const { SetupProblem } = require('./problem')
const { contentKey, filesUnder, removeStamp, stampHolds, writeStamp } = require('./stamp')

const SOURCES = ['src', 'dsl', 'staging', 'models', 'tsconfig.json', 'tsconfig.build.json']
const STAMP = path.join('dist', 'stamp')
const LOG = path.join('build', 'compile.log')

const compiledKey = (root) => {
  const lock = JSON.parse(fs.readFileSync(path.join(root, 'package-lock.json'), 'utf8'))
  return contentKey(root, filesUnder(root, SOURCES), lock.packages['node_modules/typescript']?.version)
}

const compile = async (root, say) => {
  say('compiling the TypeScript')
  const key = compiledKey(root)
  removeStamp(path.join(root, STAMP))
  const log = path.join(root, LOG)
  fs.rmSync(log, { force: true })
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { code } = await runLogged(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, log })
  if (code !== 0) {
    throw new SetupProblem('the TypeScript does not compile', { details: [...tellingLines(log), `the whole log: ${LOG}`] })
  }
  writeStamp(path.join(root, STAMP), key)
}

const compiledStep = () => ({
  name: 'compiled TypeScript',
  isDone: (root) => stampHolds(path.join(root, STAMP), compiledKey(root)),
  run: compile,
})

module.exports = { compiledStep }
