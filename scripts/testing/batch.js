// Runs several test files in one process, which loads the modules that they share once. In: paths of files. Out: for each, a message to
// the parent when it begins and one when it ends, with its output. Invariant: a file meets the environment and the folder of the start;
// the process ends after a file that fails, so that no file runs beside the remains of a failure.
'use strict'
const path = require('node:path')

globalThis.UVU_DEFER = 1
globalThis.UVU_QUEUE = []
globalThis.UVU_INDEX = 0
const { exec } = require('uvu')
const { processSeconds } = require('./processor')

let output = ''
for (const stream of [process.stdout, process.stderr])
  stream.write = (chunk, encoding, done) => {
    output += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')
    const over = typeof encoding === 'function' ? encoding : done
    if (over) process.nextTick(over)
    return true
  }

const restoring = () => {
  const [env, folder] = [{ ...process.env }, process.cwd()]
  return () => {
    for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name]
    Object.assign(process.env, env)
    process.chdir(folder)
  }
}

const told = (message) => new Promise((resolve) => process.send(message, resolve))

const runFile = async (file) => {
  const [restore, began, before] = [restoring(), performance.now(), processSeconds()]
  output = ''
  process.exitCode = undefined
  globalThis.UVU_QUEUE.length = 0
  globalThis.UVU_QUEUE.push([null])
  await told({ begins: file })
  let [code, ran] = [0, false]
  try {
    require(path.resolve(file))
    ran = globalThis.UVU_QUEUE[0].length > 1
    if (ran) await exec()
    code = process.exitCode ?? 0
  } catch (error) {
    output += `${error?.stack ?? error}\n`
    code = 1
  }
  process.exitCode = undefined
  restore()
  const seconds = (performance.now() - began) / 1000
  await told({ ends: file, output, code, seconds, processorSeconds: processSeconds() - before })
  return code === 0 && ran
}

const main = async (files) => {
  for (const file of files) if (!(await runFile(file))) break
  process.exit(0)
}

main(process.argv.slice(2))
