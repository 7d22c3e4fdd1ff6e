// Which tests a call of the runner asks for. In: the checkout, patterns. Out: test files and native programs, each with its
// marks; where only a part is asked for, `only` says which. Marks stand in the first lines of a file. `// serial`: nothing else runs
// beside it. `// own process`: see shared.js. `// timeout 600`: its limit in seconds. `// gate`: only the gate and full mode run it.
// `// full`: only full mode runs it. `// each of FOLDER`: it makes tests that are named after files there.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { nearest, plain, sourcesUnder } = require('./subjects')

const DEFAULT_TIMEOUT_SECONDS = 180

const marksOf = (text) => {
  const head = text.split('\n', 6)
  const timeout = head.map((line) => /^\/\/ timeout (\d+)\s*$/.exec(line)).find(Boolean)
  return {
    serial: head.some((line) => /^\/\/ serial\b/.test(line)),
    ownProcess: head.some((line) => /^\/\/ own process\b/.test(line)),
    gate: head.some((line) => /^\/\/ gate\b/.test(line)),
    full: head.some((line) => /^\/\/ full\b/.test(line)),
    timeoutSeconds: timeout ? Number(timeout[1]) : DEFAULT_TIMEOUT_SECONDS,
    eachOf: head.flatMap((line) => /^\/\/ each of (.+)$/.exec(line)?.[1].split(' ') ?? []),
  }
}

/** A forgotten `.only` silently switches the other tests off. Strings and comments do not count. */
const hasOnly = (text) => /^\s*[\w$]+\.only\s*\(/m.test(text)

const titlesOf = (text) => [...text.matchAll(/\btest\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/g)].map((match) => match[2])

/** The cases of the native test programs: the operators, and the families of random cases. */
const nativeCases = (root) => {
  const textOf = (file) => (fs.existsSync(path.join(root, file)) ? fs.readFileSync(path.join(root, file), 'utf8') : '')
  const kinds = [...textOf('native/gen/ops.h').matchAll(/\bX\((\w+), \d+\)/g)].map((match) => match[1])
  const cases = sourcesUnder(root, ['test/native/kernels']).map(textOf).join('\n')
  return [...kinds, ...[...cases.matchAll(/\bListed \w+\{"([^"]+)"/g)].map((match) => match[1])]
}

const takesCases = (text) => text.includes('#include "test/native/kernels/families.hpp"')

/** The part of a file that a pattern asks for: 'all', the tests that are named so, or nothing. */
const partOf = ({ file, text, titles, isNative }, pattern, cases) => {
  if (file.toLowerCase().includes(pattern.toLowerCase())) return 'all'
  const nativeNames = takesCases(text) ? cases : []
  const names = isNative ? nativeNames : titles.map(plain)
  return names.some((name) => name.includes(plain(pattern))) ? 'named' : null
}

const testFiles = (root) => {
  const native = sourcesUnder(root, ['test/native']).filter((file) => /^test\/native\/[^/]+\.cpp$/.test(file))
  return [...sourcesUnder(root, ['test']).filter((file) => file.endsWith('.test.ts')), ...native].map((file) => {
    const text = fs.readFileSync(path.join(root, file), 'utf8')
    const isNative = file.endsWith('.cpp')
    return { file, text, isNative, titles: isNative ? [] : titlesOf(text), hasOnly: !isNative && hasOnly(text), ...marksOf(text) }
  })
}

/** Returns a function that lists the sources of folders, each with its plain name and its text in lower case; each folder is read once. */
const sourceReader = (root) => {
  const known = new Map()
  const read = (folder) =>
    sourcesUnder(root, [folder]).map((source) => ({
      name: plain(path.basename(source).replace(/\.\w+$/, '')),
      text: fs.readFileSync(path.join(root, source), 'utf8').toLowerCase(),
    }))
  return (folders) =>
    folders.flatMap((folder) => {
      if (!known.has(folder)) known.set(folder, read(folder))
      return known.get(folder)
    })
}

/** Returns true if tests of the file may have the pattern's name: that of a source file of the folder, or of a definition in one. */
const mayName = (sources, { eachOf }, pattern) =>
  sources(eachOf).some(
    ({ name, text }) => name.includes(plain(pattern)) || plain(pattern).includes(name) || text.includes(pattern.toLowerCase()),
  )

/** The tests of a pattern, from file to part. A source file without a test of its name has those of the nearest tests. */
const finder = (root) => {
  const tests = testFiles(root)
  const cases = nativeCases(root).map(plain)
  const near = nearest(root)
  const sources = sourceReader(root)
  const find = (pattern) => {
    const parts = new Map(tests.map((test) => [test.file, partOf(test, pattern, cases)]).filter(([, part]) => part))
    if (parts.size === 0) for (const file of near(pattern)) parts.set(file, 'all')
    for (const test of tests) if (!parts.has(test.file) && mayName(sources, test, pattern)) parts.set(test.file, 'named')
    return parts
  }
  return { tests, find }
}

/** Full mode runs all files, the gate all but those marked `// full`, and other calls neither these nor those marked `// gate`. */
const runsIn = (test, { gate = false, full = false }) => full || (!test.full && (gate || !test.gate))

/** A pattern that names a marked file asks for it. */
const names = ({ file }, patterns) => patterns.some((pattern) => path.basename(file).includes(path.basename(pattern)))

/** `only`: patterns that a test's name must hold one of; absent: all of the file. `unknown`: patterns that nothing is found by. */
const discover = (root, patterns, mode = {}) => {
  const { tests, find } = finder(root)
  if (patterns.length === 0) return { chosen: tests.filter((test) => runsIn(test, mode)), unknown: [] }
  const choices = patterns.map((pattern) => ({ pattern, parts: find(pattern) }))
  const chosen = tests.flatMap((test) => {
    const asking = choices.filter(({ parts }) => parts.has(test.file))
    if (asking.length === 0 || (!runsIn(test, mode) && !names(test, patterns))) return []
    const isWhole = asking.some(({ parts }) => parts.get(test.file) === 'all')
    return [isWhole ? test : { ...test, only: asking.map(({ pattern }) => pattern) }]
  })
  return { chosen, unknown: choices.filter(({ parts }) => parts.size === 0).map(({ pattern }) => pattern) }
}

module.exports = { discover, finder, hasOnly, marksOf }
