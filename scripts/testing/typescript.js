// Loads TypeScript without checking it, as ts-node's transpile-only does, and keeps the JavaScript and V8's code (modulecache.js).
// In: `node -r` this file. Out: `require` takes .ts files. Invariant: a kept translation is whole, and belongs to exactly this source,
// compiler version and these options. (Starting ts-node and translating everything takes a test process seconds.)
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')
const { threadId } = require('node:worker_threads')
const { runAndKeep, runKept } = require('./modulecache')
const { mapStacks } = require('./stacks')

const ROOT = path.resolve(__dirname, '..', '..')
const CACHE = path.join(ROOT, 'build', 'transpiled')
/** `import()` stays as it is: packages may be ES modules. */
const OPTIONS = {
  ...{ target: 'ES2022', module: 'Node16', moduleResolution: 'Node16' },
  ...{ esModuleInterop: true, sourceMap: true, inlineSources: false },
}
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

/** A kept module's translation lies under the source's content, as when it was made. */
const cachedOf = (file, source) =>
  path.join(CACHE, `${createHash('sha256').update(`${KEY}\0${file}\0${source}`).digest('hex')}.js`)

/** By loaded source, the file of its map, once a stack has asked for it. */
const maps = new Map()
const mapOf = (file) => {
  if (maps.get(file) === null) maps.set(file, `${cachedOf(file, fs.readFileSync(file, 'utf8'))}.map`)
  return maps.get(file)
}

const javascriptOf = (file) => {
  const source = fs.readFileSync(file, 'utf8')
  const cached = cachedOf(file, source)
  const known = read(cached)
  if (known !== null) return known
  const { text, map } = translate(source, file)
  remember(`${cached}.map`, map)
  remember(cached, text)
  return text
}

mapStacks(mapOf)
require('node:module')._extensions['.ts'] = (module, file) => {
  maps.set(file, null)
  if (!runKept(module, file)) runAndKeep(module, file, javascriptOf(file))
}
