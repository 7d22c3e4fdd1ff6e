// Keeps modules between processes: their JavaScript, V8's compiled code of it, and the files that requests name. In: `node -r` this file, or
// typescript.js; a module's file and its JavaScript. Out: the module, run. Invariants: a module is kept only while its file has the same size and
// time. All are kept only while the installed packages are the same. V8 itself refuses code of another version or other flags.
// (Reading, resolving and compiling 600 modules takes 0.2 s of a process's start. `npm test` starts 300 processes.)
'use strict'
const fs = require('node:fs')
const Module = require('node:module')
const path = require('node:path')
const v8 = require('node:v8')
const vm = require('node:vm')
const { threadId } = require('node:worker_threads')

const ROOT = path.resolve(__dirname, '..', '..')
const INSIDE = `${ROOT}${path.sep}`
const FOLDER = path.join(ROOT, 'build', 'transpiled')
/** One file for each set of V8 flags. */
const FILE = path.join(FOLDER, `modules-${v8.cachedDataVersionTag().toString(16)}.blob`)
/** A process that compiled this many bytes of sources adds them to the file. Test files alone are smaller. */
const WORTH_SAVING = 300_000
const LENGTH_BYTES = 4

const statId = (file) => {
  const { size, mtimeMs } = fs.statSync(file)
  return `${size} ${mtimeMs}`
}

/** The installed packages and the translation: with others, nothing is kept. */
const madeWith = () => {
  try {
    const translator = [path.join(__dirname, 'typescript.js'), path.join(ROOT, 'scripts', 'model-loader.js')]
    const files = [path.join(ROOT, 'node_modules', '.package-lock.json'), ...translator, __filename]
    return files.map(statId).join(' ')
  } catch {
    return ''
  }
}

/** The constant of vm that lets translated modules import ES modules is experimental: its warning is not one of the product. */
const { emitWarning } = process
process.emitWarning = (warning, ...more) =>
  /USE_MAIN_CONTEXT_DEFAULT_LOADER/.test(String(warning)) ? undefined : emitWarning.call(process, warning, ...more)

const read = (fd, offset, bytes) => {
  const buffer = Buffer.alloc(bytes)
  fs.readSync(fd, buffer, 0, bytes, offset)
  return buffer
}

/**
 * The file holds the length of its index, the index as JSON, then the modules: text, then code. The index: modules (path, id, offset,
 * bytes of the text, bytes of the code) and requests (folder, request, path).
 */
const opened = () => {
  const nothing = { modules: new Map(), requests: new Map() }
  try {
    const fd = fs.openSync(FILE, 'r')
    const length = read(fd, 0, LENGTH_BYTES).readUInt32LE()
    const { key, modules, requests } = JSON.parse(read(fd, LENGTH_BYTES, length).toString('utf8'))
    if (key !== madeWith()) return nothing
    return {
      fd,
      base: LENGTH_BYTES + length,
      modules: new Map(modules.map(([file, ...entry]) => [file, entry])),
      requests: new Map(requests.map(([folder, request, file]) => [`${folder}\0${request}`, file])),
    }
  } catch {
    return nothing
  }
}

const store = opened()
const compiled = []
let compiledBytes = 0

/** Text and code of a module whose file is as it was, else undefined. */
const keptOf = (file, id) => {
  const entry = store.modules.get(file)
  if (entry?.[0] !== id) return undefined
  const [, offset, textBytes, codeBytes] = entry
  const parts = read(store.fd, store.base + offset, textBytes + codeBytes)
  return { text: parts.utf8Slice(0, textBytes), code: parts.subarray(textBytes) }
}

const indexOf = (modules) => {
  let offset = 0
  const rows = modules.map(({ file, id, text, code }) => {
    const row = [file, id, offset, text.length, code.length]
    offset += text.length + code.length
    return row
  })
  const requests = [...store.requests].map(([key, file]) => [...key.split('\0'), file])
  return Buffer.from(JSON.stringify({ key: madeWith(), modules: rows, requests }))
}

