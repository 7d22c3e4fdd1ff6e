// The tests of a source file without a test of its name. In: the checkout, a name. Out: the test files with the fewest imports (or includes) to a
// source of that name; those of its own folder, if there are any among them.
'use strict'
const fs = require('node:fs')
const path = require('node:path')

const FOLDERS = ['staging', 'dsl', 'src', 'models', 'native', 'scripts', 'bench', 'test']
const ENDING = /(\.test)?\.(ts|js|cpp|hpp|cu|cuh|h)$/

/** Letters and digits only: 'batchnorm', 'batchNorm' and 'batch norm' are one name. */
const plain = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, '')

const sourcesUnder = (root, folders) =>
  folders
    .filter((folder) => fs.existsSync(path.join(root, folder)))
    .flatMap((folder) =>
      fs.readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => path.posix.join(folder, name)),
    )
    .filter((file) => ENDING.test(file) && !file.includes('fixtures/'))
    .sort()

const isTest = (file) => file.endsWith('.test.ts') || /^test\/native\/[^/]+\.cpp$/.test(file)

/** A header and its source are one unit. A test is one by itself, with any name. */
const unitOf = (file) => (isTest(file) ? file : file.replace(ENDING, ''))

/** The targets of a request: beside the file, from the root, or from native/. */
const candidates = (file, request) => {
  if (/^spillway\b/.test(request)) return [request === 'spillway' ? 'src/index' : request.slice('spillway/'.length)]
  const beside = path.posix.join(path.dirname(file), request)
  return [beside, `${beside}/index`, request, `native/${request}`].map((to) => to.replace(ENDING, ''))
}

const REQUEST = /(?:\bfrom |\bimport |\bimport\(|\brequire\(|#\s*include )['"]([^'"]+)['"]/g

const importsOf = (root, units) => (file) => {
  const requests = [...fs.readFileSync(path.join(root, file), 'utf8').matchAll(REQUEST)]
  const reached = requests.map(([, request]) => candidates(file, request).find((unit) => units.has(unit)))
  return reached.filter((unit) => unit !== undefined && unit !== unitOf(file))
}

/** Users of native code without an include. */
const DOORS = { 'native/addon': 'src/device/native', 'native/cpu': 'test/native/kernels_compare.cpp' }

/** For each unit the units that import it. A C++ source without a header of its own is a part of those beside it. */
const importersOf = (root) => {
  const files = sourcesUnder(root, FOLDERS)
  const units = new Set(files.map(unitOf))
  const imports = importsOf(root, units)
  const importers = new Map([...units].map((unit) => [unit, new Set()]))
  for (const file of files) for (const unit of imports(file)) importers.get(unit).add(unitOf(file))
  for (const file of files.filter((source) => source.endsWith('.cpp') && importers.get(unitOf(source)).size === 0)) {
    const beside = imports(file).filter((unit) => path.dirname(unit) === path.dirname(file))
    const door = DOORS[path.dirname(file)]
    for (const unit of door ? [door] : beside) importers.get(unitOf(file)).add(unit)
  }
  return importers
}

/** The first ring of importers around a unit that has tests in it. */
const testsAround = (importers, subject) => {
  const seen = new Set([subject])
  for (let ring = [subject]; ring.length > 0; ) {
    ring = ring.flatMap((unit) => [...importers.get(unit)]).filter((unit) => !seen.has(unit) && seen.add(unit))
    const tests = ring.filter(isTest)
    const room = subject.replace(/^staging\//, '').replace(/[^/]*$/, '')
    const own = tests.filter((test) => test.startsWith(`test/${room}`))
    if (tests.length > 0) return own.length > 0 ? own : tests
  }
  return []
}

/** The graph of imports is made when it is first asked for. */
const nearest = (root) => {
  let importers
  return (pattern) => {
    importers ??= importersOf(root)
    const subjects = [...importers.keys()].filter((unit) => !isTest(unit) && plain(path.basename(unit)) === plain(pattern))
    return [...new Set(subjects.flatMap((subject) => testsAround(importers, subject)))]
  }
}

module.exports = { nearest, plain, sourcesUnder }
