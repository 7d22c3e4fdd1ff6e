// The part of a failed run's output that people read first. In: the output, its name, the checkout. Out: at most LINES lines; the whole
// output lies in build/test-output.
'use strict'
const fs = require('node:fs')
const path = require('node:path')

const LINES = 60
/** The end of a log comes first; a build goes on after a failure, so lines that name one stand far before it. */
const LAST_LINES = 24
const LINES_BEFORE = 2
const LINES_AFTER = 8
const FAILURE = /\bFAIL(ED)?\b|\*\*\*|\b\w*Error\b|\bERROR: |[1-9]\d* failed\b|\berror(:| TS\d)|^\s*✘/

const logOf = (name) => path.join('build', 'test-output', `${name.replace(/[^\w.-]+/g, '-')}.log`)

/** Which lines: the last ones, then those around the first lines that name a failure, as there is room. */
const chosenLines = (lines, room) => {
  const first = Math.max(0, lines.length - LAST_LINES)
  const chosen = new Set()
  for (let i = first; i < lines.length; i++) chosen.add(i)
  for (let i = 0; i < lines.length && chosen.size < room; i++) {
    if (!FAILURE.test(lines[i])) continue
    for (let near = Math.max(0, i - LINES_BEFORE); near <= Math.min(lines.length - 1, i + LINES_AFTER); near++)
      if (chosen.size < room) chosen.add(near)
  }
  return [...chosen].sort((a, b) => a - b)
}

const written = (root, name, output) => {
  const log = logOf(name)
  fs.mkdirSync(path.join(root, path.dirname(log)), { recursive: true })
  fs.writeFileSync(path.join(root, log), output)
  return log
}

/** Writes the whole output to a log. */
const excerpt = (output, name, root) => {
  const log = written(root, name, output)
  const lines = output.trimEnd().split('\n')
  if (lines.length <= LINES) return lines.join('\n')
  const chosen = chosenLines(lines, LINES - 1)
  return [
    ...chosen.map((i) => lines[i]),
    `(${lines.length - chosen.length} of ${lines.length} lines are left out here; all of them: ${log})`,
  ].join('\n')
}

module.exports = { excerpt, LINES }
