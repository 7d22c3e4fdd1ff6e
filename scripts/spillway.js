#!/usr/bin/env node
// The `spillway` command: makes the checkout ready if it is not, then hands over to the compiled command line.
// Models may be TypeScript files: they load through ts-node, which starts only when one is met.
'use strict'
const path = require('node:path')
const { ROOT, setUpOrExit } = require('./setup')
const { installModelLoader } = require('./model-loader')

/** The doctor must be able to speak where the native build cannot be made, and help needs no build. */
const wantsAddon = (args) =>
  !(args.length === 0 || args[0] === 'doctor' || args.some((a) => ['--help', '-h', '--version', '-V'].includes(a)))

const main = async (args) => {
  await setUpOrExit({ addon: wantsAddon(args) }, { json: args.includes('--json') })
  installModelLoader(ROOT)
  const { main: commandLine } = require(path.join(ROOT, 'dist', 'src', 'cli.js'))
  process.exitCode = await commandLine(args)
}

main(process.argv.slice(2))
