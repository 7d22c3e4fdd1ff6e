// Loads TypeScript without checking it. Sucrase removes the types; modulecache.js keeps the JavaScript and V8's code.
// In: `node -r` this file. Out: `require` takes .ts files. Stacks name the lines of the sources, which Sucrase keeps.
// Invariant: a kept translation is whole, and belongs to exactly this source, translator and options.
// (The TypeScript compiler would take half a second to load, in each process that loads a new file.)
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')
const { threadId } = require('node:worker_threads')
const { translated } = require('../model-loader')
const { runAndKeep, runKept } = require('./modulecache')

const ROOT = path.resolve(__dirname, '..', '..')
const CACHE = path.join(ROOT, 'build', 'transpiled')
/** The target is this Node, and `import()` stays as it is: packages may be ES modules. */
const OPTIONS = { disableESTransforms: true, preserveDynamicImport: true }
const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'node_modules', 'sucrase', 'package.json'), 'utf8'))
const KEY = `${version} ${JSON.stringify(OPTIONS)} ${fs.readFileSync(require.resolve('../model-loader'), 'utf8')}`

const read = (file) => {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

const remember = (cached, text) => {
  fs.mkdirSync(CACHE, { recursive: true })
  // Threads of a process translate the same file at the same time.
  const temporary = `${cached}.${process.pid}.${threadId}.tmp`
  fs.writeFileSync(temporary, text)
  fs.renameSync(temporary, cached)
}

/** A kept module's translation lies under the source's content, as when it was made. */
const cachedOf = (file, source) =>
  path.join(CACHE, `${createHash('sha256').update(`${KEY}\0${file}\0${source}`).digest('hex')}.js`)

const javascriptOf = (file) => {
  const source = fs.readFileSync(file, 'utf8')
  const cached = cachedOf(file, source)
  const known = read(cached)
  if (known !== null) return known
  const text = translated(source, file, OPTIONS)
  remember(cached, text)
  return text
}

require('node:module')._extensions['.ts'] = (module, file) => {
  if (!runKept(module, file)) runAndKeep(module, file, javascriptOf(file))
}
