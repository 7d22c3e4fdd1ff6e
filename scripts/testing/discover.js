// Which test files there are and how each wants to run. In: the test folder and patterns. Out: files with their marks.
// Marks stand in the first lines of a file: `// serial` (nothing else runs beside it), `// timeout 600` (seconds).
'use strict'
const fs = require('node:fs')
const path = require('node:path')

const DEFAULT_TIMEOUT_SECONDS = 180

const marksOf = (text) => {
  const head = text.split('\n', 6)
  const timeout = head.map((line) => /^\/\/ timeout (\d+)\s*$/.exec(line)).find(Boolean)
  return {
    serial: head.some((line) => /^\/\/ serial\b/.test(line)),
    timeoutSeconds: timeout ? Number(timeout[1]) : DEFAULT_TIMEOUT_SECONDS,
  }
}

/** A forgotten `.only` silently switches the other tests off. Strings and comments do not count. */
const hasOnly = (text) => /^\s*[\w$]+\.only\s*\(/m.test(text)

const testFiles = (root) => {
  const found = fs.readdirSync(path.join(root, 'test'), { recursive: true, encoding: 'utf8' })
  return found
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => path.join('test', name))
    .sort()
}

/** Files of which some pattern is part of the path; all when there is no pattern. */
const discover = (root, patterns) => {
  const chosen = testFiles(root).filter((file) => patterns.length === 0 || patterns.some((p) => file.includes(p)))
  return chosen.map((file) => {
    const text = fs.readFileSync(path.join(root, file), 'utf8')
    return { file, hasOnly: hasOnly(text), ...marksOf(text) }
  })
}

module.exports = { discover, hasOnly, marksOf }
