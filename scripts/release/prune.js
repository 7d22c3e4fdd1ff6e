// Removes declarations that nobody can load, before the package is packed. In: dist. Out: dist without them, half a megabyte smaller.
// Invariant: the next compilation is a whole one, which writes them again.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { loadable } = require('../setup/declarations')

const DIST = path.join(path.dirname(path.dirname(__dirname)), 'dist')

const prune = (dist) => {
  const kept = loadable(dist).add(path.join(dist, 'shapes.d.ts'))
  fs.rmSync(path.join(dist, 'tsconfig.build.tsbuildinfo'), { force: true })
  for (const name of fs.readdirSync(dist, { recursive: true })) {
    const file = path.join(dist, name)
    if (file.endsWith('.d.ts') && !kept.has(file)) fs.rmSync(file)
  }
}

prune(DIST)
