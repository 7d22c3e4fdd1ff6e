// `npm start`: set-up, then the demonstration: a U-Net learns on a picture whose training needs several times the memory budget.
// Options change it (`npm start -- --steps 20`); a command of spillway replaces it (`npm start -- doctor`).
'use strict'
const { spawn } = require('node:child_process')
const path = require('node:path')
const { ROOT, setUpOrExit } = require('./setup')

const DEMONSTRATION = ['-r', path.join(__dirname, 'testing', 'typescript.js'), path.join(ROOT, 'examples', 'big-picture.ts')]

const HELP = `npm start                       installs missing parts, then trains a U-Net on a picture of 1024 x 1024 in 160 MiB
npm start -- OPTIONS            the same with --budget 96MiB, --steps 20, or --picture FILE.svg for the drawing
npm start -- COMMAND ...        any spillway command: models, plan MODEL, train MODEL, verify PLAN, doctor
npm start -- --help             this text; 'npm start -- train --help' lists the options of a command

It writes runs/start/index.html: the picture, its target, the prediction, and memory against the budget.
The first run installs npm and system packages and builds the native addon. Later runs start at once.`

/** The arguments of node for `npm start -- ARGS`. */
const jobFor = (args) =>
  args.length === 0 || args[0].startsWith('-') ? [...DEMONSTRATION, ...args] : [path.join(__dirname, 'spillway.js'), ...args]

const main = async (args) => {
  if (args[0] === '--help' || args[0] === '-h') return void console.log(HELP)
  await setUpOrExit({ dev: true, addon: false })
  const child = spawn(process.execPath, jobFor(args), { stdio: 'inherit' })
  // A terminal sends Ctrl-C to both: the child decides how to end, this process only passes its answer on.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => signal === 'SIGTERM' && child.kill(signal))
  child.on('close', (code, signal) => {
    process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 1)
  })
}

module.exports = { jobFor }
if (require.main === module) main(process.argv.slice(2))
