// Lets the compiled command line `require` a user's TypeScript model. In: module requests. Out: 'spillway[/models/…]' and the
// checkout's own sources resolve to the one compiled copy, wherever the model lies; ts-node loads the rest, on demand.
'use strict'
const fs = require('node:fs')
const Module = require('node:module')
const path = require('node:path')

const TYPESCRIPT = ['.ts', '.cts']
const COMPILED = /^(src|dsl|staging|models)\//

/** The compiled twin of one of our own TypeScript sources, else null. */
const compiledTwin = (root, file) => {
  const relative = path.relative(root, file)
  if (path.extname(file) !== '.ts' || !COMPILED.test(relative)) return null
  const twin = path.join(root, 'dist', relative.replace(/\.ts$/, '.js'))
  return fs.existsSync(twin) ? twin : null
}

const registerTsNode = (root) => {
  const { register } = require(require.resolve('ts-node', { paths: [root] }))
  register({
    transpileOnly: true,
    skipProject: true,
    compilerOptions: { target: 'ES2022', module: 'node16', moduleResolution: 'node16', esModuleInterop: true },
  })
}

const installModelLoader = (root) => {
  const resolve = Module._resolveFilename
  Module._resolveFilename = function (request, ...rest) {
    if (request === 'spillway') return path.join(root, 'dist', 'src', 'index.js')
    const family = /^spillway\/models\/(\w+)$/.exec(request)?.[1]
    if (family !== undefined) return path.join(root, 'dist', 'models', `${family}.js`)
    const file = resolve.call(this, request, ...rest)
    return compiledTwin(root, file) ?? file
  }
  for (const extension of TYPESCRIPT) {
    Module._extensions[extension] = (module, file) => {
      for (const waiting of TYPESCRIPT) delete Module._extensions[waiting]
      registerTsNode(root)
      // ts-node has no loader of its own for .cts: it takes what comes to the one for .js.
      const load = Module._extensions[extension] ?? Module._extensions['.js']
      load(module, file)
    }
  }
}

module.exports = { installModelLoader }