const save = () => {
  if (compiledBytes < WORTH_SAVING) return
  const modules = new Map(
    [...store.modules.keys()].map((file) => {
      const id = store.modules.get(file)[0]
      const { text, code } = keptOf(file, id)
      return [file, { file, id, text: Buffer.from(text), code }]
    }),
  )
  for (const { file, id, text, script } of compiled)
    modules.set(file, { file, id, text: Buffer.from(text), code: script.createCachedData() })
  const kept = [...modules.values()].filter(({ file }) => fs.existsSync(file))
  const index = indexOf(kept)
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32LE(index.length)
  const temporary = `${FILE}.${process.pid}.${threadId}.tmp`
  fs.mkdirSync(FOLDER, { recursive: true })
  fs.writeFileSync(temporary, Buffer.concat([length, index, ...kept.flatMap(({ text, code }) => [text, code])]))
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

/** The compiler has `import(` in strings alone. In other sources it is a call, which needs Node's own loader. */
const COMPILER = path.join(ROOT, 'node_modules', 'typescript', 'lib', 'typescript.js')
const callsImport = (text, file) => file !== COMPILER && /\bimport\(/.test(text)

/** Kept code forgets how it imports. Node before 20.12 has no constants: translated modules cannot import ES modules there. */
const optionsFor = (text, file, cachedData) =>
  callsImport(text, file) ? { importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER } : { cachedData }

const run = (module, file, text, cachedData) => {
  const script = new vm.Script(Module.wrap(text), { filename: file, ...optionsFor(text, file, cachedData) })
  script.runInThisContext().call(module.exports, module.exports, requireOf(module), module, file, path.dirname(file))
  return script
}

const keep = (file, id, text, script) => {
  compiled.push({ file, id, text, script })
  compiledBytes += text.length
}

/** Runs a module's text as Module.prototype._compile does, and keeps both. */
const runAndKeep = (module, file, text) => {
  const id = statId(file)
  keep(file, id, text, run(module, file, text))
}

/** Runs the kept module of a file. Returns whether there is one. */
const runKept = (module, file) => {
  const id = statId(file)
  const kept = keptOf(file, id)
  if (kept === undefined) return false
  const script = run(module, file, kept.text, kept.code)
  if (script.cachedDataRejected) keep(file, id, kept.text, script)
  return true
}

/** Compiled JavaScript of this checkout: its packages and dist/. */
const isOurs = (text, file) =>
  file.startsWith(INSIDE) && file.endsWith('.js') && !text.startsWith('#!') && !callsImport(text, file)

/** Modules that `require` loads as JavaScript are kept, too. */
const keepJavaScript = () => {
  const compile = Module.prototype._compile
  Module.prototype._compile = function (text, file) {
    if (!isOurs(text, file)) return compile.call(this, text, file)
    return runAndKeep(this, file, text)
  }
  const load = Module._extensions['.js']
  Module._extensions['.js'] = (module, file) => {
    if (!store.modules.has(file) || !runKept(module, file)) load(module, file)
  }
}

/** A file of a request that was removed since is looked for anew. */
const keepRequests = () => {
  const resolve = Module._resolveFilename
  Module._resolveFilename = function (request, parent, isMain, options) {
    if (isMain || options !== undefined || !parent?.filename?.startsWith(INSIDE) || Module.isBuiltin(request))
      return resolve.call(this, request, parent, isMain, options)
    const key = `${path.dirname(parent.filename)}\0${request}`
    const kept = store.requests.get(key)
    if (kept !== undefined && fs.existsSync(kept)) return kept
    const file = resolve.call(this, request, parent, isMain, options)
    if (file.startsWith(INSIDE)) store.requests.set(key, file)
    return file
  }
}

keepJavaScript()
keepRequests()
process.once('exit', () => {
  try {
    save()
  } catch {
    // A cache that cannot be written changes nothing but the time.
  }
})

module.exports = { runAndKeep, runKept }
