// `npm start`: set-up, then the main job: a VGG-16 trunk trained on an image whose in-core memory is several times
// the budget. Options change the job (`npm start -- --steps 20`); a command replaces it (`npm start -- doctor`).
'use strict'
const { spawn } = require('node:child_process')
const path = require('node:path')
const { setUpOrExit } = require('./setup')

const JOB = [
  'train',
  'vgg16-features',
  '--image',
  '1024',
  '--budget',
  '384MiB',
  '--steps',
  '5',
  '--lr',
  '0.001',
  '--log',
  'runs/start',
]

const HELP = `npm start                       install missing parts and train a VGG-16 trunk in a small budget
npm start -- OPTIONS            the same with other options: --image 768 --budget 512MiB --steps 20 …
npm start -- COMMAND …          any spillway command: models, plan MODEL, train MODEL, verify PLAN, doctor
npm start -- --help             this text; 'npm start -- train --help' lists all options of a command

The default command is: npx spillway ${JOB.join(' ')}
The first run installs npm and system packages and builds the native addon; later runs start at once.`

const jobFor = (args) => (args.length === 0 || args[0].startsWith('-') ? [...JOB, ...args] : args)

const main = async (args) => {
  if (args[0] === '--help' || args[0] === '-h') return void console.log(HELP)
  await setUpOrExit({ addon: false })
  const child = spawn(process.execPath, [path.join(__dirname, 'spillway.js'), ...jobFor(args)], { stdio: 'inherit' })
  // A terminal sends Ctrl-C to both: the child decides how to end, this process only passes its answer on.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => signal === 'SIGTERM' && child.kill(signal))
  child.on('close', (code, signal) => {
    process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 1)
  })
}

module.exports = { jobFor }
if (require.main === module) main(process.argv.slice(2))
