// The compiled package's declarations, without those of fp-ts and io-ts. In: dist, freshly compiled. Out: its .d.ts, importing shapes.d.ts in place
// of the two, and models/ without repetition. Invariant: declarations that none of the package's entry points reaches stay unchanged. Worked
// example: in dist/src/stage/stage.d.ts, `from 'fp-ts/Either'` becomes `from '../../shapes'`.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { doors } = require('./modules')
const { shortened } = require('./shortened')

const SHAPES = path.join(__dirname, 'shapes.d.ts')
const IMPORTED = /(from '|import\(["'])([^"']+)/g
const REPLACED = /^(fp-ts\/(Either|TaskEither)|io-ts)$/

/** A declaration with all that it imports of the package. */
const reached = (file, found = new Set()) => {
  if (found.has(file)) return found
  found.add(file)
  for (const [, , name] of fs.readFileSync(file, 'utf8').matchAll(IMPORTED)) {
    if (!name.startsWith('.')) continue
    const at = path.resolve(path.dirname(file), name)
    const next = [`${at}.d.ts`, path.join(at, 'index.d.ts')].find((f) => fs.existsSync(f))
    if (next !== undefined) reached(next, found)
  }
  return found
}

/** The declarations that users can load. */
const loadable = (dist) => new Set(doors(dist).flatMap((door) => [...reached(door.replace(/\.js$/, '.d.ts'))]))

const writeDeclarations = (dist) => {
  const files = loadable(dist)
  fs.copyFileSync(SHAPES, path.join(dist, 'shapes.d.ts'))
  for (const file of files) {
    const at = path.relative(path.dirname(file), path.join(dist, 'shapes'))
    const from = at.startsWith('.') ? at : `./${at}`
    const text = fs.readFileSync(file, 'utf8')
    const named = text.replace(IMPORTED, (all, before, name) => (REPLACED.test(name) ? `${before}${from}` : all))
    const written = path.dirname(file) === path.join(dist, 'models') ? shortened(named) : named
    if (written !== text) fs.writeFileSync(file, written)
  }
}

module.exports = { loadable, writeDeclarations }
