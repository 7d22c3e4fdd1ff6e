// Lets the compiled command line `require` a user's model, of any kind of module. In: module requests. Out: 'spillway[/models/…]' and the checkout's
// own sources resolve to the one compiled copy. Sucrase translates TypeScript and ES modules to CommonJS, file by file, without checking types.
// Invariant: a model loads without a TypeScript compiler, for any "type" of the user's package.
'use strict'
const fs = require('node:fs')
const Module = require('node:module')
const path = require('node:path')

const TYPESCRIPT = ['.ts', '.mts', '.cts']
const COMPILED = /^(src|dsl|staging|models)\//

/** The compiled twin of one of our own TypeScript sources, else null. */
const compiledTwin = (root, file) => {
  const relative = path.relative(root, file)
  if (path.extname(file) !== '.ts' || !COMPILED.test(relative)) return null
  const twin = path.join(root, 'dist', relative.replace(/\.ts$/, '.js'))
  return fs.existsSync(twin) ? twin : null
}

/** Sucrase leaves the keyword of `export const [a, b] = …` out. Without a semicolon, the pattern would continue the line before it. */
const separated = (source) => source.replace(/^export (const|let|var) (?=[[{])/gm, ';$&')

/** Sucrase's `Error transforming FILE: Unexpected token (2:1)` as V8's error, whose stack begins with the place. */
const asSyntaxError = (error, file) => {
  const [, text, line, column] = /: ([^:]+) \((\d+):(\d+)\)$/.exec(error.message) ?? []
  if (text === undefined) return error
  const placed = new SyntaxError(text)
  placed.stack = `${file}:${line}:${column}\n${placed.stack}`
  return placed
}

/** Sucrase keeps the lines, so an error names the line of the source. */
const translated = (source, file, options = {}) => {
  const { transform } = require('sucrase')
  const isTypeScript = TYPESCRIPT.includes(path.extname(file))
  const transforms = isTypeScript ? ['typescript', 'imports'] : ['imports']
  try {
    return transform(separated(source), { ...options, transforms, filePath: file }).code
  } catch (error) {
    throw asSyntaxError(error, file)
  }
}

const load = (module, file) => module._compile(translated(fs.readFileSync(file, 'utf8'), file), file)

const kinds = new Map()

/** The nearest package.json above a file says which kind .js files are. */
const holdsModules = (folder) => {
  if (kinds.has(folder)) return kinds.get(folder)
  const manifest = path.join(folder, 'package.json')
  const above = path.dirname(folder)
  const kind = fs.existsSync(manifest)
    ? JSON.parse(fs.readFileSync(manifest, 'utf8')).type === 'module'
    : above !== folder && holdsModules(above)
  kinds.set(folder, kind)
  return kind
}

/** TypeScript writes './part.js' for the file part.ts: if one is missing, the other is tried. */
const resolveEither = (resolve, request) => {
  try {
    return resolve(request)
  } catch (missing) {
    if (!/^\.{1,2}\/.*\.[cm]?js$/.test(request)) throw missing
    try {
      return resolve(request.replace(/js$/, 'ts'))
    } catch {
      throw missing
    }
  }
}

const installModelLoader = (root) => {
  process.setSourceMapsEnabled(true)
  const resolve = Module._resolveFilename
  Module._resolveFilename = function (request, ...rest) {
    if (request === 'spillway') return path.join(root, 'dist', 'src', 'index.js')
    const family = /^spillway\/models\/(\w+)$/.exec(request)?.[1]
    if (family !== undefined) return path.join(root, 'dist', 'models', `${family}.js`)
    const file = resolveEither((name) => resolve.call(this, name, ...rest), request)
    return compiledTwin(root, file) ?? file
  }
  for (const extension of [...TYPESCRIPT, '.mjs']) Module._extensions[extension] = load
  const plain = Module._extensions['.js']
  Module._extensions['.js'] = (module, file) => (holdsModules(path.dirname(file)) ? load : plain)(module, file)
}

module.exports = { installModelLoader, translated }
