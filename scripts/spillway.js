#!/usr/bin/env node
// The `spillway` command: starts the compiled command line, which a checkout first compiles if needed. Code that needs the addon loads it, and builds
// it if there is none. Models may be TypeScript: the compiler starts only for such a model.
'use strict'
const path = require('node:path')
const { ROOT, setUpOrExit } = require('./setup')
const { installModelLoader } = require('./model-loader')

const main = async (args) => {
  await setUpOrExit({ addon: false }, { json: args.includes('--json') })
  installModelLoader(ROOT)
  const { main: commandLine, watchStreams } = require(path.join(ROOT, 'dist', 'src', 'cli.js'))
  watchStreams()
  process.exitCode = await commandLine(args)
}

main(process.argv.slice(2))
