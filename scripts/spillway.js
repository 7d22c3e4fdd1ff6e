#!/usr/bin/env node
// The `spillway` command: hands over to the compiled command line, which a checkout compiles first where it is not. What needs the addon
// loads it, and builds it where there is none. Models may be TypeScript: the compiler starts only when one is met.
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
