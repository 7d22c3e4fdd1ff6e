#!/usr/bin/env node
// The `spillway` command: starts the compiled command line, which a checkout first compiles if needed. Code that needs the addon loads it, and builds
// it if there is none. Models may be TypeScript: the compiler starts only for such a model. Invariant: on a terminal, the first text precedes all
// other work.
'use strict'
const path = require('node:path')

/** Shows the first line. A checkout that is not compiled yet shows the lines of its set-up instead. */
const showStart = (args) => {
  try {
    require('../dist/src/cli/live.js').showStart(args)
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error
  }
}

const main = async (args) => {
  showStart(args)
  const { ROOT, setUpOrExit } = require('./setup')
  const { installModelLoader } = require('./model-loader')
  await setUpOrExit({ addon: false }, { json: args.includes('--json') })
  installModelLoader(ROOT)
  const { main: commandLine, watchStreams } = require(path.join(ROOT, 'dist', 'src', 'cli.js'))
  watchStreams()
  process.exitCode = await commandLine(args)
}

main(process.argv.slice(2))
