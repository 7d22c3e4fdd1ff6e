// The times of a run of the tests. In: the seconds of each file. Out: lines with the slowest files, folders and totals.
'use strict'
const path = require('node:path')

const SLOWEST = 20

const row = (seconds, processorSeconds, name) =>
  `${seconds.toFixed(1).padStart(8)} ${processorSeconds.toFixed(1).padStart(10)}  ${name}`
const HEADING = '    wall  processor'

const folderOf = (name) => path.dirname(name)

const byFolder = (results) => {
  const folders = new Map()
  for (const { name, seconds, processorSeconds } of results) {
    const known = folders.get(folderOf(name)) ?? { seconds: 0, processorSeconds: 0, files: 0 }
    folders.set(folderOf(name), {
      seconds: known.seconds + seconds,
      processorSeconds: known.processorSeconds + processorSeconds,
      files: known.files + 1,
    })
  }
  return [...folders].sort(([, a], [, b]) => b.processorSeconds - a.processorSeconds)
}

const timesTable = (results) => [
  `the ${SLOWEST} slowest files, in seconds`,
  HEADING,
  ...[...results]
    .sort((a, b) => b.processorSeconds - a.processorSeconds)
    .slice(0, SLOWEST)
    .map(({ name, seconds, processorSeconds }) => row(seconds, processorSeconds, name)),
  '',
  'by folder',
  HEADING,
  ...byFolder(results).map(([folder, { seconds, processorSeconds, files }]) =>
    row(seconds, processorSeconds, `${folder} (${files} ${files === 1 ? 'file' : 'files'})`),
  ),
]

const totalLine = (seconds, processorSeconds) => `${seconds.toFixed(1)} s, ${processorSeconds.toFixed(1)} processor seconds`

module.exports = { timesTable, totalLine }
