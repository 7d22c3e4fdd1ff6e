// Stacks that name lines of TypeScript. In: for a translated file, the file of its source map. Out: `error.stack` with the source's
// lines. Maps are read when a stack is made: reading them at load takes a tenth of a process's start.
'use strict'
const fs = require('node:fs')
const { findSourceMap, SourceMap } = require('node:module')

/** The wrapper of CommonJS stands before the first line. */
const WRAPPER = require('node:module').wrapper[0].length

const mapStacks = (mapFileOf) => {
  const maps = new Map()
  const mapOf = (file) => {
    const known = maps.get(file)
    if (known !== undefined) return known
    const map = new SourceMap(JSON.parse(fs.readFileSync(mapFileOf(file), 'utf8')))
    maps.set(file, map)
    return map
  }
  const lineOf = (frame) => {
    const said = `${frame}`
    const file = frame.getFileName()
    if (!file) return said
    const isOurs = mapFileOf(file) !== undefined
    // Others (scripts/model-loader.js) leave their maps with Node.
    const map = isOurs ? mapOf(file) : findSourceMap(file)
    if (!map) return said
    const [line, column] = [frame.getLineNumber(), frame.getColumnNumber()]
    const { originalLine, originalColumn } = map.findEntry(line - 1, column - 1 - (isOurs && line === 1 ? WRAPPER : 0))
    if (originalLine === undefined) return said
    return said.replace(`${file}:${line}:${column}`, `${file}:${originalLine + 1}:${originalColumn + 1}`)
  }
  Error.prepareStackTrace = (error, frames) => {
    const said = frames.map((frame) => {
      try {
        return `\n    at ${lineOf(frame)}`
      } catch {
        return `\n    at ${frame}`
      }
    })
    let head
    try {
      head = Error.prototype.toString.call(error)
    } catch {
      head = 'Error'
    }
    return `${head}${said.join('')}`
  }
}

module.exports = { mapStacks }
