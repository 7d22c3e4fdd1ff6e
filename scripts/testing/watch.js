// `npm test -- --watch SUBJECT`: runs the tests of a subject again after each change of a source. In: the runner's arguments without
// --watch. Out: for each run, the files that fail and the closing line. Ctrl-C ends the run at hand and the watch.
'use strict'
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')

const FOLDERS = ['src', 'staging', 'dsl', 'models', 'native', 'test', 'scripts']
const SOURCE = /\.(ts|js|json|txt|py|cpp|hpp|cu|cuh|h|cmake)$|CMakeLists\.txt$/
/** An editor writes several files at once, or one file in several steps. */
const SETTLE_MS = 150

const isOfNote = (line) => !/^ ok {2}/.test(line) && line.trim() !== ''

/** The lines of a run that people want to see: not the files that pass. */
const shortly = (stream) => {
  let rest = ''
  stream.setEncoding('utf8').on('data', (chunk) => {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop()
    for (const line of lines) if (isOfNote(line)) console.log(line)
  })
}

const watch = (root, args) => {
  const runner = path.join(__dirname, '..', 'test.js')
  let child
  let timer
  let again
  const run = (why) => {
    console.log(why)
    again = undefined
    child = spawn(process.execPath, [runner, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
    shortly(child.stdout)
    child.once('close', () => {
      child = undefined
      if (again !== undefined) run(again)
      else console.log('waiting for a change (Ctrl-C ends)')
    })
  }
  const changed = (file) => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      const why = `\n${file} changed`
      if (child === undefined) return run(why)
      // The runner ends its tests when it is asked to end.
      again = why
      child.kill('SIGTERM')
    }, SETTLE_MS)
  }
  const watchers = FOLDERS.filter((folder) => fs.existsSync(path.join(root, folder))).map((folder) =>
    fs.watch(path.join(root, folder), { recursive: true }, (_, name) => {
      if (name !== null && SOURCE.test(name)) changed(path.join(folder, name))
    }),
  )
  const end = () => {
    for (const watcher of watchers) watcher.close()
    clearTimeout(timer)
    if (child === undefined) process.exit(0)
    child.once('close', () => process.exit(0))
    child.kill('SIGTERM')
  }
  process.on('SIGINT', end).on('SIGTERM', end)
  run(`watching ${FOLDERS.join(', ')}`)
}

module.exports = { watch }
