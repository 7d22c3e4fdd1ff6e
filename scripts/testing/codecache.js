// Keeps V8's compiled code of modules between processes. In: the id of a source (its content) and its JavaScript. Out: the module's
// function. Invariant: code is used only for the source it was made of; V8 itself refuses code of another version or other flags.
// (Lazy compilation is half of the 0.4 s that a process takes to load src/.)
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const Module = require('node:module')
const path = require('node:path')
const v8 = require('node:v8')
const vm = require('node:vm')
const { threadId } = require('node:worker_threads')

const ROOT = path.resolve(__dirname, '..', '..')
const FOLDER = path.join(ROOT, 'build', 'transpiled')
/** One file for each set of V8 flags. */
const FILE = path.join(FOLDER, `code-${v8.cachedDataVersionTag().toString(16)}.blob`)
/** A process that compiled this many bytes of sources adds their code to the file. Test files alone are smaller. */
const WORTH_SAVING = 300_000
const LENGTH_BYTES = 4

/** The file holds the length of its index, the index as JSON (path, id, offset and bytes of each), then the code. */
const opened = () => {
  try {
    const fd = fs.openSync(FILE, 'r')
    const length = Buffer.alloc(LENGTH_BYTES)
    fs.readSync(fd, length, 0, LENGTH_BYTES, 0)
    const index = Buffer.alloc(length.readUInt32LE())
    fs.readSync(fd, index, 0, index.length, LENGTH_BYTES)
    const entries = JSON.parse(index.toString('utf8'))
    return { fd, base: LENGTH_BYTES + index.length, entries: new Map(entries.map(([file, ...entry]) => [file, entry])) }
  } catch {
    return { fd: undefined, base: 0, entries: new Map() }
  }
}

const store = opened()
const compiled = []
let compiledBytes = 0

const codeOf = ([, offset, bytes]) => {
  const code = Buffer.alloc(bytes)
  fs.readSync(store.fd, code, 0, bytes, store.base + offset)
  return code
}

const save = () => {
  if (compiledBytes < WORTH_SAVING) return
  const known = new Map([...store.entries].map(([file, entry]) => [file, { id: entry[0], code: codeOf(entry) }]))
  for (const { file, id, script } of compiled) known.set(file, { id, code: script.createCachedData() })
  let offset = 0
  const entries = []
  for (const [file, { id, code }] of known) {
    if (!fs.existsSync(file)) continue
    entries.push([file, id, offset, code.length])
    offset += code.length
  }
  const index = Buffer.from(JSON.stringify(entries))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32LE(index.length)
  const temporary = `${FILE}.${process.pid}.${threadId}.tmp`
  fs.mkdirSync(FOLDER, { recursive: true })
  fs.writeFileSync(temporary, Buffer.concat([length, index, ...entries.map(([file]) => known.get(file).code)]))
  fs.renameSync(temporary, FILE)
}

const requireOf = (module) => {
  const own = (request) => module.require(request)
  own.resolve = (request, options) => Module._resolveFilename(request, module, false, options)
  own.resolve.paths = (request) => Module._resolveLookupPaths(request, module)
  own.main = process.mainModule
  own.extensions = Module._extensions
  own.cache = Module._cache
  return own
}

/** As Module.prototype._compile, with the code of the last time. */
const compileWithCode = (module, source, file, id) => {
  const known = store.entries.get(file)
  const cachedData = known?.[0] === id ? codeOf(known) : undefined
  const script = new vm.Script(Module.wrap(source), { filename: file, cachedData })
  if (cachedData === undefined || script.cachedDataRejected) {
    compiled.push({ file, id, script })
    compiledBytes += source.length
  }
  const run = script.runInThisContext()
  run.call(module.exports, module.exports, requireOf(module), module, file, path.dirname(file))
}

/** The compiler says `import(` in strings alone. In other sources it is a call, which needs Node's own loader. */
const COMPILER = path.join(ROOT, 'node_modules', 'typescript', 'lib', 'typescript.js')

/** Compiled JavaScript of this checkout: its packages and dist/. */
const isOurs = (source, file) =>
  file.startsWith(`${ROOT}${path.sep}`) &&
  file.endsWith('.js') &&
  !source.startsWith('#!') &&
  (file === COMPILER || !/\bimport\(/.test(source))

const statId = (file) => {
  const { size, mtimeMs } = fs.statSync(file)
  return `${size} ${mtimeMs}`
}

/** Modules that `require` loads as JavaScript are compiled by this cache, too. */
const cacheJavaScript = () => {
  const compile = Module.prototype._compile
  Module.prototype._compile = function (source, file) {
    if (!isOurs(source, file)) return compile.call(this, source, file)
    return compileWithCode(this, source, file, statId(file))
  }
  process.once('exit', () => {
    try {
      save()
    } catch {
      // A cache that cannot be written changes nothing but the time.
    }
  })
}

const contentId = (text) => createHash('sha256').update(text).digest('hex')

module.exports = { cacheJavaScript, compileWithCode, contentId }
