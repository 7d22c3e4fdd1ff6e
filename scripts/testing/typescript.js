// Loads TypeScript without checking it, as ts-node's transpile-only does, and remembers the JavaScript by content and V8's code.
// In: `node -r` this file. Out: `require` takes .ts files. Invariant: a cached file is whole, and belongs to exactly this
// source, compiler version and these options. (Starting ts-node and translating everything takes a test process seconds.)
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { threadId } = require('node:worker_threads')
const { cacheJavaScript, compileWithCode, contentId } = require('./codecache')
const { mapStacks } = require('./stacks')

const ROOT = path.resolve(__dirname, '..', '..')
const CACHE = path.join(ROOT, 'build', 'transpiled')
const OPTIONS = { target: 'ES2022', module: 'CommonJS', esModuleInterop: true, sourceMap: true, inlineSources: false }
const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'node_modules', 'typescript', 'package.json'), 'utf8'))
const KEY = `${version} ${JSON.stringify(OPTIONS)}`

const read = (file) => {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

const translate = (source, file) => {
  const { outputText, sourceMapText } = require('typescript').transpileModule(source, {
    fileName: file,
    compilerOptions: OPTIONS,
  })
  return { text: outputText.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'), map: sourceMapText }
}

const remember = (cached, text) => {
  fs.mkdirSync(CACHE, { recursive: true })
  // Threads of a process translate the same file at the same time.
  const temporary = `${cached}.${process.pid}.${threadId}.tmp`
  fs.writeFileSync(temporary, text)
  fs.renameSync(temporary, cached)
}

/** By source file, the file of its map. */
const maps = new Map()

const javascriptOf = (file) => {
  const source = fs.readFileSync(file, 'utf8')
  const id = contentId(`${KEY}\0${file}\0${source}`)
  const cached = path.join(CACHE, `${id}.js`)
  maps.set(file, `${cached}.map`)
  const known = read(cached)
  if (known !== null) return { id, text: known }
  const { text, map } = translate(source, file)
  remember(`${cached}.map`, map)
  remember(cached, text)
  return { id, text }
}

cacheJavaScript()
mapStacks((file) => maps.get(file))
require('node:module')._extensions['.ts'] = (module, file) => {
  const { id, text } = javascriptOf(file)
  compileWithCode(module, text, file, id)
}
