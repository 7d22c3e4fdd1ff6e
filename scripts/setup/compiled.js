// The TypeScript, compiled to dist/ so that the command line starts fast. In: src, dsl, staging, models.
// Invariant: dist/stamp names the sources that dist/ was compiled from.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { runLogged, tellingLines } = require('./child')
const { writeDeclarations } = require('./declarations')
const { SetupProblem } = require('./problem')
const { contentKey, filesUnder, removeStamp, stampHolds, writeStamp } = require('./stamp')

const MODULES = path.join(__dirname, 'modules.js')
const TOOLS = ['modules.js', 'declarations.js', 'shortened.js', 'shapes.d.ts'].map((name) => `scripts/setup/${name}`)
const SOURCES = ['src', 'dsl', 'staging', 'models', 'tsconfig.json', 'tsconfig.build.json', ...TOOLS]
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
  const run = (...args) => runLogged(process.execPath, args, { cwd: root, log })
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const compiled = await run(tsc, '-p', 'tsconfig.build.json')
  if (compiled.code !== 0 || (await run(MODULES, path.join(root, 'dist'))).code !== 0) {
    throw new SetupProblem('TypeScript compilation failed', { details: [...tellingLines(log), `full log: ${LOG}`] })
  }
  writeDeclarations(path.join(root, 'dist'))
  writeStamp(path.join(root, STAMP), key)
}

const compiledStep = () => ({
  name: 'compiled TypeScript',
  isDone: (root) => stampHolds(path.join(root, STAMP), compiledKey(root)),
  run: compile,
})

module.exports = { compiledStep }
